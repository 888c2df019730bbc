//! A slot that a promoted standby would not have, or that is ahead of it.

use std::process::Command;

use super::*;

/// PostgreSQL has failover slots from 17 on.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_a_promotion_would_lose_is_found() {
    let settings = [("max_slot_wal_keep_size", "10GB")];
    let postgres = PrivatePostgres::start(Server::Newest, &settings).await;
    let cluster = postgres.cluster();
    let admin = cluster.connect("postgres").await;
    admin.value("SELECT pg_create_physical_replication_slot('standby')").await;
    let standby = postgres.start_standby(&[("primary_slot_name", "standby")]).await;
    let healthy = Healthy::on(postgres).await;
    let name = healthy.database.name();
    without_failover(&healthy).await;

    let slot = format!("slot `{name}`");
    let fix = finds(&healthy.settings, &[&slot, "has not FAILOVER"]).await;
    let psql = &typed(&fix)[0];
    let program = Server::Newest.programs().join("psql");
    let output = Command::new("sh")
        .arg("-c")
        .arg(psql.replace("psql", program.to_str().unwrap()))
        .env("PGPASSWORD", "relay")
        .output()
        .unwrap();
    assert!(output.status.success(), "{psql}: {output:?}");

    let ahead = ["`synchronized_standby_slots`", "is empty"];
    let fix = finds(&healthy.settings, &ahead).await;
    for statement in typed(&fix) {
        healthy.database.sql().run(&statement).await;
    }
    is_silent(&healthy.settings).await;
    drop(standby);
}

/// As a relay older than the server's 17 would have made it.
async fn without_failover(healthy: &Healthy) {
    let (sql, name) = (healthy.database.sql(), healthy.database.name());
    sql.value(&format!("SELECT pg_drop_replication_slot('{name}')")).await;
    sql.value(&format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")).await;
}
