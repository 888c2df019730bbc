//! An event with everything that a sink needs to send it.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::outbox::{OutboxEvent, Transaction};

/// Index of a sink in the configuration's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SinkIndex(pub u8);

/// Where an event goes within its sink.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// A Kafka topic, its name checked (`[a-zA-Z0-9._-]{1,249}`, neither `.` nor `..`).
    Topic(Arc<str>),
}

impl Destination {
    /// The name an operator knows it by.
    pub fn name(&self) -> &str {
        match self {
            Self::Topic(topic) => topic,
        }
    }
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
    /// The message key; `None` is a null key.
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
    /// Commit time in milliseconds since 1970, the record's timestamp.
    pub fn timestamp_millis(&self) -> i64 {
        self.transaction.commit_time_micros.div_euclid(1000)
    }
}
