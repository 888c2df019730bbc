//! One session: from a started source until it is lost or a stop is asked for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, error, info, warn};

use super::held::{Held, HeldEvent};
use super::outgoing::{Ended, Outgoing};
use super::poison::{Poison, Verdict};
use super::publisher::Publisher;
use super::saboteur::Saboteur;
use super::state::{State, combine};
use super::supervisor::Stop;
use crate::ack::Ledger;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::outbox::{OutboxEvent, Transaction};
use crate::routing::{self, Place, Routed, RoutedEvent, Router};
use crate::sabotage::{self, Fault};
use crate::sink::DeliveryId;
use crate::source::wal::WalSource;
use crate::source::wal::guard::Guard;
use crate::source::{Batch, Change, Position};
use crate::window::Window;

/// How often the status is published while nothing happens.
const TICK: Duration = Duration::from_millis(250);
/// After the source is lost, acknowledgements of what is with the brokers are waited for this long:
/// each one is an event less to send twice.
const LOST_SOURCE_GRACE: Duration = Duration::from_secs(2);
/// A server that shuts down is let go after this, unless it has ended the stream by then.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// Batches taken in one turn of the loop.
const BATCHES_A_TURN: usize = 8;

/// What outlives a session.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) router: Router,
    pub(super) outgoing: Vec<Outgoing>,
    /// Rung by every sink's mailbox.
    pub(super) bell: std::sync::Arc<Notify>,
    pub(super) poison: Poison,
    pub(super) publisher: Publisher,
    pub(super) metrics: std::sync::Arc<Metrics>,
    pub(super) window: Window,
    pub(super) window_events: usize,
    pub(super) grace_period: Duration,
    pub(super) exit_on_halt: bool,
    /// The next session's first delivery: ids are never used twice, so that a late report of an
    /// earlier session is known for what it is.
    pub(super) next_delivery: u64,
    /// Why a stream broke for good: until a later one has got further, it has not helped that it was
    /// begun again.
    pub(super) setback: Option<Failure>,
}

/// How a session ended.
#[derive(Debug)]
pub(super) enum End {
    /// A stop was asked for, and made.
    Stopped,
    /// The source is gone; everything before this position is settled.
    SourceLost(Failure, Position),
    /// Something halted, and the configuration says to exit then.
    Halted(Failure),
}

/// Why a session no longer takes changes.
#[derive(Debug)]
enum Phase {
    Running,
    /// Until everything is settled, or the deadline.
    Draining {
        until: Instant,
        why: Why,
    },
}

#[derive(Debug)]
enum Why {
    Stop,
    Lost(Failure),
}

#[derive(Debug)]
pub(super) struct Session<'a> {
    relay: &'a mut Relay,
    source: WalSource,
    guard: Guard,
    ledger: Ledger,
    held: Held,
    transaction: Transaction,
    phase: Phase,
    /// A stop was asked for, and the transaction that was open then is whole.
    at_boundary: bool,
    source_halt: Option<Failure>,
    ended: Vec<Ended>,
    saboteur: Saboteur,
}

impl<'a> Session<'a> {
    /// `confirmed` is what the slot has confirmed already.
    pub(super) fn new(
        relay: &'a mut Relay,
        source: WalSource,
        guard: Guard,
        confirmed: Position,
    ) -> Self {
        let first = relay.next_delivery;
        let now = Instant::now();
        for outgoing in &mut relay.outgoing {
            outgoing.begin_session(first, now);
        }
        relay.poison.begin_session();
        relay.metrics.active.set(1);
        relay.metrics.source_connected.set(1);
        Self {
            ledger: Ledger::new(confirmed.max(source.start), first),
            held: Held::new(first),
            relay,
            source,
            guard,
            transaction: Transaction::default(),
            phase: Phase::Running,
            at_boundary: false,
            source_halt: None,
            ended: Vec::new(),
            saboteur: Saboteur::default(),
        }
    }

    /// Runs until the source is lost or `stop` is asked for and done.
    pub(super) async fn run(mut self, mut stop: Stop) -> End {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.publish();
        loop {
            let may_read = self.may_read();
            // In this order: what frees memory before what takes it.
            tokio::select! {
                biased;
                () = self.relay.bell.notified() => self.take_reports(),
                () = stop.requested(), if matches!(self.phase, Phase::Running) => self.drain(),
                batch = self.source.changes.recv(), if may_read => match batch {
                    Some(batch) => self.take_batches(batch),
                    None => self.lost().await,
                },
                () = self.guard.server_stops(SHUTDOWN_GRACE), if self.is_connected() => {
                    self.let_go();
                }
                _ = tick.tick() => {
                    self.publish();
                    if self.source.changes.is_closed() && self.source.changes.is_empty() {
                        self.lost().await;
                    }
                }
            }
            self.dispatch();
            self.source.confirm(self.ledger.confirmed());
            if self.is_done() {
                return self.end().await;
            }
            if let Some(failure) = self.exit_reason() {
                self.source.abandon().await;
                return End::Halted(failure);
            }
        }
    }

    fn may_read(&self) -> bool {
        let has_room = self.held.len() < self.relay.window_events;
        let wants = match &self.phase {
            Phase::Running => self.source_halt.is_none(),
            // The open transaction is read to its end: confirmed, it need not be sent twice.
            Phase::Draining { why: Why::Stop, .. } => {
                self.ledger.in_transaction() && !self.relay.poison.halts()
            }
            Phase::Draining { why: Why::Lost(_), .. } => false,
        };
        wants && has_room
    }

    fn is_connected(&self) -> bool {
        !matches!(self.phase, Phase::Draining { why: Why::Lost(_), .. })
    }

    fn is_done(&self) -> bool {
        match &self.phase {
            Phase::Running => false,
            // The tick brings the loop here in time.
            Phase::Draining { until, .. } if Instant::now() >= *until => true,
            // Behind an event that halts the relay nothing is confirmed, however long one waits.
            Phase::Draining { why: Why::Stop, .. } if self.relay.poison.halts() => {
                self.relay.outgoing.iter().all(Outgoing::stands_still)
            }
            Phase::Draining { why: Why::Stop, .. } => {
                self.ledger.unsettled() == 0 && !self.ledger.in_transaction()
            }
            Phase::Draining { why: Why::Lost(_), .. } => self.ledger.unsettled() == 0,
        }
    }

    fn exit_reason(&self) -> Option<Failure> {
        if !self.relay.exit_on_halt {
            return None;
        }
        if let Some(failure) = &self.source_halt {
            return Some(failure.clone());
        }
        match self.state() {
            State::Halted { reason, hint } => {
                let failure = Failure::definite(reason);
                Some(match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                })
            }
            _ => None,
        }
    }

    fn take_batches(&mut self, batch: Batch) {
        self.take_batch(batch);
        for _ in 1..BATCHES_A_TURN {
            if !self.may_read() {
                return;
            }
            match self.source.changes.try_recv() {
                Ok(batch) => self.take_batch(batch),
                Err(mpsc::error::TryRecvError::Empty | mpsc::error::TryRecvError::Disconnected) => {
                    return;
                }
            }
        }
    }

    fn take_batch(&mut self, batch: Batch) {
        self.held.begin_batch(batch.share);
        for change in batch.changes {
            if self.at_boundary {
                break;
            }
            self.take(change);
        }
        self.held.end_batch();
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Begin(transaction) => {
                self.transaction = transaction;
                self.ledger.begin();
            }
            Change::Event(event) => self.take_event(event),
            Change::Commit(position) => {
                self.relay.setback = None;
                self.ledger.commit(position);
                if sabotage::active(Fault::ConfirmEarly) {
                    self.source.confirm(position);
                }
                self.at_boundary = !matches!(self.phase, Phase::Running);
            }
            Change::Progress(position) => {
                self.relay.setback = None;
                self.ledger.progress(position);
            }
            Change::Halt(failure) => {
                let hint = failure.way_out().unwrap_or("");
                error!(%failure, hint, "halted: what comes next cannot be read");
                self.source_halt = Some(failure);
            }
        }
    }

    fn take_event(&mut self, event: OutboxEvent) {
        self.relay.metrics.events_received.inc();
        match self.relay.router.route(event, &self.transaction) {
            Routed::Deliver(event) if sabotage::IS_POSSIBLE => {
                for event in self.saboteur.instead_of(event) {
                    self.deliver(event);
                }
            }
            Routed::Deliver(event) => self.deliver(event),
            Routed::Unmatched(_) => {
                self.relay.metrics.events_dropped.inc();
                self.settled_at_once();
            }
            Routed::Poison(poison) | Routed::Fault(poison) => self.take_poison(poison),
        }
    }

    fn deliver(&mut self, event: RoutedEvent) {
        if self.relay.poison.bars(event.ordering_key) {
            return self.bar(Place::Known(Box::new(event)));
        }
        let id = DeliveryId(self.ledger.event(1));
        let sink = usize::from(event.sink.0);
        if let Some(outgoing) = self.relay.outgoing.get_mut(sink) {
            outgoing.push(id, &event, Instant::now());
        }
        self.held.push(HeldEvent::Sendable(event), self.transaction.commit_time_micros);
    }

    fn take_poison(&mut self, poison: routing::Poison) {
        let routing::Poison { id, reason, word, place } = poison;
        let target = match &place {
            Place::Known(event) => event.destination.name(),
            Place::Unknown(_) => "",
        };
        if self.relay.poison.judge(&id, target, &reason) == Verdict::Skip {
            self.relay.metrics.events_skipped.inc();
            return self.settled_at_once();
        }
        self.relay.poison.halt(DeliveryId(self.ledger.next()), &id, target, &reason);
        match &place {
            Place::Known(event) => {
                if let Some(outgoing) = self.relay.outgoing.get(usize::from(event.sink.0)) {
                    outgoing.metrics().failed(word);
                }
            }
            Place::Unknown(ordering_key) => {
                self.relay.metrics.failed_unrouted(word);
                self.relay.poison.bar(*ordering_key);
            }
        }
        self.bar(place);
    }

    /// Takes an event that is not sent in this session, and holds its lane from there on.
    fn bar(&mut self, place: Place) {
        let id = DeliveryId(self.ledger.event(1));
        let event = match place {
            Place::Known(event) => Some(event),
            Place::Unknown(_) => None,
        };
        if let Some(event) = &event
            && let Some(outgoing) = self.relay.outgoing.get_mut(usize::from(event.sink.0))
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

    fn take_reports(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        let now = now_micros();
        for index in 0..self.relay.outgoing.len() {
            let Some(outgoing) = self.relay.outgoing.get_mut(index) else { continue };
            outgoing.take_reports(&self.held, &mut ended);
            let metrics = outgoing.metrics().clone();
            for ended in ended.drain(..) {
                match ended {
                    Ended::Acknowledged(id) => {
                        let Some(committed) = self.held.settle(id) else { continue };
                        self.ledger.settle(id.0, None);
                        metrics.delivered.inc();
                        metrics.delivery_seconds.observe(seconds(now - committed));
                    }
                    Ended::Rejected(id, reason) => self.rejected(index, id, reason),
                }
            }
        }
        self.ended = ended;
    }

    fn rejected(&mut self, sink: usize, id: DeliveryId, reason: Failure) {
        let Some(HeldEvent::Sendable(event)) = self.held.get(id) else { return };
        let event_id = String::from_utf8_lossy(&event.id).into_owned();
        let target = event.destination.name().to_owned();
        let Some(outgoing) = self.relay.outgoing.get_mut(sink) else { return };
        match self.relay.poison.judge(&event_id, &target, &reason) {
            Verdict::Skip => {
                self.relay.metrics.events_skipped.inc();
                outgoing.skip(id, Instant::now());
                self.held.settle(id);
                self.ledger.settle(id.0, None);
            }
            Verdict::Halt => {
                outgoing.hold(id);
                self.relay.poison.halt(id, &event_id, &target, &reason);
                self.held.bar(id);
            }
        }
    }

    fn dispatch(&mut self) {
        // Once the source is lost, what has not been handed over is read again by the next session.
        if !self.is_connected() {
            return;
        }
        for outgoing in &mut self.relay.outgoing {
            outgoing.dispatch(&self.held);
        }
    }

    fn drain(&mut self) {
        info!(unsettled = self.ledger.unsettled(), "stopping: waiting for acknowledgements");
        self.at_boundary = !self.ledger.in_transaction();
        let until = Instant::now() + self.relay.grace_period;
        self.phase = Phase::Draining { until, why: Why::Stop };
        self.publish();
    }

    /// The source has ended by itself.
    async fn lost(&mut self) {
        if !self.is_connected() {
            return;
        }
        let failure = self.source.ended().await;
        let until = Instant::now() + LOST_SOURCE_GRACE;
        self.phase = Phase::Draining { until, why: Why::Lost(failure) };
        self.relay.metrics.active.set(0);
        self.relay.metrics.source_connected.set(0);
        self.publish();
    }

    /// The server shuts down and would wait for us: the connection is closed with nothing confirmed
    /// that is not settled.
    fn let_go(&mut self) {
        warn!("the server is shutting down: letting its connection go");
        let failure = Failure::transient("the server is shutting down").code("57P03");
        self.phase = Phase::Draining { until: Instant::now(), why: Why::Lost(failure) };
    }

    async fn end(self) -> End {
        let Self { relay, source, ledger, held, phase, .. } = self;
        relay.next_delivery = ledger.next();
        relay.metrics.active.set(0);
        relay.metrics.source_connected.set(0);
        let confirmed = ledger.confirmed();
        match phase {
            Phase::Draining { why: Why::Lost(failure), .. } => {
                source.abandon().await;
                End::SourceLost(failure, confirmed)
            }
            Phase::Running | Phase::Draining { why: Why::Stop, .. } => {
                source.confirm(confirmed);
                match source.finish().await {
                    Ok(()) if held.len() == 0 => info!(%confirmed, "stopped, everything confirmed"),
                    Ok(()) => {
                        let again = held.len();
                        warn!(%confirmed, again, "stopped in time; so many events are sent again");
                    }
                    Err(failure) => {
                        warn!(%failure, "the last position may not have reached the server");
                    }
                }
                End::Stopped
            }
        }
    }

    fn state(&self) -> State {
        let stopping = matches!(self.phase, Phase::Draining { why: Why::Stop, .. });
        let halted = |failure: &Failure| State::Halted {
            reason: failure.to_string(),
            hint: failure.way_out().map(str::to_owned),
        };
        let lost = (!self.is_connected()).then_some(State::Starting);
        let own = [
            stopping.then_some(State::Stopping),
            lost,
            self.source_halt.as_ref().map(halted),
            self.relay.setback.as_ref().map(halted),
            self.guard.coverage_lost().as_ref().map(halted),
            self.relay.poison.state(),
        ];
        let sinks = self.relay.outgoing.iter().flat_map(Outgoing::states);
        combine(own.into_iter().flatten().chain(sinks))
    }

    fn publish(&self) {
        let state = self.state();
        let oldest = self.held.oldest_commit_micros();
        self.relay.publisher.update(|status| {
            status.state = state;
            status.confirmed = self.ledger.confirmed().0;
            status.received = self.source.coverage.heard().max(status.confirmed);
            status.window_events = self.ledger.unsettled() as u64;
            status.window_bytes = self.relay.window.held() as u64;
            status.oldest_unacknowledged = oldest.map(crate::timestamp::Timestamp::from_micros);
            status.sinks = self.relay.outgoing.iter().map(Outgoing::status).collect();
            status.halted_events = self.relay.poison.halted_events();
        });
        debug!(unsettled = self.ledger.unsettled(), confirmed = %self.ledger.confirmed(), "tick");
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
