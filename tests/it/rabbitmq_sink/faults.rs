//! Connections that end, that are blocked, and that only seem to live.

use std::time::Duration;

use tokio::time::Instant;

use super::confirms::{number, numbered};
use super::relay::{Relay, config};
use crate::support::{PrivateRabbit, Proxy, QueueKind, Rabbit, RabbitReader, RabbitVersion, SHORT};

const GRACE: Duration = Duration::from_secs(5);

on_both_rabbits! {
    a07_closed_connections_lose_nothing,
    a04_a_killed_broker_is_told_and_waited_for,
    a24_a_blocked_connection_is_told_and_flows_again,
    a24_a_stop_while_blocked_keeps_to_its_time,
    a_broker_that_stops_or_hangs_is_told_and_waited_for,
    a_connection_that_only_seems_to_live_is_given_up,
    a_broker_that_hangs_during_the_login_is_given_up,
}

/// The first of each number are in order, key by key, and none is missing.
async fn assert_all_in_order(rabbit: &Rabbit, count: u64, keys: u64) {
    let mut reader = RabbitReader::new(rabbit, &["order"]).await;
    let mut next: Vec<u64> = (0..keys).collect();
    for number in reader.read_to_end().await.iter().map(number) {
        let next = &mut next[(number % keys) as usize];
        assert!(number <= *next, "{number} came before {next}");
        if number == *next {
            *next += keys;
        }
    }
    assert!(next.iter().all(|next| *next >= count), "missing from {next:?}");
}

async fn a07_closed_connections_lose_nothing(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "closed");
    rabbit.create_layout(QueueKind::Quorum);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    let mut pushed = 0;
    for round in 1..=5 {
        relay.push((pushed..pushed + 2000).map(|number| numbered("order", number, number % 100)));
        pushed += 2000;
        relay.run_until("some", |relay| relay.unsettled() < 1500).await;
        rabbit.close_connections();
        relay.run_until("a reset", |relay| relay.resets >= round).await;
        assert_eq!(relay.metrics.connected.get(), 1);
    }
    relay.run_to_end().await;
    assert_eq!(relay.metrics.reconnects.get(), 5);
    assert_eq!(relay.blocked(None), None);
    assert_all_in_order(&rabbit, pushed, 100).await;
    relay.stop(GRACE).await;
}

async fn a04_a_killed_broker_is_told_and_waited_for(version: RabbitVersion) {
    let mut node = PrivateRabbit::start(version, &[]).await;
    let rabbit = Rabbit::create_on(node.node(), "killed");
    rabbit.create_layout(QueueKind::Classic);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    relay.push((0..2000).map(|number| numbered("order", number, number % 100)));
    relay.run_until("some", |relay| relay.acked > 500).await;
    node.kill();
    relay.run_until("it is told", |relay| relay.blocked(None) == Some("connection")).await;
    assert_eq!(relay.metrics.connected.get(), 0);
    node.start_again().await;
    relay.run_to_end().await;
    assert_eq!((relay.blocked(None), relay.metrics.connected.get()), (None, 1));
    assert_all_in_order(&rabbit, 2000, 100).await;
    relay.stop(GRACE).await;
}

async fn a24_a_blocked_connection_is_told_and_flows_again(version: RabbitVersion) {
    let node = PrivateRabbit::start(version, &[]).await;
    let rabbit = Rabbit::create_on(node.node(), "blocked");
    rabbit.create_layout(QueueKind::Classic);
    let mut config = config(&[rabbit.relay_url()]);
    config.heartbeat = Duration::from_secs(1);
    let mut relay = Relay::with(&config, &[]).await.expect("the sink starts");
    relay.push([numbered("order", 0, 0)]);
    relay.run_to_end().await;
    node.node().set_memory_alarm(true);
    relay.push((1..3000).map(|number| numbered("order", number, number % 100)));
    relay.run_until("told", |relay| relay.blocked(None) == Some("connection.blocked")).await;
    // Longer than the broker waits for heartbeats, which we cannot send.
    relay.run_for(Duration::from_secs(6)).await;
    assert_eq!((relay.acked, relay.metrics.connected.get()), (1, 1));
    node.node().set_memory_alarm(false);
    relay.run_to_end().await;
    assert_eq!((relay.acked, relay.resets, relay.blocked(None)), (3000, 0, None));
    let mut reader = RabbitReader::new(&rabbit, &["order"]).await;
    assert_eq!(reader.read_to_end().await.len(), 3000, "no copies");
    relay.stop(GRACE).await;
}

async fn a_broker_that_stops_or_hangs_is_told_and_waited_for(version: RabbitVersion) {
    let mut node = PrivateRabbit::start(version, &[]).await;
    let rabbit = Rabbit::create_on(node.node(), "stops");
    rabbit.create_layout(QueueKind::Quorum);
    let mut config = config(&[rabbit.relay_url()]);
    config.heartbeat = Duration::from_secs(1);
    let mut relay = Relay::with(&config, &[]).await.expect("the sink starts");
    relay.push((0..1000).map(|number| numbered("order", number, number % 100)));
    relay.run_until("some", |relay| relay.acked > 100).await;
    node.signal("STOP");
    relay.run_until("it is told", |relay| relay.blocked(None).is_some()).await;
    assert_eq!(relay.metrics.connected.get(), 0);
    node.signal("CONT");
    relay.run_to_end().await;
    assert_eq!((relay.blocked(None), relay.metrics.connected.get()), (None, 1));
    node.stop().await;
    relay.push((1000..2000).map(|number| numbered("order", number, number % 100)));
    relay.run_until("it is told", |relay| relay.blocked(None) == Some("connection")).await;
    node.start_again().await;
    relay.run_to_end().await;
    assert_all_in_order(&rabbit, 2000, 100).await;
    relay.stop(GRACE).await;
}

async fn a24_a_stop_while_blocked_keeps_to_its_time(version: RabbitVersion) {
    let node = PrivateRabbit::start(version, &[]).await;
    let rabbit = Rabbit::create_on(node.node(), "stop");
    rabbit.create_layout(QueueKind::Classic);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    node.node().set_memory_alarm(true);
    relay.push((0..500).map(|number| numbered("order", number, number)));
    relay.run_until("blocked", |relay| relay.blocked(None).is_some()).await;
    let since = Instant::now();
    relay.stop(Duration::from_secs(3)).await;
    let took = since.elapsed();
    assert!((Duration::from_secs(1)..SHORT).contains(&took), "{took:?}");
}

async fn a_connection_that_only_seems_to_live_is_given_up(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "frozen");
    rabbit.create_layout(QueueKind::Quorum);
    let proxy = Proxy::start(rabbit.node().port).await;
    let mut config = config(&[rabbit.relay_url_through(proxy.port()), rabbit.relay_url()]);
    config.heartbeat = Duration::from_secs(2);
    let mut relay = Relay::with(&config, &[]).await.expect("the sink starts");
    relay.push((0..100).map(|number| numbered("order", number, number % 10)));
    relay.run_to_end().await;
    proxy.freeze();
    relay.push((100..200).map(|number| numbered("order", number, number % 10)));
    let since = Instant::now();
    relay.run_to_end().await;
    assert!(since.elapsed() < SHORT, "{:?}", since.elapsed());
    assert_all_in_order(&rabbit, 200, 10).await;
    relay.stop(GRACE).await;
}

async fn a_broker_that_hangs_during_the_login_is_given_up(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "hangs");
    let proxy = Proxy::start(rabbit.node().port).await;
    proxy.freeze();
    let url = rabbit.relay_url_through(proxy.port());
    let since = Instant::now();
    let failure = Relay::with(&config(&[url]), &[]).await.err().expect("must fail");
    assert_eq!(failure.peer_code(), Some("timeout"), "{failure}");
    assert!(since.elapsed() < SHORT);
}
