//! One session: from a started source until it is lost or a stop is asked for.

mod tell;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{error, info, warn};

use self::tell::Pulse;
use super::books::Books;
use super::outgoing::Outgoing;
use super::poison::Poison;
use super::publisher::Publisher;
use super::state::State;
use super::stop::Stop;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::routing::Router;
use crate::sabotage::{self, Fault};
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
    pub(super) bell: Arc<Notify>,
    pub(super) poison: Poison,
    pub(super) publisher: Publisher,
    pub(super) metrics: Arc<Metrics>,
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
    books: Books,
    phase: Phase,
    /// A stop was asked for, and the transaction that was open then is whole.
    at_boundary: bool,
    source_halt: Option<Failure>,
    reader: Pulse,
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
            books: Books::new(confirmed.max(source.start), first),
            relay,
            source,
            guard,
            phase: Phase::Running,
            at_boundary: false,
            source_halt: None,
            reader: Pulse::new(now),
        }
    }

    /// Runs until the source is lost or `stop` is asked for and done.
    pub(super) async fn run(mut self, mut stop: Stop) -> End {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.publish();
        loop {
            let may_read = self.may_read();
            let due = self.next_due();
            // In this order: what frees memory before what takes it.
            tokio::select! {
                biased;
                () = self.relay.bell.notified() => self.books.take_reports(self.relay),
                () = sleep_until(due), if due.is_some() => {}
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
            self.source.confirm(self.books.ledger.confirmed());
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
        let has_room = self.books.held.len() < self.relay.window_events;
        let wants = match &self.phase {
            Phase::Running => self.source_halt.is_none(),
            // The open transaction is read to its end: confirmed, it need not be sent twice.
            Phase::Draining { why: Why::Stop, .. } => {
                self.books.ledger.in_transaction() && !self.relay.poison.halts()
            }
            Phase::Draining { why: Why::Lost(_), .. } => false,
        };
        wants && has_room
    }

    /// When something that came back from a broker may be handed over again.
    fn next_due(&self) -> Option<Instant> {
        let due = self.relay.outgoing.iter().filter_map(Outgoing::next_due).min();
        due.filter(|_| self.is_connected())
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
                self.books.ledger.unsettled() == 0 && !self.books.ledger.in_transaction()
            }
            Phase::Draining { why: Why::Lost(_), .. } => self.books.ledger.unsettled() == 0,
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
        self.books.held.begin_batch(batch.share);
        for change in batch.changes {
            if self.at_boundary {
                break;
            }
            self.take(change);
        }
        self.books.held.end_batch();
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Begin(transaction) => {
                self.books.transaction = transaction;
                self.books.ledger.begin();
            }
            Change::Event(event) => self.books.take_event(self.relay, event),
            Change::Commit(position) => {
                self.relay.setback = None;
                self.books.ledger.commit(position);
                if sabotage::active(Fault::ConfirmEarly) {
                    self.source.confirm(position);
                }
                self.at_boundary = !matches!(self.phase, Phase::Running);
            }
            Change::Progress(position) => {
                self.relay.setback = None;
                self.books.ledger.progress(position);
                if sabotage::active(Fault::ConfirmEarly) {
                    self.source.confirm(position);
                }
            }
            Change::Halt(failure) => {
                let hint = failure.way_out().unwrap_or("");
                error!(%failure, hint, "halted: what comes next cannot be read");
                self.source_halt = Some(failure);
            }
        }
    }

    fn dispatch(&mut self) {
        // Once the source is lost, what has not been handed over is read again by the next session.
        if !self.is_connected() {
            return;
        }
        for outgoing in &mut self.relay.outgoing {
            outgoing.dispatch(&self.books.held);
        }
    }

    fn drain(&mut self) {
        info!(unsettled = self.books.ledger.unsettled(), "stopping: waiting for acknowledgements");
        self.at_boundary = !self.books.ledger.in_transaction();
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
        let Self { relay, source, books: Books { ledger, held, .. }, phase, .. } = self;
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
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
