//! Owns the life of producers: polls the one in force, and replaces it when something failed.
//!
//! A failed delivery may still have been written, and whatever the same producer sends after it
//! may fill the gap that it left. So after the first failure nothing more is handed over, what is
//! out gets a short time, the rest is purged, and the producer is dropped and never sent on again.
//! Only then is the relay told to send everything unsettled again, in order, to a fresh one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::producer::{Producer as _, PurgeConfig};
use tokio::time::Instant;

use super::block::{Progress, Until};
use super::context::{Context, Producer};
use super::error::{self, Site};
use super::inspector::NO_PROGRESS;
use super::shared::{Shared, lock};
use super::stall::{Stalls, Stuck, StuckTopic};
use super::topic::{Phase, Topic};
use super::verdict::{self, Failed, Verdict};
use crate::failure::{Class, Failure};
use crate::sink::{Outcome, Pace, Report};

/// How long one poll waits: callbacks run at once, what only the loop sees waits this long.
const POLL: Duration = Duration::from_millis(50);

/// How long the thread rests while nothing is out, unless it is woken.
const REST: Duration = Duration::from_millis(500);

/// How often stalls are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// A partition that does not move for this long is asked about.
const STUCK: Duration = Duration::from_secs(10);

/// A partition that does not move for this long, and for no reason, costs the producer.
const HOPELESS: Duration = Duration::from_secs(60);

/// First and longest wait before a producer that failed for no event's and no topic's fault is
/// replaced.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The driver's thread.
pub(super) struct Driver {
    shared: Arc<Shared>,
    pace: Pace,
    stalls: Stalls,
    looked: Instant,
    /// Suspects left, and since when that many.
    suspects: (usize, Instant),
    /// Replacements in a row without an acknowledgement, and the count of those at the last one.
    fruitless: (u32, u64),
}

/// Why a producer is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// A delivery failed, or the producer did.
    Failed,
    /// It does not move, and nothing else is wrong.
    Stuck,
    /// Smaller batches, changed partitions, a closed topic, another pace: nothing failed.
    Planned,
}

/// A fresh producer, and what goes with it.
struct Fresh {
    producer: Arc<Producer>,
    rejected: Vec<Report>,
    grown: Vec<(Arc<Topic>, u32)>,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        Self {
            shared,
            pace: Pace::SlowStart,
            stalls: Stalls::default(),
            looked: now,
            suspects: (0, now),
            fruitless: (0, 0),
        }
    }

    /// Runs until the sink is stopped.
    pub(super) fn run(mut self, mut producer: Arc<Producer>) {
        loop {
            self.poll(&producer);
            if let Some(deadline) = self.shared.stops_at() {
                return self.finish(producer, deadline);
            }
            self.shared.offer_room();
            let is_hopeless = self.look_for_stalls();
            let Some(cause) = self.cause(&producer, is_hopeless) else { continue };
            let Some(fresh) = self.replace(producer, cause) else { return };
            producer = Arc::clone(&fresh.producer);
            self.shared.publish(fresh.producer, fresh.rejected, fresh.grown, self.pace);
        }
    }

    fn poll(&self, producer: &Producer) {
        let is_idle = || producer.in_flight_count() == 0;
        if is_idle() {
            // The crate's poll spins through the last millisecond of its wait: too much for a relay
            // that has nothing to do.
            producer.poll(Duration::ZERO);
            self.shared.rest(REST, is_idle);
        } else {
            producer.poll(POLL);
        }
    }

    fn cause(&mut self, producer: &Producer, is_hopeless: bool) -> Option<Cause> {
        if producer.context().is_failing() {
            return Some(Cause::Failed);
        }
        if is_hopeless {
            return Some(Cause::Stuck);
        }
        let is_ready = |topic: &Arc<Topic>| topic.phase() == Phase::Ready;
        let planned = self.shared.takes_fresh_producer()
            || self.isolation_is_over()
            || self.shared.topics.all().iter().any(is_ready);
        planned.then_some(Cause::Planned)
    }

    /// Every suspect has been acknowledged or is held back behind a culprit, or nothing moves any
    /// more that could clear the rest.
    fn isolation_is_over(&mut self) -> bool {
        if self.pace == Pace::SlowStart {
            return false;
        }
        let (left, now) = (self.shared.isolation.left(), Instant::now());
        if left != self.suspects.0 {
            self.suspects = (left, now);
        }
        left == 0 || now.saturating_duration_since(self.suspects.1) >= HOPELESS
    }

    /// Notes which partitions do not move. `true`: one of them never will with this producer.
    fn look_for_stalls(&mut self) -> bool {
        let now = Instant::now();
        if now.saturating_duration_since(self.looked) < LOOK {
            return false;
        }
        self.looked = now;
        let topics = self.shared.topics.all();
        // In this order: what is acknowledged in between counts as movement.
        let acked: HashMap<u32, u64> =
            topics.iter().map(|topic| (topic.index, topic.total_acked())).collect();
        let stuck = self.stalls.look(now, STUCK, topics.iter().flat_map(|topic| topic.looks()));
        let mut by_topic: HashMap<u32, StuckTopic> = HashMap::new();
        for partition in stuck {
            let acked = acked.get(&partition.topic).copied().unwrap_or_default();
            let new = || StuckTopic { acked, partitions: Vec::new() };
            by_topic.entry(partition.topic).or_insert_with(new).partitions.push(partition);
        }
        let is_news = by_topic.keys().any(|topic| !lock(&self.shared.stuck).contains_key(topic));
        let hopeless = by_topic.iter().any(|(topic, stuck)| {
            let is_hopeless = |stuck: &Stuck| stuck.age >= HOPELESS;
            stuck.partitions.iter().any(is_hopeless) && self.has_no_reason(*topic)
        });
        self.clear_blocks(&by_topic.keys().copied().collect());
        *lock(&self.shared.stuck) = by_topic;
        if is_news {
            self.shared.wake_inspector();
        }
        hopeless
    }

    fn has_no_reason(&self, topic: u32) -> bool {
        let Some(topic) = self.shared.topics.at(topic) else { return false };
        self.shared.blocks.code(&Some(Arc::clone(&topic.name))).as_deref() == Some(NO_PROGRESS)
    }

    fn clear_blocks(&self, stuck: &HashSet<u32>) {
        self.shared.blocks.clear_moved(|name| {
            let Some(name) = name else {
                return Progress { acked: self.shared.acked(), ..Progress::default() };
            };
            self.shared.topics.find(name).map_or_else(Progress::default, |topic| Progress {
                acked: topic.total_acked(),
                is_out: topic.looks().iter().any(|look| look.sent > look.acked),
                is_stuck: stuck.contains(&topic.index),
            })
        });
    }

    /// Empties and drops the producer and makes a fresh one. `None`: the sink was stopped.
    fn replace(&mut self, producer: Arc<Producer>, cause: Cause) -> Option<Fresh> {
        drop(self.shared.producer().take());
        drain(&producer);
        let failures = producer.context().take_failures();
        let fatal = producer.client().fatal_error();
        drop(producer);
        self.nothing_is_out();
        let verdict = verdict::judge(&failures);
        tracing::info!(
            sink = %self.shared.name, ?cause, failures = failures.len(),
            culprits = verdict.culprits.len(), suspects = verdict.suspects.len(),
            doubt = ?verdict.doubt, fatal = fatal.as_ref().map(|(_, reason)| reason.as_str()),
            "replacing the producer"
        );
        self.count(&failures, &verdict.culprits);
        let rejected = self.apply(&verdict);
        let is_explained = !verdict.culprits.is_empty()
            || !verdict.suspects.is_empty()
            || !verdict.closed.is_empty()
            || cause == Cause::Planned;
        if verdict.doubt.is_some() || !is_explained {
            let code = verdict.doubt.or(fatal.map(|(code, _)| code));
            if self.back_off(code, cause) {
                return None;
            }
        }
        self.pace = match self.shared.isolation.left() {
            0 => Pace::SlowStart,
            _ => Pace::OneByOne,
        };
        self.suspects = (self.shared.isolation.left(), Instant::now());
        let grown = self.grow_topics();
        let producer = self.build()?;
        Some(Fresh { producer, rejected, grown })
    }

    fn nothing_is_out(&mut self) {
        for topic in self.shared.topics.all() {
            topic.nothing_out();
        }
        self.stalls.clear();
    }

    /// Counts failed deliveries; the relay counts those that it is told of as rejected.
    fn count(&self, failures: &[Failed], culprits: &[Failed]) {
        for failed in failures {
            let is_told = culprits.iter().any(|culprit| culprit.id == failed.id);
            if error::kind(failed.code) != error::Kind::Purged && !is_told {
                self.shared.metrics.failed(&error::name(failed.code));
            }
        }
    }

    /// Names culprits, closes topics, learns limits.
    fn apply(&mut self, verdict: &Verdict) -> Vec<Report> {
        self.learn_limits(verdict);
        if self.isolation_is_over() {
            self.shared.isolation.clear();
        }
        let rejected =
            |culprit: &Failed| Report::Outcome(culprit.id, Outcome::Rejected(self.poison(culprit)));
        let rejected: Vec<Report> = verdict.culprits.iter().map(rejected).collect();
        let isolation = &self.shared.isolation;
        for culprit in &verdict.culprits {
            isolation.named((culprit.topic, culprit.partition));
        }
        isolation.suspect(verdict.suspects.clone());
        for (topic, code) in &verdict.closed {
            if let Some(topic) = self.shared.topics.at(*topic) {
                self.shared.close(&topic, *code);
            }
        }
        rejected
    }

    /// A refusal for size says that what is known of the topic's limit may be out of date.
    fn learn_limits(&self, verdict: &Verdict) {
        let culprits = verdict.culprits.iter().filter(|culprit| error::is_size(culprit.code));
        let topics: HashSet<u32> =
            culprits.map(|culprit| culprit.topic).chain(verdict.oversize.keys().copied()).collect();
        for index in topics {
            let Some(topic) = self.shared.topics.at(index) else { continue };
            match self.shared.admin.describe(&topic.name).max_message_bytes {
                Some(limit) => topic.set_limit(limit),
                // It may not be read: halve until nothing is refused as a batch any more.
                None => {
                    if let Some(size) = verdict.oversize.get(&index) {
                        let half = u32::try_from(size / 2).unwrap_or(u32::MAX);
                        topic.set_limit(half.clamp(1024, self.shared.batch_size()));
                    }
                }
            }
        }
    }

    fn poison(&self, culprit: &Failed) -> Failure {
        let topic = self.shared.topics.at(culprit.topic);
        let name = topic.as_ref().map_or("?", |topic| &topic.name);
        if error::is_size(culprit.code) {
            let limit = topic.as_ref().and_then(|topic| topic.limit());
            return self.shared.settings.site.too_large(name, culprit.size, limit);
        }
        Site::refused(name, culprit.code)
    }

    /// Waits before the next attempt, longer each time that nothing was acknowledged in between.
    /// `true`: the sink was stopped.
    fn back_off(&mut self, code: Option<rdkafka::error::RDKafkaErrorCode>, cause: Cause) -> bool {
        let acked = self.shared.acked();
        let (times, before) = self.fruitless;
        let times = if acked > before { 0 } else { times };
        self.fruitless = (times.saturating_add(1), acked);
        if let (Some(code), Cause::Failed) = (code, cause) {
            let failure = self.shared.client_failure();
            let failure = failure
                .unwrap_or_else(|| self.shared.settings.site.client(code, &code.to_string()));
            if times > 0 || failure.class() == Class::Fixable {
                self.shared.blocks.set(&None, failure, Until::Acked(acked));
            }
        }
        let longest = BACKOFF.0.saturating_mul(1 << times.min(10)).min(BACKOFF.1);
        self.shared.pause(longest.mul_f64(rand::random_range(0.5..1.0)))
    }

    /// Takes over changed partition counts.
    fn grow_topics(&self) -> Vec<(Arc<Topic>, u32)> {
        let grow = |topic: Arc<Topic>| {
            let (before, after) = topic.grow()?;
            Some((topic, before.max(after)))
        };
        self.shared.topics.all().into_iter().filter_map(grow).collect()
    }

    /// Makes a producer, again and again if need be. `None`: the sink was stopped.
    fn build(&self) -> Option<Arc<Producer>> {
        let batch_size = self.shared.fit_batch_size();
        loop {
            match make(&self.shared, self.pace, batch_size) {
                Ok(producer) => return Some(producer),
                Err(failure) => {
                    let acked = self.shared.acked();
                    self.shared.blocks.set(&None, failure, Until::Acked(acked));
                }
            }
            if self.shared.pause(BACKOFF.1) {
                return None;
            }
        }
    }

    /// Gives what is out until `deadline`.
    fn finish(self, producer: Arc<Producer>, deadline: Instant) {
        drop(self.shared.producer().take());
        while producer.in_flight_count() > 0 && Instant::now() < deadline {
            producer.poll(Duration::from_millis(20));
            if producer.context().is_failing() {
                break;
            }
        }
        purge(&producer);
        self.shared.is_disconnected();
    }
}

/// A producer with this sink's settings.
pub(super) fn make(
    shared: &Arc<Shared>,
    pace: Pace,
    batch_size: u32,
) -> Result<Arc<Producer>, Failure> {
    let config = shared.settings.producer(pace, batch_size);
    let context = Context::new(Arc::clone(shared));
    Producer::from_config_and_context(&config, context)
        .map(Arc::new)
        .map_err(|error| Site::creation(&error))
}

/// Gives what is out a short time, then takes it back.
fn drain(producer: &Producer) {
    // A fatal error stops the client: only answers that are on their way still come.
    let fatal = producer.client().fatal_error().is_some();
    let (quiet, most) = if fatal { (100, 1000) } else { (500, 5000) };
    let (quiet, most) = (Duration::from_millis(quiet), Duration::from_millis(most));
    let start = Instant::now();
    let (mut out, mut moved) = (producer.in_flight_count(), start);
    while out > 0 && start.elapsed() < most && moved.elapsed() < quiet {
        producer.poll(Duration::from_millis(10));
        let left = producer.in_flight_count();
        if left != out {
            (out, moved) = (left, Instant::now());
        }
    }
    purge(producer);
}

/// Takes back what is out, and waits until all of it is reported.
fn purge(producer: &Producer) {
    let deadline = Instant::now() + Duration::from_secs(2);
    producer.purge(PurgeConfig::default().queue().inflight());
    while producer.in_flight_count() > 0 && Instant::now() < deadline {
        producer.poll(Duration::from_millis(10));
    }
}
