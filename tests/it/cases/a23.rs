//! A23, topic names: a name that no broker takes is told before anything is sent, and no two
//! aggregate types are merged into one topic.

use std::collections::BTreeSet;

use crate::support::{
    Database, Reader, Relay, SHORT, Server, Settings, Topics, first_texts, kafka_brokers,
};

on_both_servers!(
    a23_topic_name_that_is_illegal_halts_by_itself,
    a23_topic_name_of_dots_halts,
    a23_topic_name_that_is_illegal_holds_its_ordering_key,
    a23_topic_name_that_collides_is_not_merged,
    a23_topic_name_ends_a_relay_that_exits_on_halt,
);

/// Of the relay's session: status updates, which say how long "stays" is, come several times in one.
const TIMEOUT: &str = "4s";

/// Two keys of different partitions of four (A18's table).
const KEY: &str = "ord-1001";
const OTHER: &str = "ord-1002";

/// Each is named with its event, and nothing of it reaches the broker; legal names, the longest and
/// those that differ by case only among them, go on.
async fn a23_topic_name_that_is_illegal_halts_by_itself(server: Server) {
    let mut scene = Scene::new(server, "${aggregate_type}").await;
    let (too_long, longest) = ("x".repeat(240), "x".repeat(249 - scene.topics.prefix().len()));
    let illegal = ["Dont care", "order/line", "Größe", &too_long];
    let legal = ["Order", "order", &longest];
    for word in legal {
        scene.topics.create(word, 1, 1, &[]).await;
    }
    let mut relay = Relay::streaming(&scene.settings).await;
    for (n, word) in (0..).zip(illegal) {
        scene.database.insert(word, KEY, n).await;
    }
    for (n, word) in (10..).zip(legal) {
        scene.database.insert(word, KEY, n).await;
    }

    for (n, word) in (0..).zip(illegal) {
        let (id, name) = (scene.id(n).await, scene.topics.name(word));
        relay.wait_for_log(&["\"level\":\"ERROR\"", &id, &name], SHORT).await;
    }
    relay.wait_state("halted", SHORT).await;
    let (ready, reason) = relay.get("/readyz").await.unwrap();
    assert_eq!(ready, 503);
    assert!(reason.contains("Dont care"), "{reason}");
    assert_eq!(scene.halted(&relay).await, scene.ids(0..4).await);
    let counted = relay.metric("pgoutbox_events_failed_total", &["reason=\"illegal_topic\""]);
    assert_eq!(counted.await, Some(4.0));
    for (n, word) in (10..).zip(legal) {
        scene.read(word, &[n]);
    }
    let end = scene.database.commit_ends().await[0];
    scene
        .database
        .over_replies(3, async |_| assert!(scene.database.confirmed().await.unwrap() < end))
        .await;

    relay.kill();
    let mut relay = scene.start_skipping(0..4).await;
    let end = scene.database.wal_end().await;
    scene.database.wait_confirmed(end, SHORT).await;
    relay.wait_state("streaming", SHORT).await;
    let topics: BTreeSet<String> =
        scene.reader.read_to_end().iter().map(|record| record.topic.clone()).collect();
    assert_eq!(topics, legal.iter().map(|word| scene.topics.name(word)).collect());
}

/// `.` and `..` are names of directories to a broker.
async fn a23_topic_name_of_dots_halts(server: Server) {
    let mut scene = Scene::new(server, "").await;
    scene.settings = scene.settings.with("routes.0.topic", "${aggregate_type}");
    scene.topics.create("order", 1, 1, &[]).await;
    let mut relay = Relay::streaming(&scene.settings).await;
    scene.database.insert(".", KEY, 0).await;
    scene.database.insert("..", KEY, 1).await;
    scene.database.insert(&scene.topics.name("order"), KEY, 2).await;
    for (n, name) in [(0, "`.`"), (1, "`..`")] {
        let id = scene.id(n).await;
        relay.wait_for_log(&["\"level\":\"ERROR\"", &id, name, "not a legal topic"], SHORT).await;
    }
    scene.read("order", &[2]);
    relay.wait_state("halted", SHORT).await;
    assert_eq!(scene.halted(&relay).await, scene.ids(0..2).await);
}

/// Where the destination is not known, the ordering key tells what must wait: once the event can be
/// routed, it shall not find a later one before it.
async fn a23_topic_name_that_is_illegal_holds_its_ordering_key(server: Server) {
    let mut scene = Scene::new(server, "${type}").await;
    scene.topics.create("made", 4, 1, &[]).await;
    let mut relay = Relay::streaming(&scene.settings).await;
    scene.insert("made", KEY, 0).await;
    scene.insert("not legal", KEY, 1).await;
    scene.insert("made", KEY, 2).await;
    scene.insert("made", OTHER, 3).await;
    relay.wait_state("halted", SHORT).await;
    assert_eq!(scene.halted(&relay).await, scene.ids(1..2).await);
    scene.reader.read_until("the other key", SHORT, |records| {
        records.iter().any(|record| record.key.as_deref() == Some(OTHER.as_bytes()))
    });
    assert_eq!(scene.of_key(), [0]);

    relay.kill();
    scene.settings = scene.settings.with("routes.0.topic", scene.topics.name("made"));
    let _relay = Relay::streaming(&scene.settings).await;
    scene.reader.read_count(4, SHORT);
    assert_eq!(scene.of_key(), [0, 1, 2]);
}

/// To a broker `a.b` and `a_b` are one name; only one of them can exist, and nothing of the other
/// is put into it.
async fn a23_topic_name_that_collides_is_not_merged(server: Server) {
    let mut scene = Scene::new(server, "${aggregate_type}").await;
    scene.topics.create("a.b", 1, 1, &[]).await;
    let mut relay = Relay::streaming(&scene.settings).await;
    scene.database.insert("a.b", KEY, 0).await;
    scene.database.insert("a_b", KEY, 1).await;
    scene.database.insert("a.b", KEY, 2).await;
    let topic = scene.topics.name("a_b");
    relay.wait_for_log(&["\"level\":\"ERROR\"", &topic], SHORT).await;
    relay.wait_state("halted", SHORT).await;
    scene.read("a.b", &[0, 2]);
    let end = scene.database.commit_ends().await[1];
    scene
        .database
        .over_replies(3, async |_| assert!(scene.database.confirmed().await.unwrap() < end))
        .await;

    scene.topics.delete("a.b").await;
    scene.topics.create("a_b", 1, 1, &[]).await;
    scene.read("a_b", &[1]);
}

/// `on_halt: exit` makes an exit of it, with the same words.
async fn a23_topic_name_ends_a_relay_that_exits_on_halt(server: Server) {
    let mut scene = Scene::new(server, "${aggregate_type}").await;
    scene.settings = scene.settings.with("on_halt", "exit");
    let mut relay = Relay::streaming(&scene.settings).await;
    scene.database.insert("Dont care", KEY, 0).await;
    assert_eq!(relay.wait_exit(SHORT).await.code(), Some(1));
    let (log, id) = (relay.log(), scene.id(0).await);
    assert!(log.contains(&id) && log.contains("Dont care"), "{log}");
    let end = scene.database.commit_ends().await[0];
    assert!(scene.database.confirmed().await.unwrap() < end);
}

struct Scene {
    settings: Settings,
    reader: Reader,
    topics: Topics,
    database: Database,
}

impl Scene {
    /// A route to the topic that a template makes.
    async fn new(server: Server, template: &str) -> Self {
        let database = Database::create(server, "a23").await;
        database.create_outbox().await;
        let topics = Topics::new(&kafka_brokers(), "a23");
        let topic = topics.name(template);
        let settings = Settings::new(&database, &topics)
            .with("source.postgres.wal_sender_timeout", TIMEOUT)
            .with("routes.0.topic", topic);
        Relay::init(&settings, &database.admin_url());
        database.create_witness().await;
        let reader = Reader::new(&topics);
        Self { settings, reader, topics, database }
    }

    async fn start_skipping(&self, numbers: std::ops::Range<u32>) -> Relay {
        let ids = self.ids(numbers).await;
        let arguments: Vec<&str> = ids.iter().flat_map(|id| ["--skip", id]).collect();
        Relay::start_with(&self.settings, &arguments, &[])
    }

    /// Commits one event of this type.
    async fn insert(&self, event_type: &str, key: &str, n: u32) {
        self.database
            .sql()
            .run(&format!(
                "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
                 VALUES ('order', '{key}', '{event_type}', '{{\"n\": {n}}}')"
            ))
            .await;
    }

    async fn id(&self, n: u32) -> String {
        self.database.id(n).await
    }

    async fn ids(&self, numbers: std::ops::Range<u32>) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for n in numbers {
            ids.insert(self.id(n).await);
        }
        ids
    }

    /// Ids of the events that halt the relay, as `/status` lists them.
    async fn halted(&self, relay: &Relay) -> BTreeSet<String> {
        let status = relay.status().await.unwrap();
        let events = status["halted_events"].as_array().unwrap();
        events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until a topic has these events, and no others.
    fn read(&mut self, word: &str, expected: &[u32]) {
        let topic = self.topics.name(word);
        let of_topic = |records: &[crate::support::Record]| -> Vec<_> {
            records.iter().filter(|record| record.topic == topic).cloned().collect()
        };
        let what = format!("{} events in {topic}", expected.len());
        let records = self.reader.read_until(&what, 2 * SHORT, |records| {
            first_texts(&of_topic(records)).len() >= expected.len()
        });
        let expected: Vec<String> = expected.iter().map(|n| format!("{{\"n\": {n}}}")).collect();
        assert_eq!(first_texts(&of_topic(records)), expected);
    }

    /// Numbers of the events of [`KEY`] that are in the log, in its order, each once.
    fn of_key(&mut self) -> Vec<u32> {
        let of_key =
            |record: &&crate::support::Record| record.key.as_deref() == Some(KEY.as_bytes());
        let records: Vec<_> = self.reader.read_to_end().iter().filter(of_key).cloned().collect();
        let number = |text: &str| text["{\"n\": ".len()..].trim_end_matches('}').parse().unwrap();
        first_texts(&records).into_iter().map(number).collect()
    }
}
