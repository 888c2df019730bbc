//! One sink as the relay sees it: its order, its reports, what of it does not move.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::held::{Held, HeldEvent};
use super::state::{BlockedDestination, SinkStatus, State};
use crate::failure::{Class, Failure};
use crate::metrics::SinkMetrics;
use crate::order::{Limits, Order};
use crate::routing::RoutedEvent;
use crate::sabotage::{self, Fault};
use crate::sink::{DeliveryId, Lane, Lanes, Mailbox, Outcome, Pace, Report, Sink};

/// A sink and what the relay keeps for it. It outlives a session of the source.
#[derive(Debug)]
pub(super) struct Outgoing {
    name: String,
    sink: Sink,
    mailbox: Mailbox,
    reports: Vec<Report>,
    order: Order,
    pace: Pace,
    /// The sink took less than it was given, and has not said since that it has room.
    is_full: bool,
    blocked: BTreeMap<Option<String>, Failure>,
    metrics: SinkMetrics,
}

/// How a delivery ended, where the relay must act on it.
#[derive(Debug)]
pub(super) enum Ended {
    /// The broker has it.
    Acknowledged(DeliveryId),
    /// The broker will never have it.
    Rejected(DeliveryId, Failure),
}

impl Outgoing {
    pub(super) fn new(name: String, sink: Sink, mailbox: Mailbox, metrics: SinkMetrics) -> Self {
        let order = Order::new(limits(&sink), 0);
        let blocked = BTreeMap::new();
        let pace = Pace::SlowStart;
        let reports = Vec::new();
        Self { name, sink, mailbox, reports, order, pace, is_full: false, blocked, metrics }
    }

    /// A new session: nothing of an earlier one is sent any more, and its reports are ignored.
    pub(super) fn begin_session(&mut self, first: u64, now: Instant) {
        self.order = Order::new(limits(&self.sink), first);
        self.order.set_pace(self.pace, now);
    }

    /// Takes the next event of the session.
    pub(super) fn push(&mut self, id: DeliveryId, event: &RoutedEvent, now: Instant) {
        let lane = self.sink.lane(event);
        let is_open = self.sink.is_open(lane);
        self.order.push(id, lane, is_open, now);
    }

    /// Hands over nothing of the lane of `id` from `id` on.
    pub(super) fn hold(&mut self, id: DeliveryId) {
        self.order.hold(id);
    }

    /// The delivery is settled without having been made.
    pub(super) fn skip(&mut self, id: DeliveryId, now: Instant) {
        self.order.settle(id, false, now);
    }

    /// Nothing is with the sink, and what waits does so behind an event that halts it.
    pub(super) fn stands_still(&self) -> bool {
        self.order.stands_still()
    }

    /// Hands over all that may be, as far as the sink has room.
    pub(super) fn dispatch(&mut self, held: &Held) {
        if self.is_full {
            return;
        }
        let mut handed_over = false;
        while let Some(id) = self.order.next() {
            match held.get(id) {
                Some(HeldEvent::Sendable(event)) => {
                    if !self.sink.enqueue(id, event) {
                        self.is_full = true;
                        break;
                    }
                    handed_over = true;
                    self.order.sent();
                }
                Some(HeldEvent::Barred(..)) => self.order.hold(id),
                None => self.order.settle(id, false, Instant::now()),
            }
        }
        if handed_over {
            self.sink.seal();
        }
    }

    /// Acts on what the sink has reported; what ended goes into `ended`.
    pub(super) fn take_reports(&mut self, held: &Held, ended: &mut Vec<Ended>) {
        let mut reports = std::mem::take(&mut self.reports);
        self.mailbox.take(&mut reports);
        let now = Instant::now();
        for report in reports.drain(..) {
            self.report(report, held, ended, now);
        }
        self.reports = reports;
    }

    fn report(&mut self, report: Report, held: &Held, ended: &mut Vec<Ended>, now: Instant) {
        match report {
            Report::Outcome(id, outcome) => self.outcome(id, outcome, ended, now),
            Report::Reset(pace) => self.reset(pace, ended, now),
            Report::Room => self.is_full = false,
            Report::Relane(lane) => self.relane(lane, held, now),
            Report::Blocked { destination, failure } => self.block(destination, failure),
            Report::Unblocked { destination } => self.unblock(&destination),
        }
    }

    fn outcome(&mut self, id: DeliveryId, outcome: Outcome, ended: &mut Vec<Ended>, now: Instant) {
        match outcome {
            Outcome::Acknowledged => {
                self.order.settle(id, true, now);
                ended.push(Ended::Acknowledged(id));
            }
            Outcome::Rejected(failure) => {
                self.metrics.failed(failure.peer_code().unwrap_or("rejected"));
                ended.push(Ended::Rejected(id, failure));
            }
            // Both are sent again at the Reset that follows.
            Outcome::Returned(failure) => {
                self.metrics.failed(failure.peer_code().unwrap_or("returned"));
                debug!(sink = self.name, delivery = id.0, %failure, "delivery returned");
            }
            Outcome::Unknown => self.metrics.failed("unknown"),
        }
    }

    fn reset(&mut self, pace: Pace, ended: &mut Vec<Ended>, now: Instant) {
        if sabotage::active(Fault::SkipResend) {
            ended.extend(self.order.out().map(Ended::Acknowledged));
        }
        let again = self.order.reset(pace, now);
        self.pace = pace;
        self.is_full = false;
        self.metrics.resent.inc_by(again);
        info!(sink = self.name, again, ?pace, "sending again what was not acknowledged");
    }

    fn relane(&mut self, lane: Lane, held: &Held, now: Instant) {
        let sink = &mut self.sink;
        self.order.relane(lane, now, |id| match held.get(id) {
            None => (lane, true),
            Some(held) => match held.routed() {
                Some(event) => {
                    let lane = sink.lane(event);
                    (lane, sink.is_open(lane))
                }
                // Without a destination it is not sent, whatever its lane.
                None => (lane, true),
            },
        });
    }

    fn block(&mut self, destination: Option<String>, failure: Failure) {
        self.metrics.blocked.set(1);
        let name = destination.as_deref().unwrap_or("");
        let known = self.blocked.get(&destination).map(ToString::to_string);
        if known.as_deref() != Some(failure.to_string().as_str()) {
            let hint = failure.way_out().unwrap_or("");
            match failure.class() {
                Class::Transient => {
                    warn!(sink = self.name, destination = name, %failure, "blocked");
                }
                _ => error!(sink = self.name, destination = name, %failure, hint, "halted"),
            }
        }
        self.blocked.insert(destination, failure);
    }

    fn unblock(&mut self, destination: &Option<String>) {
        if self.blocked.remove(destination).is_some() {
            let name = destination.as_deref().unwrap_or("");
            info!(sink = self.name, destination = name, "moves again");
        }
        self.metrics.blocked.set(i64::from(!self.blocked.is_empty()));
    }

    /// What this sink has to say about the relay's state.
    pub(super) fn states(&self) -> impl Iterator<Item = State> + '_ {
        self.blocked.iter().map(|(destination, failure)| {
            let destination = destination.as_deref().unwrap_or("all");
            let reason = format!("sink `{}`, `{destination}`: {failure}", self.name);
            match failure.class() {
                Class::Transient => State::Blocked { reason },
                _ => State::Halted { reason, hint: failure.way_out().map(str::to_owned) },
            }
        })
    }

    pub(super) fn status(&self) -> SinkStatus {
        SinkStatus {
            name: self.name.clone(),
            connected: self.metrics.connected.get() == 1,
            blocked: self
                .blocked
                .iter()
                .map(|(destination, failure)| BlockedDestination {
                    destination: destination.clone(),
                    reason: failure.to_string(),
                })
                .collect(),
            delivered: self.metrics.delivered.get(),
        }
    }

    pub(super) fn metrics(&self) -> &SinkMetrics {
        &self.metrics
    }

    pub(super) async fn stop(self, grace: std::time::Duration) {
        self.sink.stop(grace).await;
    }
}

/// A mailbox that wakes the relay; all its sinks' mailboxes share one bell.
pub(super) fn mailbox(bell: &Arc<Notify>) -> Mailbox {
    Mailbox::new(Arc::clone(bell))
}

fn limits(sink: &Sink) -> Limits {
    match sink.lanes() {
        Lanes::Unlimited => Limits::NONE,
        Lanes::SlowStart => Limits::SLOW_START,
        Lanes::Fixed(limit) => Limits::fixed(limit),
    }
}
