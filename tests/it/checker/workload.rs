//! Writers that know what they have done.
//!
//! Several connections write at the same time to the same aggregates. What makes the commit order of
//! an aggregate known is a counter row of its own: a writer takes its next numbers from there in the
//! same transaction, so it holds the row's lock until the commit, and whoever gets the next number
//! commits later. A rollback takes the numbers back with the rows.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::{Client, Statement};
use uuid::{Builder, Uuid};

use super::{Event, History};
use crate::support::{Database, Sql};

/// What is written. The defaults are small and have a bit of everything.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// Of all that is random; printed, so that a failure can be had again.
    pub(crate) seed: u64,
    /// Connections that write at the same time.
    pub(crate) writers: usize,
    /// Transactions of each writer.
    pub(crate) transactions: usize,
    /// Aggregate types, and so topics.
    pub(crate) types: &'static [&'static str],
    /// Aggregates of each type.
    pub(crate) aggregates: usize,
    /// Rows of one aggregate in one transaction.
    pub(crate) rows: RangeInclusive<usize>,
    /// The same for one transaction of each writer; 0 is none.
    pub(crate) big: usize,
    /// A writer begins a transaction this often, or as fast as it can.
    pub(crate) pace: Option<Duration>,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            seed: rand::random(),
            writers: 4,
            transactions: 50,
            types: &["order", "payment", "shipment"],
            aggregates: 5,
            rows: 1..=15,
            big: 0,
            pace: None,
        }
    }
}

/// How often a transaction is rolled back.
const ROLLBACK: f64 = 0.15;

/// How often the rows of one aggregate are written and taken back to a savepoint.
const SAVEPOINT: f64 = 0.2;

/// Where the numbers come from.
const COUNTERS: &str = "
    CREATE TABLE IF NOT EXISTS checker_counter (
      aggregate_type text, aggregate_id text, n bigint NOT NULL DEFAULT 0,
      PRIMARY KEY (aggregate_type, aggregate_id))";

impl Workload {
    /// Starts the writers on the cases' outbox. They go on where an earlier workload left off.
    pub(crate) async fn start(&self, database: &Database) -> Load {
        eprintln!("{self:?}");
        database.sql().run(COUNTERS).await;
        for aggregate_type in self.types {
            let insert = format!(
                "INSERT INTO checker_counter SELECT '{aggregate_type}', 'a-' || i
                 FROM generate_series(1, {}) i ON CONFLICT DO NOTHING",
                self.aggregates
            );
            database.sql().run(&insert).await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = Vec::new();
        for index in 0..self.writers {
            let writer = Writer {
                random: StdRng::seed_from_u64(self.seed.wrapping_add(index as u64)),
                workload: self.clone(),
                stop: Arc::clone(&stop),
                history: History::default(),
            };
            writers.push(tokio::spawn(writer.run(database.connect().await)));
        }
        Load { writers, stop }
    }

    /// Writes all of it.
    pub(crate) async fn run(&self, database: &Database) -> History {
        self.start(database).await.finish().await
    }
}

/// Writers at work.
pub(crate) struct Load {
    writers: Vec<JoinHandle<History>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Waits until all is written.
    pub(crate) async fn finish(self) -> History {
        let mut history = History::default();
        for writer in self.writers {
            history.merge(writer.await.unwrap());
        }
        history
    }

    /// Ends the writing after the transactions that are open now.
    pub(crate) async fn stop(self) -> History {
        self.stop.store(true, Ordering::Relaxed);
        self.finish().await
    }
}

struct Writer {
    random: StdRng,
    workload: Workload,
    stop: Arc<AtomicBool>,
    history: History,
}

/// The two statements of the writing.
struct Statements {
    count: Statement,
    insert: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Self {
        let count = "UPDATE checker_counter SET n = n + $3
             WHERE aggregate_type = $1 AND aggregate_id = $2 RETURNING n";
        let insert = "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload)
             SELECT id::uuid, $1, $2, type, payload::jsonb
             FROM unnest($3::text[], $4::text[], $5::text[]) AS row (id, type, payload)";
        Self {
            count: client.prepare(count).await.unwrap(),
            insert: client.prepare(insert).await.unwrap(),
        }
    }
}

impl Writer {
    async fn run(mut self, mut sql: Sql) -> History {
        let client = sql.client();
        let statements = Statements::prepare(client).await;
        let mut ticks = self.workload.pace.map(interval);
        if let Some(ticks) = &mut ticks {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        for transaction in 0..self.workload.transactions {
            if let Some(ticks) = &mut ticks {
                ticks.tick().await;
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let is_big = self.workload.big > 0 && transaction == self.workload.transactions / 2;
            self.transaction(client, &statements, is_big).await;
        }
        self.history
    }

    async fn transaction(&mut self, client: &mut Client, statements: &Statements, is_big: bool) {
        let mut transaction = client.transaction().await.unwrap();
        let mut kept = Vec::new();
        for (aggregate_type, aggregate_id) in self.aggregates() {
            let rows = match is_big {
                true => self.workload.big,
                false => self.random.random_range(self.workload.rows.clone()),
            };
            let savepoint = transaction.savepoint("part").await.unwrap();
            let count = i64::try_from(rows).unwrap();
            let last = savepoint
                .query_one(&statements.count, &[&aggregate_type, &aggregate_id, &count])
                .await
                .unwrap();
            let first = last.get::<_, i64>(0) - count + 1;
            let events = self.events(aggregate_type, &aggregate_id, first, rows);
            let ids: Vec<String> = events.iter().map(|event| event.id.to_string()).collect();
            let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
            let payloads: Vec<&str> = events.iter().map(|event| event.payload.as_str()).collect();
            savepoint
                .execute(
                    &statements.insert,
                    &[&aggregate_type, &aggregate_id, &ids, &types, &payloads],
                )
                .await
                .unwrap();
            if self.random.random_bool(SAVEPOINT) {
                savepoint.rollback().await.unwrap();
                self.history.roll_back(events);
            } else {
                savepoint.commit().await.unwrap();
                kept.extend(events);
            }
        }
        if !is_big && self.random.random_bool(ROLLBACK) {
            transaction.rollback().await.unwrap();
            self.history.roll_back(kept);
        } else {
            transaction.commit().await.unwrap();
            self.history.commit(kept);
        }
    }

    /// One to three aggregates, in the same order for everybody: no deadlocks.
    fn aggregates(&mut self) -> BTreeSet<(&'static str, String)> {
        let Workload { types, aggregates, .. } = self.workload;
        let number = self.random.random_range(1..=3);
        (0..number)
            .map(|_| {
                let aggregate_type = types[self.random.random_range(0..types.len())];
                let aggregate = self.random.random_range(1..=aggregates);
                (aggregate_type, format!("a-{aggregate}"))
            })
            .collect()
    }

    fn events(
        &mut self,
        aggregate_type: &str,
        aggregate_id: &str,
        first: i64,
        rows: usize,
    ) -> Vec<Event> {
        let mut event = |n| Event {
            id: self.id(),
            aggregate_type: aggregate_type.to_owned(),
            aggregate_id: aggregate_id.to_owned(),
            event_type: ["created", "changed", "closed"][self.random.random_range(0..3)].to_owned(),
            payload: self.payload(n),
            n,
        };
        (first..).take(rows).map(&mut event).collect()
    }

    fn id(&mut self) -> Uuid {
        Builder::from_random_bytes(self.random.random()).into_uuid()
    }

    /// A payload in the very text that PostgreSQL prints of it: shorter keys first.
    fn payload(&mut self, n: i64) -> String {
        const PADS: [&str; 4] = ["-", "ö", "客", "\\\""];
        let pad = PADS[self.random.random_range(0..PADS.len())];
        let pad = pad.repeat(self.random.random_range(0..200));
        format!("{{\"n\": {n}, \"pad\": \"{pad}\"}}")
    }
}
