//! What becomes of a slot, its publication and its server.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Watched, annotation};
use crate::support::{
    Database, PrivatePostgres, Process, Proxy, Relay, SHORT, Server, Settings, wait_until,
};

on_both_servers!(
    a06_a_slot_that_somebody_else_holds_is_no_relay,
    a_slot_that_nobody_reads_is_told,
    a_publication_that_leaves_the_table_out_is_told,
    a_server_that_cannot_be_asked_is_told,
    a02_wal_that_may_be_lost_is_told_with_who_holds_it,
    a_synchronous_walsender_is_told,
);

async fn a06_a_slot_that_somebody_else_holds_is_no_relay(server: Server) {
    let (watched, database) = (Watched::new().await, database(server).await);
    let settings = settings(&watched, &database, &[("relay_active", json!({}))]).await;
    let mut receiver = Command::new(server.programs().join("pg_recvlogical"));
    receiver
        .args(["-d", &database.admin_url(), "-S", database.name(), "--start", "-f", "-"])
        .args(["-o", "proto_version=1", "-o", &format!("publication_names={}", database.name())])
        .stdout(Stdio::null());
    let mut receiver = Process::new(receiver.spawn().unwrap());
    let holder =
        wait_until("pg_recvlogical", SHORT, async || Some(database.walsender().await?.pid)).await;

    let _relay = Relay::start(&settings);
    let pid = format!("pid {holder}");
    let alert = watched.fires("PgoutboxNoRelayActive", &[database.name(), &pid]).await;
    assert_eq!(alert["labels"]["severity"], "critical");
    receiver.kill();
    watched.is_over("PgoutboxNoRelayActive").await;
}

async fn a_slot_that_nobody_reads_is_told(server: Server) {
    let (watched, database) = (Watched::new().await, database(server).await);
    let settings = settings(&watched, &database, &[("slot_active", json!({}))]).await;
    let _relay = Relay::streaming(&settings).await;
    let role = database.name();
    database.sql().run(&format!("ALTER ROLE {role} NOREPLICATION")).await;
    let pid = database.walsender().await.unwrap().pid;
    database.sql().value(&format!("SELECT pg_terminate_backend({pid})")).await;

    watched.fires("PgoutboxSlotInactive", &[database.name(), "pg_drop_replication_slot"]).await;
    database.sql().run(&format!("ALTER ROLE {role} REPLICATION")).await;
    watched.is_over("PgoutboxSlotInactive").await;
}

async fn a_publication_that_leaves_the_table_out_is_told(server: Server) {
    let (watched, database) = (Watched::new().await, database(server).await);
    let settings = settings(&watched, &database, &[("publication_gap", json!({}))]).await;
    let _relay = Relay::streaming(&settings).await;
    let alter = format!("ALTER PUBLICATION {}", database.name());
    database.sql().run(&format!("{alter} DROP TABLE outbox")).await;

    let alert = watched.fires("PgoutboxPublicationGap", &["public.outbox", database.name()]).await;
    assert!(annotation(&alert, "fix").contains("ADD TABLE"), "{alert}");
    database.sql().run(&format!("{alter} ADD TABLE outbox")).await;
    watched.is_over("PgoutboxPublicationGap").await;
}

async fn a_server_that_cannot_be_asked_is_told(server: Server) {
    let (watched, database) = (Watched::new().await, database(server).await);
    let rules = [("monitor_up", json!({})), ("relay_active", json!({}))];
    let settings = settings(&watched, &database, &rules).await;
    let proxy = Proxy::start(database.cluster().port()).await;
    let through = database.relay_url_at(proxy.port());
    let relay = Relay::streaming(&settings.with("source.postgres.url", through)).await;
    watched.is_over("PgoutboxMonitorDown").await;

    proxy.cut();
    watched.fires("PgoutboxMonitorDown", &["cannot be watched"]).await;
    watched.fires("PgoutboxNoRelayActive", &["the relay is starting: "]).await;
    assert_eq!(relay.get("/livez").await.unwrap().0, 200);
    proxy.resume();
    watched.is_over("PgoutboxMonitorDown").await;
    watched.is_over("PgoutboxNoRelayActive").await;
}

/// Before the loss: an open transaction keeps WAL, and there is less and less room for it.
async fn a02_wal_that_may_be_lost_is_told_with_who_holds_it(server: Server) {
    let limits =
        [("max_wal_size", "32MB"), ("min_wal_size", "32MB"), ("max_slot_wal_keep_size", "512MB")];
    let postgres = PrivatePostgres::start(server, &limits).await;
    let (watched, database) =
        (Watched::new().await, Database::create_on(&postgres.cluster(), "a02").await);
    database.create_outbox().await;
    let rules = [
        ("slot_wal_status", json!({"above": "reserved"})),
        ("slot_safe_wal_bytes", json!({"below": "400MiB", "name": "RoomForWal"})),
        ("slot_seconds_to_exhaustion", json!({"below": "999h"})),
        ("holding_transaction_seconds", json!({"above": "1s"})),
    ];
    let settings = settings(&watched, &database, &rules).await;
    let _relay = Relay::streaming(&settings).await;
    let open = database.connect().await;
    open.run("CREATE TABLE filler (t text)").await;
    open.run("BEGIN; INSERT INTO filler VALUES ('open')").await;
    let pid = open.value("SELECT pg_backend_pid()").await.unwrap();

    let fill = "INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 20000);
                SELECT pg_switch_wal()";
    let held = format!("transaction of pid {pid} in database `{}`", database.name());
    for name in ["PgoutboxWalStatusExtended", "PgoutboxSlotExhaustion", "RoomForWal"] {
        let alert = wait_until(name, 2 * SHORT, async || {
            database.sql().run(fill).await;
            database.sql().run("CHECKPOINT").await;
            watched.of_name(name).await
        })
        .await;
        assert!(annotation(&alert, "description").contains(&held), "{alert}");
    }
    let terminate = format!("pg_terminate_backend({pid})");
    watched.fires("PgoutboxTransactionHoldsSlot", &[&held, &terminate]).await;

    open.run("COMMIT").await;
    for name in [
        "PgoutboxTransactionHoldsSlot",
        "PgoutboxSlotExhaustion",
        "PgoutboxWalStatusExtended",
        "RoomForWal",
    ] {
        wait_until(name, 2 * SHORT, async || {
            database.sql().run("CHECKPOINT").await;
            watched.of_name(name).await.is_none().then_some(())
        })
        .await;
    }
}

async fn a_synchronous_walsender_is_told(server: Server) {
    let names = [("synchronous_standby_names", "*")];
    let postgres = PrivatePostgres::start(server, &names).await;
    let mut database = {
        // Nothing commits before there is somebody to wait for.
        let admin = postgres.cluster().connect("postgres").await;
        admin.run("ALTER SYSTEM SET synchronous_standby_names = ''").await;
        admin.run("SELECT pg_reload_conf()").await;
        Database::create_on(&postgres.cluster(), "sync").await
    };
    database.reconnect().await;
    database.create_outbox().await;
    let watched = Watched::new().await;
    let settings = settings(&watched, &database, &[("walsender_synchronous", json!({}))]).await;
    let _relay = Relay::streaming(&settings).await;
    let set = async |names: &str| {
        let sql = database.sql();
        sql.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'")).await;
        sql.run("SELECT pg_reload_conf()").await;
    };
    set("*").await;
    let pid = database.walsender().await.unwrap().pid;
    let words = [&*format!("walsender {pid}"), "synchronous_standby_names"];
    watched.fires("PgoutboxSynchronousWalsender", &words).await;
    set("").await;
    watched.is_over("PgoutboxSynchronousWalsender").await;
}

async fn database(server: Server) -> Database {
    let database = Database::create(server, "alerts").await;
    database.create_outbox().await;
    database
}

/// To standard output: what becomes of events is not the point here.
async fn settings(watched: &Watched, database: &Database, rules: &[(&str, Value)]) -> Settings {
    let settings = watched.settings(Settings::stdout(database), rules);
    Relay::init(&settings, &database.admin_url());
    database.sql().run(&format!("GRANT pg_monitor TO {}", database.name())).await;
    settings
}
