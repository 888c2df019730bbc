//! RabbitMQ: layouts, readers, and brokers that are hurt.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm,
};
use serde_json::json;
use uuid::Uuid;

use crate::checker::{Event, History, judge_queues, read_queues};
use crate::support::{
    EXCHANGE, Message, PrivateRabbit, QueueKind, Rabbit, RabbitReader, RabbitVersion, SHORT,
    wait_until,
};

on_both_rabbits!(
    the_reader_gives_each_queue_in_its_order_and_to_its_end,
    the_checker_sees_through_rabbitmq,
    a_user_may_publish_and_nothing_else,
    a_full_queue_refuses_and_a_reader_makes_room,
    a_private_node_dies_blocks_and_comes_back,
);

async fn the_reader_gives_each_queue_in_its_order_and_to_its_end(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "reader");
    rabbit.create_exchange(EXCHANGE, "direct", json!({}));
    let kinds = [QueueKind::Classic, QueueKind::Quorum, QueueKind::Stream];
    let names = ["classic", "quorum", "stream"];
    for (kind, name) in kinds.into_iter().zip(names) {
        rabbit.create_queue(name, kind, json!({}));
        rabbit.bind(EXCHANGE, name, "all");
    }
    let publisher = Publisher::connect(&rabbit.relay_url()).await;
    for n in 0..50 {
        assert!(publisher.publish("all", &n.to_string()).await.is_ack());
    }

    let mut reader = RabbitReader::new(&rabbit, &names).await;
    let messages = reader.read_to_end().await;
    for name in names {
        let texts: Vec<&str> =
            messages.iter().filter(|m| m.queue == name).map(Message::text).collect();
        let expected: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        assert_eq!(texts, expected, "{name}");
    }
    let first = &messages[0];
    assert_eq!((first.exchange.as_str(), first.routing_key.as_str()), (EXCHANGE, "all"));
    assert_eq!((first.id(), first.header("n")), (Some("0"), Some("0")));
    let headers = vec![("n".to_owned(), Some(b"0".to_vec())), ("none".to_owned(), None)];
    assert!(messages.iter().filter(|m| m.id() == Some("0")).all(|m| m.headers() == headers));

    // Nothing is left, and nobody has seen the marks that told so; a stream keeps everything.
    assert_eq!(reader.read_to_end().await.len(), 150);
    reader.close().await;
    let mut reader = RabbitReader::new(&rabbit, &names).await;
    assert_eq!(reader.read_to_end().await.len(), 50);
}

async fn the_checker_sees_through_rabbitmq(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "checker");
    rabbit.create_layout(QueueKind::Quorum);
    let event = |aggregate_type: &str, n: i64| Event {
        id: Uuid::new_v4(),
        aggregate_type: aggregate_type.to_owned(),
        aggregate_id: "a".to_owned(),
        event_type: "created".to_owned(),
        payload: format!("{{\"n\": {n}}}"),
        n,
    };
    let events: Vec<Event> =
        (1..=20).flat_map(|n| [event("order", n), event("payment", n)]).collect();
    let mut history = History::default();
    history.commit(events.clone());
    let publisher = Publisher::connect(&rabbit.relay_url()).await;
    for event in &events {
        publisher.publish_event(event, 1).await;
    }
    let mut reader = RabbitReader::new(&rabbit, &["order", "payment", "shipment"]).await;
    let report = judge_queues(&history, read_queues(&history, &mut reader, SHORT).await);
    report.assert_clean();
    assert_eq!((report.delivered, report.duplicates), (40, 0));

    // A copy may come late, and not changed.
    publisher.publish_event(&events[0], 1).await;
    publisher.publish_event(&events[1], 2).await;
    let report = judge_queues(&history, read_queues(&history, &mut reader, SHORT).await);
    assert_eq!((report.delivered, report.duplicates), (40, 2));
    assert_eq!(report.changed_duplicates, [events[1].id]);
    let orders = judge_queues(&history.of_type("order"), reader.messages());
    assert_eq!((orders.delivered, orders.unexpected.len()), (20, 21));
}

async fn a_user_may_publish_and_nothing_else(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "rights");
    rabbit.create_layout(QueueKind::Classic);
    let publisher = Publisher::connect(&rabbit.relay_url()).await;
    assert!(publisher.publish("order", "a").await.is_ack());
    let purge = publisher.channel.queue_purge("order".into(), Default::default()).await;
    assert!(purge.unwrap_err().to_string().contains("ACCESS_REFUSED"));

    rabbit.allow_writing("other");
    let publisher = Publisher::connect(&rabbit.relay_url()).await;
    let refused = publisher.try_publish("order", "b").await;
    assert!(refused.unwrap_err().to_string().contains("ACCESS_REFUSED"));
}

async fn a_full_queue_refuses_and_a_reader_makes_room(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "full");
    rabbit.create_exchange(EXCHANGE, "direct", json!({}));
    let limits = json!({"x-max-length": 2, "x-overflow": "reject-publish"});
    rabbit.create_queue("small", QueueKind::Classic, limits);
    rabbit.bind(EXCHANGE, "small", "small");
    let publisher = Publisher::connect(&rabbit.relay_url()).await;
    wait_until("a nack", SHORT, async || {
        matches!(publisher.publish("small", "x").await, Confirmation::Nack(_)).then_some(())
    })
    .await;
    let mut reader = RabbitReader::new(&rabbit, &["small"]).await;
    assert!(reader.read_to_end().await.len() >= 2);
    assert!(publisher.publish("small", "x").await.is_ack());
}

async fn a_private_node_dies_blocks_and_comes_back(version: RabbitVersion) {
    let mut node = PrivateRabbit::start(version, &[("heartbeat", "3")]).await;
    let rabbit = Rabbit::create_on(node.node(), "private");
    rabbit.create_layout(QueueKind::Quorum);
    let mut reader = RabbitReader::new(&rabbit, &["order"]).await;
    let publisher = Publisher::connect(&rabbit.relay_url()).await;
    assert!(publisher.publish("order", "a").await.is_ack());

    node.kill();
    node.start_again().await;
    let publisher = Publisher::connect(&rabbit.relay_url()).await;
    assert!(publisher.publish("order", "b").await.is_ack());
    reader
        .read_until("a message after the death", SHORT, |m| m.iter().any(|m| m.text() == "b"))
        .await;

    node.node().set_memory_alarm(true);
    let unconfirmed = publisher.send("order", "c").await.unwrap();
    wait_until("connection.blocked", SHORT, async || {
        publisher.connection.status().blocked().then_some(())
    })
    .await;
    node.node().set_memory_alarm(false);
    assert!(unconfirmed.await.unwrap().is_ack());

    rabbit.close_connections();
    wait_until("the end of the connection", SHORT, async || {
        publisher.try_publish("order", "d").await.is_err().then_some(())
    })
    .await;
    assert!(reader.read_to_end().await.iter().any(|message| message.text() == "c"));
}

/// A client without any care.
struct Publisher {
    connection: Connection,
    channel: Channel,
}

impl Publisher {
    async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { connection, channel }
    }

    async fn publish(&self, routing_key: &str, text: &str) -> Confirmation {
        self.try_publish(routing_key, text).await.unwrap()
    }

    async fn try_publish(&self, routing_key: &str, text: &str) -> lapin::Result<Confirmation> {
        self.send(routing_key, text).await?.await
    }

    /// As a relay would.
    async fn publish_event(&self, event: &Event, timestamp: u64) {
        let mut headers = FieldTable::default();
        let id = event.id.to_string();
        for (name, value) in [("id", &id), ("eventType", &event.event_type)] {
            headers.insert(name.into(), AMQPValue::LongString(value.as_str().into()));
        }
        let properties = BasicProperties::default()
            .with_message_id(id.as_str().into())
            .with_type(event.event_type.as_str().into())
            .with_content_type("application/json".into())
            .with_timestamp(timestamp)
            .with_delivery_mode(2)
            .with_headers(headers);
        let key = event.aggregate_type.as_str();
        let confirm = self.publish_with(key, event.payload.as_bytes(), properties).await.unwrap();
        assert!(confirm.await.unwrap().is_ack());
    }

    async fn send(&self, routing_key: &str, text: &str) -> lapin::Result<PublisherConfirm> {
        let mut headers = FieldTable::default();
        headers.insert("n".into(), AMQPValue::LongString(text.into()));
        headers.insert("none".into(), AMQPValue::Void);
        let properties = BasicProperties::default()
            .with_message_id(text.into())
            .with_delivery_mode(2)
            .with_headers(headers);
        self.publish_with(routing_key, text.as_bytes(), properties).await
    }

    async fn publish_with(
        &self,
        routing_key: &str,
        body: &[u8],
        properties: BasicProperties,
    ) -> lapin::Result<PublisherConfirm> {
        let options = BasicPublishOptions::default();
        self.channel
            .basic_publish(EXCHANGE.into(), routing_key.into(), options, body, properties)
            .await
    }
}
