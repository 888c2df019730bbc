//! The relay to RabbitMQ against a bare lapin client that keeps the same rule: so many messages
//! unconfirmed, so many of them of one key.
//!
//! Nobody reads from the queues: what is measured is how fast the broker takes and confirms.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::json;
use uuid::Uuid;

use crate::latency;
use crate::load::{Bench, PAYLOAD, create_slot, create_table};
use crate::report::{Report, median};
use crate::run::{LIMIT, copy_slot, drop_slot, reached};
use crate::support::{PrivateRabbit, QueueKind, Rabbit, RabbitVersion, Relay, Settings};
use crate::usage;

/// As many as the relay has unconfirmed.
const WINDOW: usize = 1000;
/// As many as the relay reads ahead (`source.postgres.window.events`).
const AHEAD: u64 = 15_000;
const EXCHANGE: &str = "bench";
const QUEUE: &str = "bench";
const KEY: &str = "bench";

/// Keys, rows for each row of a drain to Kafka, and the limits of one key.
///
/// A quorum queue's log rolls over every 500,000 messages, and its broker is a fifth slower while it
/// does: with so many rows (of a million) each run has one such time, whichever comes first.
const SHAPES: [(u64, f64, &[usize]); 3] =
    [(10_000, 0.5, &[1]), (100, 0.1, &[1, 32]), (1, 0.01, &[1, 32])];

const KINDS: [(&str, QueueKind); 2] =
    [("quorum", QueueKind::Quorum), ("classic", QueueKind::Classic)];

/// One measured run.
struct Run {
    rows_a_second: f64,
    /// CPU microseconds of the client for a row.
    cpu: f64,
    peak_memory: f64,
}

/// A slot with rows of so many keys.
struct Rows {
    keys: u64,
    count: u64,
    table: String,
}

pub(crate) async fn all(bench: &Bench, report: &mut Report) {
    if !report.wants_some("rabbitmq/") {
        return;
    }
    let node = PrivateRabbit::start(RabbitVersion::Newest, &[]).await;
    let rabbit = Rabbit::create_on(node.node(), "bench");
    rabbit.create_exchange(EXCHANGE, "direct", json!({}));
    for (keys, share, limits) in SHAPES {
        let rows = write(bench, keys, share).await;
        for (kind_name, kind) in KINDS {
            for limit in limits {
                let name = match limit {
                    1 => format!("rabbitmq/{kind_name}/{keys}keys"),
                    limit => format!("rabbitmq/{kind_name}/{keys}keys/{limit}"),
                };
                if report.wants(&name) {
                    compare(bench, report, &rabbit, &rows, kind, *limit, &name).await;
                }
            }
        }
    }
    for rate in latency::RATES {
        let name = format!("rabbitmq/latency/{rate}");
        if report.wants(&name) {
            fresh_queue(&rabbit, QueueKind::Quorum);
            let table = format!("rabbit_latency_{rate}");
            let settings = scene(bench, &rabbit, &table).await;
            latency::at_rate(bench, report, &name, rate, &table, &settings).await;
        }
    }
    if report.wants("rabbitmq/memory") {
        blocked(bench, report, &node, &rabbit).await;
    }
    drop(rabbit);
}

async fn write(bench: &Bench, keys: u64, share: f64) -> Rows {
    let sql = bench.database.sql();
    let table = format!("keys_{keys}");
    let count = (bench.rows as f64 * share) as u64;
    sql.run(&create_table(&table)).await;
    create_slot(sql, &table, &table).await;
    sql.run(&insert(&table, keys, count)).await;
    Rows { keys, count, table }
}

fn insert(table: &str, keys: u64, count: u64) -> String {
    format!(
        "DO $$ BEGIN
           FOR i IN 0..{} LOOP
             INSERT INTO {table} (id, aggregate_type, aggregate_id, event_type, payload)
             SELECT gen_random_uuid(), '{KEY}', (n % {keys})::text, 'Happened', {PAYLOAD}
             FROM generate_series(i * 10 + 1, (i + 1) * 10) AS n;
             COMMIT;
           END LOOP;
         END $$",
        count / 10 - 1
    )
}

async fn compare(
    bench: &Bench,
    report: &mut Report,
    rabbit: &Rabbit,
    rows: &Rows,
    kind: QueueKind,
    limit: usize,
    name: &str,
) {
    let (mut reference, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs {
        fresh_queue(rabbit, kind);
        reference.push(bare(rabbit, rows, limit).await);
        fresh_queue(rabbit, kind);
        runs.push(relay(bench, rabbit, rows, limit).await);
    }
    let rate = |runs: &[Run]| median(runs.iter().map(|run| run.rows_a_second).collect());
    let cpu = |runs: &[Run]| median(runs.iter().map(|run| run.cpu).collect());
    report.figure(name, rate(&runs), "rows/s", Some(rate(&reference)));
    report.figure(&format!("{name}/cpu"), cpu(&runs), "us/row", Some(cpu(&reference)));
    let peak = runs.iter().map(|run| run.peak_memory).fold(0.0, f64::max);
    report.figure(&format!("{name}/peak"), peak / (1024.0 * 1024.0), "MiB", None);
}

fn fresh_queue(rabbit: &Rabbit, kind: QueueKind) {
    rabbit.node().management.delete(&["queues", rabbit.name(), QUEUE]);
    rabbit.create_queue(QUEUE, kind, json!({}));
    rabbit.bind(EXCHANGE, QUEUE, KEY);
}

/// What a program would do that has the rows in memory and nothing else to do.
async fn bare(rabbit: &Rabbit, rows: &Rows, limit: usize) -> Run {
    let url = rabbit.relay_url();
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = Arc::new(connection.create_channel().await.unwrap());
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let cpu = usage::cpu_seconds(std::process::id()).unwrap();
    let begun = Instant::now();
    let mut keys = Keys::new(rows, limit);
    let mut confirms = FuturesUnordered::new();
    loop {
        while confirms.len() < WINDOW
            && let Some(row) = keys.next()
        {
            confirms.push(publish(Arc::clone(&channel), row));
        }
        match confirms.next().await {
            Some(row) => keys.confirmed(row),
            None => break,
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let used = usage::cpu_seconds(std::process::id()).unwrap() - cpu;
    connection.close(200, "OK".into()).await.unwrap();
    let count = rows.count as f64;
    Run { rows_a_second: count / took, cpu: used * 1e6 / count, peak_memory: 0.0 }
}

/// The relay's message for a row; gives the row once it is confirmed.
async fn publish(channel: Arc<Channel>, row: u64) -> u64 {
    let id = Uuid::new_v4().to_string();
    let mut headers = FieldTable::default();
    headers.insert("id".into(), AMQPValue::LongString(id.as_str().into()));
    headers.insert("eventType".into(), AMQPValue::LongString("Happened".into()));
    let properties = BasicProperties::default()
        .with_message_id(ShortString::from(id))
        .with_content_type("application/json".into())
        .with_app_id("bench".into())
        .with_type("Happened".into())
        .with_delivery_mode(2)
        .with_timestamp(1_800_000_000)
        .with_headers(headers);
    let body = format!("{{\"n\": {row}, \"text\": \"{row:0>352}\", \"price\": {row}.25}}");
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let published =
        channel.basic_publish(EXCHANGE.into(), KEY.into(), options, body.as_bytes(), properties);
    let confirmation = published.await.unwrap().await.unwrap();
    assert!(confirmation.is_ack());
    row
}

/// Rows in their order, as far as their keys let them.
struct Keys {
    count: u64,
    keys: u64,
    limit: usize,
    read: u64,
    confirmed: u64,
    /// Out of each key, and what waits for them.
    lanes: Vec<(usize, VecDeque<u64>)>,
    ready: VecDeque<u64>,
}

impl Keys {
    fn new(rows: &Rows, limit: usize) -> Self {
        let lanes = (0..rows.keys).map(|_| (0, VecDeque::new())).collect();
        let (count, keys) = (rows.count, rows.keys);
        Self { count, keys, limit, read: 0, confirmed: 0, lanes, ready: VecDeque::new() }
    }

    fn next(&mut self) -> Option<u64> {
        while self.ready.is_empty() && self.read < self.count && self.read < self.confirmed + AHEAD
        {
            let row = self.read;
            self.read += 1;
            let (out, waiting) = &mut self.lanes[(row % self.keys) as usize];
            if *out < self.limit {
                *out += 1;
                self.ready.push_back(row);
            } else {
                waiting.push_back(row);
            }
        }
        self.ready.pop_front()
    }

    fn confirmed(&mut self, row: u64) {
        self.confirmed += 1;
        let (out, waiting) = &mut self.lanes[(row % self.keys) as usize];
        match waiting.pop_front() {
            Some(next) => self.ready.push_back(next),
            None => *out -= 1,
        }
    }
}

fn settings(bench: &Bench, rabbit: &Rabbit, table: &str, slot: &str, limit: usize) -> Settings {
    Settings::rabbit(&bench.database, rabbit)
        .with("source.postgres.url", bench.database.admin_url())
        .with("source.postgres.slot", slot)
        .with("source.postgres.publication", table)
        .with("source.postgres.tables", json!([{"table": format!("public.{table}")}]))
        .with("sinks.tasks.rabbitmq.max_unsettled_per_key", limit)
        .with("routes", json!([{"sink": "tasks", "exchange": EXCHANGE, "routing_key": KEY}]))
}

async fn relay(bench: &Bench, rabbit: &Rabbit, rows: &Rows, limit: usize) -> Run {
    let slot = copy_slot(bench, &rows.table).await;
    let settings = settings(bench, rabbit, &rows.table, &slot, limit);
    Relay::init(&settings, &bench.database.admin_url());
    let mut relay = Relay::start(&settings);
    let count = rows.count as f64;
    let begun = reached(&relay, "pgoutbox_source_connected", 1.0).await;
    let took =
        (reached(&relay, "pgoutbox_events_delivered_total", count).await - begun).as_secs_f64();
    let used = usage::cpu_seconds(relay.pid()).unwrap();
    let peak_memory = relay.peak_memory() as f64;
    relay.terminate(LIMIT).await;
    drop_slot(bench, &slot).await;
    Run { rows_a_second: count / took, cpu: used * 1e6 / count, peak_memory }
}

/// An empty table with a publication, a slot and a relay's settings.
async fn scene(bench: &Bench, rabbit: &Rabbit, table: &str) -> Settings {
    let sql = bench.database.sql();
    sql.run(&create_table(table)).await;
    create_slot(sql, table, table).await;
    let settings = settings(bench, rabbit, table, table, 1);
    Relay::init(&settings, &bench.database.admin_url());
    settings
}

/// Most memory while the broker blocks its publishers for a minute under load.
async fn blocked(bench: &Bench, report: &mut Report, node: &PrivateRabbit, rabbit: &Rabbit) {
    fresh_queue(rabbit, QueueKind::Classic);
    let table = "rabbit_blocked";
    let settings = scene(bench, rabbit, table).await;
    let mut relay = Relay::streaming(&settings).await;
    node.node().set_memory_alarm(true);
    let count = (bench.rows as f64 * 0.3) as u64;
    let begun = Instant::now();
    bench.database.sql().run(&insert(table, 10_000, count)).await;
    tokio::time::sleep(Duration::from_secs(60).saturating_sub(begun.elapsed())).await;
    node.node().set_memory_alarm(false);
    reached(&relay, "pgoutbox_events_delivered_total", count as f64).await;
    let peak = relay.peak_memory() as f64 / (1024.0 * 1024.0);
    report.figure("rabbitmq/memory/blocked", peak, "MiB", None);
    relay.terminate(LIMIT).await;
}
