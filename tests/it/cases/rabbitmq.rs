//! The cases that RabbitMQ has, or has as well: what they begin with.

mod a03;
mod a04;
mod a07;
mod a16;
mod a17;
mod a24;
mod a25;

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::support::{
    Database, EXCHANGE, Message, QueueKind, Rabbit, RabbitVersion, Relay, Settings,
};

/// What the relays of the cases may use, with default settings.
const MEMORY: u64 = 64 * 1024 * 1024;

/// A table, a virtual host, and a relay's settings.
struct Scene {
    settings: Settings,
    database: Database,
    rabbit: Rabbit,
}

impl Scene {
    /// With the exchange [`EXCHANGE`] and the queue `order`, and settings that `change` the usual ones.
    async fn new(
        rabbit: Rabbit,
        version: RabbitVersion,
        kind: QueueKind,
        change: impl FnOnce(Settings) -> Settings,
    ) -> Self {
        let database = Database::create(version.postgres(), "rabbit").await;
        database.create_outbox().await;
        rabbit.create_exchange(EXCHANGE, "direct", json!({}));
        rabbit.create_queue("order", kind, json!({}));
        rabbit.bind(EXCHANGE, "order", "order");
        let settings = change(Settings::rabbit(&database, &rabbit));
        Relay::init(&settings, &database.admin_url());
        database.create_witness().await;
        Self { settings, database, rabbit }
    }

    /// One transaction with rows of these numbers, of 100 keys and about `size` bytes.
    async fn write(&self, numbers: RangeInclusive<usize>, size: usize) {
        let (first, last) = numbers.into_inner();
        let insert = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
             SELECT 'order', i % 100, 'created', jsonb_build_object('n', i, 'p', repeat('x', {size}))
             FROM generate_series({first}, {last}) i"
        );
        self.database.sql().run(&insert).await;
    }

    fn within_bounds(relay: &Relay) {
        let peak = relay.peak_memory();
        assert!(peak < MEMORY, "{} MiB at the most", peak / 1024 / 1024);
    }
}

/// First copies, in the order of their queue.
fn first_copies(messages: &[Message]) -> Vec<&Message> {
    let mut seen = HashSet::new();
    messages.iter().filter(|message| seen.insert(message.id())).collect()
}

/// So many first copies have come, and the numbers of a key go up in them.
fn assert_in_order(messages: &[Message], rows: usize) {
    let mut last = HashMap::new();
    let copies = first_copies(messages);
    assert_eq!(copies.len(), rows);
    for message in copies {
        let body: Value = serde_json::from_slice(&message.body).unwrap();
        let number = body["n"].as_u64().unwrap();
        let before = last.insert(number % 100, number);
        assert!(before < Some(number), "{number} came after {before:?}");
    }
}
