//! Servers, roles and slots that will not do.

use super::*;

on_both_servers!(
    a34_each_cause_has_its_line_and_no_slot_is_made,
    a34_a_server_that_keeps_too_little_wal_is_refused,
    a34_used_up_slots_leave_none_behind,
    a34_a_standby_is_one_refusal,
    a_relay_that_would_be_a_synchronous_standby_is_refused,
    a_failover_slot_needs_the_standbys_that_it_waits_for,
    a_wrong_password_is_never_shown,
);

async fn a34_each_cause_has_its_line_and_no_slot_is_made(server: Server) {
    let database = Database::create(server, "a34").await;
    let other = Database::create(server, "a34other").await;
    database.create_outbox().await;
    let name = database.name();
    let settings = settings(&database);
    init(&database, &settings, &[]).await;

    let count = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()";
    let before = database.sql().value(count).await;

    database.sql().run(&format!("ALTER PUBLICATION {name} DROP TABLE outbox")).await;
    let fix =
        check(&settings).await.fix("error", &["table `public.outbox`", "is not in publication"]);
    database.sql().run(typed(&fix)[0]).await;

    database.sql().run(&format!("ALTER ROLE {name} NOREPLICATION")).await;
    let fix = check(&settings).await.fix("error", &["replication connection", "42501"]);
    database.sql().run(typed(&fix)[0]).await;

    database.sql().run(&format!("REVOKE SELECT ON outbox FROM {name}")).await;
    let fix = check(&settings).await.fix("error", &["table `public.outbox`", "42501"]);
    for grant in typed(&fix) {
        database.sql().run(grant).await;
    }

    database.sql().run(&format!("REVOKE INSERT ON pgoutbox.relay FROM {name}")).await;
    let fix = check(&settings).await.fix("error", &["table `pgoutbox.relay`", "42501"]);
    for grant in typed(&fix) {
        database.sql().run(grant).await;
    }
    assert_eq!(check(&settings).await.of("error"), [""; 0]);

    database.sql().run(&format!("REVOKE USAGE ON SCHEMA pgoutbox FROM {name}")).await;
    let checked = check(&settings).await;
    assert_eq!(checked.of("error").len(), 1, "{checked:?}");
    let slot = format!("slot `{name}` confirmed to");
    assert!(checked.of("ok").iter().any(|line| line.starts_with(&slot)), "{checked:?}");
    let grants = checked.fix("error", &["table `pgoutbox.relay`", "42501"]);
    let ended = command(&settings, "run", &[]).await;
    assert!(!ended.success && ended.stderr.contains(typed(&grants)[0]), "{ended:?}");
    for grant in typed(&grants) {
        database.sql().run(grant).await;
    }
    assert_eq!(check(&settings).await.of("error"), [""; 0]);

    let theirs =
        format!("SELECT pg_create_logical_replication_slot('{}', 'pgoutput')", other.name());
    other.sql().value(&theirs).await;
    let settings = settings.with("source.postgres.slot", other.name());
    check(&settings).await.fix("error", &["belongs to the database", other.name()]);
    let ended = command(&settings, "init", &[]).await;
    assert!(!ended.success && ended.stderr.contains(other.name()), "{ended:?}");

    let physical = format!("{name}_physical");
    database
        .sql()
        .value(&format!("SELECT pg_create_physical_replication_slot('{physical}')"))
        .await;
    let settings = settings.with("source.postgres.slot", physical.as_str());
    check(&settings).await.fix("error", &["is a physical slot"]);
    database.sql().value(&format!("SELECT pg_drop_replication_slot('{physical}')")).await;

    assert_eq!(database.sql().value(count).await, before);
}

async fn a34_a_server_that_keeps_too_little_wal_is_refused(server: Server) {
    let postgres = PrivatePostgres::start(server, &[("wal_level", "replica")]).await;
    let database = Database::create_on(&postgres.cluster(), "a34").await;
    database.create_outbox().await;
    let settings = settings(&database);
    let fix = check(&settings).await.fix("error", &["`wal_level` is `replica`"]);
    let ended = command(&settings, "init", &[]).await;
    assert!(!ended.success && ended.stderr.contains("`wal_level`"), "{ended:?}");
    database.sql().run(typed(&fix)[0]).await;
}

async fn a34_used_up_slots_leave_none_behind(server: Server) {
    let postgres = PrivatePostgres::start(server, &[("max_replication_slots", "1")]).await;
    let database = Database::create_on(&postgres.cluster(), "a34").await;
    database.create_outbox().await;
    database.sql().value("SELECT pg_create_physical_replication_slot('other')").await;
    let settings = settings(&database);
    let url = database.admin_url();
    let ended = command(&settings, "init", &["--url", &url]).await;
    assert!(!ended.success && ended.stderr.contains("53400"), "{ended:?}");
    check(&settings).await.fix("error", &["`max_replication_slots`", "all 1 are in use"]);
    assert_eq!(slots(&database).await.as_deref(), Some("0"));
}

async fn a_wrong_password_is_never_shown(server: Server) {
    let database = Database::create(server, "secret").await;
    let url = database.relay_url().replace(":relay@", ":hush%20hush@");
    let settings = settings(&database).with("source.postgres.url", url);
    let ended = command(&settings, "check", &[]).await;
    assert!(!ended.success && ended.stdout.contains("28P01"), "{ended:?}");
    let ended_init = command(&settings, "init", &[]).await;
    for text in [ended.stdout, ended.stderr, ended_init.stdout, ended_init.stderr] {
        assert!(!text.contains("hush"), "{text}");
    }
}

async fn a34_a_standby_is_one_refusal(server: Server) {
    let postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "a34").await;
    init(&database, &settings(&database), &["--create-table"]).await;
    let standby = postgres.start_standby(&[]).await;
    let url = standby.cluster().url_of(database.name(), "relay", database.name());
    let settings = settings(&database).with("source.postgres.url", url);
    let checked = check(&settings).await;
    checked.fix("error", &["is a standby"]);
    assert_eq!(checked.of("error").len(), 1, "{checked:?}");
    let ended = command(&settings, "init", &[]).await;
    assert!(!ended.success && ended.stderr.contains("is a standby"), "{ended:?}");
}

async fn a_relay_that_would_be_a_synchronous_standby_is_refused(server: Server) {
    let postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "sync").await;
    let settings = settings(&database);
    init(&database, &settings, &["--create-table"]).await;
    let sql = database.sql();
    sql.set("synchronous_standby_names", "FIRST 1 (s1, *)").await;
    let shows = "SHOW synchronous_standby_names";
    wait_until("the setting", SHORT, async || (!sql.value(shows).await?.is_empty()).then_some(()))
        .await;
    check(&settings).await.fix("error", &["`synchronous_standby_names`", "pgoutbox:orders"]);
}

/// PostgreSQL has failover slots from 17 on.
async fn a_failover_slot_needs_the_standbys_that_it_waits_for(server: Server) {
    if server == Server::Oldest {
        return;
    }
    let postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "failover").await;
    let settings = settings(&database);
    init(&database, &settings, &["--create-table"]).await;
    database.sql().value("SELECT pg_create_physical_replication_slot('s1')").await;
    let sql = database.sql();
    sql.set("synchronized_standby_slots", "s1").await;
    let shows = "SHOW synchronized_standby_slots";
    wait_until("the setting", SHORT, async || (!sql.value(shows).await?.is_empty()).then_some(()))
        .await;
    check(&settings).await.fix("error", &["slot `s1`", "no standby connected"]);
}
