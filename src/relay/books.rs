//! The books of one session: which events are unsettled, and what that allows to be confirmed.
//!
//! Events come in from the source and are entered; outcomes come in from the sinks and settle them.
//! Ledger, held events and the sinks' orders are always changed together, here.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use tracing::{Level, enabled, trace};

use super::held::{Held, HeldEvent};
use super::outgoing::Ended;
use super::poison::Verdict;
use super::saboteur::Saboteur;
use super::session::Relay;
use crate::ack::Ledger;
use crate::failure::Failure;
use crate::metrics::SinkMetrics;
use crate::outbox::{OutboxEvent, Transaction};
use crate::routing::{self, Place, Routed, RoutedEvent};
use crate::sabotage;
use crate::sink::DeliveryId;
use crate::source::Position;

/// What one session has taken and not settled.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) ledger: Ledger,
    pub(super) held: Held,
    /// The one that events come from at present.
    pub(super) transaction: Transaction,
    ended: Vec<Ended>,
    saboteur: Saboteur,
}

impl Books {
    /// Everything up to `confirmed` is settled; the first delivery will have the number `first`.
    pub(super) fn new(confirmed: Position, first: u64) -> Self {
        Self {
            ledger: Ledger::new(confirmed, first),
            held: Held::new(first),
            transaction: Transaction::default(),
            ended: Vec::new(),
            saboteur: Saboteur::default(),
        }
    }

    /// Enters an event of the present transaction.
    pub(super) fn take_event(&mut self, relay: &mut Relay, event: OutboxEvent) {
        relay.metrics.events_received.inc();
        match relay.router.route(event, &self.transaction) {
            Routed::Deliver(event) if sabotage::IS_POSSIBLE => {
                for event in self.saboteur.instead_of(event) {
                    self.deliver(relay, event);
                }
            }
            Routed::Deliver(event) => self.deliver(relay, event),
            Routed::Unmatched(_) => {
                relay.metrics.events_dropped.inc();
                self.settled_at_once();
            }
            Routed::Poison(poison) | Routed::Fault(poison) => self.take_poison(relay, poison),
        }
    }

    fn deliver(&mut self, relay: &mut Relay, event: RoutedEvent) {
        if relay.poison.bars(event.ordering_key) {
            return self.bar(relay, Place::Known(Box::new(event)));
        }
        let id = DeliveryId(self.ledger.event(1));
        let sink = usize::from(event.sink.0);
        if let Some(outgoing) = relay.outgoing.get_mut(sink) {
            outgoing.push(id, &event, Instant::now());
        }
        self.held.push(HeldEvent::Sendable(event), self.transaction.commit_time_micros);
    }

    fn take_poison(&mut self, relay: &mut Relay, poison: routing::Poison) {
        let routing::Poison { id, reason, word, place } = poison;
        let target = match &place {
            Place::Known(event) => event.destination.name(),
            Place::Unknown(_) => Cow::Borrowed(""),
        };
        if relay.poison.judge(&id, &target, &reason) == Verdict::Skip {
            relay.metrics.events_skipped.inc();
            return self.settled_at_once();
        }
        relay.poison.halt(DeliveryId(self.ledger.next()), &id, &target, &reason);
        match &place {
            Place::Known(event) => {
                if let Some(outgoing) = relay.outgoing.get(usize::from(event.sink.0)) {
                    outgoing.metrics().failed(word);
                }
            }
            Place::Unknown(ordering_key) => {
                relay.metrics.failed_unrouted(word);
                relay.poison.bar(*ordering_key);
            }
        }
        self.bar(relay, place);
    }

    /// Takes an event that is not sent in this session, and holds its lane from there on.
    fn bar(&mut self, relay: &mut Relay, place: Place) {
        let id = DeliveryId(self.ledger.event(1));
        let event = match place {
            Place::Known(event) => Some(event),
            Place::Unknown(_) => None,
        };
        if let Some(event) = &event
            && let Some(outgoing) = relay.outgoing.get_mut(usize::from(event.sink.0))
        {
            outgoing.push(id, event, Instant::now());
            outgoing.hold(id);
        }
        self.held.push(HeldEvent::Barred(event), self.transaction.commit_time_micros);
    }

    fn settled_at_once(&mut self) {
        self.ledger.event(0);
        self.held.push_settled();
    }

    /// Settles what the sinks have reported.
    pub(super) fn take_reports(&mut self, relay: &mut Relay) {
        let mut ended = std::mem::take(&mut self.ended);
        let now = now_micros();
        for index in 0..relay.outgoing.len() {
            let Some(outgoing) = relay.outgoing.get_mut(index) else { continue };
            outgoing.take_reports(&self.held, &mut ended);
            let metrics = outgoing.metrics().clone();
            for ended in ended.drain(..) {
                match ended {
                    Ended::Acknowledged(id) => {
                        let Some((event, committed)) = self.held.settle(id) else { continue };
                        self.ledger.settle(id.0, None);
                        metrics.delivered.inc();
                        metrics.delivery_seconds.observe(seconds(now - committed));
                        if let Some(event) = event.routed() {
                            acknowledged(event, &metrics, now);
                        }
                    }
                    Ended::Rejected(id, reason) => self.rejected(relay, index, id, reason),
                }
            }
        }
        self.ended = ended;
    }

    fn rejected(&mut self, relay: &mut Relay, sink: usize, id: DeliveryId, reason: Failure) {
        let Some(HeldEvent::Sendable(event)) = self.held.get(id) else { return };
        let event_id = String::from_utf8_lossy(&event.id).into_owned();
        let target = event.destination.name().into_owned();
        let Some(outgoing) = relay.outgoing.get_mut(sink) else { return };
        match relay.poison.judge(&event_id, &target, &reason) {
            Verdict::Skip => {
                relay.metrics.events_skipped.inc();
                outgoing.skip(id, Instant::now());
                self.held.settle(id);
                self.ledger.settle(id.0, None);
            }
            Verdict::Halt => {
                outgoing.hold(id);
                relay.poison.halt(id, &event_id, &target, &reason);
                self.held.bar(id);
            }
        }
    }
}

/// What is told of each event that a broker has acknowledged.
fn acknowledged(event: &RoutedEvent, metrics: &SinkMetrics, now: i64) {
    if let Some(created) = event.event.created_at_micros() {
        metrics.created_delivery_seconds.observe(seconds(now - created));
    }
    if enabled!(Level::TRACE) {
        let (id, destination) = (String::from_utf8_lossy(&event.id), event.destination.name());
        let event_type = String::from_utf8_lossy(event.event_type().unwrap_or_default());
        let delay = seconds(now - event.transaction.commit_time_micros);
        trace!(event = %id, %event_type, %destination, delay, "published");
    }
}

fn now_micros() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a histogram's buckets are coarser than that")]
fn seconds(micros: i64) -> f64 {
    micros.max(0) as f64 / 1e6
}
