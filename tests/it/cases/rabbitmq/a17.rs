//! A17, a huge transaction to RabbitMQ: read as it comes, never held as a whole, and confirmed when
//! the last of its rows is; a relay killed in the middle of it begins it again.
//!
//! 40,000 rows here, more than twice the window; with `PGOUTBOX_SOAK` set, a million. Half of them
//! are inserted, half are copied, which the WAL has as multi-inserts; and all the time another
//! session commits one row at a time.

use serde_json::json;

use super::super::a17::{Others, copied, inserted};
use super::{Scene, assert_in_order, first_copies};
use crate::support::{
    EXCHANGE, Message, QueueKind, Rabbit, RabbitReader, RabbitVersion, Relay, SHORT, wait_until,
};

on_both_rabbits!(a17_million_row_tx_over_rabbitmq);

/// Messages of one look.
const LOOK: usize = 2000;

async fn a17_million_row_tx_over_rabbitmq(version: RabbitVersion) {
    let soak = std::env::var_os("PGOUTBOX_SOAK").is_some();
    let rows: usize = if soak { 1_000_000 } else { 40_000 };
    let rabbit = Rabbit::create(version, "a17");
    let scene = Scene::new(rabbit, version, QueueKind::Quorum, |settings| {
        settings.with("source.postgres.wal_sender_timeout", "2s")
    })
    .await;
    let Scene { database, rabbit, settings } = &scene;
    rabbit.create_queue("payment", QueueKind::Classic, json!({}));
    rabbit.bind(EXCHANGE, "payment", "payment");
    let mut others = Others::start(database.connect().await);
    let half = rows as u64 / 2;
    let (first, second) = (inserted(1..=half), copied(half + 1..=2 * half));
    let end = database.transaction(&format!("{first}; {second}")).await;

    let mut relay = Relay::streaming(settings).await;
    let connection = database.walsender().await.unwrap().pid;
    let mut reader = RabbitReader::new(rabbit, &["order"]).await;
    while reader.messages().len() < rows / 2 {
        reader.read_count(reader.messages().len() + LOOK, 2 * SHORT).await;
        let confirmed = database.confirmed().await.unwrap();
        assert!(confirmed < end, "{confirmed} was confirmed in the middle, the end is {end}");
        assert_eq!(database.walsender().await.unwrap().pid, connection);
    }
    Scene::within_bounds(&relay);
    relay.kill();

    let mut relay = Relay::streaming(settings).await;
    let connection = database.walsender().await.unwrap().pid;
    wait_until("the end to be confirmed", 20 * SHORT, async || {
        reader.read_until("what has come", SHORT, |_| true).await;
        assert_eq!(database.walsender().await.unwrap().pid, connection);
        (database.confirmed().await.unwrap() >= end).then_some(())
    })
    .await;
    assert_in_order(reader.read_to_end().await, rows);

    let others = others.stop().await;
    let last = database.wal_end().await;
    database.wait_confirmed(last, 4 * SHORT).await;
    let mut reader = RabbitReader::new(rabbit, &["payment"]).await;
    let messages = reader.read_to_end().await;
    let texts: Vec<&str> = first_copies(messages).into_iter().map(Message::text).collect();
    assert_eq!(texts, (0..others).map(|n| format!("{{\"n\": {n}}}")).collect::<Vec<_>>());
    assert_eq!(database.walsender().await.unwrap().pid, connection);
    Scene::within_bounds(&relay);
    assert!(relay.terminate(SHORT).await.success());
}
