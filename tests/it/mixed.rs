//! One relay, two brokers: orders to Kafka, payments to RabbitMQ. A15 and A31 stand here, since what
//! one broker gives back must not hold up the other.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Database, EXCHANGE, Message, QueueKind, Rabbit, RabbitReader, RabbitVersion, Reader, Relay,
    SHORT, Settings, Topics, kafka_brokers, wait_until,
};

on_both_rabbits!(
    each_event_goes_to_its_broker_and_the_position_waits_for_both,
    a15_what_rabbitmq_cannot_route_halts_its_key_and_nothing_else,
    a31_a_full_queue_blocks_by_name_and_flows_again,
);

async fn each_event_goes_to_its_broker_and_the_position_waits_for_both(version: RabbitVersion) {
    let scene = Scene::new(version, "both").await;
    scene.rabbit.bind(EXCHANGE, "payments", "happened");
    let mut relay = Relay::streaming(&scene.settings).await;
    for n in 0..50 {
        let kind = if n % 2 == 0 { "order" } else { "payment" };
        scene.database.insert(kind, "a", n).await;
    }
    let end = scene.database.wal_end().await;
    scene.database.wait_confirmed(end, SHORT).await;
    let expected = |from| (from..50).step_by(2).map(|n| format!("{{\"n\": {n}}}"));
    let mut kafka = Reader::new(&scene.topics);
    let orders: Vec<_> = kafka.read_to_end().iter().map(|it| it.text().to_owned()).collect();
    assert_eq!(orders, expected(0).collect::<Vec<_>>());
    assert_eq!(texts(&scene.read().await), expected(1).collect::<Vec<_>>());

    let status = relay.status().await.unwrap();
    let sinks = status["sinks"].as_array().unwrap();
    for (sink, name) in sinks.iter().zip(["events", "tasks"]) {
        assert_eq!((&sink["name"], &sink["delivered"]), (&json!(name), &json!(25)), "{sink}");
        assert_eq!((&sink["connected"], &sink["blocked"]), (&json!(true), &json!([])), "{sink}");
    }
    assert!(relay.terminate(SHORT).await.success());
}

/// Nothing is bound for one routing key.
async fn a15_what_rabbitmq_cannot_route_halts_its_key_and_nothing_else(version: RabbitVersion) {
    let scene = Scene::new(version, "no_route").await;
    scene.rabbit.bind(EXCHANGE, "payments", "made");
    let mut relay = Relay::streaming(&scene.settings).await;
    scene.payment("lost", "b", 0).await;
    scene.payment("made", "b", 1).await;
    scene.payment("made", "c", 2).await;
    scene.database.insert("order", "a", 3).await;
    relay.wait_state("halted", SHORT).await;

    // The other keys go on, to either broker; what is behind in the same key does not.
    let mut reader = RabbitReader::new(&scene.rabbit, &["payments"]).await;
    reader.read_until("the other key", SHORT, |read| !read.is_empty()).await;
    Reader::new(&scene.topics).read_count(1, SHORT);
    let status = relay.status().await.unwrap();
    let reason = status["reason"].as_str().unwrap();
    let destination = format!("exchange {EXCHANGE}, routing key lost");
    assert!(reason.contains(&destination), "{reason}");
    let lost = "SELECT id FROM outbox WHERE type = 'lost'";
    let lost = scene.database.sql().value(lost).await.unwrap();
    assert!(reason.contains(&format!("event `{lost}`")), "{reason}");
    assert!(status["hint"].is_string(), "{status}");
    assert_eq!(status["sinks"][1]["blocked"][0]["destination"], json!(destination));
    assert_eq!(relay.get("/readyz").await.unwrap().0, 503);
    assert_eq!(texts(reader.messages()), [r#"{"n": 2}"#]);
    let end = scene.database.commit_ends().await[0];
    assert!(scene.database.confirmed().await < Some(end), "confirmed what was returned");

    scene.rabbit.bind(EXCHANGE, "payments", "lost");
    relay.wait_state("streaming", 2 * SHORT).await;
    let end = scene.database.wal_end().await;
    scene.database.wait_confirmed(end, SHORT).await;
    let read = reader.read_to_end().await;
    assert_eq!(texts(read), [r#"{"n": 2}"#, r#"{"n": 0}"#, r#"{"n": 1}"#]);
    assert!(relay.metric("pgoutbox_events_resent_total", &[r#"sink="tasks""#]).await >= Some(1.0));
}

/// A queue that refuses what it has no room for looks like any refusal, and after ten of them the
/// relay says where.
async fn a31_a_full_queue_blocks_by_name_and_flows_again(version: RabbitVersion) {
    let scene = Scene::new(version, "full").await;
    let limits = json!({"x-max-length": 1, "x-overflow": "reject-publish"});
    scene.rabbit.create_queue("small", QueueKind::Classic, limits);
    scene.rabbit.bind(EXCHANGE, "small", "small");
    scene.rabbit.bind(EXCHANGE, "payments", "made");
    let mut relay = Relay::streaming(&scene.settings).await;
    for n in 0..4 {
        scene.payment("small", "b", n).await;
    }
    relay.wait_state("blocked", Duration::from_secs(90)).await;
    let status = relay.status().await.unwrap();
    let reason = status["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("exchange {EXCHANGE}, routing key small")), "{reason}");
    // Another key of the same exchange flows.
    scene.payment("made", "c", 9).await;
    let mut reader = RabbitReader::new(&scene.rabbit, &["payments"]).await;
    reader.read_until("the other key", SHORT, |read| !read.is_empty()).await;
    assert_eq!(relay.state().await.as_deref(), Some("blocked"));
    // The first has room in the queue, the second has not.
    let end = scene.database.commit_ends().await[1];
    assert!(scene.database.confirmed().await < Some(end), "confirmed what was refused");

    let mut small = RabbitReader::new(&scene.rabbit, &["small"]).await;
    let end = scene.database.wal_end().await;
    wait_until("all of the full queue's events", Duration::from_secs(90), async || {
        small.read_to_end().await;
        (scene.database.confirmed().await >= Some(end)).then_some(())
    })
    .await;
    small.read_to_end().await;
    let expected: Vec<_> = (0..4).map(|n| format!("{{\"n\": {n}}}")).collect();
    assert_eq!(texts(small.messages()), expected);
    relay.wait_state("streaming", SHORT).await;
}

/// What a reader sees that drops duplicates.
fn texts(messages: &[Message]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    let first = messages.iter().filter(|message| seen.insert(message.id()));
    first.map(Message::text).collect()
}

struct Scene {
    settings: Settings,
    database: Database,
    topics: Topics,
    rabbit: Rabbit,
}

impl Scene {
    /// A direct exchange and a queue that nothing leads to.
    async fn new(version: RabbitVersion, hint: &str) -> Self {
        let database = Database::create(version.postgres(), hint).await;
        database.create_outbox().await;
        let topics = Topics::new(&kafka_brokers(), hint);
        topics.create("order", 1, 1, &[]).await;
        let rabbit = Rabbit::create(version, hint);
        rabbit.create_exchange(EXCHANGE, "direct", json!({}));
        rabbit.create_queue("payments", QueueKind::Quorum, json!({}));
        let payments = json!({
            "match": {"aggregate_type": "payment"},
            "sink": "tasks",
            "exchange": EXCHANGE,
            "routing_key": "${event_type}",
        });
        let orders = json!({"sink": "events", "topic": topics.name("${aggregate_type}")});
        let settings = Settings::new(&database, &topics)
            .with("sinks.tasks", json!({"rabbitmq": {"url": rabbit.relay_url()}}))
            .with("routes", Value::from(vec![payments, orders]));
        Relay::init(&settings, &database.admin_url());
        database.create_witness().await;
        Self { settings, database, topics, rabbit }
    }

    async fn payment(&self, event_type: &str, aggregate_id: &str, n: u32) {
        let insert = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
             VALUES ('payment', '{aggregate_id}', '{event_type}', '{{\"n\": {n}}}')"
        );
        self.database.sql().run(&insert).await;
    }

    async fn read(&self) -> Vec<Message> {
        let mut reader = RabbitReader::new(&self.rabbit, &["payments"]).await;
        reader.read_to_end().await.to_vec()
    }
}
