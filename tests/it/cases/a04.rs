//! A04, confirmed before it was acknowledged: the broker refuses everything for want of replicas.

use std::time::Duration;

use crate::support::{
    Database, KafkaOptions, PrivateKafka, Reader, Relay, SHORT, Server, Settings, Topics,
    first_texts,
};

const ROWS: u32 = 20;

/// With the second copy's broker gone nothing is confirmed and the reason is told; with it back, or
/// not needed any more, everything flows in order.
#[tokio::test(flavor = "multi_thread")]
async fn a04_confirm_before_ack() {
    let options = KafkaOptions { two_brokers: true, ..KafkaOptions::default() };
    let mut kafka = PrivateKafka::start(&options).await;
    let mut stories = Vec::new();
    for server in Server::both() {
        stories.push(Story::start(server, &kafka).await);
    }

    kafka.kill(1);
    kafka.wait_ready(1).await;
    for story in &mut stories {
        story.refused().await;
    }
    kafka.start_again(1).await;
    for story in &mut stories {
        story.flows().await;
    }
}

/// The other way out: the topic's minimum is lowered while the broker stays away.
#[tokio::test(flavor = "multi_thread")]
async fn a04_confirm_before_ack_until_the_minimum_is_lowered() {
    let options = KafkaOptions { two_brokers: true, ..KafkaOptions::default() };
    let mut kafka = PrivateKafka::start(&options).await;
    let mut story = Story::start(Server::Newest, &kafka).await;

    kafka.kill(1);
    kafka.wait_ready(1).await;
    story.refused().await;
    story.topics.configure("order", &[("min.insync.replicas", "1")]).await;
    story.flows().await;
}

struct Story {
    relay: Relay,
    topics: Topics,
    database: Database,
}

impl Story {
    async fn start(server: Server, kafka: &PrivateKafka) -> Self {
        let database = Database::create(server, "a04").await;
        database.create_outbox().await;
        let topics = Topics::new(&kafka.brokers(), "a04");
        topics.create("order", 1, 2, &[("min.insync.replicas", "2")]).await;
        // So that status updates come often.
        let settings =
            Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", "2s");
        Relay::init(&settings, &database.admin_url());
        database.create_witness().await;
        Self { relay: Relay::streaming(&settings).await, topics, database }
    }

    async fn refused(&mut self) {
        let Self { relay, topics, database } = self;
        for n in 0..ROWS {
            database.insert("order", "a", n).await;
        }
        let end = database.commit_ends().await[0];
        let topic = topics.name("order");
        relay.wait_for_log(&[&topic, "in-sync replicas"], SHORT).await;
        relay.wait_state("blocked", SHORT).await;
        let (ready, reason) = relay.get("/readyz").await.unwrap();
        assert_eq!(ready, 503);
        assert!(reason.contains(&topic), "{reason}");
        database
            .over_replies(3, async |_| {
                let confirmed = database.confirmed().await.unwrap();
                assert!(
                    confirmed < end,
                    "{confirmed} was confirmed, the first event ends at {end}"
                );
            })
            .await;
        assert!(Reader::new(topics).read_to_end().is_empty());
    }

    async fn flows(&mut self) {
        let Self { relay, topics, database } = self;
        let mut reader = Reader::new(topics);
        let deadline = Duration::from_secs(90);
        reader.read_until("all events", deadline, |all| first_texts(all).len() == ROWS as usize);
        let expected: Vec<String> = (0..ROWS).map(|n| format!("{{\"n\": {n}}}")).collect();
        assert_eq!(first_texts(reader.records()), expected);
        let end = *database.commit_ends().await.last().unwrap();
        database.wait_confirmed(end, SHORT).await;
        relay.wait_state("streaming", SHORT).await;
    }
}
