//! A06, the slot is active: a relay that cannot be reached still holds it.

use std::process::{Command, Stdio};

use crate::support::{
    Database, Process, Proxy, Reader, Relay, SHORT, Server, Settings, Topics, first_texts,
    kafka_brokers, wait_until,
};

on_both_servers!(
    a06_slot_active_held_by_a_stopped_relay,
    a06_slot_active_held_by_a_dead_relay_behind_a_dropped_network,
    a06_slot_active_held_by_somebody_else,
);

/// Of the relay's session: how long the server believes in a silent holder. The second relay must
/// have had the time to meet it.
const TIMEOUT: &str = "8s";

/// The second relay stands by, ready, and takes over once the server gives the first one up.
async fn a06_slot_active_held_by_a_stopped_relay(server: Server) {
    let scene = Scene::new(server, "a06a").await;
    let first = Relay::streaming(&scene.settings).await;
    scene.write(1).await;
    let holder = scene.database.walsender().await.unwrap().pid;

    first.signal("STOP");
    let mut second = Relay::start(&scene.second());
    scene.stands_by(&mut second, holder).await;
    scene.write(2).await;
    second.wait_state("streaming", SHORT).await;
    scene.nothing_is_missing(2);

    // The first one finds its connection gone, and stands by in its turn.
    let holder = scene.database.walsender().await.unwrap().pid;
    let mut first = first;
    first.signal("CONT");
    scene.stands_by(&mut first, holder).await;
    assert_eq!(second.state().await.as_deref(), Some("streaming"));
    assert_eq!(scene.slots().await, 1);
}

/// The first relay is dead, but no packet tells the server so.
async fn a06_slot_active_held_by_a_dead_relay_behind_a_dropped_network(server: Server) {
    let scene = Scene::new(server, "a06b").await;
    let proxy = Proxy::start(scene.database.cluster().port()).await;
    let url = scene.database.relay_url_at(proxy.port());
    let mut first =
        Relay::streaming(&scene.settings.clone().with("source.postgres.url", url)).await;
    scene.write(1).await;
    let holder = scene.database.walsender().await.unwrap().pid;

    proxy.freeze();
    first.kill();
    let mut second = Relay::start(&scene.second());
    scene.stands_by(&mut second, holder).await;
    scene.write(2).await;
    second.wait_state("streaming", SHORT).await;
    scene.nothing_is_missing(2);
    assert_eq!(scene.slots().await, 1);
}

/// A holder that is no relay of the same name: not ready, and the holder is named and left alone.
async fn a06_slot_active_held_by_somebody_else(server: Server) {
    let scene = Scene::new(server, "a06c").await;
    let database = &scene.database;
    let mut receiver = Command::new(server.programs().join("pg_recvlogical"));
    receiver
        .args(["-d", &database.admin_url(), "-S", database.name(), "--start", "-f", "-"])
        .args(["-o", "proto_version=1", "-o", &format!("publication_names={}", database.name())])
        .stdout(Stdio::null());
    let mut receiver = Process::new(receiver.spawn().unwrap());
    let holder =
        wait_until("pg_recvlogical", SHORT, async || Some(database.walsender().await?.pid)).await;

    let mut relay = Relay::start(&scene.settings);
    relay.wait_for_log(&["55006", &holder.to_string()], SHORT).await;
    let (ready, reason) = relay.get("/readyz").await.unwrap();
    assert_eq!(ready, 503);
    assert!(reason.contains(&holder.to_string()), "{reason}");
    assert_ne!(relay.state().await.as_deref(), Some("streaming"));
    assert_eq!(receiver.ended(), None, "the holder was ended");

    receiver.kill();
    relay.wait_state("streaming", SHORT).await;
    scene.write(1).await;
    scene.nothing_is_missing(1);
}

struct Scene {
    settings: Settings,
    topics: Topics,
    database: Database,
}

impl Scene {
    async fn new(server: Server, hint: &str) -> Self {
        let database = Database::create(server, hint).await;
        database.create_outbox().await;
        let topics = Topics::new(&kafka_brokers(), hint);
        topics.create("order", 1, 1, &[]).await;
        let settings =
            Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", TIMEOUT);
        Relay::init(&settings, &database.admin_url());
        Self { settings, topics, database }
    }

    /// The same relay once more, on another port.
    fn second(&self) -> Settings {
        self.settings.clone().with_free_http_port()
    }

    async fn write(&self, n: u32) {
        self.database.insert("order", "a", n).await;
    }

    async fn stands_by(&self, relay: &mut Relay, holder: u32) {
        relay.wait_for_log(&["55006", &holder.to_string()], SHORT).await;
        relay.wait_state("standby", SHORT).await;
        assert_eq!(relay.get("/readyz").await.unwrap().0, 200);
        assert_eq!(self.database.walsender().await.unwrap().pid, holder, "the holder was ended");
        assert_eq!(self.slots().await, 1);
    }

    /// Number of slots of the database.
    async fn slots(&self) -> usize {
        let query = format!(
            "SELECT slot_name FROM pg_replication_slots WHERE database = '{}'",
            self.database.name()
        );
        self.database.sql().rows(&query).await.len()
    }

    /// Every event from 1 to `last` is in the log, in order of first occurrences.
    fn nothing_is_missing(&self, last: u32) {
        let expected: Vec<String> = (1..=last).map(|n| format!("{{\"n\": {n}}}")).collect();
        let mut reader = Reader::new(&self.topics);
        reader.read_until("all events", SHORT, |all| first_texts(all).len() >= expected.len());
        assert_eq!(first_texts(reader.records()), expected);
    }
}
