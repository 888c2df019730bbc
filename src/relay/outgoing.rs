//! One sink as the relay sees it: its order, its reports, what of it does not move.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::backoff::after_return;
use super::blocked::Blocked;
use super::held::{Held, HeldEvent};
use super::rate::Rate;
use super::refusals::Refusals;
use super::state::{SinkStatus, State};
use super::stuck::{self, Stuck};
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
    /// `max_rate`.
    rate: Option<Rate>,
    /// The rate holds something back.
    is_limited: bool,
    blocked: Blocked,
    /// Resets since the last acknowledgement.
    rounds: u16,
    stuck: Stuck,
    refusals: Refusals,
    /// What a relay broken on purpose sends behind what it should stand before.
    late: Vec<DeliveryId>,
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
    pub(super) fn new(
        name: String,
        sink: Sink,
        mailbox: Mailbox,
        metrics: SinkMetrics,
        rate: Option<Rate>,
    ) -> Self {
        let order = Order::new(limits(&sink), 0);
        Self {
            blocked: Blocked::new(name.clone()),
            name,
            sink,
            mailbox,
            reports: Vec::new(),
            order,
            pace: Pace::SlowStart,
            is_full: false,
            rate,
            is_limited: false,
            rounds: 0,
            stuck: Stuck::default(),
            refusals: Refusals::default(),
            late: Vec::new(),
            metrics,
        }
    }

    /// A new session: nothing of an earlier one is sent any more, and its reports are ignored.
    pub(super) fn begin_session(&mut self, first: u64, now: Instant) {
        self.order = Order::new(limits(&self.sink), first);
        self.order.set_pace(self.pace, now);
        self.late.clear();
        for destination in self.stuck.clear() {
            self.unblock(&Some(destination.to_string()));
        }
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
        self.unstick(id);
    }

    /// When something that came back, or that a limit holds, may be handed over.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let limited = self.rate.as_ref().filter(|_| self.is_limited).map(Rate::due);
        self.order.next_due().into_iter().chain(limited).min()
    }

    /// `max_rate` holds something back.
    pub(super) const fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Nothing is with the sink, and what waits does so behind an event that halts it.
    pub(super) fn stands_still(&self) -> bool {
        self.order.stands_still()
    }

    /// Hands over all that may be, as far as the sink has room.
    pub(super) fn dispatch(&mut self, held: &Held) {
        if self.order.next_due().is_some() {
            self.order.wake(Instant::now());
        }
        if let Some(events) = self.refusals.rest(Instant::now) {
            warn!(sink = self.name, events, "more events were refused, and are sent again");
        }
        if self.is_full {
            return;
        }
        self.is_limited = false;
        let mut handed_over = false;
        while let Some(id) = self.order.next() {
            match held.get(id) {
                Some(HeldEvent::Sendable(event)) => {
                    if let Some(rate) = &mut self.rate
                        && !rate.take(Instant::now())
                    {
                        self.is_limited = true;
                        break;
                    }
                    if !self.sink.enqueue(id, event) {
                        self.is_full = true;
                        self.rate.iter_mut().for_each(Rate::give_back);
                        break;
                    }
                    handed_over = true;
                    self.order.sent();
                }
                Some(HeldEvent::Barred(..)) => self.order.hold(id),
                None => self.order.settle(id, false, Instant::now()),
            }
        }
        if sabotage::active(Fault::ResendLate) {
            self.late.retain(|id| match held.get(*id) {
                Some(HeldEvent::Sendable(event)) => !self.sink.enqueue(*id, event),
                _ => false,
            });
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
            Report::Outcome(id, outcome) => self.outcome(id, outcome, held, ended, now),
            Report::Reset(pace) => self.reset(pace, ended, now),
            Report::Room => self.is_full = false,
            Report::Relane(lane) => self.relane(lane, held, now),
            Report::Blocked { destination, failure } => self.block(destination, failure),
            Report::Unblocked { destination } => self.unblock(&destination),
        }
    }

    fn outcome(
        &mut self,
        id: DeliveryId,
        outcome: Outcome,
        held: &Held,
        ended: &mut Vec<Ended>,
        now: Instant,
    ) {
        match outcome {
            Outcome::Acknowledged => self.acknowledged(id, ended, now),
            Outcome::Rejected(failure) => {
                self.metrics.failed(failure.peer_code().unwrap_or("rejected"));
                self.unstick(id);
                ended.push(Ended::Rejected(id, failure));
            }
            Outcome::Returned(failure) => {
                self.metrics.failed(failure.peer_code().unwrap_or("returned"));
                let routed = held.get(id).and_then(HeldEvent::routed);
                let event = routed.map_or("".into(), |event| String::from_utf8_lossy(&event.id));
                let target = routed.map_or("".into(), |event| event.destination.name());
                let attempt = self.order.returns(id).saturating_add(1);
                debug!(sink = self.name, %event, %target, attempt, %failure, "delivery returned");
                // Else it is sent again at the Reset that follows, as what is unknown is.
                if self.sink.returns_singly() {
                    self.returned(id, failure, held, ended, now);
                } else if self.refusals.tell(now) {
                    let attempt = self.rounds.saturating_add(1);
                    warn!(
                        sink = self.name, %event, %target, attempt, %failure,
                        hint = failure.way_out().unwrap_or(""), "not delivered, and sent again"
                    );
                }
            }
            Outcome::Unknown => self.metrics.failed("unknown"),
        }
    }

    fn acknowledged(&mut self, id: DeliveryId, ended: &mut Vec<Ended>, now: Instant) {
        self.order.settle(id, true, now);
        self.rounds = 0;
        self.unstick(id);
        ended.push(Ended::Acknowledged(id));
    }

    /// One delivery came back, and is made again after a pause.
    fn returned(
        &mut self,
        id: DeliveryId,
        failure: Failure,
        held: &Held,
        ended: &mut Vec<Ended>,
        now: Instant,
    ) {
        let ignored = match failure.class() {
            Class::Transient => Fault::AcceptNack,
            _ => Fault::IgnoreReturn,
        };
        if sabotage::active(ignored) {
            return self.acknowledged(id, ended, now);
        }
        if sabotage::active(Fault::ResendLate) {
            self.order.settle(id, false, now);
            return self.late.push(id);
        }
        let returns = self.order.returns(id).saturating_add(1);
        let pause = after_return(returns);
        if !self.order.give_back(id, now + pause) {
            return;
        }
        self.metrics.resent.inc();
        let Some(event) = held.get(id).and_then(HeldEvent::routed) else { return };
        if stuck::is_stuck(&failure, returns) {
            let destination = event.destination.name();
            if self.stuck.add(id, &destination, failure.peer_code().unwrap_or("")) {
                self.block(Some(destination.into_owned()), failure);
            }
        } else if self.refusals.add(returns, now) {
            self.tell_refused(event, returns, pause, &failure);
        }
    }

    fn tell_refused(&self, event: &RoutedEvent, attempt: u16, pause: Duration, failure: &Failure) {
        let (sink, destination) = (&self.name, event.destination.name());
        let event = String::from_utf8_lossy(&event.id);
        let hint = failure.way_out().unwrap_or("");
        warn!(
            sink, %event, %destination, attempt, ?pause, %failure, hint,
            "refused, and sent again after a pause"
        );
    }

    /// The delivery holds up its destination no longer.
    fn unstick(&mut self, id: DeliveryId) {
        if let Some(destination) = self.stuck.remove(id) {
            self.unblock(&Some(destination.to_string()));
        }
    }

    fn reset(&mut self, pace: Pace, ended: &mut Vec<Ended>, now: Instant) {
        if sabotage::active(Fault::SkipResend) {
            ended.extend(self.order.out().map(Ended::Acknowledged));
        }
        self.rounds = self.rounds.saturating_add(1);
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
        self.blocked.add(destination, failure);
        self.metrics.blocked.set(1);
    }

    fn unblock(&mut self, destination: &Option<String>) {
        self.blocked.remove(destination);
        self.metrics.blocked.set(i64::from(!self.blocked.is_empty()));
    }

    /// What this sink has to say about the relay's state.
    pub(super) fn states(&self) -> impl Iterator<Item = State> + '_ {
        self.blocked.states()
    }

    pub(super) fn status(&self) -> SinkStatus {
        SinkStatus {
            name: self.name.clone(),
            connected: self.metrics.connected.get() == 1,
            blocked: self.blocked.list(),
            delivered: self.metrics.delivered.get(),
        }
    }

    /// Its name in the configuration.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn metrics(&self) -> &SinkMetrics {
        &self.metrics
    }

    pub(super) async fn stop(self, grace: Duration) {
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
