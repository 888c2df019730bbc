//! From commit to ack at a steady rate, and what an idle relay costs.

use std::time::{Duration, Instant};

use crate::load::{Bench, PAYLOAD, create_slot, create_table};
use crate::report::Report;
use crate::support::{Relay, SHORT, Settings, Topics, wait_until};
use crate::usage;

/// Events a second.
pub(crate) const RATES: [u64; 2] = [1000, 10_000];
const SECONDS: u64 = 15;
const WARM_UP: u64 = 10;
const IDLE: Duration = Duration::from_secs(20);

pub(crate) async fn all(bench: &Bench, report: &mut Report) {
    for rate in RATES {
        let name = format!("latency/{rate}");
        if report.wants(&name) {
            let table = format!("latency_{rate}");
            let (_topics, settings) = scene(bench, &table).await;
            at_rate(bench, report, &name, rate, &table, &settings).await;
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

/// One-row transactions, `rate` of them a second, from five connections in bursts of a hundredth.
pub(crate) async fn at_rate(
    bench: &Bench,
    report: &mut Report,
    name: &str,
    rate: u64,
    table: &str,
    settings: &Settings,
) {
    let mut relay = Relay::streaming(settings).await;
    // What a fresh producer, and a broker whose code is not compiled yet, cost first is the start's.
    write(bench, table, rate, WARM_UP).await;
    let warm = all_delivered(bench, &mut relay, table).await;
    write(bench, table, rate, SECONDS).await;
    let whole = all_delivered(bench, &mut relay, table).await;
    let measured = whole.since(&warm);
    report.figure(&format!("{name}/rate"), measured.count() / SECONDS as f64, "rows/s", None);
    for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
        report.figure(&format!("{name}/{label}"), measured.quantile(share) * 1000.0, "ms", None);
    }
    relay.terminate(SHORT).await;
}

/// Writes one-row transactions into `table` for so many seconds.
async fn write(bench: &Bench, table: &str, rate: u64, seconds: u64) {
    let writers = 5;
    let mut tasks = Vec::new();
    for _ in 0..writers {
        let sql = bench.database.connect().await;
        // Without it a commit waits for the WAL writer's rounds before a walsender may send it.
        sql.run("SET synchronous_commit = on").await;
        let (table, each) = (table.to_owned(), rate / writers / 100);
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
            while begun.elapsed() < Duration::from_secs(seconds) {
                ticks.tick().await;
                sql.run(&insert).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Waits until every row of `table` is delivered; how long deliveries took until then.
async fn all_delivered(bench: &Bench, relay: &mut Relay, table: &str) -> Buckets {
    let sql = bench.database.sql();
    let count = sql.value(&format!("SELECT count(*) FROM {table}")).await.unwrap();
    let count: f64 = count.parse().unwrap();
    wait_until("every row is delivered", SHORT, async || {
        let delivered = relay.metric("pgoutbox_events_delivered_total", &[]).await?;
        (delivered >= count).then_some(())
    })
    .await;
    Buckets::read(&relay.get("/metrics").await.unwrap().1)
}

/// The histogram `delivery_seconds`: upper bounds, and how many deliveries took no longer.
struct Buckets(Vec<(f64, f64)>);

impl Buckets {
    fn read(metrics: &str) -> Self {
        let lines =
            metrics.lines().filter(|line| line.starts_with("pgoutbox_delivery_seconds_bucket"));
        let buckets = lines.filter_map(|line| {
            let bound = line.split("le=\"").nth(1)?.split('"').next()?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, line.rsplit(' ').next()?.parse().ok()?))
        });
        Self(buckets.collect())
    }

    /// What came after `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        let pairs = self.0.iter().zip(&earlier.0);
        Self(pairs.map(|((bound, now), (_, before))| (*bound, now - before)).collect())
    }

    fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// In seconds, interpolated within the bucket.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = self.count() * share;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            if *count >= wanted {
                let within = if *count > below { (wanted - below) / (count - below) } else { 1.0 };
                return if bound.is_finite() { lower + (bound - lower) * within } else { *bound };
            }
            (lower, below) = (*bound, *count);
        }
        f64::NAN
    }
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
