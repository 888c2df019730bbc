//! A relay's life: how it stops, what it survives, and what it says about itself meanwhile.

mod faults;
mod figures;
mod health;
mod idle;
mod rate;
mod reload;
mod standby;
mod stop;

use crate::support::{Database, Relay, SHORT, Server, Settings, Topics, kafka_brokers, wait_until};

/// What a test of this kind begins with.
struct Scene {
    settings: Settings,
    topics: Topics,
    database: Database,
}

impl Scene {
    /// On the shared servers.
    async fn new(server: Server, hint: &str) -> Self {
        let topics = Topics::new(&kafka_brokers(), hint);
        Self::with(Database::create(server, hint).await, topics).await
    }

    /// On these; one partition, so that everything has an order.
    async fn with(database: Database, topics: Topics) -> Self {
        database.create_outbox().await;
        topics.create("order", 1, 1, &[]).await;
        let settings = Settings::new(&database, &topics);
        Relay::init(&settings, &database.admin_url());
        Self { settings, topics, database }
    }

    /// Commits the events with these numbers, each on its own.
    async fn write(&self, numbers: std::ops::RangeInclusive<u32>) {
        for n in numbers {
            self.database.insert("order", "a", n).await;
        }
    }

    /// Waits until everything written so far is confirmed.
    async fn confirmed(&self) {
        let end = self.database.wal_end().await;
        self.database.wait_confirmed(end, SHORT).await;
    }
}

/// Payloads of the events with these numbers.
fn payloads(numbers: std::ops::RangeInclusive<u32>) -> Vec<String> {
    numbers.map(|n| format!("{{\"n\": {n}}}")).collect()
}

/// Waits until a metric has a value.
async fn wait_metric(relay: &Relay, name: &str, labels: &[&str], value: f64) {
    wait_until(&format!("{name} {labels:?} to be {value}"), SHORT, async || {
        (relay.metric(name, labels).await? == value).then_some(())
    })
    .await;
}

/// Every look at the relay gives the same state; `/readyz` answers `ready` in words that begin
/// with it.
async fn assert_state(relay: &Relay, state: &str, ready: u16) {
    assert_eq!(relay.state().await.as_deref(), Some(state));
    let (code, words) = relay.get("/readyz").await.unwrap();
    assert_eq!(code, ready, "{words}");
    assert!(words.starts_with(state), "{words}");
    assert_eq!(relay.get("/livez").await.unwrap().0, 200);
    let label = format!("state=\"{state}\"");
    assert_eq!(relay.metric("pgoutbox_state", &[&label]).await, Some(1.0));
    assert_eq!(relay.metric("pgoutbox_state", &[]).await, Some(1.0), "one state at a time");
}
