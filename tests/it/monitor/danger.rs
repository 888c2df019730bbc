//! A slot on its way to being lost (A02), and a walsender that commits wait for.

use super::{INTERVAL, MIB, Stuck, has_line, wait_report};
use crate::support::{Database, PrivatePostgres, Relay, SHORT, Server, Settings};

on_both_servers!(
    a02_a_slot_on_its_way_to_being_lost_is_told_before,
    a_synchronous_walsender_is_an_error,
);

const LIMIT: [(&str, &str); 1] = [("max_slot_wal_keep_size", "64MB")];

async fn a02_a_slot_on_its_way_to_being_lost_is_told_before(server: Server) {
    let mut scene = Stuck::start(server, &LIMIT, INTERVAL).await;
    let room = |report: &serde_json::Value| report["slot"]["safe_wal_size"].as_i64();
    let first = scene.report("a limit", |report| room(report).is_some()).await;
    assert_eq!(first["max_slot_wal_keep_size"], 64 * MIB);
    assert_eq!(first["slot"]["wal_status"], "reserved");
    assert!(!has_line(&first, "warnings", &["wal_status"]), "{first}");
    assert!(!has_line(&first, "warnings", &["max_slot_wal_keep_size"]), "{first}");

    scene.write(40 * MIB).await;
    let left = room(&first).unwrap() - 40 * MIB as i64;
    let less = scene.report("less room", |report| room(report).unwrap() <= left).await;
    assert_eq!(less["slot"]["wal_status"], "reserved");
    assert!(less["slot"]["retained_wal_bytes"].as_u64().unwrap() >= 40 * MIB as u64);

    scene.write(40 * MIB).await;
    let unreserved = |report: &serde_json::Value| report["slot"]["wal_status"] == "unreserved";
    let last = scene.report("the last moment", unreserved).await;
    assert!(room(&last).unwrap() <= 0, "{last}");
    assert_eq!(last["seconds_to_exhaustion"], 0.0);
    assert!(has_line(&last, "warnings", &["unreserved", scene.database.name()]), "{last}");
    let words = ["\"level\":\"WARN\"", "unreserved", scene.database.name()];
    scene.relay.wait_for_log(&words, SHORT).await;
    let metric = "pgoutbox_slot_wal_status";
    assert_eq!(scene.relay.metric(metric, &["status=\"unreserved\""]).await, Some(1.0));
    assert_eq!(scene.relay.metric(metric, &["status=\"reserved\""]).await, Some(0.0));
    assert_eq!(scene.relay.metric("pgoutbox_slot_seconds_to_exhaustion", &[]).await, Some(0.0));
}

async fn a_synchronous_walsender_is_an_error(server: Server) {
    let postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "sync").await;
    database.create_outbox().await;
    database.sql().run(&format!("GRANT pg_monitor TO {}", database.name())).await;
    let monitor = serde_json::json!({"interval": INTERVAL});
    let settings = Settings::stdout(&database).with("monitor", monitor);
    Relay::init(&settings, &database.admin_url());
    let mut relay = Relay::streaming(&settings).await;
    let names = async |names| database.sql().set("synchronous_standby_names", names).await;

    names("*").await;
    let danger = ["synchronous_standby_names", "commits wait"];
    wait_report(&relay, "a warning", |report| has_line(report, "warnings", &danger)).await;
    let error = ["\"level\":\"ERROR\"", danger[0], danger[1]];
    relay.wait_for_log(&error, SHORT).await;
    let metric = "pgoutbox_walsender_synchronous";
    assert_eq!(relay.metric(metric, &[]).await, Some(1.0));

    names("").await;
    wait_report(&relay, "no warning", |report| !has_line(report, "warnings", &danger)).await;
    assert_eq!(relay.metric(metric, &[]).await, Some(0.0));
}
