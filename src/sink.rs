//! The sinks' common face.
//!
//! A sink is handed events in order ([`Sink::enqueue`]) and answers through a [`Mailbox`], in
//! batches and in any order. It never waits in `enqueue`: it takes as many as it has room for. It
//! never sends an event again by itself after it has reported it: what to send, and when, is
//! decided by the relay with [`crate::order`].
//!
//! ```text
//!  relay ── enqueue ──▶ sink ──▶ broker client ──▶ broker
//!    ▲                                               │
//!    └──── Mailbox: Report::Outcome, Report::Reset ◀─┘
//! ```

mod exchange;
pub mod kafka;
pub mod mailbox;
pub mod null;
pub mod rabbitmq;
pub mod stdout;

use std::time::Duration;

use crate::failure::Failure;
use crate::routing::RoutedEvent;
pub use mailbox::Mailbox;

/// Number of a delivery (one event to one sink), given by the relay in commit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// What a sink sends in order: events of one lane never overtake each other.
///
/// For Kafka a topic's partition; for RabbitMQ the ordering key's hash, or one of its own for an
/// event without an ordering key. Two
/// events of one ordering key and destination are always in one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u64);

/// How many events of one lane a sink may be handed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Any number: everything goes in the one order that it came in.
    Unlimited,
    /// As [`Pace`] says.
    SlowStart,
    /// So many, at least one. There are as many lanes as there are ordering keys, and one that is
    /// empty is forgotten.
    Fixed(usize),
}

/// How a delivery ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The broker has it for good.
    Acknowledged,
    /// The broker does not have it, and would not take it now (unknown topic, nack, unroutable):
    /// it is sent again later, in order: see [`Sink::returns_singly`].
    Returned(Failure),
    /// The broker does not have it and never will: a poison event.
    Rejected(Failure),
    /// Perhaps the broker has it (a failed report, a lost connection): it is sent again, in order.
    Unknown,
}

/// How many events of one lane may be with the broker at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One a lane until the lane's first ack, then as many as there is room for.
    SlowStart,
    /// One a lane, whatever was acknowledged: a refusal then names its event.
    OneByOne,
}

/// One thing that a sink tells the relay.
#[derive(Clone, Debug)]
pub enum Report {
    /// How one delivery ended.
    Outcome(DeliveryId, Outcome),
    /// Nothing is with the broker client any more: every delivery handed over and not yet reported
    /// `Acknowledged` or `Rejected` must be handed over again, in order, at this pace. Where nothing
    /// is out, it only changes the pace. What was acknowledged before it warms no lane after it.
    Reset(Pace),
    /// `enqueue` may take something again, after it took less than it was given.
    Room,
    /// [`Sink::lane`] may now give another lane for events that wait in this one, and
    /// [`Sink::is_open`] another answer (a topic's partitions became known or changed, a closed
    /// topic takes events again): ask both again.
    Relane(Lane),
    /// A destination (or, with `None`, the whole sink) does not move, and why; replaces an earlier
    /// report of the same destination.
    Blocked {
        /// The destination's name.
        destination: Option<String>,
        /// Why; its class says whether the relay is `blocked` or `halted` by it.
        failure: Failure,
    },
    /// The destination moves again.
    Unblocked {
        /// The destination's name.
        destination: Option<String>,
    },
}

/// A running sink.
#[derive(Debug)]
pub enum Sink {
    /// Apache Kafka.
    Kafka(kafka::KafkaSink),
    /// RabbitMQ.
    RabbitMq(rabbitmq::RabbitMqSink),
    /// One JSON line an event.
    Stdout(stdout::StdoutSink),
    /// Takes everything, and acknowledges it from another thread, out of order and in batches: for
    /// benchmarks and tests of what stands before a sink.
    Null(null::NullSink),
}

impl Sink {
    /// The lane that `event` must keep its order in, and whether it may be sent in it now.
    pub fn lane(&mut self, event: &RoutedEvent) -> Lane {
        match self {
            Self::Kafka(sink) => sink.lane(event),
            Self::RabbitMq(sink) => sink.lane(event),
            Self::Stdout(_) => Lane(0),
            Self::Null(_) => Lane(event.ordering_key.unwrap_or(0)),
        }
    }

    /// Whether events of `lane` may be handed over at all at the moment.
    pub fn is_open(&self, lane: Lane) -> bool {
        match self {
            Self::Kafka(sink) => sink.is_open(lane),
            Self::RabbitMq(_) | Self::Stdout(_) | Self::Null(_) => true,
        }
    }

    /// How many events of one lane it may be handed at once.
    pub fn lanes(&self) -> Lanes {
        match self {
            Self::Kafka(_) => Lanes::SlowStart,
            Self::RabbitMq(sink) => Lanes::Fixed(sink.max_unsettled_per_key()),
            Self::Stdout(_) | Self::Null(_) => Lanes::Unlimited,
        }
    }

    /// Whether a delivery that it reports [`Outcome::Returned`] comes back alone, to be handed over
    /// again after a pause. Where not, a [`Report::Reset`] follows that takes everything back.
    pub fn returns_singly(&self) -> bool {
        match self {
            Self::RabbitMq(_) => true,
            Self::Kafka(_) | Self::Stdout(_) | Self::Null(_) => false,
        }
    }

    /// Hands one event over. `false`: no room now, a [`Report::Room`] or [`Report::Reset`] follows.
    pub fn enqueue(&mut self, id: DeliveryId, event: &RoutedEvent) -> bool {
        match self {
            Self::Kafka(sink) => sink.enqueue(id, event),
            Self::RabbitMq(sink) => sink.enqueue(id, event),
            Self::Stdout(sink) => sink.enqueue(id, event),
            Self::Null(sink) => sink.enqueue(id),
        }
    }

    /// Everything that there is for now has been handed over.
    pub fn seal(&mut self) {
        match self {
            Self::Stdout(sink) => sink.seal(),
            Self::Kafka(_) => {}
            Self::RabbitMq(sink) => sink.seal(),
            Self::Null(sink) => sink.seal(),
        }
    }

    /// Sends what was handed over, for at most `grace`, and closes. What was not acknowledged by
    /// then may or may not be with the broker.
    pub async fn stop(self, grace: Duration) {
        match self {
            Self::Kafka(sink) => sink.stop(grace).await,
            Self::RabbitMq(sink) => sink.stop(grace).await,
            Self::Stdout(sink) => sink.stop(grace).await,
            Self::Null(_) => {}
        }
    }
}
