//! A14, a topic that is missing or denied: told soon, nothing lost or confirmed, the other topic goes
//! on, and everything flows again without a restart once the topic can be written.

use std::time::Duration;

use crate::support::{
    Database, KafkaOptions, PrivateKafka, Reader, Record, Relay, SHORT, Server, Settings, Topics,
    first_texts,
};

/// Of the relay's session: status updates, which say how long "stays" is, come several times in one.
const TIMEOUT: &str = "4s";

const ROWS: u32 = 10;

/// One that is missing, one that we may not even see, and one that we may only see.
#[tokio::test(flavor = "multi_thread")]
async fn a14_topic_missing_or_denied() {
    let kafka = PrivateKafka::start(&KafkaOptions { acls: true, ..KafkaOptions::default() }).await;
    let (mut missing, mut hidden, mut denied) = (Vec::new(), Vec::new(), Vec::new());
    for server in Server::both() {
        missing.push(Story::new(server, &kafka, "a14m").await);
        denied.push(Story::new(server, &kafka, "a14d").await.under_acls(&kafka));
    }
    hidden.push(Story::new(Server::Newest, &kafka, "a14h").await.under_acls(&kafka));
    for story in hidden.iter().chain(&denied) {
        story.create_invoice().await;
    }
    let names = |word, stories: &[&[Story]]| -> Vec<String> {
        stories.iter().copied().flatten().map(|story| story.topics.name(word)).collect()
    };
    allow(&kafka, "Write", &names("order", &[&hidden, &denied]));
    allow(&kafka, "Describe", &names("invoice", &[&denied]));

    for story in missing.iter_mut().chain(&mut hidden).chain(&mut denied) {
        story.start_relay().await;
        story.write().await;
    }
    for story in &mut missing {
        story.is_held_up("UNKNOWN_TOPIC_OR_PART").await;
    }
    for story in hidden.iter_mut().chain(&mut denied) {
        story.is_held_up("TOPIC_AUTHORIZATION_FAILED").await;
    }

    for story in &missing {
        story.create_invoice().await;
    }
    allow(&kafka, "Write", &names("invoice", &[&hidden, &denied]));
    for story in missing.iter_mut().chain(&mut hidden).chain(&mut denied) {
        story.flows().await;
    }
}

/// A topic that is created while its first events are being sent is no reason for an alert, and its
/// events keep their order.
#[tokio::test(flavor = "multi_thread")]
async fn a14_topic_created_in_the_meantime() {
    let kafka = PrivateKafka::start(&KafkaOptions::default()).await;
    for server in Server::both() {
        let mut story = Story::new(server, &kafka, "a14n").await;
        story.start_relay().await;
        for n in 0..100 {
            if n == 30 {
                story.create_invoice().await;
            }
            story.database.insert("invoice", "a", n).await;
        }
        let reader = &mut story.reader;
        reader.read_until("all events", 2 * SHORT, |records| first_texts(records).len() >= 100);
        assert_eq!(first_texts(reader.records()), texts(0..100));
        let log = story.relay.as_ref().unwrap().log();
        assert!(!log.contains("\"level\":\"ERROR\""), "an alert: {log}");
    }
}

/// Write implies Describe.
fn allow(kafka: &PrivateKafka, operation: &str, topics: &[String]) {
    let grant = ["--add", "--allow-principal", "User:relay", "--operation", operation];
    let topics = topics.iter().flat_map(|topic| ["--topic", topic]);
    kafka.acl(&grant.into_iter().chain(topics).collect::<Vec<_>>());
}

struct Story {
    relay: Option<Relay>,
    settings: Settings,
    reader: Reader,
    topics: Topics,
    database: Database,
}

impl Story {
    /// With a topic `order`, and without a topic `invoice`, on a broker that creates none by itself.
    async fn new(server: Server, kafka: &PrivateKafka, hint: &str) -> Self {
        let database = Database::create(server, hint).await;
        database.create_outbox().await;
        let topics = Topics::new(&kafka.brokers(), hint);
        topics.create("order", 1, 1, &[]).await;
        let settings =
            Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", TIMEOUT);
        Relay::init(&settings, &database.admin_url());
        database.create_witness().await;
        let reader = Reader::new(&topics);
        Self { relay: None, settings, reader, topics, database }
    }

    /// The relay may do what ACLs say.
    fn under_acls(mut self, kafka: &PrivateKafka) -> Self {
        let brokers = vec![kafka.sasl_brokers()];
        self.settings = self.settings.with("sinks.events.kafka.brokers", brokers);
        for (name, value) in PrivateKafka::sasl_properties() {
            self.settings = self.settings.with_kafka_property(name, value);
        }
        self
    }

    async fn create_invoice(&self) {
        self.topics.create("invoice", 1, 1, &[]).await;
    }

    async fn start_relay(&mut self) {
        self.relay = Some(Relay::streaming(&self.settings).await);
    }

    /// Invoices and orders in turn.
    async fn write(&self) {
        for n in 0..ROWS {
            self.database.insert("invoice", "a", n).await;
            self.database.insert("order", "a", n).await;
        }
    }

    async fn is_held_up(&mut self, code: &str) {
        let topic = self.topics.name("invoice");
        let words = ["\"level\":\"ERROR\"", &topic, code];
        let relay = self.relay.as_mut().unwrap();
        relay.wait_for_log(&words, Duration::from_secs(60)).await;
        relay.wait_state("halted", SHORT).await;
        let (ready, reason) = relay.get("/readyz").await.unwrap();
        assert_eq!(ready, 503);
        assert!(reason.contains(&topic) && reason.contains(code), "{reason}");
        assert_eq!(relay.get("/livez").await.unwrap().0, 200);
        assert_eq!(relay.metric("pgoutbox_sink_blocked", &[]).await, Some(1.0));

        let order = self.topics.name("order");
        let records = self.reader.read_until("the orders", SHORT, |records| {
            of_topic(records, &order).len() == ROWS as usize
        });
        assert_eq!(first_texts(&of_topic(records, &order)), texts(0..ROWS));
        let end = self.database.commit_ends().await[0];
        let database = &self.database;
        database
            .over_replies(2, async |_| assert!(database.confirmed().await.unwrap() < end))
            .await;
        assert!(of_topic(self.reader.read_to_end(), &topic).is_empty());
    }

    async fn flows(&mut self) {
        let (order, invoice) = (self.topics.name("order"), self.topics.name("invoice"));
        let records = self.reader.read_until("the invoices", 3 * SHORT, |records| {
            first_texts(&of_topic(records, &invoice)).len() == ROWS as usize
        });
        for topic in [order, invoice] {
            assert_eq!(first_texts(&of_topic(records, &topic)), texts(0..ROWS), "{topic}");
        }
        let end = *self.database.commit_ends().await.last().unwrap();
        self.database.wait_confirmed(end, SHORT).await;
        let relay = self.relay.as_mut().unwrap();
        relay.wait_state("streaming", SHORT).await;
        assert_eq!(relay.metric("pgoutbox_sink_blocked", &[]).await, Some(0.0));
    }
}

fn of_topic(records: &[Record], topic: &str) -> Vec<Record> {
    records.iter().filter(|record| record.topic == topic).cloned().collect()
}

fn texts(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|n| format!("{{\"n\": {n}}}")).collect()
}
