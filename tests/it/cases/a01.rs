//! A01, idle WAL: the outbox is quiet, everything else is busy, and the slot must not keep the WAL.

use std::time::Duration;

use crate::support::{
    Database, KafkaOptions, PrivateKafka, Reader, Relay, SHORT, Server, Settings, Sql, Topics,
    kafka_brokers, wait_until,
};

on_both_servers!(
    a01_idle_wal_same_database,
    a01_idle_wal_other_database,
    a01_idle_wal_without_a_timeout,
);

/// (a) What is busy is another table of the same database.
async fn a01_idle_wal_same_database(server: Server) {
    let quiet = Quiet::start(server, "a01a").await;
    quiet.outlive(quiet.database.sql()).await;
}

/// (b) What is busy is another database: nothing of it is even decoded.
async fn a01_idle_wal_other_database(server: Server) {
    let quiet = Quiet::start(server, "a01b").await;
    let busy = Database::create(server, "a01_busy").await;
    quiet.outlive(busy.sql()).await;
}

/// (c) `wal_sender_timeout = 0`: the server never asks for a reply.
async fn a01_idle_wal_without_a_timeout(server: Server) {
    let database = Database::create(server, "a01c").await;
    let setting = format!("ALTER ROLE {} SET wal_sender_timeout = 0", database.name());
    database.sql().run(&setting).await;
    let quiet = Quiet::start_in(database).await;
    quiet.outlive(quiet.database.sql()).await;
}

/// The counter-test: keepalives move on, and an event that no broker has acknowledged is never
/// passed.
#[tokio::test(flavor = "multi_thread")]
async fn a01_idle_wal_never_passes_an_unacknowledged_event() {
    let kafka = PrivateKafka::start(&KafkaOptions::default()).await;
    for server in Server::both() {
        let database = Database::create(server, "a01d").await;
        let topics = Topics::new(&kafka.brokers(), "a01d");
        topics.create("order", 1, 1, &[]).await;
        let settings =
            prepare(&database, &topics).await.with("source.postgres.wal_sender_timeout", "2s");
        database.create_witness().await;
        let _relay = Relay::streaming(&settings).await;
        kafka.signal(0, "STOP");
        database.insert("order", "a", 1).await;
        let end = database.commit_ends().await[0];
        write_busily(database.sql()).await;
        let written = database.wal_end().await;

        let is_held = async || {
            let confirmed = database.confirmed().await.unwrap();
            assert!(confirmed < end, "{confirmed} was confirmed, the event ends at {end}");
        };
        wait_until(&format!("keepalives to come to {written}"), SHORT, async || {
            is_held().await;
            (database.walsender().await?.sent >= written).then_some(())
        })
        .await;
        database.over_replies(5, async |_| is_held().await).await;

        kafka.signal(0, "CONT");
        database.wait_confirmed(written, SHORT).await;
        assert_eq!(Reader::new(&topics).read_to_end().len(), 1);
    }
}

/// A relay with nothing to do.
struct Quiet {
    _relay: Relay,
    topics: Topics,
    database: Database,
}

impl Quiet {
    async fn start(server: Server, hint: &str) -> Self {
        Self::start_in(Database::create(server, hint).await).await
    }

    async fn start_in(database: Database) -> Self {
        let topics = Topics::new(&kafka_brokers(), "a01");
        let settings = prepare(&database, &topics).await;
        Self { _relay: Relay::streaming(&settings).await, topics, database }
    }

    /// Writes a lot through `busy` and waits until the slot has let go of it.
    async fn outlive(&self, busy: &Sql) {
        write_busily(busy).await;
        let written = self.database.wal_end().await;
        self.database.wait_confirmed(written, SHORT).await;

        let kept = format!(
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) < 64 * 1024 * 1024
             FROM pg_replication_slots WHERE slot_name = '{}' AND restart_lsn > '{written}'",
            self.database.name()
        );
        wait_until("the slot to let go of the WAL", Duration::from_secs(60), async || {
            self.database.sql().run("CHECKPOINT").await;
            let kept = self.database.sql().value(&kept).await;
            (kept.as_deref() == Some("t")).then_some(())
        })
        .await;
        assert!(Reader::new(&self.topics).read_to_end().is_empty());
    }
}

async fn prepare(database: &Database, topics: &Topics) -> Settings {
    database.create_outbox().await;
    let settings = Settings::new(database, topics);
    Relay::init(&settings, &database.admin_url());
    settings
}

/// Some 100 MB of WAL that no slot is interested in.
async fn write_busily(sql: &Sql) {
    sql.run("CREATE TABLE IF NOT EXISTS busy (x text)").await;
    for _ in 0..8 {
        sql.run("INSERT INTO busy SELECT repeat('x', 500) FROM generate_series(1, 20000)").await;
    }
}
