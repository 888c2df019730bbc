//! What the relay tells of itself in figures and at `trace`.

use serde_json::json;

use super::{Scene, wait_metric};
use crate::support::{
    Database, KafkaOptions, PrivateKafka, Relay, SHORT, Server, Settings, Topics, wait_until,
};

on_both_servers!(
    each_publish_is_told_at_trace_and_timed_from_the_rows_own_time,
    ten_thousand_aggregate_types_are_no_labels,
);

/// A line for each publish with the event's id, type and delay, never its payload; and two
/// histograms count it.
async fn each_publish_is_told_at_trace_and_timed_from_the_rows_own_time(server: Server) {
    let scene = Scene::new(server, "trace").await;
    let mut relay =
        Relay::start_with(&scene.settings, &[], &[("PGOUTBOX_LOG", "pgoutbox::relay=trace")]);
    relay.wait_state("streaming", SHORT).await;
    scene.write(1..=3).await;
    for histogram in ["pgoutbox_delivery_seconds_count", "pgoutbox_created_delivery_seconds_count"]
    {
        wait_metric(&relay, histogram, &["sink=\"events\""], 3.0).await;
    }
    let id = scene.database.id(1).await;
    let topic = scene.topics.name("order");
    let line = relay.wait_for_log(&["\"published\"", &id, &topic], SHORT).await;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["event_type"], "happened");
    assert!(line["delay"].as_f64().unwrap() >= 0.0, "{line}");
    assert!(!relay.log().contains("\\\"n\\\""), "a payload was logged");
}

/// Labels come from the configuration, never from rows: as many series after ten thousand aggregate
/// types as after one, and the endpoint of a relay of 200 routes answers.
async fn ten_thousand_aggregate_types_are_no_labels(server: Server) {
    let database = Database::create(server, "labels").await;
    database.create_outbox().await;
    let routes: Vec<_> = (0..200)
        .map(|n| json!({"match": {"event_type": format!("Type{n}")}, "sink": "out"}))
        .chain([json!({"sink": "out"})])
        .collect();
    let settings = Settings::stdout(&database).with("routes", routes);
    Relay::init(&settings, &database.admin_url());
    let relay = Relay::streaming(&settings).await;
    let series = async || {
        let (_, text) = relay.get("/metrics").await.unwrap();
        text.lines().filter(|line| !line.starts_with('#')).count()
    };
    database.insert("first", "a", 0).await;
    wait_metric(&relay, "pgoutbox_events_delivered_total", &[], 1.0).await;
    let before = series().await;
    let sql = "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
               SELECT 'type' || n, n::text, 'Type' || n % 200, '{}' FROM generate_series(1, 10000) n";
    database.sql().run(sql).await;
    wait_metric(&relay, "pgoutbox_events_delivered_total", &[], 10_001.0).await;
    assert_eq!(series().await, before);
}

/// While the broker is away, the status names the event that holds the position back, where it goes
/// and why it does not.
#[tokio::test(flavor = "multi_thread")]
async fn the_status_names_the_event_that_holds_the_position_back() {
    let kafka = PrivateKafka::start(&KafkaOptions::default()).await;
    let topics = Topics::new(&kafka.brokers(), "holds");
    let scene = Scene::with(Database::create(Server::Newest, "holds").await, topics).await;
    let mut relay = Relay::streaming(&scene.settings).await;
    scene.write(1..=1).await;
    scene.confirmed().await;
    wait_until("nothing to hold the position back", SHORT, async || {
        relay.status().await?.get("blocked_by")?.is_null().then_some(())
    })
    .await;
    kafka.signal(0, "STOP");
    scene.write(2..=3).await;
    relay.wait_state("blocked", SHORT).await;
    let second = scene.database.id(2).await;
    let (sink, topic) = (json!("events"), json!(scene.topics.name("order")));
    wait_until("the event that holds the position back", SHORT, async || {
        let holds = relay.status().await?.get("blocked_by")?.clone();
        let is_it = holds["event"] == second && holds["sink"] == sink;
        (is_it && holds["destination"] == topic && holds["reason"].is_string()).then_some(())
    })
    .await;
    kafka.signal(0, "CONT");
}
