//! What is shown, by what the role may see.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{INTERVAL, MIB, Stuck, has_line, wait_report};
use crate::support::{Database, Relay, SHORT, Server, Settings};

on_both_servers!(
    a_role_with_pg_monitor_sees_everything,
    a_role_without_pg_monitor_is_told_what_it_lacks,
    transactions_that_hold_the_slot_back_are_named,
    the_lag_counts_what_nobody_has_read,
    what_decoding_costs_is_counted,
    a_relay_that_begins_to_stream_is_seen_at_once,
);

async fn start(server: Server, hint: &str, monitor: serde_json::Value) -> (Database, Settings) {
    let database = Database::create(server, hint).await;
    database.create_outbox().await;
    let settings = Settings::stdout(&database).with("monitor", monitor);
    Relay::init(&settings, &database.admin_url());
    (database, settings)
}

async fn a_role_with_pg_monitor_sees_everything(server: Server) {
    let monitor = json!({"interval": INTERVAL, "all_slots": true, "wal_volume_size": "1GiB"});
    let (database, settings) = start(server, "seeing", monitor).await;
    let name = database.name();
    database.sql().run(&format!("GRANT pg_monitor TO {name}")).await;
    database.create_witness().await;
    let mut relay = Relay::streaming(&settings).await;
    database.insert("order", "1", 1).await;
    relay.wait_printed(1, SHORT).await;
    let walsender = database.walsender().await.unwrap();

    // Other tests write on this server: it is never quite confirmed.
    let report = wait_report(&relay, "a walsender that has sent", |report| {
        report["walsender"]["flush_lag_bytes"].is_u64()
            && report["lag_seconds"].as_f64().is_some_and(|lag| lag < 5.0)
    })
    .await;
    assert!(!has_line(&report, "missing", &["GRANT"]), "{report}");
    assert_eq!(report["failure"], json!(null));
    let slot = &report["slot"];
    assert_eq!(slot["name"], name);
    assert_eq!((&slot["active"], &slot["active_pid"]), (&json!(true), &json!(walsender.pid)));
    assert_eq!(slot["wal_status"], "reserved");
    assert!(slot["retained_wal_bytes"].as_u64().unwrap() > 0, "{slot}");
    assert!(slot["confirmed_lag_bytes"].is_u64(), "{slot}");
    assert_eq!(slot["inactive_seconds"], 0.0);
    // Nothing on the oldest server knows of these.
    let known = if server == Server::Newest { json!(false) } else { json!(null) };
    assert_eq!(slot["synced"], known);
    assert_eq!(has_line(&report, "missing", &["PostgreSQL 17"]), server == Server::Oldest);
    let sender = &report["walsender"];
    assert_eq!((&sender["pid"], &sender["sync_state"]), (&json!(walsender.pid), &json!("async")));
    assert!(has_line(&report, "warnings", &["max_slot_wal_keep_size", name]), "{report}");
    let witness = format!("{name}_witness");
    let others = report["other_slots"].as_array().unwrap();
    assert!(others.iter().any(|other| other["name"] == witness), "{others:?}");
    assert!(others.iter().all(|other| other["name"] != name), "{others:?}");

    for (metric, labels, expected) in [
        ("slot_active", "relay=\"orders\"", 1.0),
        ("monitor_up", "relay=\"orders\"", 1.0),
        ("slot_wal_status", "status=\"reserved\"", 1.0),
        ("slot_wal_status", "status=\"lost\"", 0.0),
        ("walsender_synchronous", "relay=\"orders\"", 0.0),
        ("other_slot_active", &format!("slot=\"{witness}\""), 0.0),
    ] {
        let found = relay.metric(&format!("pgoutbox_{metric}"), &[labels]).await;
        assert_eq!(found, Some(expected), "{metric}{{{labels}}}");
    }
    let unlimited = relay.metric("pgoutbox_slot_seconds_to_exhaustion", &[]).await;
    assert_eq!(unlimited, None, "nobody can tell");
}

/// And gets it as soon as it is granted.
async fn a_role_without_pg_monitor_is_told_what_it_lacks(server: Server) {
    let (database, settings) = start(server, "blind", json!({"interval": INTERVAL})).await;
    let name = database.name();
    let relay = Relay::streaming(&settings).await;
    let grant = format!("GRANT pg_monitor TO \"{name}\"");
    let found = wait_report(&relay, "a walsender", |report| report["walsender"].is_object()).await;
    assert!(has_line(&found, "missing", &["sync_state", "transactions", &grant]), "{found}");
    assert!(has_line(&found, "missing", &["pg_ls_waldir", &grant]), "{found}");
    assert_eq!(found["walsender"]["sync_state"], json!(null));
    // What everybody may see.
    assert_eq!(
        (&found["slot"]["active"], &found["slot"]["wal_status"]),
        (&json!(true), &json!("reserved"))
    );
    assert!(
        found["slot"]["retained_wal_bytes"].is_u64() && found["lag_seconds"].is_f64(),
        "{found}"
    );

    database.sql().run(&grant).await;
    wait_report(&relay, "all figures", |report| {
        !has_line(report, "missing", &["GRANT"]) && report["walsender"]["sync_state"] == "async"
    })
    .await;
}

async fn transactions_that_hold_the_slot_back_are_named(server: Server) {
    let scene = Stuck::start(server, &[("max_prepared_transactions", "2")], INTERVAL).await;
    let database = &scene.database;
    let insert = "INSERT INTO other VALUES ('x')";
    database.sql().run(&format!("BEGIN; {insert}; PREPARE TRANSACTION 'forgotten'")).await;
    let open = database.connect().await;
    open.run("SET application_name = 'billing'").await;
    open.run(&format!("BEGIN; {insert}")).await;
    let pid: u64 = open.value("SELECT pg_backend_pid()").await.unwrap().parse().unwrap();

    let found = scene
        .report("both transactions", |report| report["holding"].as_array().unwrap().len() == 2)
        .await;
    let [prepared, open_one] = [&found["holding"][0], &found["holding"][1]];
    assert_eq!(prepared["gid"], "forgotten");
    assert_eq!((&open_one["pid"], &open_one["gid"]), (&json!(pid), &json!(null)));
    assert_eq!(open_one["application_name"], "billing");
    for held in [prepared, open_one] {
        assert_eq!(held["database"], database.name());
        assert!(held["age_seconds"].as_f64().unwrap() >= 1.0, "{held}");
    }
    let oldest = scene.relay.metric("pgoutbox_holding_transaction_seconds", &[]).await;
    assert!(oldest >= prepared["age_seconds"].as_f64());

    open.run("ROLLBACK").await;
    database.sql().run("ROLLBACK PREPARED 'forgotten'").await;
    scene.report("none", |report| report["holding"] == json!([])).await;
}

/// No relay has read a byte: what the server knows is shown all the same.
async fn the_lag_counts_what_nobody_has_read(server: Server) {
    let scene = Stuck::start(server, &[], INTERVAL).await;
    scene.report("a look before it", |_| true).await;
    let begin = Instant::now();
    scene.write(MIB).await;
    let late = |report: &Value| report["lag_seconds"].as_f64().unwrap() >= 2.0;
    let found = scene.report("a lag of two seconds", late).await;
    // The slot was made shortly before, and some of the WAL since then is not confirmed either.
    let most = begin.elapsed().as_secs_f64() + SHORT.as_secs_f64();
    assert!(found["lag_seconds"].as_f64().unwrap() < most, "{found}");
    for figure in [&found["slot"]["confirmed_lag_bytes"], &found["unread_wal_bytes"]] {
        assert!(figure.as_u64().unwrap() >= MIB as u64, "{found}");
    }
    let shown = scene.relay.metric("pgoutbox_slot_confirmed_lag_bytes", &[]).await;
    assert!(shown >= Some(MIB as f64), "{shown:?}");
    assert!(scene.relay.metric("pgoutbox_slot_lag_seconds", &[]).await >= Some(2.0));
}

/// The walsender has the role's settings; what is larger than its memory goes to the disk.
async fn what_decoding_costs_is_counted(server: Server) {
    let (database, settings) = start(server, "spills", json!({"interval": INTERVAL})).await;
    let name = database.name();
    database.sql().run(&format!("ALTER ROLE {name} SET logical_decoding_work_mem = '64kB'")).await;
    let mut relay = Relay::streaming(&settings).await;
    let insert = "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
                  SELECT 'order', i, 'happened', jsonb_build_object('p', repeat('x', 1000))
                  FROM generate_series(1, 500) i";
    database.sql().run(insert).await;
    relay.wait_printed(500, SHORT).await;

    // The server counts what it spills at once, and the rest at the transaction's end.
    let found = wait_report(&relay, "a transaction that was spilled and decoded", |report| {
        let decoding = &report["slot"]["decoding"];
        decoding["spilled_transactions"].as_u64() >= Some(1)
            && decoding["bytes"].as_u64() >= Some(500_000)
    })
    .await;
    let decoding = &found["slot"]["decoding"];
    let count = |figure: &str| decoding[figure].as_u64().unwrap();
    assert!(count("spilled_bytes") >= 500_000, "{decoding}");
    assert!(count("transactions") >= 1, "{decoding}");
    // Protocol 1 knows of no streams.
    assert_eq!((count("streamed_transactions"), count("streamed_bytes")), (0, 0), "{decoding}");
    for (counter, least) in [("spilled_transactions", 1.0), ("spilled_bytes", 500_000.0)] {
        let label = format!("counter=\"{counter}\"");
        let shown = relay.metric("pgoutbox_slot_decoding", &[&label]).await;
        assert!(shown >= Some(least), "{counter}: {shown:?}");
    }
}

/// The looks are far apart, and the first one comes before there is a walsender.
async fn a_relay_that_begins_to_stream_is_seen_at_once(server: Server) {
    let (database, settings) = start(server, "begins", json!({"interval": "10m"})).await;
    let relay = Relay::streaming(&settings).await;
    let found =
        wait_report(&relay, "a slot that is read", |it| it["slot"]["active"] == json!(true)).await;
    let pid = database.walsender().await.unwrap().pid;
    assert_eq!(found["slot"]["active_pid"], json!(pid));
}
