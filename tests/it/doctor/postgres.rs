//! The server's settings and the relay's role.

use super::*;

on_both_servers!(
    what_the_role_lacks_is_found,
    timeouts_that_cost_the_connection_are_found,
    a_server_that_keeps_too_much_or_too_little_wal_is_found,
    an_index_that_was_never_finished_is_found,
    clocks_that_differ_are_found,
);

async fn what_the_role_lacks_is_found(server: Server) {
    let healthy = Healthy::new(server).await;
    let name = healthy.database.name();
    let role = format!("role `{name}`");
    let revoke = format!("REVOKE pg_monitor FROM {name}");
    healthy.plant_and_mend(&revoke, &[&role, "has not `pg_monitor`"]).await;
    let few = format!("ALTER ROLE {name} CONNECTION LIMIT 3");
    healthy.plant_and_mend(&few, &[&role, "may have 3 connections"]).await;
    let few = format!("ALTER DATABASE {name} CONNECTION LIMIT 2");
    let fix = healthy.plant(&few, &["database `", "may have 2 connections"]).await;
    healthy.database.sql().run(&typed(&fix)[0]).await;
    // `VALID UNTIL` takes no expression.
    let soon = "to_char(now() + interval '3 days 1 hour', 'YYYY-MM-DD HH24:MI:SSOF')";
    let soon = healthy.database.sql().value(&format!("SELECT {soon}")).await.unwrap();
    let ends = format!("ALTER ROLE {name} VALID UNTIL '{soon}'");
    healthy.plant_and_mend(&ends, &[&role, "its password ends in 3 days"]).await;
}

async fn timeouts_that_cost_the_connection_are_found(server: Server) {
    let healthy = Healthy::new(server).await;
    let name = healthy.database.name();
    let patient = format!("ALTER ROLE {name} SET tcp_user_timeout = '30s'");
    healthy.plant_and_mend(&patient, &["`tcp_user_timeout`", "is 30s"]).await;
    // The relay asks for what its own session shall have.
    for (value, words) in [("0", "does not notice"), ("2s", "sent again"), ("1h", "takes over")] {
        let plant = format!("ALTER ROLE {name} SET wal_sender_timeout = '{value}'");
        let fix = healthy.plant(&plant, &["`wal_sender_timeout`", words]).await;
        let (key, value) =
            typed(&fix)[0].split_once(": ").map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap();
        let mended = healthy.settings.clone().with(&format!("source.postgres.{key}"), value);
        is_silent(&mended).await;
    }
}

async fn a_server_that_keeps_too_much_or_too_little_wal_is_found(server: Server) {
    let healthy = Healthy::new(server).await;
    let sql = healthy.database.sql();
    let setting = "`max_slot_wal_keep_size`";
    sql.set("max_slot_wal_keep_size", "-1").await;
    healthy.plant_and_mend("SELECT", &[setting, "is unlimited"]).await;

    if server == Server::Newest {
        sql.set("idle_replication_slot_timeout", "1h").await;
        healthy
            .plant_and_mend("SELECT", &["`idle_replication_slot_timeout`", "loses its slot"])
            .await;
    }

    let volume = healthy.settings.clone().with("monitor", json!({"wal_volume_size": "20GiB"}));
    let fix = finds(&volume, &[setting, "the disk is full before"]).await;
    for statement in typed(&fix) {
        sql.run(&statement).await;
    }
    is_silent(&volume).await;
    let nowhere = json!({"wal_volume_path": "/no/such/volume"});
    let nowhere = healthy.settings.clone().with("monitor", nowhere);
    let fix = finds(&nowhere, &["`monitor.wal_volume_path`", "`/no/such/volume`"]).await;
    assert!(fix.contains("`monitor.wal_volume_size`"), "{fix}");

    // The server's files, its statistics among them, may be a copy of older ones.
    sql.value("SELECT pg_stat_reset_shared('wal')").await;
    // A slot that has confirmed everything is not lost by what comes now.
    sql.run("CREATE TABLE busy AS SELECT repeat('x', 500) FROM generate_series(1, 200000)").await;
    let name = healthy.database.name();
    sql.value(&format!("SELECT pg_replication_slot_advance('{name}', pg_current_wal_lsn())")).await;
    sql.set("max_slot_wal_keep_size", "64MB").await;
    healthy.plant_and_mend("SELECT", &[setting, "is 67 MB", "away for an hour loses"]).await;

    // Nothing confirms, and WAL goes beyond what the server would keep for itself.
    sql.set("max_wal_size", "32MB").await;
    let busy = "INSERT INTO busy SELECT repeat('x', 500) FROM generate_series(1, 200000)";
    let slot = format!("slot `{name}`");
    let fix = healthy.plant(busy, &[&slot, "keeps more WAL than `max_wal_size`"]).await;
    assert!(fix.contains("start the relay"), "{fix}");
}

async fn an_index_that_was_never_finished_is_found(server: Server) {
    let healthy = Healthy::new(server).await;
    let sql = healthy.database.sql();
    healthy.database.insert("order", "1", 2).await;
    let create = "CREATE UNIQUE INDEX CONCURRENTLY half ON outbox (aggregate_id)";
    assert!(sql.try_run(create).await.is_err(), "two events have one aggregate id");
    sql.run("DELETE FROM outbox WHERE payload @> '{\"n\": 2}'").await;
    healthy.plant_and_mend("SELECT", &["table `public.outbox`", "index `half` is invalid"]).await;
}

/// The machine has one clock only, so the database is told to show another.
async fn clocks_that_differ_are_found(server: Server) {
    let healthy = Healthy::new(server).await;
    let sql = healthy.database.sql();
    sql.run("SET allow_system_table_mods = on").await;
    sql.run("UPDATE pg_proc SET proname = 'true_clock' WHERE proname = 'clock_timestamp'").await;
    sql.run(
        "CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql
         AS $$ SELECT pg_catalog.true_clock() + interval '90 s' $$",
    )
    .await;
    let fix = finds(&healthy.settings, &["clock", "90.0 s ahead of the relay's"]).await;
    assert!(fix.contains("timedatectl set-ntp true"), "{fix}");
}
