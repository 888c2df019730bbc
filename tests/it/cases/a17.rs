//! A17, a million rows in one transaction: read as they come, never held as a whole, and confirmed
//! when the last of them is acknowledged.
//!
//! A tenth of that here; with `PGOUTBOX_SOAK` set, the real size and the real timeout.

use std::collections::HashMap;
use std::env;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pgoutbox::lsn::Lsn;
use serde_json::Value;

use crate::support::{
    Database, Reader, Record, Relay, SHORT, Server, Settings, Sql, Topics, kafka_brokers,
};

on_both_servers!(a17_million_row_tx_inserted, a17_million_row_tx_copied);

/// What a relay with default settings may use.
const MEMORY: u64 = 64 * 1024 * 1024;

/// Keys that the rows of the transaction take in turn.
const KEYS: u64 = 100;

/// Records of one look.
const LOOK: u64 = 5000;

/// The relay is killed at the middle of the transaction; it begins again, and nothing is missing.
async fn a17_million_row_tx_inserted(server: Server) {
    let mut scene = Scene::new(server, "a17i").await;
    let end = scene.database.transaction(&inserted(0..=scene.rows - 1)).await;
    let mut relay = scene.start().await;
    scene.read(scene.rows / 2, end).await;
    assert!(scene.database.confirmed().await.unwrap() < end);
    within_bounds(&relay);
    relay.kill();
    let relay = scene.start().await;
    scene.read_all(&relay, end).await;
}

/// A COPY writes many rows to the WAL at once, and they share one position. All but the last are
/// acknowledged, and nothing of the transaction is confirmed.
async fn a17_million_row_tx_copied(server: Server) {
    let mut scene = Scene::new(server, "a17c").await;
    let end = scene
        .database
        .transaction(&format!(
            "{};
             INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
             VALUES ('not legal', 'a', 'happened', '{{}}')",
            copied(0..=scene.rows - 1)
        ))
        .await;
    let mut relay = scene.start().await;
    let connection = scene.database.walsender().await.unwrap().pid;
    scene.read(scene.rows, end).await;
    relay.wait_state("halted", SHORT).await;
    let database = &scene.database;
    database
        .over_replies(5, async |walsender| {
            assert_eq!(walsender.pid, connection);
            let confirmed = database.confirmed().await.unwrap();
            assert!(confirmed < end, "{confirmed} was confirmed, the last row ends at {end}");
        })
        .await;
    within_bounds(&relay);
}

/// The statement that inserts rows of these numbers.
pub(super) fn inserted(numbers: RangeInclusive<u64>) -> String {
    let (first, last) = numbers.into_inner();
    format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
         SELECT 'order', i % {KEYS}, 'happened', jsonb_build_object('n', i, 'p', repeat('x', 480))
         FROM generate_series({first}, {last}) i"
    )
}

/// The statement that copies them, with ids made of the numbers: with a default for the id there
/// would be one WAL record a row.
pub(super) fn copied(numbers: RangeInclusive<u64>) -> String {
    let (first, last) = numbers.into_inner();
    let rows = format!(
        r#"seq {first} {last} | awk "{{ printf \"%08x-0000-4000-8000-000000000000\\torder\\t%d\\thappened\\t{{\\\"n\\\": %d, \\\"p\\\": \\\"{}\\\"}}\\n\", \$1, \$1 % {KEYS}, \$1 }}""#,
        "x".repeat(480),
    );
    format!("COPY outbox (id, aggregate_type, aggregate_id, type, payload) FROM PROGRAM $${rows}$$")
}

struct Scene {
    others: Others,
    rows: u64,
    settings: Settings,
    reader: Reader,
    topics: Topics,
    database: Database,
    seen: Seen,
}

impl Scene {
    async fn new(server: Server, hint: &str) -> Self {
        let soak = env::var_os("PGOUTBOX_SOAK").is_some();
        let (rows, timeout) = if soak { (1_000_000, "10s") } else { (100_000, "2s") };
        let database = Database::create(server, hint).await;
        database.create_outbox().await;
        let topics = Topics::new(&kafka_brokers(), hint);
        topics.create("order", 4, 1, &[]).await;
        topics.create("payment", 1, 1, &[]).await;
        let settings =
            Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", timeout);
        Relay::init(&settings, &database.admin_url());
        database.create_witness().await;
        let reader = Reader::new(&topics);
        let others = Others::start(database.connect().await);
        Self { others, rows, settings, reader, topics, database, seen: Seen::default() }
    }

    async fn start(&self) -> Relay {
        Relay::streaming(&self.settings).await
    }

    /// Reads until so many of the transaction's rows have come; nothing is confirmed too early.
    async fn read(&mut self, rows: u64, end: Lsn) {
        while self.seen.orders < rows {
            // Before the look at the log: what is confirmed must be in it.
            let confirmed = self.database.confirmed().await.unwrap();
            let few = LOOK.min(rows - self.seen.orders) as usize;
            self.reader.read_until("more rows", 2 * SHORT, |records| records.len() >= few);
            if confirmed >= end {
                self.reader.read_to_end();
            }
            for record in self.reader.take() {
                self.seen.record(&self.topics, &record);
            }
            let early = confirmed >= end && self.seen.orders < self.rows;
            assert!(!early, "{confirmed} was confirmed after {} rows", self.seen.orders);
        }
    }

    /// Reads the rest on one connection, small transactions and all.
    async fn read_all(&mut self, relay: &Relay, end: Lsn) {
        let connection = self.database.walsender().await.unwrap().pid;
        self.read(self.rows, end).await;
        self.database.wait_confirmed(end, SHORT).await;
        let others = self.others.stop().await;
        while self.seen.payments < others {
            self.reader.read_until("small transactions", SHORT, |records| !records.is_empty());
            for record in self.reader.take() {
                self.seen.record(&self.topics, &record);
            }
        }
        let last = self.database.wal_end().await;
        self.database.wait_confirmed(last, SHORT).await;
        assert_eq!(self.seen.orders, self.rows);
        assert_eq!(self.database.walsender().await.unwrap().pid, connection);
        assert_eq!(relay.metric("pgoutbox_reconnects_total", &[]).await.unwrap_or(0.0), 0.0);
        within_bounds(relay);
    }
}

fn within_bounds(relay: &Relay) {
    let peak = relay.peak_memory();
    assert!(peak < MEMORY, "{} MiB at the most", peak / 1024 / 1024);
}

/// What has come, by what must come next: too much to be kept as it is.
#[derive(Default)]
struct Seen {
    /// Next number of each key of the large transaction.
    next: HashMap<u64, u64>,
    orders: u64,
    payments: u64,
}

impl Seen {
    /// A number below the next one is a copy; one above it shows a gap, or another order.
    fn record(&mut self, topics: &Topics, record: &Record) {
        let value: Value = serde_json::from_str(record.text()).unwrap();
        let n = value["n"].as_u64().unwrap();
        if record.topic == topics.name("payment") {
            assert!(n <= self.payments, "payment {n} instead of {}", self.payments);
            self.payments = self.payments.max(n + 1);
            return;
        }
        let key = n % KEYS;
        assert_eq!(record.key.as_deref(), Some(key.to_string().as_bytes()));
        let next = self.next.entry(key).or_insert(key);
        assert!(n <= *next, "row {n} instead of {next}");
        if n == *next {
            *next += KEYS;
            self.orders += 1;
        }
    }
}

/// One-row transactions of another session, all the time, of the type `payment` and one key.
pub(super) struct Others {
    stop: Arc<AtomicBool>,
    task: Option<tokio::task::JoinHandle<u64>>,
}

impl Others {
    pub(super) fn start(sql: Sql) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut n = 0;
            while !stopped.load(Ordering::Relaxed) {
                sql.run(&format!(
                    "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
                     VALUES ('payment', 'a', 'happened', '{{\"n\": {n}}}');
                     SELECT pg_sleep(0.01)"
                ))
                .await;
                n += 1;
            }
            n
        });
        Self { stop, task: Some(task) }
    }

    /// How many there were.
    pub(super) async fn stop(&mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.take().unwrap().await.unwrap()
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
