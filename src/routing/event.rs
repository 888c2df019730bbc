//! An event with everything that a sink needs to send it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::outbox::{OutboxEvent, Role, RoleSource, Transaction, Value};

/// Index of a sink in the configuration's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SinkIndex(pub u8);

/// Where an event goes within its sink.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// A Kafka topic, its name checked (`[a-zA-Z0-9._-]{1,249}`, neither `.` nor `..`).
    Topic(Arc<str>),
    /// A RabbitMQ exchange (the empty name is the default exchange) and the routing key for it, each
    /// of at most 255 bytes.
    Exchange {
        /// The exchange.
        exchange: Arc<str>,
        /// The routing key.
        routing_key: Arc<str>,
    },
}

impl Destination {
    /// What an operator knows it by; to be shown in backticks.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Topic(topic) => Cow::Borrowed(topic),
            Self::Exchange { exchange, routing_key } => {
                Cow::Owned(exchange_name(exchange, routing_key))
            }
        }
    }
}

fn exchange_name(exchange: &str, routing_key: &str) -> String {
    match exchange {
        "" => format!("default exchange, routing key {routing_key}"),
        exchange => format!("exchange {exchange}, routing key {routing_key}"),
    }
}

/// What a payload is, as far as its column's type tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// `json` or `jsonb`.
    Json,
    /// `bytea`: the bytes themselves.
    Binary,
    /// Any other type: its text form.
    Text,
}

/// Names of a route's headers, shared by all its events.
pub type HeaderNames = Arc<[Box<str>]>;

/// The headers of one event: values by index into the route's names. A header whose column the row
/// does not have is left out; one whose value is NULL is there without a value.
#[derive(Clone, Debug)]
pub struct Headers {
    /// The names that the indexes refer to.
    pub names: HeaderNames,
    /// (index of the name, value), in order.
    pub values: SmallVec<[(u8, Option<Bytes>); 2]>,
}

impl Headers {
    /// (name, value) in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&Bytes>)> {
        self.values.iter().filter_map(|(index, value)| {
            let name = self.names.get(usize::from(*index))?;
            Some((&**name, value.as_ref()))
        })
    }
}

/// An outbox event on its way to one sink.
///
/// Everything here comes from the row or its commit, never from now: an event that is sent again is
/// the same to the byte (guarantee 4).
#[derive(Clone, Debug)]
pub struct RoutedEvent {
    /// The row's id as text.
    pub id: Bytes,
    /// Where to.
    pub sink: SinkIndex,
    /// Where to within the sink.
    pub destination: Destination,
    /// The message key; `None` is a null key, and for an exchange there is none.
    pub key: Option<Bytes>,
    /// The message value; `None` is a null value.
    pub value: Option<Bytes>,
    /// The message headers.
    pub headers: Headers,
    /// The row, for sinks that show more of it.
    pub event: OutboxEvent,
    /// The row's transaction.
    pub transaction: Transaction,
    /// Hash of the ordering key (guarantee 5); `None` for an event without one.
    pub ordering_key: Option<u64>,
}

impl RoutedEvent {
    /// What the payload is.
    pub fn content(&self) -> Content {
        let shape = &self.event.shape;
        let column = match shape.role(Role::Payload) {
            RoleSource::Column(index) => shape.columns.get(*index),
            RoleSource::Literal(_) | RoleSource::Missing => None,
        };
        // PostgreSQL's `pg_type.dat`.
        match column.map(|column| column.type_oid) {
            Some(114 | 3802) => Content::Json,
            Some(17) => Content::Binary,
            _ => Content::Text,
        }
    }

    /// The event's type as the row has it, whatever the headers make of it; `None` where it is NULL
    /// or the table has none.
    pub fn event_type(&self) -> Option<&[u8]> {
        match self.event.shape.role(Role::EventType) {
            RoleSource::Literal(text) => Some(text),
            RoleSource::Missing => None,
            RoleSource::Column(index) => match self.event.tuple.value(*index)? {
                Value::Text(text) => Some(text),
                Value::Null | Value::Unchanged | Value::Omitted(_) => None,
            },
        }
    }

    /// Commit time in milliseconds since 1970, the record's timestamp.
    pub fn timestamp_millis(&self) -> i64 {
        self.transaction.commit_time_micros.div_euclid(1000)
    }
}
