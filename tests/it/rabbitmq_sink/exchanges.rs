//! Exchanges that take nothing, beside others that do.

use std::time::Duration;

use pgoutbox::failure::Class;
use pgoutbox::routing::RoutedEvent;
use serde_json::json;

use super::relay::{Relay, config, event};
use crate::support::{EXCHANGE, QueueKind, Rabbit, RabbitReader, RabbitVersion};

const GRACE: Duration = Duration::from_secs(5);

on_both_rabbits! {
    a14_a_named_exchange_that_is_missing_stops_the_start,
    a16_a_missing_exchange_holds_back_its_own_events_alone,
    a16_an_exchange_deleted_under_way_is_told_and_flows_again,
    a14_an_exchange_that_may_not_be_written_holds_back_its_own_events_alone,
    an_unroutable_message_with_an_alternate_exchange_is_taken,
}

async fn a14_a_named_exchange_that_is_missing_stops_the_start(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "named");
    rabbit.create_layout(QueueKind::Classic);
    let config = config(&[rabbit.relay_url()]);
    let failure = Relay::with(&config, &[EXCHANGE, "invoices"]).await.err().expect("must fail");
    assert_eq!((failure.class(), failure.peer_code()), (Class::Fixable, Some("404")));
    assert!(failure.to_string().contains("`invoices`"), "{failure}");
    assert!(failure.way_out().is_some_and(|hint| hint.contains("declare exchange")));
    let relay = Relay::with(&config, &[EXCHANGE, "", "amq.topic"]).await.expect("all are there");
    relay.stop(GRACE).await;
}

async fn a16_a_missing_exchange_holds_back_its_own_events_alone(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "missing");
    rabbit.create_layout(QueueKind::Quorum);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    relay.push((0..2000).map(|number| to(exchange(number), number)));
    relay.run_until("the others flow", |relay| relay.acked >= 1800).await;
    assert!(relay.resets <= 1, "the channel is closed once: {}", relay.resets);
    assert!(
        relay.returns("404") > 0 && relay.returned.iter().all(|returned| returned.id % 10 == 3)
    );
    assert_eq!(relay.returned[0].failure.class(), Class::Fixable);
    relay.push((2000..4000).map(|number| to(EXCHANGE, number)));
    relay.run_until("later ones flow", |relay| relay.acked >= 3800).await;
    rabbit.create_exchange("invoices", "fanout", json!({}));
    rabbit.bind("invoices", "payment", "");
    relay.run_to_end().await;
    assert_eq!(relay.resets, 1, "trials harm nobody");
    let mut reader = RabbitReader::new(&rabbit, &["payment"]).await;
    assert_eq!(reader.read_to_end().await.len(), 200);
    relay.stop(GRACE).await;
}

async fn a16_an_exchange_deleted_under_way_is_told_and_flows_again(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "deleted");
    rabbit.create_layout(QueueKind::Classic);
    let mut relay = Relay::start(rabbit.relay_url()).await;
    relay.push((0..100).map(|number| to(EXCHANGE, number)));
    relay.run_to_end().await;
    rabbit.delete_exchange(EXCHANGE);
    relay.push((100..200).map(|number| to(EXCHANGE, number)));
    relay.run_until("it is told", |relay| relay.returns("404") > 0).await;
    rabbit.create_layout(QueueKind::Classic);
    relay.run_to_end().await;
    let mut reader = RabbitReader::new(&rabbit, &["order"]).await;
    assert_eq!(reader.read_to_end().await.len(), 200);
    relay.stop(GRACE).await;
}

async fn a14_an_exchange_that_may_not_be_written_holds_back_its_own_events_alone(
    version: RabbitVersion,
) {
    let rabbit = Rabbit::create(version, "refused");
    rabbit.create_layout(QueueKind::Quorum);
    rabbit.create_exchange("invoices", "fanout", json!({}));
    rabbit.bind("invoices", "payment", "");
    rabbit.allow_writing("^events$");
    let mut relay = Relay::start(rabbit.relay_url()).await;
    relay.push((0..2000).map(|number| to(exchange(number), number)));
    relay.run_until("the others flow", |relay| relay.acked >= 1800).await;
    relay.run_until("it is told", |relay| relay.returns("403") > 0).await;
    assert!(relay.resets <= 1, "the channel is closed once: {}", relay.resets);
    let refused = relay.returned.iter().find(|returned| returned.code == "403").expect("one");
    assert_eq!((refused.id % 10, refused.failure.class()), (3, Class::Fixable));
    rabbit.allow_writing(".*");
    relay.run_to_end().await;
    assert_eq!(relay.resets, 1, "trials harm nobody");
    relay.stop(GRACE).await;
}

async fn an_unroutable_message_with_an_alternate_exchange_is_taken(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "alternate");
    rabbit.create_exchange("lost", "fanout", json!({}));
    rabbit.create_queue("found", QueueKind::Quorum, json!({}));
    rabbit.bind("lost", "found", "");
    rabbit.create_exchange(EXCHANGE, "direct", json!({"alternate-exchange": "lost"}));
    let mut relay = Relay::start(rabbit.relay_url()).await;
    relay.push((0..10).map(|number| to(EXCHANGE, number)));
    relay.run_to_end().await;
    assert!(relay.returned.is_empty());
    let mut reader = RabbitReader::new(&rabbit, &["found"]).await;
    assert_eq!(reader.read_to_end().await.len(), 10);
    relay.stop(GRACE).await;
}

/// One in ten goes to an exchange of its own.
fn exchange(number: u64) -> &'static str {
    if number % 10 == 3 { "invoices" } else { EXCHANGE }
}

fn to(exchange: &str, number: u64) -> RoutedEvent {
    let text = number.to_string();
    event(exchange, "order", &text, Some(number), text.clone().into_bytes())
}
