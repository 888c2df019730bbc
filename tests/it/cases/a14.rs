//! A14, a topic that is missing or denied: told soon, nothing lost or confirmed, the other topic goes
//! on, and everything flows again without a restart once the topic can be written.

use std::time::Duration;

use crate::support::{
    Database, KafkaOptions, PrivateKafka, Reader, Record, Relay, SHORT, Server, Settings, Topics,
    first_texts,
};

const ROWS: u32 = 10;

/// The broker creates no topics by itself and lets `relay` do what ACLs say.
#[tokio::test(flavor = "multi_thread")]
async fn a14_topic_missing_or_denied() {
    let kafka = PrivateKafka::start(&KafkaOptions { acls: true, ..KafkaOptions::default() }).await;
    for server in Server::both() {
        let mut missing = Story::start(server, &kafka, "a14m").await;
        let mut hidden = Story::start(server, &kafka, "a14h").await;
        let mut denied = Story::start(server, &kafka, "a14d").await;
        hidden.create_invoice().await;
        denied.create_invoice().await;
        denied.allow("Describe", "invoice");
        // The topic that is not there may be written.
        missing.allow("Write", "invoice");

        for story in [&mut missing, &mut hidden, &mut denied] {
            story.start_relay().await;
            story.write().await;
        }
        missing.is_held_up("UNKNOWN_TOPIC_OR_PART").await;
        hidden.is_held_up("TOPIC_AUTHORIZATION_FAILED").await;
        denied.is_held_up("TOPIC_AUTHORIZATION_FAILED").await;

        missing.create_invoice().await;
        hidden.allow("Write", "invoice");
        denied.allow("Write", "invoice");
        for story in [&mut missing, &mut hidden, &mut denied] {
            story.flows().await;
        }
    }
}

/// A topic that is created while its first events are being sent is no reason for an alert, and its
/// events keep their order.
#[tokio::test(flavor = "multi_thread")]
async fn a14_topic_created_in_the_meantime() {
    let kafka = PrivateKafka::start(&KafkaOptions { acls: true, ..KafkaOptions::default() }).await;
    for server in Server::both() {
        let mut story = Story::start(server, &kafka, "a14n").await;
        story.allow("Write", "invoice");
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
        let log = story.relay().log();
        assert!(!log.contains("\"level\":\"ERROR\""), "an alert: {log}");
    }
}

struct Story<'a> {
    kafka: &'a PrivateKafka,
    relay: Option<Relay>,
    settings: Settings,
    reader: Reader,
    topics: Topics,
    database: Database,
}

impl<'a> Story<'a> {
    /// With a topic `order`, which the relay may write, and no topic `invoice`.
    async fn start(server: Server, kafka: &'a PrivateKafka, hint: &str) -> Self {
        let database = Database::create(server, hint).await;
        database.create_outbox().await;
        let topics = Topics::new(&kafka.brokers(), hint);
        topics.create("order", 1, 1, &[]).await;
        let brokers = vec![kafka.sasl_brokers()];
        let mut settings =
            Settings::new(&database, &topics).with("sinks.events.kafka.brokers", brokers);
        for (name, value) in PrivateKafka::sasl_properties() {
            settings = settings.with_kafka_property(name, value);
        }
        Relay::init(&settings, &database.admin_url());
        database.create_witness().await;
        let reader = Reader::new(&topics);
        let this = Self { kafka, relay: None, settings, reader, topics, database };
        this.allow("Write", "order");
        this
    }

    async fn create_invoice(&self) {
        self.topics.create("invoice", 1, 1, &[]).await;
    }

    /// Write implies Describe.
    fn allow(&self, operation: &str, word: &str) {
        let (user, topic) = ("User:relay", self.topics.name(word));
        self.kafka.acl(&[
            "--add",
            "--allow-principal",
            user,
            "--operation",
            operation,
            "--topic",
            &topic,
        ]);
    }

    async fn start_relay(&mut self) {
        self.relay = Some(Relay::streaming(&self.settings).await);
    }

    fn relay(&mut self) -> &mut Relay {
        self.relay.as_mut().unwrap()
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
            .over_replies(3, async |_| assert!(database.confirmed().await.unwrap() < end))
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
