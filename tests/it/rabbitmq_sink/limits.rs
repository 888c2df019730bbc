//! What a broker would close the channel for is told before, and takes nobody along.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pgoutbox::failure::Class;
use pgoutbox::routing::RoutedEvent;

use super::confirms::numbered;
use super::relay::{Relay, config, event};
use crate::support::{EXCHANGE, PrivateRabbit, QueueKind, Rabbit, RabbitVersion};

const GRACE: Duration = Duration::from_secs(5);
const MIB: usize = 1024 * 1024;

on_both_rabbits! {
    what_no_broker_takes_is_poison_and_takes_nobody_along,
    the_largest_that_fits_arrives,
    a_message_that_the_broker_refuses_is_found_among_its_neighbours,
}

fn with_header(number: u64, name: &str, value: Vec<u8>) -> RoutedEvent {
    let mut event = numbered("order", number, number);
    event.headers.names = Arc::new([Box::from(name)]);
    event.headers.values = [(0, Some(Bytes::from(value)))].into_iter().collect();
    event
}

fn largest_body(version: RabbitVersion) -> usize {
    match version {
        RabbitVersion::Oldest => 128 * MIB,
        RabbitVersion::Newest => 16 * MIB,
    }
}

async fn what_no_broker_takes_is_poison_and_takes_nobody_along(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "limits");
    rabbit.create_layout(QueueKind::Quorum);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    let long = "x".repeat(256);
    let body = vec![b'x'; largest_body(version) + 1];
    relay.push([
        numbered("order", 0, 0),
        event(EXCHANGE, &long, "1", None, b"1".to_vec()),
        event(&long, "order", "2", None, b"2".to_vec()),
        event(EXCHANGE, "order", &long, None, b"3".to_vec()),
        with_header(4, &long, b"4".to_vec()),
        with_header(5, "big", vec![b'x'; 131_072]),
        event(EXCHANGE, "order", "6", None, body),
        numbered("order", 7, 7),
    ]);
    relay.run_to_end().await;
    let poison: Vec<u64> = relay.poison.iter().map(|(id, _)| *id).collect();
    assert_eq!((poison, relay.acked, relay.resets), (vec![1, 2, 3, 4, 5, 6], 2, 0));
    for ((id, failure), word) in relay.poison.iter().zip([
        "routing key",
        "exchange",
        "its id has 256",
        "name of a header",
        "headers make",
        "payload",
    ]) {
        assert_eq!(failure.class(), Class::Poison);
        assert!(failure.to_string().contains(word), "{id}: {failure}");
    }
    relay.stop(GRACE).await;
}

async fn the_largest_that_fits_arrives(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "largest");
    rabbit.create_layout(QueueKind::Classic);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    let longest = "x".repeat(255);
    // The bound itself, from below: an event of 16 MiB is what the source reads at most by default.
    let mut id = event("", "order", &longest, None, vec![b'x'; 16 * MIB]);
    id.headers.values.clear();
    // Frame 131,072 = 8 + header 14 + properties: id 2, content type 11, app id 9, mode and time 9,
    // the table's length 4, the name 1 + 255, the type 1, the value's length 4.
    let rest = 8 + 14 + 2 + 11 + 9 + 9 + 4 + 256 + 1 + 4;
    relay.push([id, with_header(1, &longest, vec![b'x'; 131_072 - rest])]);
    relay.run_to_end().await;
    assert_eq!((relay.acked, relay.resets), (2, 0), "{:?}", relay.poison);
    relay.push([with_header(2, &longest, vec![b'x'; 131_072 - rest + 1])]);
    relay.run_to_end().await;
    assert_eq!((relay.acked, relay.poison.len()), (2, 1));
    relay.stop(GRACE).await;
}

/// A broker that takes less than its version does by default, and nobody told the relay. Each message
/// that is suspected is tried on a channel of its own, and a connection has few.
async fn a_message_that_the_broker_refuses_is_found_among_its_neighbours(version: RabbitVersion) {
    let node =
        PrivateRabbit::start(version, &[("max_message_size", "10000"), ("channel_max", "30")])
            .await;
    let rabbit = Rabbit::create_on(node.node(), "size");
    rabbit.create_layout(QueueKind::Quorum);
    let mut config = config(&[rabbit.relay_url()]);
    let mut relay = Relay::with(&config, &[]).await.expect("the sink starts");
    let large = |number: u64| {
        event(EXCHANGE, "order", &number.to_string(), Some(number), vec![b'x'; 10_001])
    };
    relay.push((0..50).map(|number| numbered("order", number, number)));
    relay.push([large(50)]);
    relay.push((51..100).map(|number| numbered("order", number, number)));
    relay.run_to_end().await;
    assert_eq!(relay.acked, 99, "{:?}", relay.poison);
    let [(50, failure)] = relay.poison.as_slice() else { panic!("{:?}", relay.poison) };
    assert_eq!((failure.class(), failure.peer_code()), (Class::Poison, Some("406")));
    relay.stop(GRACE).await;
    config.max_message_size = Some(10_000);
    let mut relay = Relay::with(&config, &[]).await.expect("the sink starts");
    relay.push([large(0), numbered("order", 1, 1)]);
    relay.run_to_end().await;
    assert_eq!((relay.acked, relay.poison.len(), relay.resets), (1, 1, 0));
    relay.stop(GRACE).await;
}
