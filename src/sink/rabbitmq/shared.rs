//! What the relay's side and the driver share: the events on their way, and whether any may come.
//!
//! The relay fills a buffer that the driver takes, so batches grow exactly when the driver is slow.
//! Nothing is taken from a connection's loss until the relay has taken the reset that follows it:
//! the relay would hand over what must come later.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::limits::Limits;
use super::message::Message;
use crate::sink::{Mailbox, Pace, Report};

/// Most events that are on their way or unconfirmed: RabbitMQ's quorum queues are fastest with so
/// many, and lapin looks at all that are unconfirmed for each ack that stands for several.
pub(super) const WINDOW: usize = 1000;

/// Nothing may come: no report has this number.
const CLOSED: u64 = u64::MAX;

/// One RabbitMQ sink.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) mailbox: Mailbox,
    /// Rung when there is something to do for the driver.
    pub(super) bell: Arc<Notify>,
    inbox: Mutex<Vec<Message>>,
    /// Messages in the inbox, unconfirmed, or in doubt.
    in_hand: AtomicUsize,
    /// Number of the report that the relay must have taken before it hands anything over.
    open_from: AtomicU64,
    /// The relay was told that there is no room.
    wants_room: AtomicBool,
    limits: Mutex<Limits>,
    stop: watch::Sender<Option<Instant>>,
}

impl Shared {
    pub(super) fn new(mailbox: Mailbox, limits: Limits) -> Self {
        Self {
            mailbox,
            bell: Arc::new(Notify::new()),
            inbox: Mutex::default(),
            in_hand: AtomicUsize::new(0),
            open_from: AtomicU64::new(0),
            wants_room: AtomicBool::new(false),
            limits: Mutex::new(limits),
            stop: watch::Sender::new(None),
        }
    }

    /// Whether the relay may hand something over, as far as its connection goes.
    pub(super) fn is_open(&self) -> bool {
        self.mailbox.taken() >= self.open_from.load(Ordering::Acquire)
    }

    /// Whether there is room for one more beside `gathered`. Where not, a `Room` follows, or a reset.
    pub(super) fn has_room(&self, gathered: usize) -> bool {
        let has_room = || self.in_hand.load(Ordering::SeqCst) + gathered < WINDOW;
        if has_room() {
            return true;
        }
        self.wants_room.store(true, Ordering::SeqCst);
        // The driver looks at the wish after it has counted down: one of the two sees the other.
        has_room()
    }

    /// Hands over what was gathered.
    pub(super) fn fill(&self, gathered: &mut Vec<Message>) {
        let mut inbox = lock(&self.inbox);
        if !self.is_open() {
            // The reset that follows has them handed over again.
            gathered.clear();
            return;
        }
        self.in_hand.fetch_add(gathered.len(), Ordering::SeqCst);
        inbox.append(gathered);
        drop(inbox);
        self.bell.notify_one();
    }

    /// Takes what was handed over in exchange for the empty `into`.
    pub(super) fn take(&self, into: &mut Vec<Message>) {
        std::mem::swap(&mut *lock(&self.inbox), into);
    }

    /// That many messages are done with; tells the relay of the room if it waits for some.
    pub(super) fn done(&self, messages: usize) -> Option<Report> {
        let in_hand = self.in_hand.fetch_sub(messages, Ordering::SeqCst) - messages;
        let wished = in_hand < WINDOW && self.wants_room.swap(false, Ordering::SeqCst);
        wished.then_some(Report::Room)
    }

    /// Takes nothing more, and forgets what was handed over: a reset will follow.
    pub(super) fn close(&self) {
        let mut inbox = lock(&self.inbox);
        self.open_from.store(CLOSED, Ordering::Release);
        inbox.clear();
        self.in_hand.store(0, Ordering::SeqCst);
    }

    /// Takes messages again, once the relay knows that all of them are to be handed over again.
    /// `reports` go before that.
    pub(super) fn reopen(&self, limits: Limits, mut reports: Vec<Report>) {
        *lock(&self.limits) = limits;
        reports.push(Report::Reset(Pace::SlowStart));
        self.mailbox.put_all_noting(reports, |number| {
            self.open_from.store(number, Ordering::Release);
        });
    }

    pub(super) fn limits(&self) -> Limits {
        *lock(&self.limits)
    }

    /// Ends the driver; what is out may take until `at`.
    pub(super) fn stop(&self, at: Instant) {
        self.stop.send_replace(Some(at));
    }

    /// Until when what is out may take, once the sink is being stopped.
    pub(super) fn stops_at(&self) -> Option<Instant> {
        *self.stop.borrow()
    }

    /// Waits until the sink is being stopped; until when what is out may take.
    pub(super) async fn stopped(&self) -> Instant {
        let mut stop = self.stop.subscribe();
        match stop.wait_for(Option::is_some).await.map(|at| *at) {
            Ok(Some(at)) => at,
            // The sender is our own.
            _ => std::future::pending().await,
        }
    }
}

/// A thread that panicked leaves a value behind that is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
