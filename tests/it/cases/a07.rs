//! A07, backpressure against `wal_sender_timeout`: a broker that takes nothing for many timeouts
//! must not cost the replication connection, nor memory; and neither must silence.

use crate::support::{
    Database, KafkaOptions, PrivateKafka, PrivatePostgres, Reader, Relay, SHORT, Server, Settings,
    Topics, kafka_brokers,
};

on_both_servers!(a07_backpressure_timeout_idle);

const TIMEOUT: &str = "2s";

/// How many status updates stand for "twelve timeouts": four go out in one.
const REPLIES: usize = 48;

/// Rows of 2 kB: well above the window of 16 MiB.
const ROWS: usize = 30_000;

/// What a relay with default settings may use: the window, the client's copy of it, and the little
/// that each event costs besides.
const MEMORY: u64 = 64 * 1024 * 1024;

/// The broker stands still for twelve timeouts while the window is full several times over.
#[tokio::test(flavor = "multi_thread")]
async fn a07_backpressure_timeout() {
    let kafka = PrivateKafka::start(&KafkaOptions::default()).await;
    let (oldest, newest) =
        (Story::start(Server::Oldest, &kafka).await, Story::start(Server::Newest, &kafka).await);
    kafka.signal(0, "STOP");
    tokio::join!(oldest.held_up(), newest.held_up());
    kafka.signal(0, "CONT");
    oldest.flows().await;
    newest.flows().await;
}

struct Story {
    relay: Relay,
    topics: Topics,
    database: Database,
}

impl Story {
    async fn start(server: Server, kafka: &PrivateKafka) -> Self {
        let database = Database::create(server, "a07").await;
        database.create_outbox().await;
        let topics = Topics::new(&kafka.brokers(), "a07");
        topics.create("order", 4, 1, &[]).await;
        let settings =
            Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", TIMEOUT);
        Relay::init(&settings, &database.admin_url());
        database.create_witness().await;
        Self { relay: Relay::streaming(&settings).await, topics, database }
    }

    async fn held_up(&self) {
        let database = &self.database;
        let before = database.walsender().await.unwrap().pid;
        self.write(ROWS / 10).await;
        let end = database.commit_ends().await[0];
        for _ in 1..10 {
            self.write(ROWS / 10).await;
        }
        database
            .over_replies(REPLIES, async |walsender| {
                assert_eq!(walsender.pid, before, "the connection was lost");
                let confirmed = database.confirmed().await.unwrap();
                assert!(
                    confirmed < end,
                    "{confirmed} was confirmed, the first event ends at {end}"
                );
            })
            .await;
    }

    async fn write(&self, rows: usize) {
        let insert = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
             SELECT 'order', i % 100, 'created', jsonb_build_object('p', repeat('x', 2000))
             FROM generate_series(1, {rows}) i"
        );
        self.database.sql().run(&insert).await;
    }

    async fn flows(&self) {
        let mut reader = Reader::new(&self.topics);
        let ids = |records: &[crate::support::Record]| {
            records.iter().filter_map(|record| record.header("id").map(str::to_owned)).collect()
        };
        reader.read_count(ROWS, 4 * SHORT);
        let end = self.database.wal_end().await;
        self.database.wait_confirmed(end, SHORT).await;
        let distinct: std::collections::HashSet<String> = ids(reader.read_to_end());
        assert_eq!(distinct.len(), ROWS);
        let peak = self.relay.peak_memory();
        assert!(peak < MEMORY, "{} MiB at the most", peak / 1024 / 1024);
    }
}

/// Nothing is written at all: the relay must not take a healthy silence for a broken connection.
async fn a07_backpressure_timeout_idle(server: Server) {
    let postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "a07i").await;
    database.create_outbox().await;
    let topics = Topics::new(&kafka_brokers(), "a07i");
    let settings =
        Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", "1s");
    Relay::init(&settings, &database.admin_url());
    let relay = Relay::streaming(&settings).await;
    let before = database.walsender().await.unwrap().pid;
    database
        .over_replies(REPLIES, async |walsender| {
            assert_eq!(walsender.pid, before, "the relay reconnected");
        })
        .await;
    assert_eq!(relay.metric("pgoutbox_reconnects_total", &[]).await.unwrap_or(0.0), 0.0);
}
