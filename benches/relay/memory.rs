//! Most memory in the situations that fill it: one huge transaction, and a broker that hangs.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::load::{Bench, PAYLOAD, create_slot, create_table};
use crate::report::Report;
use crate::support::{Relay, Settings, Topics, wait_until};

const LIMIT: Duration = Duration::from_secs(300);

pub(crate) async fn all(bench: &Bench, report: &mut Report) {
    if report.wants("memory/transaction") {
        let peak = peak(bench, "one_transaction", Duration::ZERO).await;
        report.figure("memory/transaction", peak, "MiB", None);
    }
    if report.wants("memory/broker-stopped") {
        let peak = peak(bench, "broker_stopped", Duration::from_secs(60)).await;
        report.figure("memory/broker-stopped", peak, "MiB", None);
    }
}

/// Writes all rows in one transaction while the broker hangs for `stopped`.
async fn peak(bench: &Bench, table: &str, stopped: Duration) -> f64 {
    let topics = Topics::new(&bench.kafka.brokers(), "memory");
    topics.create("bench", 6, 1, &[]).await;
    let sql = bench.database.sql();
    sql.run(&create_table(table)).await;
    create_slot(sql, table, table).await;
    let settings = Settings::new(&bench.database, &topics)
        .with("source.postgres.url", bench.database.admin_url())
        .with("source.postgres.slot", table)
        .with("source.postgres.publication", table)
        .with("source.postgres.tables", json!([{"table": format!("public.{table}")}]));
    Relay::init(&settings, &bench.database.admin_url());
    let mut relay = Relay::streaming(&settings).await;
    if !stopped.is_zero() {
        bench.kafka.signal(0, "STOP");
    }
    let begun = Instant::now();
    sql.run(&format!(
        "INSERT INTO {table} (id, aggregate_type, aggregate_id, event_type, payload)
         SELECT gen_random_uuid(), 'bench', (n % 10000)::text, 'Happened', {PAYLOAD}
         FROM generate_series(1, {}) AS n",
        bench.rows
    ))
    .await;
    tokio::time::sleep(stopped.saturating_sub(begun.elapsed())).await;
    if !stopped.is_zero() {
        bench.kafka.signal(0, "CONT");
    }
    let rows = bench.rows as f64;
    wait_until("every row is delivered", LIMIT, async || {
        let delivered = relay.metric("pgoutbox_events_delivered_total", &[]).await?;
        (delivered >= rows).then_some(())
    })
    .await;
    let peak = relay.peak_memory() as f64 / (1024.0 * 1024.0);
    relay.terminate(LIMIT).await;
    sql.run(&format!("SELECT pg_drop_replication_slot('{table}'); DROP TABLE {table}")).await;
    peak
}
