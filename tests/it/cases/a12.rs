//! A12, the publication was made after the slot: events that no server will decode.

use serde_json::Value;

use crate::support::{
    Database, Reader, Record, Relay, SHORT, Server, Settings, Topics, first_texts, kafka_brokers,
    typed, wait_until,
};

on_both_servers!(
    a12_publication_after_slot_halts_and_confirms_nothing,
    a12_publication_after_slot_begins_with_a_new_slot,
    a12_publication_after_slot_skips_what_was_written_before,
    a12_publication_made_anew_halts_after_what_came_before,
    a12_publication_dropped_while_the_relay_runs_halts_until_it_is_recovered,
);

/// PostgreSQL up to 17 breaks the stream, 18 warns and skips; the relay does the same on both.
async fn a12_publication_after_slot_halts_and_confirms_nothing(server: Server) {
    let scene = Scene::handed_over(server).await;
    let before = scene.database.confirmed().await;
    let mut relay = Relay::start(&scene.settings);
    relay.wait_state("halted", SHORT).await;

    let status = relay.status().await.unwrap();
    let reason = status["reason"].as_str().unwrap();
    let position = before.unwrap().to_string();
    for part in [scene.database.name(), "was made after the position of slot", &position] {
        assert!(reason.contains(part), "{part} in {reason}");
    }
    // It tries again, not hotly, and does not look well while it does.
    wait_until("three tries", SHORT, async || {
        assert_eq!(relay.get("/readyz").await.unwrap().0, 503);
        assert_eq!(relay.state().await.as_deref(), Some("halted"));
        (halts(&relay).len() >= 3).then_some(())
    })
    .await;
    for pair in halts(&relay).windows(2) {
        // A night between two tries is not hot either.
        assert!((pair[1] - pair[0]).abs() >= 1.0, "{}", relay.log());
    }
    assert_eq!(scene.database.confirmed().await, before);
    assert!(Reader::new(&scene.topics).read_to_end().is_empty());
}

/// The first choice: a new slot, and the rows once more through it. The relay need not be restarted.
async fn a12_publication_after_slot_begins_with_a_new_slot(server: Server) {
    let scene = Scene::handed_over(server).await;
    let mut relay = Relay::start(&scene.settings);
    relay.wait_state("halted", SHORT).await;
    scene.follow(&scene.choices(&relay).await.0).await;
    relay.wait_state("streaming", SHORT).await;
    scene.database.insert("order", "a", 2).await;
    scene.reads(&[1, 2]);
    let ids = "SELECT id FROM outbox WHERE payload = '{\"n\": 1}'";
    let id = scene.database.sql().value(ids).await;
    let mut reader = Reader::new(&scene.topics);
    assert_eq!(reader.read_count(2, SHORT)[0].header("id"), id.as_deref());
}

/// The second choice: what was written before is given up, on the operator's word.
async fn a12_publication_after_slot_skips_what_was_written_before(server: Server) {
    let scene = Scene::handed_over(server).await;
    let mut relay = Relay::start(&scene.settings);
    relay.wait_state("halted", SHORT).await;
    scene.type_sql(&scene.choices(&relay).await.1).await;
    relay.wait_state("streaming", SHORT).await;
    scene.database.insert("order", "a", 2).await;
    scene.reads(&[2]);
    scene.database.wait_confirmed(scene.database.wal_end().await, SHORT).await;
}

/// A publication that is dropped and made again has a hole: what came before it is delivered.
async fn a12_publication_made_anew_halts_after_what_came_before(server: Server) {
    let scene = Scene::new(server).await;
    scene.publish().await;
    scene.slot().await;
    scene.database.insert("order", "a", 1).await;
    let publication = scene.database.name();
    scene.database.sql().run(&format!("DROP PUBLICATION {publication}")).await;
    scene.database.insert("order", "a", 2).await;
    let hole = scene.database.wal_end().await;
    scene.publish().await;
    scene.adopt();
    scene.database.insert("order", "a", 3).await;

    let mut relay = Relay::start(&scene.settings);
    relay.wait_state("halted", SHORT).await;
    scene.reads(&[1]);
    wait_until("two tries more", SHORT, async || (halts(&relay).len() >= 3).then_some(())).await;
    let confirmed = scene.database.confirmed().await.unwrap();
    assert!(confirmed < hole, "{confirmed}");
    scene.reads(&[1]);
}

/// First it is gone, and `init` makes it; then it is too young for what was written in between.
async fn a12_publication_dropped_while_the_relay_runs_halts_until_it_is_recovered(server: Server) {
    let scene = Scene::new(server).await;
    scene.publish().await;
    Relay::init(&scene.settings, &scene.database.admin_url());
    let mut relay = Relay::streaming(&scene.settings).await;
    scene.database.insert("order", "a", 1).await;
    scene.reads(&[1]);
    let publication = scene.database.name();
    scene.database.sql().run(&format!("DROP PUBLICATION {publication}")).await;
    scene.database.insert("order", "a", 2).await;
    let hole = scene.database.wal_end().await;
    relay.wait_for_log(&["ERROR", "halted", publication, "does not exist", "init"], SHORT).await;
    assert_eq!(relay.state().await.as_deref(), Some("halted"));

    Relay::init(&scene.settings, &scene.database.admin_url());
    relay.wait_for_log(&["ERROR", "halted", "was made after the position"], SHORT).await;
    assert!(scene.database.confirmed().await.unwrap() < hole);
    scene.follow(&scene.choices(&relay).await.0).await;
    relay.wait_state("streaming", SHORT).await;
    scene.reads(&[1, 2]);
}

/// When each line `halted` of the log was written, in seconds of the day.
fn halts(relay: &Relay) -> Vec<f64> {
    let log = relay.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let halted = lines.filter(|line| line["message"] == "halted");
    halted.map(|line| seconds_of_the_day(line["timestamp"].as_str().unwrap())).collect()
}

/// Of `2026-11-29T10:11:12.131415Z`.
fn seconds_of_the_day(timestamp: &str) -> f64 {
    let (_day, time) = timestamp.trim_end_matches('Z').split_once('T').unwrap();
    time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
}

struct Scene {
    settings: Settings,
    topics: Topics,
    database: Database,
}

impl Scene {
    /// A table, and nothing else.
    async fn new(server: Server) -> Self {
        let database = Database::create(server, "a12").await;
        database.create_outbox().await;
        database.sql().run(&format!("DROP PUBLICATION {}", database.name())).await;
        let topics = Topics::new(&kafka_brokers(), "a12");
        topics.create("order", 1, 1, &[]).await;
        let settings =
            Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", "2s");
        Self { settings, topics, database }
    }

    /// The case: slot, event, publication.
    async fn handed_over(server: Server) -> Self {
        let scene = Self::new(server).await;
        scene.slot().await;
        scene.database.insert("order", "a", 1).await;
        scene.publish().await;
        scene.adopt();
        scene
    }

    async fn publish(&self) {
        let publication = self.database.name();
        let sql =
            format!("CREATE PUBLICATION {publication} FOR TABLE outbox WITH (publish = 'insert')");
        self.database.sql().run(&sql).await;
    }

    async fn slot(&self) {
        let create = "SELECT pg_create_logical_replication_slot(current_database(), 'pgoutput')";
        self.database.sql().value(create).await;
    }

    /// What is left for `init`: the marker and the grants.
    fn adopt(&self) {
        Relay::init(&self.settings, &self.database.admin_url());
    }

    /// The two ways out of the hint: the steps of the first, and the second.
    async fn choices(&self, relay: &Relay) -> (Vec<String>, String) {
        let status = relay.status().await.unwrap();
        let hint = status["hint"].as_str().unwrap();
        let mut typed = typed(hint);
        let second = typed.pop().unwrap();
        typed.retain(|step| step != "created_at");
        assert_eq!(typed.len(), 4, "{hint}");
        (typed, second)
    }

    /// Types each step of the first choice, as the administrator or, `init`, as the relay's own role.
    async fn follow(&self, steps: &[String]) {
        for step in steps {
            match &**step {
                "pgoutbox init" => {
                    let output = Relay::command(&self.settings, "init", &[]);
                    assert!(output.status.success(), "{output:?}");
                }
                sql => self.type_sql(sql).await,
            }
        }
    }

    /// As an operator does: once more where the relay is just trying itself and holds the slot.
    async fn type_sql(&self, sql: &str) {
        wait_until(sql, SHORT, async || {
            let typed = self.database.sql().try_run(sql).await;
            match typed {
                Ok(()) => Some(()),
                Err(error) if error.code().is_some_and(|code| code.code() == "55006") => None,
                Err(error) => panic!("{sql}: {error:?}"),
            }
        })
        .await;
    }

    /// These events are in the log, in this order, and no others.
    fn reads(&self, expected: &[u32]) -> Vec<Record> {
        let expected: Vec<String> = expected.iter().map(|n| format!("{{\"n\": {n}}}")).collect();
        let mut reader = Reader::new(&self.topics);
        let all = |records: &[Record]| first_texts(records).len() >= expected.len();
        reader.read_until("all events", SHORT, all);
        assert_eq!(first_texts(reader.read_to_end()), expected);
        reader.records().to_vec()
    }
}
