//! Acks, nacks and returns.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::types::{AMQPValue, ShortString};
use serde_json::json;

use super::relay::{Relay, config, event};
use crate::support::{EXCHANGE, Message, QueueKind, Rabbit, RabbitReader, RabbitVersion, SHORT};

const GRACE: Duration = Duration::from_secs(5);

on_both_rabbits! {
    every_event_arrives_once_and_in_the_order_of_its_key,
    events_of_a_key_that_are_out_together_keep_their_order,
    a_message_has_what_the_event_has,
    a15_what_no_queue_takes_is_never_acknowledged,
    a15_a_window_of_returns_is_told_apart,
    a31_a_nack_holds_back_its_key_alone,
    a31_a_full_queue_beside_a_roomy_one_nacks,
}

async fn every_event_arrives_once_and_in_the_order_of_its_key(version: RabbitVersion) {
    for kind in [QueueKind::Quorum, QueueKind::Classic, QueueKind::Stream] {
        let rabbit = Rabbit::create(version, "arrives");
        rabbit.create_layout(kind);
        let mut relay = Relay::start(rabbit.relay_url()).await;
        let numbers = 0..3000u64;
        relay.push(numbers.clone().map(|number| numbered("order", number, number % 50)));
        relay.run_to_end().await;
        assert_eq!((relay.acked, relay.resets, relay.returned.len()), (3000, 0, 0));
        let mut reader = RabbitReader::new(&rabbit, &["order"]).await;
        let messages = reader.read_count(3000, SHORT).await;
        assert_eq!(messages.len(), 3000, "no copies");
        for (key, numbers) in by_key(messages, 50) {
            let expected: Vec<u64> = (0..60).map(|step| step * 50 + key).collect();
            assert_eq!(numbers, expected, "{kind:?}");
        }
        relay.stop(GRACE).await;
    }
}

async fn events_of_a_key_that_are_out_together_keep_their_order(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "together");
    rabbit.create_layout(QueueKind::Quorum);
    let mut config = config(&[rabbit.relay_url()]);
    config.max_unsettled_per_key = 100;
    let mut relay = Relay::with(&config, &[]).await.expect("the sink starts");
    relay.push((0..2000).map(|number| numbered("order", number, number % 2)));
    relay.run_to_end().await;
    let mut reader = RabbitReader::new(&rabbit, &["order"]).await;
    let numbers = by_key(reader.read_to_end().await, 2);
    assert!(numbers[&0].iter().copied().eq((0..2000).step_by(2)));
    assert!(numbers[&1].iter().copied().eq((1..2000).step_by(2)));
    relay.stop(GRACE).await;
}

async fn a_message_has_what_the_event_has(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "message");
    rabbit.create_layout(QueueKind::Quorum);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    let mut full = event(EXCHANGE, "order", "id-1", None, b"{}".to_vec());
    full.headers.names =
        std::sync::Arc::new([Box::from("text"), Box::from("null"), Box::from("raw")]);
    full.headers.values = [
        (0, Some("é\0".as_bytes().to_vec().into())),
        (1, None),
        (2, Some(vec![0xff, 0x00].into())),
    ]
    .into_iter()
    .collect();
    let mut null = event("", "order", "id-2", None, b"".to_vec());
    null.value = None;
    relay.push([full, null]);
    relay.run_to_end().await;
    let mut reader = RabbitReader::new(&rabbit, &["order"]).await;
    let messages = reader.read_to_end().await;
    let [full, null] = messages else { panic!("{messages:?}") };
    let properties = &full.properties;
    assert_eq!((full.id(), full.text()), (Some("id-1"), "{}"));
    assert_eq!(properties.delivery_mode(), &Some(2));
    assert_eq!(properties.timestamp(), &Some(1_700_000_000));
    assert_eq!(properties.content_type().as_ref().map(ShortString::as_str), Some("text/plain"));
    assert_eq!(properties.app_id().as_ref().map(ShortString::as_str), Some("pgoutbox"));
    assert_eq!(full.header("text"), Some("é\0"));
    assert_eq!(full.field("null"), Some(&AMQPValue::Void));
    assert_eq!(full.field("raw"), Some(&AMQPValue::ByteArray(vec![0xff, 0].into())));
    assert_eq!((null.id(), null.text(), null.exchange.as_str()), (Some("id-2"), "", ""));
    assert_eq!(null.field("pgoutbox-null"), Some(&AMQPValue::Boolean(true)));
    relay.stop(GRACE).await;
}

async fn a15_what_no_queue_takes_is_never_acknowledged(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "unroutable");
    rabbit.create_layout(QueueKind::Quorum);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    relay.push([
        event(EXCHANGE, "order", "1", Some(1), b"1".to_vec()),
        event(EXCHANGE, "refund", "2", Some(2), b"2".to_vec()),
        event(EXCHANGE, "order", "3", Some(3), b"3".to_vec()),
        event(EXCHANGE, "order", "4", Some(2), b"4".to_vec()),
    ]);
    relay.run_until("it came back", |relay| relay.returns("312") >= 2 && relay.acked == 2).await;
    let failure = &relay.returned[0].failure;
    assert_eq!(relay.returned[0].id, 1);
    let text = failure.to_string();
    assert!(text.contains("`refund`") && text.contains("`events`"), "{text}");
    assert!(failure.way_out().is_some_and(|hint| hint.contains("source=events")), "{failure:?}");
    rabbit.create_queue("refund", QueueKind::Classic, json!({}));
    rabbit.bind(EXCHANGE, "refund", "refund");
    relay.run_to_end().await;
    let mut reader = RabbitReader::new(&rabbit, &["order", "refund"]).await;
    let mut texts: Vec<&str> = reader.read_to_end().await.iter().map(Message::text).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["1", "2", "3", "4"]);
    relay.stop(GRACE).await;
}

/// lapin hangs a return on any confirm, and completes the many that one ack stands for in no order.
async fn a15_a_window_of_returns_is_told_apart(version: RabbitVersion) {
    for (run, share) in [3, 2, 20, 200].into_iter().enumerate() {
        let rabbit = Rabbit::create(version, "returns");
        rabbit.create_layout(QueueKind::Classic);
        let mut relay = Relay::start(rabbit.relay_url()).await;
        let is_lost = |number: u64| (number * 7919 + run as u64).is_multiple_of(share);
        relay.tries_again = false;
        let count = 8000u64;
        relay.push((0..count).map(|number| {
            let queue = if is_lost(number) { "nowhere" } else { "order" };
            numbered(queue, number, number)
        }));
        let routable = (0..count).filter(|number| !is_lost(*number)).count();
        relay.run_to_end().await;
        for number in 0..count {
            assert_eq!(relay.is_acked(number), !is_lost(number), "{number} in run {run}");
        }
        let innocent = relay.returned.iter().find(|returned| !is_lost(returned.id));
        assert!(innocent.is_none(), "{innocent:?}");
        let mut reader = RabbitReader::new(&rabbit, &["order"]).await;
        assert_eq!(reader.read_to_end().await.len(), routable, "no copies");
        relay.stop(GRACE).await;
    }
}

async fn a31_a_nack_holds_back_its_key_alone(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "nack");
    rabbit.create_exchange(EXCHANGE, "direct", json!({}));
    let full = json!({"x-max-length": 1, "x-overflow": "reject-publish"});
    rabbit.create_queue("full", QueueKind::Classic, full);
    rabbit.create_queue("roomy", QueueKind::Classic, json!({}));
    rabbit.bind(EXCHANGE, "full", "full");
    rabbit.bind(EXCHANGE, "roomy", "roomy");
    let mut relay = Relay::start(rabbit.relay_url()).await;
    relay.push((0..4).map(|number| numbered("full", number, 1)));
    relay.push((4..8).map(|number| numbered("roomy", number, 2)));
    relay.run_until("a nack", |relay| relay.returns("nack") >= 3 && relay.acked >= 5).await;
    assert_eq!(relay.resets, 0);
    let mut reader = RabbitReader::new(&rabbit, &["full", "roomy"]).await;
    relay.run_to_end().await;
    let messages = reader.read_count(8, SHORT).await;
    let full: Vec<u64> = messages.iter().filter(|m| m.queue == "full").map(number).collect();
    assert_eq!(full, [0, 1, 2, 3]);
    relay.stop(GRACE).await;
}

/// The roomy queue has a copy of what is nacked, and of each try.
async fn a31_a_full_queue_beside_a_roomy_one_nacks(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "nacks");
    rabbit.create_exchange(EXCHANGE, "direct", json!({}));
    let full = json!({"x-max-length": 1, "x-overflow": "reject-publish"});
    rabbit.create_queue("full", QueueKind::Classic, full);
    rabbit.create_queue("roomy", QueueKind::Classic, json!({}));
    rabbit.bind(EXCHANGE, "full", "key");
    rabbit.bind(EXCHANGE, "roomy", "key");
    let mut relay = Relay::start(rabbit.relay_url()).await;
    relay.push((0..4).map(|number| numbered("key", number, 1)));
    relay.run_until("nacks", |relay| relay.returns("nack") >= 3).await;
    assert!(relay.acked <= 2, "one fits, and perhaps one more");
    let mut reader = RabbitReader::new(&rabbit, &["full", "roomy"]).await;
    relay.run_to_end().await;
    let messages = reader.read_to_end().await;
    let mut first = Vec::new();
    for number in messages.iter().filter(|message| message.queue == "roomy").map(number) {
        if !first.contains(&number) {
            first.push(number);
        }
    }
    assert_eq!(first, [0, 1, 2, 3]);
    relay.stop(GRACE).await;
}

/// An event whose body is its number.
pub(super) fn numbered(routing_key: &str, number: u64, key: u64) -> pgoutbox::routing::RoutedEvent {
    let text = number.to_string();
    event(EXCHANGE, routing_key, &text, Some(key), text.clone().into_bytes())
}

/// The number that a message's body is.
pub(super) fn number(message: &Message) -> u64 {
    message.text().parse().expect("a number")
}

fn by_key(messages: &[Message], keys: u64) -> BTreeMap<u64, Vec<u64>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for number in messages.iter().map(number) {
        found.entry(number % keys).or_default().push(number);
    }
    found
}
