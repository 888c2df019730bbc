//! What becomes of a slot, its publication and its server.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Watched, annotation};
use crate::support::{
    Database, PrivatePostgres, Process, Proxy, Relay, SHORT, Server, Settings, Sql, wait_until,
};

on_both_servers!(
    a06_a_slot_that_somebody_else_holds_is_no_relay,
    a_slot_that_nobody_reads_is_told,
    a_publication_that_leaves_the_table_out_is_told,
    a_server_that_cannot_be_asked_is_told,
    a02_wal_that_may_be_lost_is_told_with_who_holds_it,
    a02_wal_that_the_next_checkpoint_may_remove_is_told,
    wal_that_nothing_limits_and_a_disk_that_it_fills_are_told,
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

    // Its way out is the relay's: nothing is to be dropped.
    let alert = watched.fires("PgoutboxSlotInactive", &[database.name(), "REPLICATION"]).await;
    assert!(!alert.to_string().contains("pg_drop_replication_slot"), "{alert}");
    database.sql().run(&format!("ALTER ROLE {role} REPLICATION")).await;
    watched.is_over("PgoutboxSlotInactive").await;
}

async fn a_publication_that_leaves_the_table_out_is_told(server: Server) {
    let (watched, database) = (Watched::new().await, database(server).await);
    let settings = settings(&watched, &database, &[("publication_gap", json!({}))]).await;
    let relay = Relay::streaming(&settings).await;
    let alter = format!("ALTER PUBLICATION {}", database.name());
    database.sql().run(&format!("{alter} DROP TABLE outbox")).await;

    let alert = watched.fires("PgoutboxPublicationGap", &["public.outbox", database.name()]).await;
    assert!(annotation(&alert, "fix").contains("ADD TABLE"), "{alert}");
    let gap = async || relay.metric("pgoutbox_publication_gap", &[]).await;
    assert_eq!(gap().await, Some(1.0));
    database.sql().run(&format!("{alter} ADD TABLE outbox")).await;
    watched.is_over("PgoutboxPublicationGap").await;
    assert_eq!(gap().await, Some(0.0));
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
        [("max_wal_size", "32MB"), ("min_wal_size", "32MB"), ("max_slot_wal_keep_size", "2GB")];
    let postgres = PrivatePostgres::start(server, &limits).await;
    let (watched, database) =
        (Watched::new().await, Database::create_on(&postgres.cluster(), "a02").await);
    database.create_outbox().await;
    let rules = [
        ("slot_wal_status", json!({"above": "reserved"})),
        ("slot_safe_wal_bytes", json!({"below": "1950MiB", "name": "RoomForWal"})),
        ("slot_seconds_to_exhaustion", json!({"below": "999h"})),
        ("slot_seconds_to_exhaustion", json!({"below": "998h", "severity": "critical"})),
        ("holding_transaction_seconds", json!({"above": "1s"})),
    ];
    let settings = settings(&watched, &database, &rules).await;
    let _relay = Relay::streaming(&settings).await;
    let open = Open::begin(&database).await;
    // More than `max_wal_size` at once, and then little by little: it must not be lost.
    open.fill(150).await;
    database.sql().run("CHECKPOINT").await;
    let of_growth = ["PgoutboxSlotExhaustion", "PgoutboxSlotExhaustionImminent", "RoomForWal"];
    open.is_named_by(&watched, "PgoutboxWalStatusExtended").await;
    for name in of_growth {
        open.is_named_by(&watched, name).await;
    }
    let terminate = format!("pg_terminate_backend({})", open.pid);
    watched.fires("PgoutboxTransactionHoldsSlot", &[&open.words(), &terminate]).await;

    open.commit().await;
    for name in of_growth {
        open.is_over(&watched, name).await;
    }
    open.is_over(&watched, "PgoutboxTransactionHoldsSlot").await;
    open.is_over(&watched, "PgoutboxWalStatusExtended").await;
}

/// The last warning: no checkpoint has come yet.
async fn a02_wal_that_the_next_checkpoint_may_remove_is_told(server: Server) {
    let limits = [("max_wal_size", "2GB"), ("max_slot_wal_keep_size", "64MB")];
    let postgres = PrivatePostgres::start(server, &limits).await;
    let (watched, database) =
        (Watched::new().await, Database::create_on(&postgres.cluster(), "a02").await);
    database.create_outbox().await;
    let rule = json!({"above": "extended", "severity": "critical"});
    let settings = settings(&watched, &database, &[("slot_wal_status", rule)]).await;
    let _relay = Relay::streaming(&settings).await;
    let open = Open::begin(&database).await;
    open.fill(150).await;
    let name = "PgoutboxWalStatusUnreserved";
    let alert = watched.fires(name, &["unreserved", &open.words()]).await;
    assert_eq!(alert["labels"]["severity"], "critical");
    open.commit().await;
    open.is_over_by_itself(&watched, name).await;
}

async fn wal_that_nothing_limits_and_a_disk_that_it_fills_are_told(server: Server) {
    let postgres = PrivatePostgres::start(server, &[("max_wal_size", "2GB")]).await;
    let (watched, database) =
        (Watched::new().await, Database::create_on(&postgres.cluster(), "disk").await);
    database.create_outbox().await;
    let rules = [
        ("slot_unlimited_wal_bytes", json!({"above": "16MiB"})),
        ("slot_seconds_to_full_disk", json!({"below": "999h"})),
        ("slot_seconds_to_full_disk", json!({"below": "998h", "severity": "critical"})),
    ];
    let settings = settings(&watched, &database, &rules).await;
    let settings = settings.with("monitor.wal_volume_size", "4GiB");
    let _relay = Relay::streaming(&settings).await;
    let open = Open::begin(&database).await;
    open.fill(30).await;
    let names =
        ["PgoutboxWalUnlimited", "PgoutboxDiskExhaustion", "PgoutboxDiskExhaustionImminent"];
    for name in names {
        open.is_named_by(&watched, name).await;
    }
    open.commit().await;
    for name in names {
        open.is_over(&watched, name).await;
    }
}

/// A transaction that holds the slot back while WAL is written.
struct Open<'a> {
    database: &'a Database,
    sql: Sql,
    pid: String,
}

impl<'a> Open<'a> {
    async fn begin(database: &'a Database) -> Self {
        let sql = database.connect().await;
        sql.run("SET application_name = 'shop'; CREATE TABLE filler (t text)").await;
        sql.run("BEGIN; INSERT INTO filler VALUES ('open')").await;
        let pid = sql.value("SELECT pg_backend_pid()").await.unwrap();
        Self { database, sql, pid }
    }

    /// How an alert names it.
    fn words(&self) -> String {
        format!("transaction of pid {} (`shop`) in database `{}`", self.pid, self.database.name())
    }

    /// About so many megabytes of WAL.
    async fn fill(&self, megabytes: usize) {
        let rows = megabytes * 1000;
        let insert =
            format!("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, {rows})");
        self.database.sql().run(&insert).await;
    }

    /// Waits for the alert while the WAL grows a little.
    async fn is_named_by(&self, watched: &Watched, name: &str) {
        let insert = "INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 100)";
        let words = self.words();
        wait_until(&format!("{name} with {words}"), 2 * SHORT, async || {
            self.database.sql().run(insert).await;
            let alert = watched.of_name(name).await?;
            annotation(&alert, "description").contains(&words).then_some(())
        })
        .await;
    }

    async fn commit(&self) {
        self.sql.run("COMMIT").await;
    }

    /// Waits for the end of the alert; checkpoints let the slot and its WAL go.
    async fn is_over(&self, watched: &Watched, name: &str) {
        wait_until(&format!("the end of {name}"), 2 * SHORT, async || {
            self.database.sql().run("CHECKPOINT").await;
            watched.of_name(name).await.is_none().then_some(())
        })
        .await;
    }

    /// The same without a checkpoint, which would cost the slot its WAL.
    async fn is_over_by_itself(&self, watched: &Watched, name: &str) {
        wait_until(&format!("the end of {name}"), 2 * SHORT, async || {
            // While there is WAL to write, the server tells every 15 s what runs, and the slot moves on.
            self.database.sql().run("INSERT INTO filler VALUES ('more')").await;
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
        admin.set("synchronous_standby_names", "").await;
        Database::create_on(&postgres.cluster(), "sync").await
    };
    database.reconnect().await;
    database.create_outbox().await;
    let watched = Watched::new().await;
    let settings = settings(&watched, &database, &[("walsender_synchronous", json!({}))]).await;
    let _relay = Relay::streaming(&settings).await;
    database.sql().set("synchronous_standby_names", "*").await;
    let pid = database.walsender().await.unwrap().pid;
    let words = [&*format!("walsender {pid}"), "synchronous_standby_names"];
    watched.fires("PgoutboxSynchronousWalsender", &words).await;
    database.sql().set("synchronous_standby_names", "").await;
    watched.is_over("PgoutboxSynchronousWalsender").await;
}

/// A failover slot is not read past what the standbys have (17 on): with one of them gone, events
/// wait for it, though relay and broker are well.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_gone_is_told_as_what_holds_the_events() {
    let postgres = PrivatePostgres::start(Server::Newest, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "standby").await;
    database.create_outbox().await;
    let watched = Watched::new().await;
    let rule = json!({"above": "2s", "clear": "1s"});
    let settings = settings(&watched, &database, &[("slot_lag_seconds", rule)]).await;
    let mut relay = Relay::streaming(&settings).await;
    database.sql().set("synchronized_standby_slots", "gone").await;
    let pid = database.walsender().await.unwrap().pid;
    let waits = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}");
    wait_until("a walsender that waits", SHORT, async || {
        // It waits where there is something to read.
        database.sql().value("SELECT pg_logical_emit_message(true, 'it', '')").await;
        let event = database.sql().value(&waits).await?;
        (event == "WaitForStandbyConfirmation").then_some(())
    })
    .await;
    database.insert("order", "1", 1).await;
    let words = [&*format!("walsender {pid}"), "standby", "synchronized_standby_slots = ''"];
    watched.fires("PgoutboxSlotLagSeconds", &words).await;
    assert!(relay.printed().is_empty(), "{:?}", relay.printed());
    database.sql().set("synchronized_standby_slots", "").await;
    relay.wait_printed(1, SHORT).await;
    watched.is_over("PgoutboxSlotLagSeconds").await;
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
