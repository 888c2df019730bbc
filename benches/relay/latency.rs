//! From commit to ack at a steady rate, and what an idle relay costs.

use std::time::{Duration, Instant};

use crate::load::{Bench, PAYLOAD, create_slot, create_table};
use crate::report::Report;
use crate::support::{Relay, SHORT, Settings, Topics, wait_until};
use crate::usage;

const SECONDS: u64 = 15;
const IDLE: Duration = Duration::from_secs(20);

pub(crate) async fn all(bench: &Bench, report: &mut Report) {
    for rate in [1000, 10_000] {
        let name = format!("latency/{rate}");
        if report.wants(&name) {
            at_rate(bench, report, &name, rate).await;
        }
    }
    if report.wants("start") || report.wants("idle") {
        idle(bench, report).await;
    }
}

/// A table with a publication and a slot of its own.
async fn scene(bench: &Bench, name: &str) -> (Topics, Settings) {
    let topics = Topics::new(&bench.kafka.brokers(), "latency");
    topics.create("bench", 6, 1, &[]).await;
    let sql = bench.database.sql();
    sql.run(&create_table(name)).await;
    create_slot(sql, name, name).await;
    let settings = Settings::new(&bench.database, &topics)
        .with("source.postgres.url", bench.database.admin_url())
        .with("source.postgres.slot", name)
        .with("source.postgres.publication", name)
        .with("source.postgres.tables", serde_json::json!([{"table": format!("public.{name}")}]));
    Relay::init(&settings, &bench.database.admin_url());
    (topics, settings)
}

/// One-row transactions, `rate` of them a second, from one connection in bursts of a hundredth.
async fn at_rate(bench: &Bench, report: &mut Report, name: &str, rate: u64) {
    let table = format!("latency_{rate}");
    let (_topics, settings) = scene(bench, &table).await;
    let mut relay = Relay::streaming(&settings).await;
    let writers = 5;
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let sql = bench.database.connect().await;
        // Without it a commit waits for the WAL writer's rounds before a walsender may send it.
        sql.run("SET synchronous_commit = on").await;
        let (table, each) = (table.clone(), rate / writers / 100);
        tasks.push(tokio::spawn(async move {
            let insert = format!(
                "DO $$ BEGIN FOR i IN 1..{each} LOOP
                   INSERT INTO {table} (id, aggregate_type, aggregate_id, event_type, payload)
                   SELECT gen_random_uuid(), 'bench', (random() * 10000)::int::text, 'Happened',
                          {PAYLOAD} FROM generate_series(i, i) AS n;
                   COMMIT;
                 END LOOP; END $$"
            );
            let begun = Instant::now();
            let mut ticks = tokio::time::interval(Duration::from_millis(10));
            while begun.elapsed() < Duration::from_secs(SECONDS) {
                ticks.tick().await;
                if each > 0 {
                    sql.run(&insert).await;
                } else if writer == 0 {
                    sql.run("SELECT 1").await;
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let sql = bench.database.sql();
    let count = sql.value(&format!("SELECT count(*) FROM {table}")).await.unwrap();
    let count: f64 = count.parse().unwrap();
    wait_until("every row is delivered", SHORT, async || {
        let delivered = relay.metric("pgoutbox_events_delivered_total", &[]).await?;
        (delivered >= count).then_some(())
    })
    .await;
    report.figure(&format!("{name}/rate"), count / SECONDS as f64, "rows/s", None);
    let (_code, metrics) = relay.get("/metrics").await.unwrap();
    for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
        let value = quantile(&metrics, share) * 1000.0;
        report.figure(&format!("{name}/{label}"), value, "ms", None);
    }
    relay.terminate(SHORT).await;
}

/// Interpolated within the histogram's bucket.
fn quantile(metrics: &str, share: f64) -> f64 {
    let buckets: Vec<(f64, f64)> = metrics
        .lines()
        .filter(|line| line.starts_with("pgoutbox_delivery_seconds_bucket"))
        .filter_map(|line| {
            let bound = line.split("le=\"").nth(1)?.split('"').next()?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, line.rsplit(' ').next()?.parse().ok()?))
        })
        .collect();
    let wanted = buckets.last().map_or(0.0, |(_, count)| count * share);
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if count >= wanted {
            let within = if count > below { (wanted - below) / (count - below) } else { 1.0 };
            return if bound.is_finite() { lower + (bound - lower) * within } else { bound };
        }
        (lower, below) = (bound, count);
    }
    f64::NAN
}

async fn idle(bench: &Bench, report: &mut Report) {
    let (_topics, settings) = scene(bench, "idle_outbox").await;
    let row = format!(
        "INSERT INTO idle_outbox (id, aggregate_type, aggregate_id, event_type, payload)
         SELECT gen_random_uuid(), 'bench', '1', 'Happened', {PAYLOAD} FROM generate_series(1, 1) n"
    );
    bench.database.sql().run(&row).await;
    let begun = Instant::now();
    let mut relay = Relay::start(&settings);
    wait_until("the first event is delivered", SHORT, async || {
        let delivered = relay.metric("pgoutbox_events_delivered_total", &[]).await?;
        (delivered >= 1.0).then_some(())
    })
    .await;
    report.figure("start", begun.elapsed().as_secs_f64(), "s", None);
    let before = usage::cpu_seconds(relay.pid()).unwrap();
    tokio::time::sleep(IDLE).await;
    let used = usage::cpu_seconds(relay.pid()).unwrap() - before;
    report.figure("idle", 100.0 * used / IDLE.as_secs_f64(), "% of a core", None);
    relay.terminate(SHORT).await;
}
