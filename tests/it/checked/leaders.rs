//! Partitions whose leader changes under load.

use std::time::Duration;

use crate::checker::{Workload, judge_topics, read_all};
use crate::support::{
    Database, KafkaOptions, PrivateKafka, Reader, Relay, SHORT, Server, Settings, Topics,
};

/// Two brokers have the partitions in turn: one of them is killed, comes back, is given its
/// partitions again, and leaves in an orderly way. What is acknowledged with one copy alone stays,
/// since that copy is the leader's.
#[tokio::test(flavor = "multi_thread")]
async fn leaders_that_change_lose_and_reorder_nothing() {
    let rebalance = |(name, value): (&'static str, &str)| (name, value.to_owned());
    let properties = [
        ("leader.imbalance.check.interval.seconds", "1"),
        ("leader.imbalance.per.broker.percentage", "0"),
    ];
    let mut kafka = PrivateKafka::start(&KafkaOptions {
        two_brokers: true,
        properties: properties.map(rebalance).to_vec(),
        ..KafkaOptions::default()
    })
    .await;
    let database = Database::create(Server::Newest, "leaders").await;
    database.create_outbox().await;
    let topics = Topics::new(&kafka.brokers(), "leaders");
    let workload = Workload {
        transactions: usize::MAX,
        pace: Some(Duration::from_millis(100)),
        ..Workload::default()
    };
    for word in workload.types {
        topics.create(word, 4, 2, &[]).await;
    }
    let settings = Settings::new(&database, &topics);
    Relay::init(&settings, &database.admin_url());
    let relay = Relay::streaming(&settings).await;

    let load = workload.start(&database).await;
    let mut reader = Reader::new(&topics);
    for round in 0..4 {
        more(&mut reader, 200);
        match round % 2 {
            0 => kafka.kill(1),
            _ => kafka.stop(1).await,
        }
        // All leaders are on the first broker now.
        kafka.wait_ready(1).await;
        more(&mut reader, 200);
        kafka.start_again(1).await;
        kafka.wait_leads(1, &topics).await;
    }
    let history = load.stop().await;
    let records = read_all(&history, &mut reader, 3 * SHORT);
    judge_topics(&history, records, &topics).assert_clean();
    assert_eq!(
        relay.metric("pgoutbox_reconnects_total", &["peer=\"source\""]).await.unwrap_or(0.0),
        0.0
    );
}

fn more(reader: &mut Reader, count: usize) {
    reader.read_count(reader.records().len() + count, 3 * SHORT);
}
