//! The Kafka sink's face against a real broker (`KAFKA_BROKERS`), with a relay of a few lines
//! behind it that sends in order, as far as lanes allow, and sends again after a reset.

mod broker;
mod relay;
mod login;

use std::collections::BTreeMap;
use std::time::Duration;

use pgoutbox::failure::Class;

use broker::{Broker, Topic};
use relay::{Policy, Relay, event};

const TOO_LARGE: usize = 3_000;

/// A topic whose limit a 3 kB event exceeds.
async fn small_topic(broker: &Broker, partitions: i32) -> Topic {
    broker.create(partitions, &[("max.message.bytes", "2000")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a_too_large_event_holds_back_what_follows_it() {
    let broker = Broker::shared();
    let topic = small_topic(&broker, 1).await;
    let mut relay = Relay::start(&broker, &[]).await;
    relay.push([
        event(&topic, "k", b"1".to_vec()),
        event(&topic, "k", vec![b'2'; TOO_LARGE]),
        event(&topic, "k", b"3".to_vec()),
    ]);
    relay.run_until(|relay| !relay.poison.is_empty()).await;
    assert_eq!(broker.read(&topic), [(0, b"1".to_vec())], "before the second is settled");
    let (id, failure) = relay.poison.pop().expect("poison");
    assert_eq!((id, failure.class()), (1, Class::Poison));
    assert!(failure.to_string().contains("2000"), "{failure}");
    relay.settle(id);
    relay.run_to_end().await;
    assert_eq!(broker.read(&topic), [(0, b"1".to_vec()), (0, b"3".to_vec())]);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_a_too_large_event_is_named_as_a_producers_very_first() {
    let broker = Broker::shared();
    let topic = small_topic(&broker, 1).await;
    let mut relay = Relay::start(&broker, &[&topic]).await;
    relay.push([event(&topic, "k", vec![b'1'; TOO_LARGE]), event(&topic, "k", b"2".to_vec())]);
    relay.run_until(|relay| !relay.poison.is_empty()).await;
    assert!(broker.read(&topic).is_empty(), "before the first is settled");
    relay.settle(0);
    relay.run_to_end().await;
    assert_eq!(broker.read(&topic), [(0, b"2".to_vec())]);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_created_while_its_first_events_are_sent() {
    let broker = Broker::shared();
    let topic = broker.name();
    let mut relay = Relay::start(&broker, &[]).await;
    relay.push((0..50).map(|number| event(&topic, "k", number.to_string().into_bytes())));
    relay.run_for(Duration::from_millis(300)).await;
    // The shared broker creates topics by itself, unless this is faster: either way is good.
    broker.create_named(&topic, 3, &[]).await;
    relay.push((50..100).map(|number| event(&topic, "k", number.to_string().into_bytes())));
    relay.run_to_end().await;
    let values: Vec<Vec<u8>> = broker.read(&topic).into_iter().map(|(_, value)| value).collect();
    let expected: Vec<Vec<u8>> = (0..100).map(|number| number.to_string().into_bytes()).collect();
    assert_eq!(values, expected);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn random_refusals_lose_and_reorder_nothing() {
    let runs: Vec<_> = (0..20).map(|seed| tokio::spawn(random_refusals(seed))).collect();
    for run in runs {
        run.await.expect("a run");
    }
}

async fn random_refusals(seed: u64) {
    let broker = Broker::shared();
    let topic = small_topic(&broker, 3).await;
    let mut relay = Relay::start(&broker, &[]).await;
    relay.policy = Policy::Drop;
    let mut random = generator(seed);
    let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for number in 0..200 {
        let key = format!("key-{}", random() % 9);
        let is_poison = random().is_multiple_of(40);
        let mut value = format!("{number}|").into_bytes();
        value.resize(if is_poison { TOO_LARGE } else { 20 + (random() % 200) as usize }, b'.');
        if !is_poison {
            expected.entry(key.clone()).or_default().push(number);
        }
        relay.push([event(&topic, &key, value)]);
    }
    relay.run_to_end().await;
    assert_eq!(first_occurrences(broker.read_keyed(&topic)), expected, "seed {seed}");
    relay.stop().await;
}

/// The numbers that values begin with, by key: a copy of an event that was written already is
/// allowed, order is that of the first ones.
fn first_occurrences(records: Vec<(String, Vec<u8>)>) -> BTreeMap<String, Vec<u64>> {
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (key, value) in records {
        let text = String::from_utf8(value).expect("text");
        let number = text.split('|').next().and_then(|number| number.parse().ok());
        let (number, seen) = (number.expect("a number"), found.entry(key).or_default());
        if !seen.contains(&number) {
            seen.push(number);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_topic_that_is_missing_stops_the_start_with_the_command() {
    let broker = Broker::private().await;
    let missing = broker.name();
    let failure = Relay::try_start(&broker, &[&missing]).await.err().expect("must fail");
    assert_eq!(failure.class(), Class::Fixable);
    assert_eq!(failure.peer_code(), Some("UNKNOWN_TOPIC_OR_PART"));
    assert!(failure.way_out().is_some_and(|hint| hint.contains("kafka-topics.sh")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_missing_topic_blocks_itself_only_and_flows_once_it_exists() {
    let broker = Broker::private().await;
    let (invoice, order) = (broker.name(), broker.create(1, &[]).await);
    let mut relay = Relay::start(&broker, &[]).await;
    for number in 0..10u8 {
        relay.push([event(&invoice, "k", vec![number]), event(&order, "k", vec![number])]);
    }
    relay.run_until(|relay| relay.blocked(&invoice).is_some()).await;
    assert_eq!(broker.read(&order).len(), 10, "the other topic flows");
    assert_eq!(relay.blocked(&invoice).as_deref(), Some("UNKNOWN_TOPIC_OR_PART"));
    broker.create_named(&invoice, 1, &[]).await;
    relay.run_to_end().await;
    assert_eq!(first_bytes(&broker, &invoice), Vec::from_iter(0..10));
    assert!(relay.blocked(&invoice).is_none(), "unblocked");
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_topic_that_may_not_be_written_flows_after_the_grant() {
    let broker = Broker::private().await;
    let (invoice, order) = (broker.create(1, &[]).await, broker.create(1, &[]).await);
    broker.grant("Describe", &invoice);
    broker.grant("Write", &order);
    let mut relay = Relay::with(&broker.login("secret"), &[]).await.expect("the sink starts");
    for number in 0..10u8 {
        relay.push([event(&invoice, "k", vec![number]), event(&order, "k", vec![number])]);
    }
    relay.run_until(|relay| relay.blocked(&invoice).is_some()).await;
    assert_eq!(relay.blocked(&invoice).as_deref(), Some("TOPIC_AUTHORIZATION_FAILED"));
    assert!(broker.read(&invoice).is_empty());
    broker.grant("Write", &invoice);
    relay.run_to_end().await;
    assert_eq!(first_bytes(&broker, &invoice), Vec::from_iter(0..10));
    assert_eq!(first_bytes(&broker, &order), Vec::from_iter(0..10));
    relay.run_until(|relay| !relay.any_blocked()).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_password_stops_the_start() {
    let broker = Broker::private().await;
    let failure = Relay::with(&broker.login("wrong"), &[]).await.err().expect("must fail");
    assert_eq!(failure.class(), Class::Fixable);
    assert_eq!(failure.peer_code(), Some("_AUTHENTICATION"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a04_too_few_replicas_are_named_and_nothing_is_lost() {
    let mut broker = Broker::pair().await;
    let topic = broker.create(1, &[("min.insync.replicas", "2")]).await;
    let mut relay = Relay::start(&broker, &[&topic]).await;
    broker.kill_process(1);
    relay.push((0..20u8).map(|number| event(&topic, "k", vec![number])));
    relay.run_until(|relay| relay.blocked(&topic).is_some()).await;
    assert_eq!(relay.blocked(&topic).as_deref(), Some("NOT_ENOUGH_REPLICAS"));
    broker.start_process(1).await;
    relay.run_to_end().await;
    assert_eq!(first_bytes(&broker, &topic), Vec::from_iter(0..20));
    relay.run_until(|relay| !relay.any_blocked()).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_is_told_and_waited_for() {
    let mut broker = Broker::private().await;
    let topic = broker.create(1, &[]).await;
    let mut relay = Relay::start(&broker, &[&topic]).await;
    broker.kill_process(0);
    relay.push((0..20u8).map(|number| event(&topic, "k", vec![number])));
    relay.run_until(Relay::any_blocked).await;
    broker.start_process(0).await;
    relay.run_to_end().await;
    assert_eq!(first_bytes(&broker, &topic), Vec::from_iter(0..20));
    relay.run_until(|relay| !relay.any_blocked()).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_deleted_under_way_is_told_and_flows_again() {
    let broker = Broker::private().await;
    let topic = broker.create(1, &[]).await;
    let mut relay = Relay::start(&broker, &[&topic]).await;
    relay.push([event(&topic, "k", vec![0])]);
    relay.run_to_end().await;
    broker.delete(&topic).await;
    relay.push((1..20u8).map(|number| event(&topic, "k", vec![number])));
    relay.run_until(|relay| relay.blocked(&topic).is_some()).await;
    broker.create_named(&topic, 1, &[]).await;
    relay.run_to_end().await;
    assert_eq!(first_bytes(&broker, &topic), Vec::from_iter(1..20));
    relay.stop().await;
}

/// The first byte of every value, in order.
fn first_bytes(broker: &Broker, topic: &Topic) -> Vec<u8> {
    broker.read(topic).into_iter().map(|(_, value)| value[0]).collect()
}

/// A small generator whose runs can be repeated.
fn generator(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    }
}
