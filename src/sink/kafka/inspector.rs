//! Asks the brokers about topics: which partitions a new one has, whether a closed one can be
//! written again, why one does not move. In a thread of its own, since the answers may take long.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use super::admin::{self, Partition, Seen};
use super::block::Until;
use super::error;
use super::shared::{Shared, lock};
use super::stall::Stuck;
use super::topic::{Phase, Topic};
use crate::failure::{Class, Failure};

/// A new topic spreads through a cluster within this: only then is a missing one worth an alert.
const GRACE: Duration = Duration::from_secs(5);

/// First and longest wait between two looks at a topic that is not open.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often an open topic is looked at: while it does not move, while no broker answers, else.
const LOOK_STUCK: Duration = Duration::from_secs(5);
const LOOK_DISCONNECTED: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(60);

/// How long no broker may answer before it is told.
const UNREACHABLE: Duration = Duration::from_secs(10);

/// The code shown where a topic does not move and nothing is wrong with it.
pub(super) const NO_PROGRESS: &str = "NO_PROGRESS";

/// The inspector's thread.
pub(super) struct Inspector {
    shared: Arc<Shared>,
    watches: HashMap<u32, Watch>,
    unreachable_since: Option<Instant>,
}

/// When a topic is looked at.
struct Watch {
    since: Instant,
    looked: Option<Instant>,
    retry: Duration,
    phase: Phase,
}

impl Watch {
    fn new(phase: Phase, now: Instant) -> Self {
        // An open topic was looked at when it was opened.
        let looked = (phase == Phase::Open).then_some(now);
        Self { since: now, looked, retry: RETRY.0, phase }
    }
}

impl Inspector {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, watches: HashMap::new(), unreachable_since: None }
    }

    /// Runs until the sink is stopped.
    pub(super) fn run(mut self) {
        while self.shared.stops_at().is_none() {
            let wait = self.round();
            self.shared.admin.rest(Instant::now());
            thread::park_timeout(wait);
        }
    }

    /// Looks at every topic that is due; gives the time until the next one is.
    fn round(&mut self) -> Duration {
        let mut wait = LOOK_STUCK;
        for topic in self.shared.topics.all() {
            let now = Instant::now();
            let due = self.due(&topic, now);
            if due > now {
                wait = wait.min(due - now);
                continue;
            }
            if self.visit(&topic).is_err() {
                // The next topic's question would wait as long for the same brokers.
                return LOOK_DISCONNECTED.min(RETRY.0 * 10);
            }
            let again = self.due(&topic, Instant::now());
            wait = wait.min(again.saturating_duration_since(Instant::now()));
        }
        wait.max(Duration::from_millis(10))
    }

    fn due(&mut self, topic: &Topic, now: Instant) -> Instant {
        let phase = topic.phase();
        let watch = self.watches.entry(topic.index).or_insert_with(|| Watch::new(phase, now));
        if watch.phase != phase {
            *watch = Watch::new(phase, now);
        }
        let Some(looked) = watch.looked else { return now };
        match phase {
            Phase::Unknown => looked + watch.retry,
            Phase::Closed => {
                let retry_at = topic.closure().map_or(looked, |closure| closure.retry_at());
                (looked + watch.retry).max(retry_at)
            }
            // The driver opens it.
            Phase::Ready => now + LOOK_STUCK,
            Phase::Open if lock(&self.shared.stuck).contains_key(&topic.index) => {
                looked + LOOK_STUCK
            }
            // Deliveries may flow again before a question is answered again: ask, and say so.
            Phase::Open if !self.shared.has_connection() || self.unreachable_since.is_some() => {
                looked + LOOK_DISCONNECTED
            }
            Phase::Open => looked + LOOK,
        }
    }

    /// Looks at one topic. `Err`: no broker answers.
    fn visit(&mut self, topic: &Topic) -> Result<(), ()> {
        let Some(producer) = self.shared.producer().clone() else {
            // Between two producers.
            return Err(());
        };
        let seen = admin::look(&producer, &topic.name);
        drop(producer);
        let now = Instant::now();
        let mut age = Duration::ZERO;
        if let Some(watch) = self.watches.get_mut(&topic.index) {
            watch.looked = Some(now);
            watch.retry = (watch.retry * 2).min(RETRY.1);
            age = now.saturating_duration_since(watch.since);
        }
        let seen = match seen {
            Ok(seen) => seen,
            Err(code) => {
                self.unreachable(code, now);
                return Err(());
            }
        };
        self.reachable();
        match (topic.phase(), seen) {
            (Phase::Ready, _) | (_, Seen::Pending) => {}
            (Phase::Unknown | Phase::Closed, Seen::There(partitions)) => {
                self.found(topic, partitions.len());
            }
            (Phase::Unknown, Seen::Refused(code)) => self.refused(topic, code, age),
            (Phase::Closed, Seen::Refused(code)) => self.refused(topic, code, GRACE),
            (Phase::Open, Seen::There(partitions)) => self.look_again(topic, &partitions),
            (Phase::Open, Seen::Refused(code)) => {
                self.shared.close(topic, code);
                self.shared.want_fresh_producer();
            }
        }
        Ok(())
    }

    /// The topic exists: opens it, or leaves that to the driver where the producer must be replaced
    /// first.
    fn found(&self, topic: &Topic, partitions: usize) {
        if let Some(limit) = self.shared.admin.describe(&topic.name).max_message_bytes {
            topic.set_limit(limit);
        }
        let fits = topic.limit().is_none_or(|limit| limit >= self.shared.batch_size());
        let same = topic.learn_partitions(u32::try_from(partitions).unwrap_or(u32::MAX));
        if fits && same {
            self.shared.open(topic);
        } else {
            topic.set_phase(Phase::Ready);
            self.shared.wake_driver();
        }
    }

    fn refused(&self, topic: &Topic, code: Code, age: Duration) {
        if error::is_missing(code) && age < GRACE {
            return;
        }
        let failure = self.shared.settings.site.topic(&topic.name, code);
        self.shared.blocks.set(&Some(Arc::clone(&topic.name)), failure, Until::Said);
    }

    /// An open topic: has it grown, and why does it not move?
    fn look_again(&self, topic: &Topic, partitions: &[Partition]) {
        let count = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        if !topic.learn_partitions(count) {
            tracing::warn!(
                sink = %self.shared.name, topic = %topic.name, from = topic.partitions(), to = count,
                "partition count changed: keys move to other partitions"
            );
            topic.set_phase(Phase::Ready);
            self.shared.wake_driver();
            return;
        }
        let stuck = lock(&self.shared.stuck).get(&topic.index).cloned();
        if let Some(stuck) = stuck {
            let failure = self.cause(topic, partitions, &stuck.partitions);
            // Not as of now: it may have moved while the brokers were asked, and never move again.
            let until = Until::Flowing(stuck.acked);
            self.shared.blocks.set(&Some(Arc::clone(&topic.name)), failure, until);
        }
    }

    fn cause(&self, topic: &Topic, partitions: &[Partition], stuck: &[Stuck]) -> Failure {
        let name = &topic.name;
        let is_stuck = |found: &&Partition| stuck.iter().any(|stuck| stuck.partition == found.id);
        let stuck: Vec<&Partition> = partitions.iter().filter(is_stuck).collect();
        if let Some(found) = stuck.iter().find(|found| !found.has_leader) {
            return Failure::transient(format!(
                "partition {} of topic `{name}` has no leader",
                found.id
            ))
            .code("LEADER_NOT_AVAILABLE");
        }
        let least = self.shared.admin.describe(name).min_insync_replicas.unwrap_or(1);
        if let Some(found) = stuck.iter().find(|found| found.in_sync < least) {
            return Failure::transient(format!(
                "partition {} of topic `{name}` has {} in-sync replicas, `min.insync.replicas` \
                 asks for {least}",
                found.id, found.in_sync
            ))
            .code("NOT_ENOUGH_REPLICAS");
        }
        self.shared.client_failure().unwrap_or_else(|| {
            Failure::transient(format!(
                "topic `{name}` acknowledges nothing, though nothing is wrong with it"
            ))
            .code(NO_PROGRESS)
        })
    }

    fn unreachable(&mut self, code: Code, now: Instant) {
        let since = *self.unreachable_since.get_or_insert(now);
        self.shared.is_disconnected();
        let failure = self.shared.client_failure().unwrap_or_else(|| {
            let brokers = &self.shared.settings.site.brokers;
            Failure::transient(format!("no broker of `{brokers}` answers")).code(error::name(code))
        });
        let is_late = now.saturating_duration_since(since) >= UNREACHABLE;
        let is_missed = !lock(&self.shared.stuck).is_empty();
        if is_late || is_missed || failure.class() == Class::Fixable {
            self.shared.blocks.set(&None, failure, Until::Said);
        }
    }

    fn reachable(&mut self) {
        if !self.shared.has_connection() {
            self.shared.is_connected();
        }
        if self.unreachable_since.take().is_some() {
            self.shared.blocks.clear(&None);
        }
    }
}
