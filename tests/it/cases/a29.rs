//! A29, a shutdown that hangs: PostgreSQL waits for its walsenders, and a relay that confirms nothing
//! would keep it from stopping.

use pgoutbox::lsn::Lsn;

use crate::support::{
    Database, KafkaOptions, PrivateKafka, PrivatePostgres, Reader, Relay, SHORT, Server, Settings,
    Topics, first_texts, kafka_brokers, wait_until,
};

on_both_servers!(
    a29_shutdown_hang_with_everything_acknowledged,
    a29_shutdown_hang_smart,
    a29_shutdown_hang_is_not_seen_where_only_the_guard_is_ended,
);

/// Everything is acknowledged: a fast shutdown is over at once, and the relay goes on afterwards.
async fn a29_shutdown_hang_with_everything_acknowledged(server: Server) {
    let topics = Topics::new(&kafka_brokers(), "a29a");
    let mut scene = Scene::start(server, topics).await;
    scene.write(1).await;
    Reader::new(&scene.topics).read_count(1, SHORT);
    // The end of the WAL is none of the outbox's.
    scene.database.sql().run("CREATE TABLE busy (x int)").await;

    scene.stop_fast();
    scene.start_again().await;
    scene.write(2).await;
    scene.everything_arrives(2).await;
}

/// A smart shutdown waits for ordinary connections, and tells them nothing: the relay's own must not
/// be what it waits for, whether everything is acknowledged or not.
async fn a29_shutdown_hang_smart(server: Server) {
    let topics = Topics::new(&kafka_brokers(), "a29s");
    let mut scene = Scene::start(server, topics).await;
    scene.write(1).await;
    Reader::new(&scene.topics).read_count(1, SHORT);

    scene.disconnect().await;
    let stop = tokio::task::block_in_place(|| scene.postgres.stop("smart"));
    assert!(stop.done, "no end after {:?}", stop.took);
    scene.start_again().await;
    scene.write(2).await;
    scene.everything_arrives(2).await;
}

/// `pg_terminate_backend` of the relay's ordinary connection is no shutdown: the stream goes on.
async fn a29_shutdown_hang_is_not_seen_where_only_the_guard_is_ended(server: Server) {
    let topics = Topics::new(&kafka_brokers(), "a29g");
    let scene = Scene::start(server, topics).await;
    let walsender = scene.database.walsender().await.unwrap().pid;
    for n in 1..=3 {
        let guard = scene.guard(None).await;
        let end = format!("SELECT pg_terminate_backend({guard})");
        scene.database.sql().run(&end).await;
        scene.guard(Some(guard)).await;
        scene.write(n).await;
    }
    // Longer than a shutdown would be believed in.
    scene
        .database
        .over_replies(8, async |seen| assert_eq!(seen.pid, walsender, "the stream was given up"))
        .await;
    scene.everything_arrives(3).await;
    assert_eq!(scene.relay.metric("pgoutbox_reconnects_total", &[]).await.unwrap_or(0.0), 0.0);
}

/// One event is not acknowledged, then so many that the relay has stopped reading: the server stops
/// all the same, nothing is confirmed, and everything is delivered after its restart.
#[tokio::test(flavor = "multi_thread")]
async fn a29_shutdown_hang_while_the_broker_stands_still() {
    let kafka = PrivateKafka::start(&KafkaOptions::default()).await;
    for server in Server::both() {
        let topics = Topics::new(&kafka.brokers(), "a29u");
        let mut scene = Scene::start(server, topics).await;
        scene.database.create_witness().await;

        kafka.signal(0, "STOP");
        scene.write(1).await;
        let end = scene.database.commit_ends().await[0];
        scene.received(1.0).await;
        scene.stop_fast();
        scene.start_again().await;
        scene.is_not_confirmed(end).await;

        scene.write_backlog().await;
        scene.is_full().await;
        scene.stop_fast();
        scene.start_again().await;
        scene.is_not_confirmed(end).await;

        kafka.signal(0, "CONT");
        scene.everything_arrives(1 + BACKLOG).await;
        let all = scene.database.wal_end().await;
        scene.database.wait_confirmed(all, SHORT).await;
    }
}

/// Rows of [`PADDING`] bytes each: far more than the window and every buffer on the way.
const BACKLOG: u32 = 2000;
const PADDING: usize = 10_000;

struct Scene {
    relay: Relay,
    topics: Topics,
    database: Database,
    postgres: PrivatePostgres,
}

impl Scene {
    async fn start(server: Server, topics: Topics) -> Self {
        let postgres = PrivatePostgres::start(server, &[]).await;
        let database = Database::create_on(&postgres.cluster(), "a29").await;
        database.create_outbox().await;
        topics.create("order", 1, 1, &[]).await;
        let settings = Settings::new(&database, &topics)
            .with("source.postgres.wal_sender_timeout", "2s")
            .with("source.postgres.window", serde_json::json!({"bytes": "1MiB"}));
        Relay::init(&settings, &database.admin_url());
        Self { relay: Relay::streaming(&settings).await, topics, database, postgres }
    }

    async fn write(&self, n: u32) {
        self.database.insert("order", "a", n).await;
    }

    /// Numbers from 2 on, since 1 has been written.
    async fn write_backlog(&self) {
        let insert = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
             SELECT 'order', 'a', 'happened', jsonb_build_object('n', n, 'x', repeat('x', {PADDING}))
             FROM generate_series(2, {}) n",
            1 + BACKLOG
        );
        self.database.sql().run(&insert).await;
    }

    /// Waits until the relay has read this many events since it was started.
    async fn received(&self, events: f64) {
        wait_until("the event in the relay", SHORT, async || {
            let received = self.relay.metric("pgoutbox_events_received_total", &[]).await?;
            (received >= events).then_some(())
        })
        .await;
    }

    /// Waits until the walsender cannot send any more, since the relay does not read.
    async fn is_full(&self) {
        let walsender = wait_until("a stream", SHORT, async || self.database.walsender().await);
        let stuck = format!(
            "SELECT 1 FROM pg_stat_activity
             WHERE pid = {} AND wait_event = 'WalSenderWriteData'",
            walsender.await.pid
        );
        let mut sent = Lsn::ZERO;
        wait_until("a relay that does not read", SHORT, async || {
            let before = std::mem::replace(&mut sent, self.database.walsender().await?.sent);
            self.database.sql().value(&stuck).await.filter(|_| before == sent)
        })
        .await;
    }

    /// `pg_ctl` gives up after 15 seconds, three times what the case allows: on a busy machine the
    /// server takes its own time.
    fn stop_fast(&mut self) {
        let stop = tokio::task::block_in_place(|| self.postgres.stop("fast"));
        assert!(stop.done, "no end after {:?}", stop.took);
        eprintln!("stopped after {:?}", stop.took);
    }

    /// Starts the server, and waits until the relay has found it.
    async fn start_again(&mut self) {
        self.postgres.start_again().await;
        self.database.reconnect().await;
        wait_until("a stream", SHORT, async || self.database.walsender().await).await;
    }

    /// Ends the test's own connections.
    async fn disconnect(&mut self) {
        self.database.disconnect().await;
    }

    async fn is_not_confirmed(&self, end: Lsn) {
        let database = &self.database;
        database
            .over_replies(3, async |_| {
                let confirmed = database.confirmed().await.unwrap();
                assert!(confirmed < end, "{confirmed} was confirmed, the event ends at {end}");
            })
            .await;
    }

    /// Every number from 1 to `last`, in order of first occurrences.
    async fn everything_arrives(&self, last: u32) {
        let mut reader = Reader::new(&self.topics);
        let count = last as usize;
        reader.read_until("all events", 2 * SHORT, |all| {
            all.len() >= count && first_texts(all).len() >= count
        });
        let number = |text: &str| {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            value["n"].as_u64().unwrap()
        };
        let numbers: Vec<u64> = first_texts(reader.records()).into_iter().map(number).collect();
        assert_eq!(numbers, (1..=u64::from(last)).collect::<Vec<_>>());
    }

    /// The relay's ordinary connection, once it is another than `before`.
    async fn guard(&self, before: Option<u32>) -> u32 {
        wait_until("the relay's ordinary connection", SHORT, async || {
            let query = "SELECT pid FROM pg_stat_activity
                         WHERE application_name = 'pgoutbox:orders guard'";
            let pid = self.database.sql().value(query).await?.parse().unwrap();
            (before != Some(pid)).then_some(pid)
        })
        .await
    }
}
