//! What a relay survives without a restart of its own.

use std::time::Duration;

use super::{Scene, assert_state, payloads, wait_metric};
use crate::checker::{Workload, judge_topics, read_all};
use crate::support::{
    Database, KafkaOptions, PrivateKafka, PrivatePostgres, Reader, Relay, SHORT, Server, Topics,
    first_texts, kafka_brokers, wait_until,
};

on_both_servers!(
    a_postgres_that_restarts_and_crashes_under_load_costs_nothing,
    a_walsender_that_is_terminated_is_connected_again,
);

/// The broker is killed and comes back: everything arrives in order, over the very same replication
/// connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_was_away_costs_no_restart_and_no_reconnect() {
    let mut kafka = PrivateKafka::start(&KafkaOptions::default()).await;
    let mut stories = Vec::new();
    for server in Server::both() {
        let topics = Topics::new(&kafka.brokers(), "away");
        let scene = Scene::with(Database::create(server, "away").await, topics).await;
        let relay = Relay::streaming(&scene.settings).await;
        scene.write(1..=3).await;
        scene.confirmed().await;
        assert_state(&relay, "streaming", 200).await;
        wait_metric(&relay, "pgoutbox_sink_connected", &["sink=\"events\""], 1.0).await;
        let walsender = scene.database.walsender().await.unwrap().pid;
        stories.push((scene, relay, walsender));
    }

    kafka.kill(0);
    for (scene, relay, _) in &mut stories {
        scene.write(4..=6).await;
        relay.wait_state("blocked", SHORT).await;
        assert_state(relay, "blocked", 503).await;
        wait_metric(relay, "pgoutbox_sink_connected", &["sink=\"events\""], 0.0).await;
        wait_metric(relay, "pgoutbox_sink_blocked", &["sink=\"events\""], 1.0).await;
        wait_metric(relay, "pgoutbox_window_events", &[], 3.0).await;
    }
    kafka.start_again(0).await;
    for (scene, relay, walsender) in &mut stories {
        scene.write(7..=9).await;
        let mut reader = Reader::new(&scene.topics);
        reader.read_until("all events", 2 * SHORT, |all| first_texts(all).len() == 9);
        assert_eq!(first_texts(reader.records()), payloads(1..=9));
        scene.confirmed().await;
        relay.wait_state("streaming", SHORT).await;
        assert_state(relay, "streaming", 200).await;
        wait_metric(relay, "pgoutbox_sink_connected", &["sink=\"events\""], 1.0).await;
        wait_metric(relay, "pgoutbox_sink_blocked", &["sink=\"events\""], 0.0).await;
        assert_eq!(scene.database.walsender().await.unwrap().pid, *walsender);
        assert_eq!(relay.metric("pgoutbox_reconnects_total", &[]).await.unwrap_or(0.0), 0.0);
    }
}

/// Restarts and crashes of the server, each while the relay has much to catch up with.
async fn a_postgres_that_restarts_and_crashes_under_load_costs_nothing(server: Server) {
    let mut postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "restart").await;
    let mut scene = Scene::with(database, Topics::new(&kafka_brokers(), "restart")).await;
    let mut relay = Relay::streaming(&scene.settings).await;
    let mut reader = Reader::new(&scene.topics);
    let mut workload = Workload { transactions: 40, big: 300, ..Workload::default() };
    let mut history = workload.run(&scene.database).await;
    for mode in ["fast", "crash", "immediate"] {
        relay.wait_state("streaming", SHORT).await;
        read_all(&history, &mut reader, SHORT);
        relay.signal("STOP");
        workload.seed = workload.seed.wrapping_add(100);
        history.merge(workload.run(&scene.database).await);
        relay.signal("CONT");
        reader.read_count(reader.records().len() + 1, SHORT);
        tokio::task::block_in_place(|| match mode {
            "crash" => postgres.kill(),
            mode => assert!(postgres.stop(mode).done, "no end"),
        });
        postgres.start_again().await;
        scene.database.reconnect().await;
    }
    let report = judge_topics(&history, read_all(&history, &mut reader, 2 * SHORT), &scene.topics);
    report.assert_clean();
    scene.confirmed().await;
    relay.wait_state("streaming", SHORT).await;
    let reconnects = relay.metric("pgoutbox_reconnects_total", &["peer=\"source\""]).await;
    assert!(reconnects >= Some(3.0), "{reconnects:?}");
    wait_metric(&relay, "pgoutbox_active", &[], 1.0).await;
    wait_metric(&relay, "pgoutbox_source_connected", &[], 1.0).await;
}

/// An administrator ends the replication connection again and again, under load.
async fn a_walsender_that_is_terminated_is_connected_again(server: Server) {
    let scene = Scene::new(server, "ended").await;
    let mut relay = Relay::streaming(&scene.settings).await;
    let workload = Workload {
        transactions: usize::MAX,
        pace: Some(Duration::from_millis(10)),
        ..Workload::default()
    };
    let load = workload.start(&scene.database).await;
    let mut reader = Reader::new(&scene.topics);
    for _ in 0..3 {
        reader.read_count(reader.records().len() + 100, SHORT);
        let walsender = scene.database.walsender().await.unwrap().pid;
        let end = format!("SELECT pg_terminate_backend({walsender})");
        scene.database.sql().run(&end).await;
        wait_until("another connection", SHORT, async || {
            scene.database.walsender().await.filter(|new| new.pid != walsender)
        })
        .await;
    }
    let history = load.stop().await;
    let report = judge_topics(&history, read_all(&history, &mut reader, SHORT), &scene.topics);
    report.assert_clean();
    scene.confirmed().await;
    relay.wait_state("streaming", SHORT).await;
    let reconnects = relay.metric("pgoutbox_reconnects_total", &["peer=\"source\""]).await;
    assert_eq!(reconnects, Some(3.0));
    assert_eq!(relay.status().await.unwrap()["reconnects"], 3);
}
