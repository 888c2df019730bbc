//! A message of RabbitMQ as a reader sees it.

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};

/// What brokers add to a message: how often it was delivered, and where it is in a stream.
const BROKERS_HEADERS: [&str; 3] = ["x-delivery-count", "x-acquired-count", "x-stream-offset"];

/// The type of messages of our own, which tell that a queue was read to its end.
pub(super) const MARK: &str = "pgoutbox-tests-mark";

/// One message as it came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) queue: String,
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) redelivered: bool,
    pub(crate) body: Vec<u8>,
    pub(crate) properties: BasicProperties,
    /// Where it is in its queue, where that is a stream.
    pub(super) offset: Option<i64>,
}

impl Message {
    pub(super) fn new(queue: &str, delivery: Delivery) -> Self {
        let mut this = Self {
            queue: queue.to_owned(),
            exchange: delivery.exchange.to_string(),
            routing_key: delivery.routing_key.to_string(),
            redelivered: delivery.redelivered,
            body: delivery.data,
            properties: delivery.properties,
            offset: None,
        };
        this.offset = match this.field("x-stream-offset") {
            Some(AMQPValue::LongLongInt(offset)) => Some(*offset),
            _ => None,
        };
        this
    }

    pub(super) fn is_mark(&self) -> bool {
        self.properties.kind().as_ref().is_some_and(|kind| kind.as_str() == MARK)
    }

    /// The message id.
    pub(crate) fn id(&self) -> Option<&str> {
        Some(self.properties.message_id().as_ref()?.as_str())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A header as it is.
    pub(crate) fn field(&self, name: &str) -> Option<&AMQPValue> {
        self.properties.headers().as_ref()?.inner().get(name)
    }

    /// The text of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        match self.field(name)? {
            AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
            _ => None,
        }
    }

    /// The publisher's headers in the order of their names; one that is neither text nor null as
    /// this library prints it.
    pub(crate) fn headers(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let fields = self.properties.headers().iter().flat_map(FieldTable::inner);
        fields
            .filter(|(name, _)| !BROKERS_HEADERS.contains(&name.as_str()))
            .map(|(name, value)| {
                let value = match value {
                    AMQPValue::LongString(text) => Some(text.as_bytes().to_vec()),
                    AMQPValue::Void => None,
                    other => Some(format!("{other:?}").into_bytes()),
                };
                (name.to_string(), value)
            })
            .collect()
    }
}
