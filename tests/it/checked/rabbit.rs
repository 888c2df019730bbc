//! The same over RabbitMQ, with everything that may happen to a connection, a broker and a queue.

#[cfg(feature = "sabotage")]
mod broken;

use std::time::Duration;

use rand::Rng;
use serde_json::json;

use crate::checker::{
    Event, Report, Workload, by_key, in_queue, in_topic, judge, judge_queues, message_deliveries,
    read_all, read_queues, read_queues_of, record_deliveries,
};
use crate::support::{
    Database, EXCHANGE, PrivateRabbit, QueueKind, Rabbit, RabbitReader, RabbitVersion, Reader,
    Relay, SHORT, Server, Settings, Topics, kafka_brokers, wait_until,
};

on_both_rabbits!(
    a_good_relay_passes_under_load,
    queues_that_refuse_at_random_lose_and_reorder_nothing,
    every_queue_behind_an_exchange_gets_everything,
    one_relay_to_kafka_and_rabbitmq_is_judged_as_one,
);

/// How long it may take until all has arrived, after the last fault: the longest pause of a retry,
/// and a busy machine.
const CATCH_UP: Duration = Duration::from_secs(90);

/// The longest tests have one version; with `PGOUTBOX_SOAK` set, both.
fn versions(only: RabbitVersion) -> Vec<RabbitVersion> {
    match std::env::var_os("PGOUTBOX_SOAK") {
        Some(_) => vec![RabbitVersion::Oldest, RabbitVersion::Newest],
        None => vec![only],
    }
}

/// Commits, rollbacks, savepoints, aggregates that several writers share, and a big transaction, to
/// a classic queue, a quorum queue and a stream.
async fn a_good_relay_passes_under_load(version: RabbitVersion) {
    let scene = Scene::new(version, "checked").await;
    let mut relay = Relay::streaming(&scene.settings).await;
    let workload = Workload { transactions: 100, big: 2000, ..Workload::default() };
    let history = workload.run(&scene.database).await;
    let mut reader = scene.reader().await;
    let report = judge_queues(&history, read_queues(&history, &mut reader, CATCH_UP).await);
    report.assert_clean();
    // Nothing has failed, so nothing was sent twice.
    assert_eq!(report.duplicates, 0);

    let end = scene.database.wal_end().await;
    scene.database.wait_confirmed(end, SHORT).await;
    assert!(relay.terminate(SHORT).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a04_five_kills_of_the_broker_lose_and_reorder_nothing() {
    for version in versions(RabbitVersion::Oldest) {
        five_kills(version).await;
    }
}

async fn five_kills(version: RabbitVersion) {
    let mut broker = PrivateRabbit::start(version, &[]).await;
    let scene = Scene::on(version.postgres(), Rabbit::create_on(broker.node(), "killed")).await;
    let relay = Relay::streaming(&scene.settings).await;
    let report = scene
        .judge_through(5, async |_, reader| {
            more_messages(reader, 1..300).await;
            broker.kill();
            broker.start_again().await;
        })
        .await;
    report.assert_clean();
    assert_eq!(source_reconnects(&relay).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_hangs_and_restarts_loses_and_reorders_nothing() {
    for version in versions(RabbitVersion::Newest) {
        hang_and_restart(version).await;
    }
}

/// A connection that is open and leads to nobody is given up by its heartbeats; an orderly restart
/// closes it in so many words.
async fn hang_and_restart(version: RabbitVersion) {
    let mut broker = PrivateRabbit::start(version, &[]).await;
    let scene = Scene::on(version.postgres(), Rabbit::create_on(broker.node(), "hung")).await;
    let settings = scene.settings.clone().with("sinks.tasks.rabbitmq.heartbeat", "1s");
    let mut relay = Relay::streaming(&settings).await;
    let report = scene
        .judge_through(1, async |_, reader| {
            more_messages(reader, 1..300).await;
            broker.signal("STOP");
            relay.wait_state("blocked", SHORT).await;
            broker.signal("CONT");
            relay.wait_state("streaming", SHORT).await;
            more_messages(reader, 1..300).await;
            broker.stop().await;
            relay.wait_state("blocked", SHORT).await;
            broker.start_again().await;
        })
        .await;
    report.assert_clean();
    assert_eq!(source_reconnects(&relay).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_closed_connections_lose_and_reorder_nothing() {
    for version in versions(RabbitVersion::Newest) {
        twenty_closed_connections(version).await;
    }
}

async fn twenty_closed_connections(version: RabbitVersion) {
    let scene = Scene::new(version, "closed").await;
    let relay = Relay::streaming(&scene.settings).await;
    let report = scene
        .judge_through(20, async |scene, reader| {
            more_messages(reader, 1..100).await;
            tokio::task::block_in_place(|| scene.rabbit.close_connections());
        })
        .await;
    report.assert_clean();
    assert_eq!(source_reconnects(&relay).await, 0.0);
}

/// Each round all queues refuse everything for a while; a stream cannot.
async fn queues_that_refuse_at_random_lose_and_reorder_nothing(version: RabbitVersion) {
    let scene = Scene::new(version, "refusing").await;
    let relay = Relay::streaming(&scene.settings).await;
    let report = scene
        .judge_through(10, async |scene, reader| {
            more_messages(reader, 1..200).await;
            let refuse = json!({"max-length": 0, "overflow": "reject-publish"});
            scene.rabbit.set_policy("refuse", "order|payment", refuse);
            scene.more_rows(rand::rng().random_range(1..200)).await;
            scene.rabbit.delete_policy("refuse");
        })
        .await;
    report.assert_clean();
    assert!(relay.metric("pgoutbox_events_failed_total", &[]).await > Some(0.0), "no nack came");
}

/// An event is delivered once each of its queues has it, whatever they are made of.
async fn every_queue_behind_an_exchange_gets_everything(version: RabbitVersion) {
    const KINDS: [(&str, QueueKind); 3] = [
        ("all-classic", QueueKind::Classic),
        ("all-quorum", QueueKind::Quorum),
        ("all-stream", QueueKind::Stream),
    ];
    let scene = Scene::new(version, "fanout").await;
    for (queue, kind) in KINDS {
        scene.rabbit.create_queue(queue, kind, json!({}));
        for routing_key in Rabbit::layout() {
            scene.rabbit.bind(EXCHANGE, queue, routing_key);
        }
    }
    let _relay = Relay::streaming(&scene.settings).await;
    let mut reader = RabbitReader::new(&scene.rabbit, &KINDS.map(|(queue, _)| queue)).await;
    let load = endless().start(&scene.database).await;
    for _ in 0..3 {
        more_messages(&mut reader, 100..300).await;
        tokio::task::block_in_place(|| scene.rabbit.close_connections());
    }
    let history = load.stop().await;
    let queues = |event: &Event| {
        KINDS.map(|(queue, _)| by_key(event, queue, &event.aggregate_type)).to_vec()
    };
    let messages = read_queues_of(&history, &mut reader, CATCH_UP, queues).await;
    judge(&history, &message_deliveries(messages), queues).assert_clean();
}

/// Orders go to Kafka, everything else to RabbitMQ.
async fn one_relay_to_kafka_and_rabbitmq_is_judged_as_one(version: RabbitVersion) {
    let scene = Scene::new(version, "mixed").await;
    let topics = Topics::new(&kafka_brokers(), "mixed");
    let to_kafka = json!({
        "match": {"aggregate_type": "order"},
        "sink": "events",
        "topic": topics.name("order"),
    });
    let to_rabbit = json!(
        {"sink": "tasks", "exchange": EXCHANGE, "routing_key": "${aggregate_type}"}
    );
    let settings = scene
        .settings
        .clone()
        .with("sinks.events", json!({"kafka": {"brokers": [topics.brokers()]}}))
        .with("routes", json!([to_kafka, to_rabbit]));
    let _relay = Relay::streaming(&settings).await;
    let mut messages = scene.reader().await;
    let mut records = Reader::new(&topics);
    let load = endless().start(&scene.database).await;
    for _ in 0..3 {
        more_messages(&mut messages, 50..200).await;
        tokio::task::block_in_place(|| scene.rabbit.close_connections());
    }
    let history = load.stop().await;
    let destination = |event: &Event| match event.aggregate_type.as_str() {
        "order" => vec![in_topic(event, &topics)],
        _ => vec![in_queue(event)],
    };
    read_all(&history.of_type("order"), &mut records, SHORT);
    read_queues_of(&history, &mut messages, CATCH_UP, destination).await;
    let mut deliveries = record_deliveries(records.records());
    deliveries.extend(message_deliveries(messages.messages()));
    judge(&history, &deliveries, destination).assert_clean();
}

/// Writers that go on until they are told to stop.
fn endless() -> Workload {
    Workload {
        transactions: usize::MAX,
        rows: 1..=8,
        pace: Some(Duration::from_millis(100)),
        ..Workload::default()
    }
}

/// How often the replication connection was lost, which no fault of a broker may cost.
async fn source_reconnects(relay: &Relay) -> f64 {
    relay.metric("pgoutbox_reconnects_total", &["peer=\"source\""]).await.unwrap_or(0.0)
}

/// Waits until some more messages have come, a random number.
async fn more_messages(reader: &mut RabbitReader, range: std::ops::Range<usize>) {
    let more = rand::rng().random_range(range);
    reader.read_count(reader.messages().len() + more, CATCH_UP).await;
}

/// What these tests begin with.
struct Scene {
    settings: Settings,
    database: Database,
    rabbit: Rabbit,
}

impl Scene {
    /// On the shared servers.
    async fn new(version: RabbitVersion, hint: &str) -> Self {
        Self::on(version.postgres(), Rabbit::create(version, hint)).await
    }

    async fn on(server: Server, rabbit: Rabbit) -> Self {
        let database = Database::create(server, "rabbit").await;
        database.create_outbox().await;
        rabbit.create_mixed_layout();
        let settings = Settings::rabbit(&database, &rabbit);
        Relay::init(&settings, &database.admin_url());
        Self { settings, database, rabbit }
    }

    /// Waits until about so many more rows are committed.
    async fn more_rows(&self, more: i64) {
        let count = async || -> i64 {
            let rows = self.database.sql().value("SELECT count(*) FROM outbox").await;
            rows.unwrap().parse().unwrap()
        };
        let enough = count().await + more;
        wait_until("more rows", SHORT, async || (count().await >= enough).then_some(())).await;
    }

    async fn reader(&self) -> RabbitReader {
        RabbitReader::new(&self.rabbit, Rabbit::layout()).await
    }

    /// Writes without end, lets a fault happen as often as told, and judges what has arrived once
    /// everything has. A relay runs at the end in any case.
    async fn judge_through(
        &self,
        rounds: usize,
        mut fault: impl AsyncFnMut(&Self, &mut RabbitReader),
    ) -> Report {
        let load = endless().start(&self.database).await;
        let mut reader = self.reader().await;
        for _ in 0..rounds {
            fault(self, &mut reader).await;
        }
        let history = load.stop().await;
        judge_queues(&history, read_queues(&history, &mut reader, CATCH_UP).await)
    }
}
