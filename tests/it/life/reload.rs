//! SIGHUP: the configuration is read again, and a wrong one changes nothing.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::{Scene, assert_state, payloads, wait_metric};
use crate::checker::{Workload, judge_topics, read_all};
use crate::support::{Reader, Relay, SHORT, Server, first_texts};

on_both_servers!(
    a_reload_under_load_loses_and_repeats_nothing,
    a_wrong_configuration_changes_nothing_and_says_why,
    a_reload_mends_what_halts_the_relay,
    a_reload_may_name_a_topic_that_the_brokers_create,
    a_password_that_is_rotated_in_its_file_is_used_without_a_restart,
);

const APPLIED: &[&str] = &["outcome=\"applied\""];
const REFUSED: &[&str] = &["outcome=\"refused\""];

/// Five reloads under load: each is in force, in one process, and every event arrives once.
async fn a_reload_under_load_loses_and_repeats_nothing(server: Server) {
    let scene = Scene::new(server, "reload").await;
    let workload = Workload {
        transactions: usize::MAX,
        pace: Some(Duration::from_millis(5)),
        ..Workload::default()
    };
    let load = workload.start(&scene.database).await;
    let mut reader = Reader::new(&scene.topics);
    let relay = Relay::streaming(&scene.settings).await;
    for round in 1..=5_u32 {
        reader.read_count(reader.records().len() + 100, SHORT);
        let window = json!({"events": 1000 + round});
        relay.reload(&scene.settings.clone().with("source.postgres.window", window));
        wait_metric(&relay, "pgoutbox_reloads_total", APPLIED, f64::from(round)).await;
    }
    let history = load.stop().await;
    let report = judge_topics(&history, read_all(&history, &mut reader, SHORT), &scene.topics);
    report.assert_clean();
    assert_eq!(report.duplicates, 0);
    assert_eq!(relay.metric("pgoutbox_reloads_total", REFUSED).await, Some(0.0));
}

/// An unknown key, another name, a broker that nobody is, a publication that is not there, an HTTP
/// address that somebody else has: each is told, and the relay goes on with what it had, on the same connection.
async fn a_wrong_configuration_changes_nothing_and_says_why(server: Server) {
    let scene = Scene::new(server, "wrong").await;
    let mut relay = Relay::streaming(&scene.settings).await;
    let walsender = scene.database.walsender().await.unwrap().pid;
    let settings = || scene.settings.clone();
    let somebody = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let taken = somebody.local_addr().unwrap().to_string();
    let wrong = [
        (settings().with("rotues", json!([])), "`rotues`"),
        (settings().with("name", "other"), "`other`"),
        (settings().with("sinks.events.kafka.brokers", json!(["127.0.0.1:1"])), "127.0.0.1:1"),
        (settings().with("source.postgres.publication", "nothing"), "`nothing`"),
        (
            settings().with("http.listen", taken.as_str()),
            &format!("`http.listen` cannot have `{taken}`"),
        ),
    ];
    for (round, (settings, named)) in (1_u32..).zip(&wrong) {
        relay.reload(settings);
        wait_metric(&relay, "pgoutbox_reloads_total", REFUSED, f64::from(round)).await;
        relay.wait_for_log(&["nothing changes", named], SHORT).await;
        scene.write(round..=round).await;
        scene.confirmed().await;
        assert_state(&relay, "streaming", 200).await;
    }
    assert_eq!(scene.database.walsender().await.unwrap().pid, walsender);
    let mut reader = Reader::new(&scene.topics);
    reader.read_count(wrong.len(), SHORT);
    assert_eq!(first_texts(reader.records()), payloads(1..=5));

    // What was right before is right again, and the endpoint may move.
    let moved = settings().with_free_http_port();
    relay.reload(&moved);
    relay.asks(&moved);
    wait_metric(&relay, "pgoutbox_reloads_total", APPLIED, 1.0).await;
    relay.wait_state("streaming", SHORT).await;
}

/// An event that no route takes halts the relay; with a route for it, it flows after a reload.
async fn a_reload_mends_what_halts_the_relay(server: Server) {
    let scene = Scene::new(server, "mended").await;
    let orders = json!([{"match": {"aggregate_type": "order"}, "sink": "events",
        "topic": scene.topics.name("order")}]);
    let narrow = scene.settings.clone().with("routes", orders);
    let mut relay = Relay::streaming(&narrow).await;
    scene.write(1..=1).await;
    scene.database.insert("payment", "a", 2).await;
    relay.wait_state("halted", SHORT).await;
    scene.topics.create("payment", 1, 1, &[]).await;
    relay.reload(&scene.settings);
    wait_metric(&relay, "pgoutbox_reloads_total", APPLIED, 1.0).await;
    relay.wait_state("streaming", SHORT).await;
    scene.confirmed().await;
    let mut reader = Reader::new(&scene.topics);
    reader.read_until("both events", SHORT, |all| first_texts(all).len() == 2);
    assert_state(&relay, "streaming", 200).await;
}

/// The trial creates nothing, and the relay that follows does, as at a start: the shared broker creates
/// topics at their first use.
async fn a_reload_may_name_a_topic_that_the_brokers_create(server: Server) {
    let scene = Scene::new(server, "created").await;
    let mut relay = Relay::streaming(&scene.settings).await;
    let fresh = json!([{"sink": "events", "topic": scene.topics.name("fresh")}]);
    relay.reload(&scene.settings.clone().with("routes", fresh));
    wait_metric(&relay, "pgoutbox_reloads_total", APPLIED, 1.0).await;
    relay.wait_state("streaming", SHORT).await;
    scene.write(1..=1).await;
    scene.confirmed().await;
    assert!(scene.topics.exists("fresh"));
}

/// The role's password changes, and the file of it a little later: the relay, which was cut off in
/// between, comes back with the new one.
async fn a_password_that_is_rotated_in_its_file_is_used_without_a_restart(server: Server) {
    let scene = Scene::new(server, "rotated").await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "relay\n").unwrap();
    let password = format!("${{file:{}}}", file.display());
    let settings = scene.settings.clone().with("source.postgres.password", password);
    let mut relay = Relay::streaming(&settings).await;
    scene.write(1..=1).await;
    scene.confirmed().await;

    let (sql, role) = (scene.database.sql(), scene.database.name());
    sql.run(&format!("ALTER ROLE {role} PASSWORD 'new'")).await;
    let pid = scene.database.walsender().await.unwrap().pid;
    sql.run(&format!("SELECT pg_terminate_backend({pid})")).await;
    relay.wait_state("halted", SHORT).await;
    scene.write(2..=2).await;
    fs::write(&file, "new\n").unwrap();
    wait_metric(&relay, "pgoutbox_reloads_total", APPLIED, 1.0).await;
    scene.confirmed().await;
    relay.wait_state("streaming", SHORT).await;
    let mut reader = Reader::new(&scene.topics);
    reader.read_count(2, SHORT);
    assert_eq!(first_texts(reader.records()), payloads(1..=2));
}
