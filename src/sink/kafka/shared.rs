//! What the relay's side, the driver and the inspector share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use super::admin::Admin;
use super::block::{Blocks, Until};
use super::context::Producer;
use super::error;
use super::isolation::Isolation;
use super::settings::Settings;
use super::stall::StuckTopic;
use super::topic::{Phase, Topic, Topics};
use crate::failure::{Class, Failure};
use crate::metrics::SinkMetrics;
use crate::sink::{DeliveryId, Mailbox, Pace, Report};

/// How long the client's news explain what does not move.
const NEWS: Duration = Duration::from_secs(60);

/// One Kafka sink.
pub(super) struct Shared {
    /// The sink's name in the configuration.
    pub(super) name: String,
    pub(super) settings: Settings,
    pub(super) mailbox: Mailbox,
    pub(super) metrics: SinkMetrics,
    pub(super) topics: Topics,
    pub(super) blocks: Blocks,
    pub(super) admin: Admin,
    pub(super) isolation: Isolation,
    /// Partitions that do not move, by topic, as the driver last saw them.
    pub(super) stuck: Mutex<HashMap<u32, StuckTopic>>,
    /// The driver and the inspector, to be woken.
    pub(super) threads: [OnceLock<Thread>; 2],
    producer: Mutex<Option<Arc<Producer>>>,
    reset_by: AtomicU64,
    batch_size: AtomicU32,
    acked: AtomicU64,
    room_in: AtomicI64,
    connected: AtomicBool,
    refresh: AtomicBool,
    resting: AtomicBool,
    client_failure: Mutex<Option<(Instant, Failure)>>,
    stop_at: Mutex<Option<Instant>>,
}

impl Shared {
    pub(super) fn new(
        name: &str,
        settings: Settings,
        mailbox: Mailbox,
        metrics: SinkMetrics,
        admin: Admin,
    ) -> Self {
        Self {
            name: name.to_owned(),
            batch_size: AtomicU32::new(settings.batch_size()),
            settings,
            blocks: Blocks::new(name, mailbox.clone()),
            mailbox,
            metrics,
            topics: Topics::default(),
            admin,
            isolation: Isolation::default(),
            stuck: Mutex::default(),
            threads: [OnceLock::new(), OnceLock::new()],
            producer: Mutex::default(),
            reset_by: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            room_in: AtomicI64::new(0),
            connected: AtomicBool::new(false),
            refresh: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            client_failure: Mutex::default(),
            stop_at: Mutex::default(),
        }
    }

    /// The producer in force, if there is one. Locked while the relay hands an event over, so that
    /// whoever takes the producer out knows that nothing more comes.
    pub(super) fn producer(&self) -> MutexGuard<'_, Option<Arc<Producer>>> {
        lock(&self.producer)
    }

    /// Puts a fresh producer in force, and tells the relay in one go what goes with it: until it has
    /// taken that, it would hand over what must come later. `grown` are topics whose partitions
    /// changed, with the larger of the two counts.
    pub(super) fn publish(
        &self,
        producer: Arc<Producer>,
        mut reports: Vec<Report>,
        grown: Vec<(Arc<Topic>, u32)>,
        pace: Pace,
    ) {
        let mut slot = self.producer();
        *slot = Some(producer);
        reports.push(Report::Reset(pace));
        // After the reset, by which the relay has everything back in the lanes that it knew.
        let mut relane = |topic: &Topic, partitions| {
            reports.extend(topic.lanes(partitions).map(Report::Relane));
        };
        grown.iter().for_each(|(topic, partitions)| relane(topic, *partitions));
        let topics = self.topics.all();
        let of_phase = |phase| topics.iter().filter(move |topic| topic.phase() == phase);
        of_phase(Phase::Closed).for_each(|topic| relane(topic, topic.partitions()));
        let opened: Vec<&Arc<Topic>> = of_phase(Phase::Ready).collect();
        for topic in &opened {
            topic.set_phase(Phase::Open);
            relane(topic, topic.partitions());
        }
        self.mailbox.put_all_noting(reports, |number| {
            self.reset_by.store(number, Ordering::Release);
            grown.iter().for_each(|(topic, _)| topic.tell_by(number));
            opened.iter().for_each(|topic| topic.tell_by(number));
        });
        opened.iter().for_each(|topic| self.blocks.clear(&Some(Arc::clone(&topic.name))));
    }

    /// Whether the relay knows that the producer in force is a fresh one.
    pub(super) fn knows_reset(&self) -> bool {
        self.mailbox.taken() >= self.reset_by.load(Ordering::Acquire)
    }

    /// The most that a batch of the producer in force holds, in bytes.
    pub(super) fn batch_size(&self) -> u32 {
        self.batch_size.load(Ordering::Acquire)
    }

    /// Fits the batch size to the smallest limit of the topics known by now.
    pub(super) fn fit_batch_size(&self) -> u32 {
        let limits = self.topics.all();
        let smallest = limits.iter().filter_map(|topic| topic.limit()).min();
        let most = self.settings.batch_size();
        let size = smallest.map_or(most, |limit| limit.min(most)).max(1);
        self.batch_size.store(size, Ordering::Release);
        size
    }

    /// One delivery was acknowledged.
    pub(super) fn acknowledged(&self, id: DeliveryId) {
        self.acked.fetch_add(1, Ordering::Relaxed);
        self.isolation.acknowledged(id);
        if !self.connected.load(Ordering::Relaxed) {
            self.is_connected();
        }
    }

    /// Deliveries acknowledged so far.
    pub(super) fn acked(&self) -> u64 {
        self.acked.load(Ordering::Relaxed)
    }

    /// The client had no room; tell the relay once `deliveries` more are done.
    pub(super) fn want_room(&self, deliveries: i64) {
        self.room_in.store(deliveries.max(1), Ordering::Release);
    }

    /// One delivery is done.
    pub(super) fn made_room(&self) {
        if self.room_in.load(Ordering::Relaxed) > 0
            && self.room_in.fetch_sub(1, Ordering::AcqRel) == 1
        {
            self.mailbox.put(Report::Room);
        }
    }

    /// Tells the relay of room that it waits for, whatever was done since.
    pub(super) fn offer_room(&self) {
        if self.room_in.swap(0, Ordering::AcqRel) > 0 {
            self.mailbox.put(Report::Room);
        }
    }

    /// A broker answered.
    pub(super) fn is_connected(&self) {
        *lock(&self.client_failure) = None;
        self.connected.store(true, Ordering::Relaxed);
        self.metrics.connected.set(1);
    }

    /// Whether the last news was a broker's answer.
    pub(super) fn has_connection(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// The client noticed something about its connections.
    pub(super) fn client_error(&self, code: Code, reason: &str) {
        let failure = self.settings.site.client(code, reason);
        let is_summary = matches!(code, Code::AllBrokersDown);
        // What names a cause is not hidden by "all brokers are down", which follows it, and what an
        // operator must mend not by anything that goes away by itself.
        let is_minor = |last: &Failure| {
            is_summary || (last.class() == Class::Fixable && failure.class() != Class::Fixable)
        };
        if !self.client_failure().is_some_and(|last| is_minor(&last)) {
            *lock(&self.client_failure) = Some((Instant::now(), failure));
        }
        if is_summary {
            self.is_disconnected();
        }
    }

    /// No broker answers.
    pub(super) fn is_disconnected(&self) {
        self.connected.store(false, Ordering::Relaxed);
        self.metrics.connected.set(0);
    }

    /// What the client noticed lately, and since the connection was last made.
    pub(super) fn client_failure(&self) -> Option<Failure> {
        let (at, failure) = lock(&self.client_failure).clone()?;
        let age = Instant::now().saturating_duration_since(at);
        (age < NEWS).then_some(failure)
    }

    /// Lets events of `topic` flow (again), and tells the relay.
    pub(super) fn open(&self, topic: &Topic) {
        topic.set_phase(Phase::Open);
        let relanes = topic.lanes(topic.partitions()).map(Report::Relane);
        self.mailbox.put_all_noting(relanes, |number| topic.tell_by(number));
        self.blocks.clear(&Some(Arc::clone(&topic.name)));
    }

    /// Hands nothing over to `topic` until it is opened again.
    pub(super) fn close(&self, topic: &Topic, code: Code) {
        topic.close(code, Instant::now());
        self.isolation.closed(topic.index);
        let until = match error::is_missing(code) {
            true => Until::Said,
            false => Until::Acked(topic.total_acked()),
        };
        let failure = self.settings.site.topic(&topic.name, code);
        self.blocks.set(&Some(Arc::clone(&topic.name)), failure, until);
        self.wake_inspector();
    }

    /// Asks the driver for a fresh producer: what is out for a closed topic is in the way.
    pub(super) fn want_fresh_producer(&self) {
        self.refresh.store(true, Ordering::Release);
        self.wake_driver();
    }

    /// Whether somebody asked for a fresh producer since this was last called.
    pub(super) fn takes_fresh_producer(&self) -> bool {
        self.refresh.swap(false, Ordering::AcqRel)
    }

    /// Lets the driver's thread wait while `is_idle` holds, until it is woken.
    pub(super) fn rest(&self, duration: Duration, is_idle: impl Fn() -> bool) {
        self.resting.store(true, Ordering::SeqCst);
        // Whoever hands something over from here on wakes us; what came before is seen here.
        if is_idle() {
            thread::park_timeout(duration);
        }
        self.resting.store(false, Ordering::SeqCst);
    }

    /// Wakes the driver if it rests.
    pub(super) fn wake_driver(&self) {
        let [driver, _] = &self.threads;
        if self.resting.load(Ordering::SeqCst)
            && let Some(thread) = driver.get()
        {
            thread.unpark();
        }
    }

    /// Wakes the inspector: there is something to look at.
    pub(super) fn wake_inspector(&self) {
        let [_, inspector] = &self.threads;
        if let Some(thread) = inspector.get() {
            thread.unpark();
        }
    }

    /// Ends both threads; what is out may take until `at`.
    pub(super) fn stop(&self, at: Instant) {
        *lock(&self.stop_at) = Some(at);
        for thread in self.threads.iter().filter_map(OnceLock::get) {
            thread.unpark();
        }
    }

    /// Until when what is out may take, once the sink is being stopped.
    pub(super) fn stops_at(&self) -> Option<Instant> {
        *lock(&self.stop_at)
    }

    /// Waits, in one of the two threads; `true` if the sink is being stopped.
    pub(super) fn pause(&self, duration: Duration) -> bool {
        let until = Instant::now() + duration;
        loop {
            if self.stops_at().is_some() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left);
        }
    }
}

/// A thread that panicked leaves a value behind that is whole: all are replaced at once.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
