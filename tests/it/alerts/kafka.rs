//! What a broker does to a relay, told with Kafka.

use serde_json::json;

use super::{Watched, annotation};
use crate::support::{
    Database, KafkaOptions, PrivateKafka, Relay, SHORT, Server, Settings, Topics, kafka_brokers,
};

on_both_servers!(a10_a_halt_names_the_event_and_what_to_type);

async fn a10_a_halt_names_the_event_and_what_to_type(server: Server) {
    let watched = Watched::new().await;
    let (database, topics) = (database(server).await, Topics::new(&kafka_brokers(), "alerts"));
    topics.create("order", 1, 1, &[("max.message.bytes", "2000")]).await;
    let settings = watched.settings(Settings::new(&database, &topics), &[("halted", json!({}))]);
    Relay::init(&settings, &database.admin_url());
    let mut relay = Relay::streaming(&settings).await;
    let id = "00000000-0000-0000-0000-000000000010";
    let insert = format!(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload)
         VALUES ('{id}', 'order', 'a', 'created', to_jsonb(repeat('secret', 1000)))"
    );
    database.sql().run(&insert).await;

    let topic = topics.name("order");
    let alert = watched.fires("PgoutboxHalted", &[id, &topic, "MSG_SIZE_TOO_LARGE"]).await;
    assert_eq!(alert["labels"]["severity"], "critical");
    assert!(annotation(&alert, "fix").contains(id), "{alert}");
    assert!(!alert.to_string().contains("secretsecret"), "a payload: {alert}");
    let line = relay.wait_for_log(&["ERROR", "PgoutboxHalted", id], SHORT).await;
    assert!(line.contains("alert firing"), "{line}");
    let firing = relay.metric("pgoutbox_alert_firing", &[r#"alert="PgoutboxHalted""#]).await;
    assert_eq!(firing, Some(1.0));

    topics.configure("order", &[("max.message.bytes", "1000000")]).await;
    // The event is refused no more, and the alert ends by itself with the relay that sent it.
    assert!(relay.terminate(SHORT).await.success());
    let _relay = Relay::streaming(&settings).await;
    watched.is_over("PgoutboxHalted").await;
}

/// A04: a topic without enough replicas, and A14: one that is missing, on one cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a04_a14_a_topic_that_cannot_be_written_is_named() {
    let options = KafkaOptions { two_brokers: true, ..KafkaOptions::default() };
    let mut kafka = PrivateKafka::start(&options).await;
    let watched = Watched::new().await;
    let (database, topics) =
        (database(Server::Newest).await, Topics::new(&kafka.brokers(), "alerts"));
    topics.create("order", 1, 2, &[("min.insync.replicas", "2")]).await;
    let rules = [("halted", json!({})), ("sinks_blocked", json!({}))];
    let settings = watched.settings(Settings::new(&database, &topics), &rules);
    Relay::init(&settings, &database.admin_url());
    let _relay = Relay::streaming(&settings).await;

    database.insert("invoice", "a", 1).await;
    let words = [&*topics.name("invoice"), "UNKNOWN_TOPIC_OR_PART"];
    watched.fires("PgoutboxHalted", &words).await;
    topics.create("invoice", 1, 2, &[]).await;
    watched.is_over("PgoutboxHalted").await;

    kafka.kill(1);
    kafka.wait_ready(1).await;
    database.insert("order", "a", 2).await;
    let words = ["sink `events`", &*topics.name("order"), "in-sync replicas"];
    watched.fires("PgoutboxBrokerBlocked", &words).await;
    kafka.start_again(1).await;
    watched.is_over("PgoutboxBrokerBlocked").await;
}

async fn database(server: Server) -> Database {
    let database = Database::create(server, "alerts").await;
    database.create_outbox().await;
    database
}
