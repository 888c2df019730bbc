//! `check` as a doctor: what is planted on real servers is found by its name, what its line says to
//! type mends it, and a healthy set-up hears nothing but `ok`.

use serde_json::json;

use crate::setup::{Checked, check, init};
use crate::support::{
    Database, EXCHANGE, PrivatePostgres, QueueKind, Rabbit, RabbitVersion, Relay, SHORT, Server,
    Settings, Topics, kafka_brokers, typed, wait_until,
};

mod failover;
mod kafka;
mod postgres;
mod rabbitmq;
mod routes;

on_both_servers!(a_healthy_relay_to_kafka_hears_nothing);
on_both_rabbits!(a_healthy_relay_to_rabbitmq_hears_nothing);

/// A server of its own that limits WAL, a role that owns nothing, and a topic that takes every event.
struct Healthy {
    /// Alive for as long as the scene.
    _postgres: PrivatePostgres,
    database: Database,
    topics: Topics,
    settings: Settings,
}

impl Healthy {
    async fn new(server: Server) -> Self {
        let postgres = PrivatePostgres::start(server, &[("max_slot_wal_keep_size", "10GB")]).await;
        Self::on(postgres).await
    }

    async fn on(postgres: PrivatePostgres) -> Self {
        let database = Database::create_on(&postgres.cluster(), "doctor").await;
        database.create_outbox().await;
        database.sql().run(&format!("GRANT pg_monitor TO {}", database.name())).await;
        let topics = Topics::new(&kafka_brokers(), "doctor");
        topics.create("order", 3, 1, &[]).await;
        let settings =
            Settings::new(&database, &topics).with("source.postgres.max_event_size", "1MiB");
        init(&database, &settings, &[]).await;
        database.insert("order", "1", 1).await;
        Self { _postgres: postgres, database, topics, settings }
    }

    /// Runs statements, waits until `check` has the one warning with these words, and gives its fix.
    async fn plant(&self, statements: &str, words: &[&str]) -> String {
        self.database.sql().run(statements).await;
        finds(&self.settings, words).await
    }

    /// The same, and types what the fix says: then it is well again.
    async fn plant_and_mend(&self, statements: &str, words: &[&str]) {
        let fix = self.plant(statements, words).await;
        for statement in typed(&fix) {
            self.database.sql().run(&statement).await;
        }
        is_silent(&self.settings).await;
    }
}

/// Waits until `check` has the one warning with these words, and gives its fix. A server takes a
/// moment to read its settings anew.
async fn finds(settings: &Settings, words: &[&str]) -> String {
    let mut last = Vec::new();
    wait_until(&format!("a warning with {words:?}"), SHORT, async || {
        let checked = check(settings).await;
        last = checked.of("warning");
        let has_all = |line: &&String| words.iter().all(|word| line.contains(word));
        (last.iter().filter(has_all).count() == 1).then(|| checked.fix("warning", words))
    })
    .await
}

/// Waits until nothing but `ok` is heard.
async fn is_silent(settings: &Settings) {
    wait_until("a check without a word", SHORT, async || {
        let complaints = complaints(&check(settings).await);
        if !complaints.is_empty() {
            eprintln!("{complaints:#?}");
        }
        complaints.is_empty().then_some(())
    })
    .await;
}

fn complaints(checked: &Checked) -> Vec<String> {
    [checked.of("warning"), checked.of("error")].concat()
}

async fn a_healthy_relay_to_kafka_hears_nothing(server: Server) {
    let healthy = Healthy::new(server).await;
    let checked = check(&healthy.settings).await;
    assert_eq!(complaints(&checked), [""; 0]);
    let read = format!("sink `events` topic `{}`: settings are read", healthy.topics.name("order"));
    assert!(checked.of("ok").iter().any(|line| line.starts_with(&read)), "{checked:?}");

    // Nor while it runs, from a `check` beside it.
    let _relay = Relay::streaming(&healthy.settings).await;
    let checked = check(&healthy.settings).await;
    assert_eq!(complaints(&checked), [""; 0]);
    assert!(
        checked.of("ok").iter().any(|it| it.contains("a relay of this name runs")),
        "{checked:?}"
    );
}

async fn a_healthy_relay_to_rabbitmq_hears_nothing(version: RabbitVersion) {
    let healthy = Healthy::new(version.postgres()).await;
    let rabbit = Rabbit::create(version, "doctor");
    rabbit.create_layout(QueueKind::Quorum);
    let settings = of_rabbit(&healthy.database, &rabbit);
    let checked = check(&settings).await;
    assert_eq!(complaints(&checked), [""; 0]);
    let well = "sink `tasks` 1 of 1 routing keys lead to queues: order".to_owned();
    assert!(checked.of("ok").contains(&well), "{checked:?}");
}

/// With the management API, and all events by their aggregate type to [`EXCHANGE`].
fn of_rabbit(database: &Database, rabbit: &Rabbit) -> Settings {
    let url = rabbit.node().management.url();
    let api = json!({"url": url, "username": "guest", "password": "guest"});
    let routes = json!([{"exchange": EXCHANGE, "routing_key": "${aggregate_type}"}]);
    Settings::rabbit(database, rabbit)
        .with("sinks.tasks.rabbitmq.management", api)
        .with("routes", routes)
}
