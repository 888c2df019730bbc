//! The thread that owns the replication socket.
//!
//! It reads frames, decodes them, and hands batches of changes to the relay. Wherever it has to wait
//! (for bytes, for room in the window, for the relay to take a batch) it wakes for its timer, which
//! reports the confirmed position and so keeps the connection.

mod idle;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use self::idle::Idle;
use super::feedback::{Due, Feedback};
use super::relation::{Known, Relations};
use super::{Coverage, Order, WalConfig};
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::metrics::Metrics;
use crate::outbox::{OutboxEvent, Transaction, Tuple};
use crate::pgoutput::{Message, RawTuple};
use crate::replication::protocol::ServerMessage;
use crate::replication::{Filled, Frame, Skimmed, Stream, publication};
use crate::source::{Batch, Change, Position};
use crate::window::Window;

/// The timer's grain: how late a report can be, and how soon an order is seen.
const TICK: Duration = Duration::from_millis(100);
/// How long the server may take to answer the end of the stream.
const FINISH_BOUND: Duration = Duration::from_secs(5);
/// The relay is behind while the last commit it read is older than this.
const BEHIND: Duration = Duration::from_millis(50);
/// So many changes of a transaction do not wait for its commit.
const WAITING: usize = 16;
/// Changes that were read before the stream broke are offered to the relay for so many ticks.
const LAST_OFFERS: u32 = 10;

/// The reader's ends of its channels.
#[derive(Debug)]
pub(super) struct Channels {
    pub(super) changes: mpsc::Sender<Batch>,
    pub(super) confirmed: watch::Receiver<Position>,
    pub(super) order: watch::Receiver<Order>,
    pub(super) coverage: Arc<Coverage>,
    pub(super) runtime: Handle,
}

#[derive(Debug)]
pub(super) struct Reader {
    stream: Stream,
    relations: Relations,
    window: Window,
    metrics: Arc<Metrics>,
    channels: Channels,
    feedback: Feedback,
    idle: Idle,
    /// The newest position heard from the server; nothing beyond it is ever reported.
    heard: Lsn,
    reported: Lsn,
    /// The server has asked for a report since the last one.
    asked: bool,
    transaction: Option<Open>,
    changes: Vec<Change>,
    /// Set once what comes next cannot be read.
    halted: bool,
}

/// The transaction whose rows are coming.
#[derive(Clone, Copy, Debug)]
struct Open {
    transaction: Transaction,
    /// Whether the relay knows of it: it hears only of those that have events.
    announced: bool,
}

impl Reader {
    pub(super) fn new(
        stream: Stream,
        config: WalConfig,
        start: Position,
        wal_sender_timeout: Option<Duration>,
        window: Window,
        metrics: Arc<Metrics>,
        channels: Channels,
    ) -> Self {
        let relations = Relations::new(config.tables, config.partitions);
        Self {
            stream,
            relations,
            window,
            metrics,
            channels,
            feedback: Feedback::new(wal_sender_timeout, Instant::now()),
            idle: Idle::default(),
            heard: start.0,
            reported: Lsn::ZERO,
            asked: false,
            transaction: None,
            changes: Vec::new(),
            halted: false,
        }
    }

    /// Reads until it is told to stop or the stream breaks.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        match self.read() {
            Ok(Order::Finish) => self.finish(),
            Ok(Order::Read | Order::Abandon) => Ok(()),
            Err(failure) => {
                self.hand_over_the_rest();
                Err(failure)
            }
        }
    }

    /// Gives the order that ended the reading.
    fn read(&mut self) -> Result<Order, Failure> {
        self.stream.set_read_timeout(TICK)?;
        // The first messages may have come in one piece with the server's consent to stream.
        self.read_frames()?;
        let mut waits_for_more = false;
        loop {
            // A session that was dropped as it was has no more orders to give.
            if self.channels.order.has_changed().is_err() {
                return Ok(Order::Abandon);
            }
            self.channels.coverage.turns.fetch_add(1, Ordering::Relaxed);
            let order = *self.channels.order.borrow();
            if order != Order::Read {
                return Ok(order);
            }
            self.report_if_due()?;
            self.progress_if_covered();
            if !self.changes.is_empty() && !waits_for_more && !self.hand_over() {
                continue;
            }
            if self.halted {
                self.stand_still();
                continue;
            }
            waits_for_more = false;
            match self.stream.fill()? {
                Filled::Some => {
                    self.read_frames()?;
                    waits_for_more = self.waits_for_more();
                }
                Filled::Nothing => {}
                Filled::NoRoom(bytes) => {
                    self.feedback.deaf();
                    let window = self.window.clone();
                    self.wait(window.has_room(bytes));
                }
            }
        }
    }

    /// Whether what was read is better handed over with what follows it at once: the server sends a
    /// small transaction's commit by itself, right after its rows, and each batch wakes the relay.
    fn waits_for_more(&self) -> bool {
        let is_open = self.transaction.is_some() && !self.halted;
        is_open && self.changes.len() < WAITING && self.stream.keeps_chunk()
    }

    fn finish(self) -> Result<(), Failure> {
        let confirmed = self.confirmable();
        info!(%confirmed, "ending the replication stream");
        self.stream.finish(confirmed, FINISH_BOUND)
    }

    fn read_frames(&mut self) -> Result<(), Failure> {
        self.feedback.heard(Instant::now());
        while !self.halted
            && let Some(frame) = self.stream.next_frame()?
        {
            match frame {
                Frame::Replication(ServerMessage::XLogData(bytes)) => {
                    let message = Message::decode(bytes);
                    let message = message.map_err(|error| {
                        Failure::transient("the server's pgoutput cannot be read").cause(error)
                    })?;
                    self.message(message)?;
                }
                Frame::Replication(ServerMessage::Keepalive { wal_end, reply_requested }) => {
                    self.keepalive(wal_end, reply_requested);
                }
                Frame::Skimmed(skimmed) => self.skimmed(skimmed)?,
                Frame::Notice { sqlstate, failure } => self.notice(&sqlstate, failure)?,
                Frame::End => return Err(Failure::transient("the server ended the stream")),
                Frame::Other => {}
            }
        }
        self.stream.set_gathering(self.is_behind());
        Ok(())
    }

    fn message(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Insert { relation_id, tuple } => self.insert(relation_id, tuple)?,
            Message::Begin { final_lsn, commit_time_micros, xid } => {
                let transaction = Transaction { xid, commit_lsn: final_lsn, commit_time_micros };
                self.transaction = Some(Open { transaction, announced: false });
            }
            Message::Commit { end_lsn, .. } => self.commit(end_lsn),
            Message::Relation(relation) => {
                self.relations.set(relation);
                // The table may have changed what the publication covers of it.
                self.channels.coverage.wanted.notify_one();
            }
            Message::Update { .. } => self.ignored("update"),
            Message::Delete { .. } => self.ignored("delete"),
            Message::Truncate { .. } => self.ignored("truncate"),
            Message::Origin { .. } | Message::Type { .. } | Message::LogicalMessage { .. } => {}
        }
        Ok(())
    }

    fn insert(&mut self, relation_id: u32, row: RawTuple) -> Result<(), Failure> {
        let shape = match self.relations.get(relation_id) {
            Some(Known::Outbox(shape)) => Arc::clone(shape),
            Some(Known::Other) => return Ok(()),
            Some(Known::Unusable(failure)) => {
                self.changes.push(Change::Halt(failure.clone()));
                self.halted = true;
                return Ok(());
            }
            None => return Err(Failure::transient("a row came before its relation")),
        };
        let tuple = Tuple::parse(row.bytes, usize::from(row.columns))
            .map_err(|error| Failure::transient("the server's row cannot be read").cause(error))?;
        if usize::from(row.columns) != shape.columns.len() {
            return Err(Failure::transient(
                "a row has another number of columns than its relation",
            ));
        }
        let open = self.transaction.as_mut();
        let open = open.ok_or_else(|| Failure::transient("a row came outside a transaction"))?;
        if !open.announced {
            open.announced = true;
            self.changes.push(Change::Begin(open.transaction));
        }
        self.changes.push(Change::Event(OutboxEvent { shape, tuple }));
        Ok(())
    }

    fn commit(&mut self, end: Lsn) {
        self.heard(end);
        if let Some(open) = self.transaction.take() {
            self.idle.committed(open.transaction.commit_time_micros);
        }
        self.changes.push(Change::Commit(Position(end)));
    }

    /// A message above the limit: an event without its large values, or nothing that matters.
    fn skimmed(&mut self, skimmed: Skimmed) -> Result<(), Failure> {
        match skimmed {
            Skimmed::Insert { relation_id, columns, tuple } => {
                self.insert(relation_id, RawTuple { columns, bytes: tuple })
            }
            Skimmed::Other(b'U') => {
                self.ignored("update");
                Ok(())
            }
            Skimmed::Other(b'D') => {
                self.ignored("delete");
                Ok(())
            }
            Skimmed::Other(_) => Ok(()),
        }
    }

    fn ignored(&self, operation: &str) {
        let counter = self.metrics.changes_ignored.with_label_values(&[operation]);
        counter.inc();
        if operation == "update" && counter.get() == 1 {
            warn!("the outbox table is updated; only inserts are events, so updates are ignored");
        }
    }

    fn keepalive(&mut self, wal_end: Lsn, reply_requested: bool) {
        self.heard(wal_end);
        if self.transaction.is_none() {
            self.idle.heard(wal_end);
            self.channels.coverage.idle.fetch_max(wal_end.as_u64(), Ordering::AcqRel);
            self.channels.coverage.wanted.notify_one();
        }
        // Left to the timer's pace: a server that shuts down asks again as soon as it is answered.
        self.asked |= reply_requested;
    }

    /// PostgreSQL 18's warning that it skips a publication ends the stream, as the error in its place
    /// does on older servers: nothing that comes after it is read, and so nothing confirmed.
    fn notice(&self, sqlstate: &str, failure: Failure) -> Result<(), Failure> {
        warn!(%failure, "the server warns");
        self.channels.coverage.wanted.notify_one();
        if sqlstate == publication::SKIPPED { Err(failure) } else { Ok(()) }
    }

    fn heard(&mut self, lsn: Lsn) {
        self.heard = self.heard.max(lsn);
        self.channels.coverage.heard.fetch_max(lsn.as_u64(), Ordering::AcqRel);
    }

    /// Tells the relay of an idle position, once the guard has seen, later than the position was
    /// heard, that the publication covers every table (guarantee 2).
    fn progress_if_covered(&mut self) {
        let covered = Lsn::new(self.channels.coverage.covered.load(Ordering::Acquire));
        if self.transaction.is_none()
            && !self.halted
            && let Some(position) = self.idle.take_covered(covered)
        {
            self.changes.push(Change::Progress(Position(position)));
        }
    }

    /// Gives the gathered changes to the relay; `false` where it has no room within a tick, or takes
    /// nothing any more: then there is an order about it.
    fn hand_over(&mut self) -> bool {
        let permit = match self.channels.changes.try_reserve() {
            Ok(permit) => Some(permit),
            Err(mpsc::error::TrySendError::Closed(())) => None,
            Err(mpsc::error::TrySendError::Full(())) => {
                self.feedback.deaf();
                let reserve = self.channels.changes.reserve();
                let timed = async { tokio::time::timeout(TICK, reserve).await };
                self.channels.runtime.block_on(timed).ok().and_then(Result::ok)
            }
        };
        let Some(permit) = permit else { return false };
        let changes = std::mem::take(&mut self.changes);
        permit.send(Batch { changes, share: self.stream.share() });
        true
    }

    /// Changes from before the end of the stream are as good as any. Were they dropped, a stream that
    /// always breaks soon after them would never deliver them.
    fn hand_over_the_rest(&mut self) {
        for _ in 0..LAST_OFFERS {
            if self.changes.is_empty() || *self.channels.order.borrow() != Order::Read {
                return;
            }
            self.hand_over();
        }
    }

    /// Waits for `ready`, a tick at most.
    fn wait(&self, ready: impl Future<Output = ()>) {
        let timed = async { tokio::time::timeout(TICK, ready).await };
        // Whether it was ready or not, the loop looks again.
        drop(self.channels.runtime.block_on(timed));
    }

    /// Reads nothing more, and keeps the connection.
    fn stand_still(&mut self) {
        self.feedback.deaf();
        let mut order = self.channels.order.clone();
        self.wait(async move { drop(order.changed().await) });
    }

    fn report_if_due(&mut self) -> Result<(), Failure> {
        let news = self.asked || self.confirmable() > self.reported;
        match self.feedback.due(news, Instant::now()) {
            Due::Nothing => Ok(()),
            Due::Report(ask) => self.report(ask),
            Due::Dead => Err(Failure::transient("the server does not answer any more")),
        }
    }

    fn report(&mut self, ask: bool) -> Result<(), Failure> {
        let confirmed = self.confirmable();
        self.stream.send_status(confirmed, ask)?;
        self.reported = confirmed;
        self.asked = false;
        self.feedback.reported(ask, Instant::now());
        Ok(())
    }

    /// What may be reported: what the relay confirms, but never beyond what was heard on this very
    /// connection, since the server would believe it and skip events; and never back.
    fn confirmable(&self) -> Lsn {
        let confirmed = self.channels.confirmed.borrow().0;
        confirmed.min(self.heard).max(self.reported)
    }

    fn is_behind(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Ok(committed) = u64::try_from(self.idle.last_commit_micros()) else { return false };
        let is_old = now.saturating_sub(Duration::from_micros(committed)) > BEHIND;
        is_old && self.idle.is_busy()
    }
}
