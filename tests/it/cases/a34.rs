//! A34, a server that is not set up for a relay: one line for each cause, with what mends it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{
    Cluster, Database, PrivatePostgres, Process, Refusal, Relay, SHORT, Server, Settings, Sql,
    typed, wait_until,
};

on_both_servers!(
    a34_preflight_refuses_what_does_not_mend_itself,
    a34_preflight_refuses_slots_that_are_of_no_use,
    a34_preflight_of_a_servers_own_settings,
    a34_preflight_refuses_a_standby,
);

/// A role, a grant, a publication: refused, and what the hint says lets the relay run.
async fn a34_preflight_refuses_what_does_not_mend_itself(server: Server) {
    let database = Database::create(server, "a34").await;
    database.create_outbox().await;
    let settings = Settings::stdout(&database);
    Relay::init(&settings, &database.admin_url());
    let name = database.name();
    let slots = slots(database.sql()).await;
    for (spoilt, words) in [
        (format!("ALTER ROLE {name} NOREPLICATION"), vec!["42501", "replication"]),
        (format!("ALTER PUBLICATION {name} DROP TABLE outbox"), vec!["outbox", name]),
        (format!("ALTER PUBLICATION {name} SET (publish = 'delete')"), vec!["inserts", name]),
        (format!("REVOKE SELECT ON outbox FROM {name}"), vec!["42501", "outbox"]),
        (format!("REVOKE UPDATE ON pgoutbox.relay FROM {name}"), vec!["42501", "pgoutbox.relay"]),
    ] {
        database.sql().run(&spoilt).await;
        let refusal = Refusal::of(&settings, &[]).await.says(1, &words);
        for sql in typed(&refusal.hint) {
            database.sql().run(&sql).await;
        }
    }
    let _relay = Relay::streaming(&settings).await;
    assert_eq!(self::slots(database.sql()).await, slots);
}

/// Another database's, another plugin's, a physical one: named, and left alone.
async fn a34_preflight_refuses_slots_that_are_of_no_use(server: Server) {
    let database = Database::create(server, "a34").await;
    let elsewhere = Database::create(server, "a34else").await;
    database.create_outbox().await;
    let settings = Settings::stdout(&database);
    Relay::init(&settings, &database.admin_url());
    let name = database.name();
    let physical = format!("{name}_physical");
    let theirs = elsewhere.name();
    let logical = "SELECT pg_create_logical_replication_slot";
    elsewhere.sql().value(&format!("{logical}('{theirs}', 'pgoutput')")).await;
    database.sql().value(&format!("{logical}('{name}_test', 'test_decoding')")).await;
    let create = format!("SELECT pg_create_physical_replication_slot('{physical}')");
    database.sql().value(&create).await;
    let slots = slots(database.sql()).await;

    for (slot, words) in [
        (theirs.to_owned(), vec![theirs, "belongs to the database", name]),
        (format!("{name}_test"), vec!["`test_decoding`", "`pgoutput`"]),
        (physical.clone(), vec![&*physical, "physical"]),
        (format!("{name}_none"), vec!["does not exist"]),
    ] {
        let settings = settings.clone().with("source.postgres.slot", slot.as_str());
        let refusal = Refusal::of(&settings, &[]).await.says(1, &words);
        assert!(!refusal.hint.is_empty(), "{refusal:?}");
    }
    assert_eq!(self::slots(database.sql()).await, slots);
    // It belongs to no database, so nobody else drops it.
    database.sql().value(&format!("SELECT pg_drop_replication_slot('{physical}')")).await;
}

/// One server that is set up step by step: what needs a restart or an administrator is refused, what
/// may free itself is waited for.
async fn a34_preflight_of_a_servers_own_settings(server: Server) {
    let few = [("wal_level", "replica"), ("max_replication_slots", "1"), ("max_wal_senders", "1")];
    let mut postgres = PrivatePostgres::start(server, &few).await;
    let cluster = postgres.cluster();
    let mut database = Database::create_on(&cluster, "a34").await;
    database.create_outbox().await;
    let settings = Settings::stdout(&database);

    let refusal = Refusal::of(&settings, &[]).await.says(1, &["`wal_level` is `replica`"]);
    database.sql().run(&typed(&refusal.hint)[0]).await;
    assert!(postgres.stop("fast").done);
    postgres.start_again().await;
    database.reconnect().await;

    waits_for_a_slot(&database).await;
    Relay::init(&settings, &database.admin_url());
    waits_for_a_walsender(server, &cluster, &settings).await;
    is_let_in(&database, &postgres.data_directory(), &settings).await;
    is_no_synchronous_standby(&database, &settings).await;
    assert_eq!(slots(database.sql()).await, [database.name()]);
}

/// A temporary slot finds no place, until there is one.
async fn waits_for_a_slot(database: &Database) {
    let sql = database.sql();
    sql.value("SELECT pg_create_physical_replication_slot('other')").await;
    let settings =
        Settings::bare(database).with("source.postgres.publication", database.name().to_owned());
    sql.run(&format!("GRANT SELECT ON outbox TO {}", database.name())).await;
    let mut relay = Relay::start(&settings);
    relay.wait_for_log(&["WARN", "`max_replication_slots`", "all 1 are in use"], SHORT).await;
    assert_eq!(relay.state().await.as_deref(), Some("starting"));
    assert_eq!(slots(sql).await, ["other"]);
    sql.value("SELECT pg_drop_replication_slot('other')").await;
    relay.wait_state("streaming", SHORT).await;
    assert!(relay.terminate(SHORT).await.success());
    wait_until("the temporary slot to go", SHORT, async || {
        slots(sql).await.is_empty().then_some(())
    })
    .await;
}

/// Somebody else has the only walsender, for a while.
async fn waits_for_a_walsender(server: Server, cluster: &Cluster, settings: &Settings) {
    let directory = tempfile::tempdir().unwrap();
    let mut receiver = Command::new(server.programs().join("pg_receivewal"));
    receiver.args(["-d", &cluster.url("postgres"), "-D"]).arg(directory.path());
    let mut receiver = Process::new(receiver.stderr(Stdio::null()).spawn().unwrap());
    let sql = cluster.connect("postgres").await;
    let senders = "SELECT count(*) FROM pg_stat_replication";
    wait_until("pg_receivewal", SHORT, async || {
        (sql.value(senders).await.as_deref() == Some("1")).then_some(())
    })
    .await;

    let mut relay = Relay::start(settings);
    relay.wait_for_log(&["WARN", "`max_wal_senders`", "all 1 are in use"], SHORT).await;
    assert_eq!(receiver.ended(), None);
    receiver.kill();
    relay.wait_state("streaming", SHORT).await;
    assert!(relay.terminate(SHORT).await.success());
}

/// `pg_hba.conf` has no line for the role.
async fn is_let_in(database: &Database, data: &Path, settings: &Settings) {
    let file = data.join("pg_hba.conf");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, "host all postgres 127.0.0.1/32 scram-sha-256\n").unwrap();
    database.sql().run("SELECT pg_reload_conf()").await;
    let words = ["28000", "pg_hba.conf"];
    let refusal = Refusal::of(settings, &[]).await.says(1, &words);
    for part in ["pg_hba.conf", database.name(), "pg_reload_conf"] {
        assert!(refusal.hint.contains(part), "{refusal:?}");
    }
    fs::write(&file, before).unwrap();
    database.sql().run("SELECT pg_reload_conf()").await;
}

/// A relay that counts as a synchronous standby would stop every commit while its broker is away.
async fn is_no_synchronous_standby(database: &Database, settings: &Settings) {
    let shows = "SHOW synchronous_standby_names";
    let sql = database.sql();
    sql.set("synchronous_standby_names", "*").await;
    wait_until("the setting", SHORT, async || (sql.value(shows).await? == "*").then_some(())).await;
    let words = ["`synchronous_standby_names`", "`*`", "pgoutbox:orders"];
    let refusal = Refusal::of(settings, &[]).await.says(1, &words);
    assert!(refusal.hint.contains("ALTER SYSTEM SET synchronous_standby_names"), "{refusal:?}");
    sql.run("ALTER SYSTEM RESET synchronous_standby_names").await;
    sql.run("SELECT pg_reload_conf()").await;
    wait_until("the setting", SHORT, async || sql.value(shows).await?.is_empty().then_some(()))
        .await;
    let mut relay = Relay::streaming(settings).await;
    assert!(relay.terminate(SHORT).await.success());
}

/// In recovery: one refusal, whatever else there would be to say.
async fn a34_preflight_refuses_a_standby(server: Server) {
    let primary = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&primary.cluster(), "a34").await;
    database.create_outbox().await;
    let settings = Settings::stdout(&database);
    Relay::init(&settings, &database.admin_url());
    let standby = primary.start_standby(&[]).await;
    let port = standby.cluster().port();
    let settings = settings.with("source.postgres.url", database.relay_url_at(port));
    let refusal = Refusal::of(&settings, &[]).await.says(1, &["is a standby"]);
    assert_eq!(refusal.hint, "connect to the primary");
    let on_standby = standby.cluster().connect(database.name()).await;
    assert_eq!(slots(&on_standby).await, [""; 0]);
}

/// Names of the slots of this database, and of those of none that are not another test's.
async fn slots(sql: &Sql) -> Vec<String> {
    let query = "SELECT slot_name FROM pg_replication_slots
                 WHERE database = current_database()
                    OR (slot_type = 'physical' AND (NOT starts_with(slot_name, 'it_')
                        OR starts_with(slot_name, current_database())))
                 ORDER BY 1";
    sql.rows(query).await.into_iter().map(|row| row.into_iter().next().unwrap().unwrap()).collect()
}
