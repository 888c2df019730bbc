//! Apache Kafka, through librdkafka.
//!
//! ```text
//!  relay ── lane, is_open, enqueue ─▶ KafkaSink ── send ──▶ producer ◀── poll ── driver
//!    ▲                                   │ new topic            │ callbacks       │ replaces it
//!    │                                   ▼                      ▼                 ▼
//!    └────────── Mailbox ◀─────────── inspector            Acknowledged        Rejected, Reset
//! ```
//!
//! An event's lane is its topic's partition, computed here as Java does. The relay keeps order
//! within lanes by what it hands over; the sink promises that nothing that was handed over later is
//! written after something of the same lane failed, by never using a producer again that failed
//! once (see [`driver`]). What a failure means is read from all failures together ([`verdict`]).
//! Two threads: the driver polls the producer and replaces it; the inspector asks the brokers.

mod admin;
mod block;
mod context;
mod driver;
mod error;
pub mod facts;
mod inspector;
mod isolation;
mod partition;
mod settings;
mod shared;
mod stall;
mod start;
mod topic;
mod verdict;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::context::Producer;
use self::shared::Shared;
use self::topic::{Phase, Topic};
use self::verdict::Failed;
use super::{DeliveryId, Lane, Mailbox};
use crate::config::KafkaConfig;
use crate::failure::Failure;
use crate::metrics::SinkMetrics;
use crate::routing::{Destination, RoutedEvent};

pub use self::settings::check;

/// The most that the client may hold: the relay's own window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Unsettled events.
    pub events: usize,
    /// Bytes of unsettled events.
    pub bytes: usize,
}

/// A running Kafka sink.
pub struct KafkaSink {
    shared: Arc<Shared>,
    window: Window,
    views: Vec<View>,
    indexes: HashMap<Arc<str>, usize, foldhash::fast::RandomState>,
    driver: Option<(JoinHandle<()>, oneshot::Receiver<()>)>,
}

/// A topic as the relay knows it by the reports that it has taken.
struct View {
    topic: Arc<Topic>,
    /// 0 until it was told.
    partitions: u32,
}

/// Everything that a Kafka sink is started with.
#[derive(Debug)]
pub struct Start<'a> {
    /// `kafka: …`
    pub config: &'a KafkaConfig,
    /// The sink's name in the configuration.
    pub name: &'a str,
    /// What the broker shows us as, where `client.id` is not set.
    pub client_id: &'a str,
    /// The relay's window.
    pub window: Window,
    /// Largest event, in bytes.
    pub max_event_size: usize,
    /// Topics that are named literally in routes.
    pub topics: &'a [String],
    /// Whether this is only tried: then nothing is created, and a topic that the brokers say they
    /// would create may be missing.
    pub is_trial: bool,
    /// Where reports go.
    pub mailbox: Mailbox,
    /// The sink's metrics.
    pub metrics: SinkMetrics,
}

impl KafkaSink {
    /// Connects, and looks the named topics up; a broker that creates topics by itself makes them
    /// now, unless it is a trial. Takes at most some 20 s.
    ///
    /// # Errors
    ///
    /// Configuration: a property that cannot be. Fixable: authentication or TLS refused, a named
    /// topic missing or not ours to use. Transient: no broker answers.
    pub async fn start(start: Start<'_>) -> Result<Self, Failure> {
        start::start(start).await
    }

    /// The lane that `event` waits in: its partition, or the topic's waiting lane while the
    /// partitions are not known. An event without a key goes where its id's hash says.
    pub fn lane(&mut self, event: &RoutedEvent) -> Lane {
        let view = self.view(event);
        match view.partitions {
            0 => partition::waiting_lane(view.topic.index),
            partitions => partition::lane(view.topic.index, partition_of(event, partitions)),
        }
    }

    /// Whether events of `lane` may be handed over.
    pub fn is_open(&self, lane: Lane) -> bool {
        let (topic, partition) = partition::parts(lane);
        partition.is_some() && self.views.get(topic).is_some_and(View::is_open)
    }

    /// Hands one event to the client, which copies it.
    pub fn enqueue(&mut self, id: DeliveryId, event: &RoutedEvent) -> bool {
        let view = self.view(event);
        let (topic, partitions) = (Arc::clone(&view.topic), view.partitions);
        // Held until the event is in the client: the driver takes a producer out under this lock,
        // and changes partitions only while there is none.
        let slot = self.shared.producer();
        let Some(producer) = slot.as_ref().filter(|producer| !producer.context().is_failing())
        else {
            return false;
        };
        // A topic that was closed since the relay asked is followed by a reset.
        if !self.shared.knows_reset() || topic.phase() != Phase::Open || partitions == 0 {
            return false;
        }
        let partition = partition_of(event, partitions);
        match send(producer, id, event, &topic.name, partition) {
            Ok(()) => {
                topic.sent(partition);
                self.shared.wake_driver();
                true
            }
            Err(Code::QueueFull) => {
                let some = i64::try_from(self.window.events / 8).unwrap_or(i64::MAX);
                self.shared.want_room(some);
                false
            }
            Err(code) => {
                let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
                let size = length(&event.value) + length(&event.key);
                let topic = topic.index;
                producer.context().fail(Failed { id, topic, partition, code, size });
                false
            }
        }
    }

    /// Gives what was handed over `grace` to be acknowledged, and closes.
    pub async fn stop(mut self, grace: Duration) {
        self.shared.stop(Instant::now() + grace);
        let Some((thread, done)) = self.driver.take() else { return };
        // Beyond its deadline the driver only closes connections.
        let patience = grace + Duration::from_secs(5);
        if tokio::time::timeout(patience, done).await.is_ok() && thread.join().is_err() {
            tracing::error!(sink = %self.shared.name, "the sink's thread panicked");
        }
    }

    /// The view of the event's topic, brought up to date as far as the relay has been told.
    fn view(&mut self, event: &RoutedEvent) -> &View {
        // A route to a Kafka sink has a topic: the configuration sees to it.
        let (Destination::Topic(name) | Destination::Exchange { exchange: name, .. }) =
            &event.destination;
        let index = match self.indexes.get(name) {
            Some(index) => *index,
            None => self.add(name),
        };
        let taken = self.shared.mailbox.taken();
        // `add` has put every topic of the table into the views.
        #[expect(clippy::indexing_slicing, reason = "indexes point into the views")]
        let view = &mut self.views[index];
        if let Some(partitions) = view.topic.told_partitions(taken) {
            view.partitions = partitions;
        }
        view
    }

    fn add(&mut self, name: &Arc<str>) -> usize {
        self.shared.topics.add(name);
        for topic in self.shared.topics.all().into_iter().skip(self.views.len()) {
            self.indexes.insert(Arc::clone(&topic.name), self.views.len());
            self.views.push(View { topic, partitions: 0 });
        }
        self.shared.wake_inspector();
        self.indexes.get(name).copied().unwrap_or_default()
    }
}

impl View {
    fn is_open(&self) -> bool {
        self.partitions > 0 && self.topic.phase() == Phase::Open
    }
}

impl Drop for KafkaSink {
    fn drop(&mut self) {
        if self.shared.stops_at().is_none() {
            self.shared.stop(Instant::now());
        }
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// A function of the event alone: an event that is sent again goes to the same partition.
fn partition_of(event: &RoutedEvent, partitions: u32) -> u32 {
    partition::of_key(event.key.as_ref().unwrap_or(&event.id), partitions)
}

fn send(
    producer: &Producer,
    id: DeliveryId,
    event: &RoutedEvent,
    topic: &str,
    partition: u32,
) -> Result<(), Code> {
    let record = BaseRecord {
        topic,
        partition: Some(i32::try_from(partition).unwrap_or(i32::MAX)),
        payload: event.value.as_deref(),
        key: event.key.as_deref(),
        timestamp: Some(event.timestamp_millis()),
        headers: headers(event),
        #[expect(clippy::cast_possible_truncation, reason = "ids count up from 0")]
        delivery_opaque: id.0 as usize,
    };
    producer.send(record).map_err(|(error, _)| error.rdkafka_error_code().unwrap_or(Code::Unknown))
}

fn headers(event: &RoutedEvent) -> Option<OwnedHeaders> {
    let count = event.headers.values.len();
    let mut headers = (count > 0).then(|| OwnedHeaders::new_with_capacity(count))?;
    for (key, value) in event.headers.iter() {
        headers = headers.insert(Header { key, value: value.map(|value| &**value) });
    }
    Some(headers)
}
