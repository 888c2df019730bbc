//! The topics that events were sent to so far, and what is known of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use super::partition;
use super::stall::Look;
use crate::sink::Lane;

/// Whether events of a topic may be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Nothing is known yet.
    Unknown,
    /// Known, but the producer must be replaced before anything is sent (smaller batches, more
    /// partitions).
    Ready,
    /// Events flow.
    Open,
    /// The topic is missing, or takes nothing from us.
    Closed,
}

/// What is out in one partition.
#[derive(Debug, Default)]
struct Flow {
    sent: AtomicU64,
    acked: AtomicU64,
}

/// Why and when a topic was closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closure {
    /// What the broker said.
    pub(super) code: Code,
    at: Instant,
    /// How often without a delivery in between.
    times: u32,
    acked: u64,
}

impl Closure {
    /// When the topic may be tried again though its metadata shows nothing wrong: whether *writing*
    /// is allowed only a write can tell, and each costs the other topics a fresh producer.
    pub(super) fn retry_at(&self) -> Instant {
        let base = match self.code {
            Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
                Duration::from_millis(250)
            }
            _ => Duration::from_secs(5),
        };
        let doubled = base.saturating_mul(1 << self.times.saturating_sub(1).min(10));
        self.at + doubled.min(Duration::from_secs(60))
    }
}

/// One topic.
#[derive(Debug)]
pub(super) struct Topic {
    /// Its place in the table.
    pub(super) index: u32,
    /// Its name.
    pub(super) name: Arc<str>,
    phase: AtomicU8,
    flows: RwLock<Vec<Flow>>,
    /// `max.message.bytes`; 0 while it is not known.
    limit: AtomicU32,
    /// A partition count to take over when the producer is replaced; 0 for none.
    grown: AtomicU32,
    /// Number of the report by which the relay learns of the partitions, as
    /// [`Mailbox::put_all_noting`](crate::sink::Mailbox::put_all_noting) notes it; until that is
    /// taken, the relay goes by what it knew.
    told_by: AtomicU64,
    closure: Mutex<Option<Closure>>,
}

impl Topic {
    fn new(index: u32, name: Arc<str>) -> Self {
        Self {
            index,
            name,
            phase: AtomicU8::new(Phase::Unknown as u8),
            flows: RwLock::default(),
            limit: AtomicU32::new(0),
            grown: AtomicU32::new(0),
            told_by: AtomicU64::new(u64::MAX),
            closure: Mutex::default(),
        }
    }

    /// The phase in force.
    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            1 => Phase::Ready,
            2 => Phase::Open,
            3 => Phase::Closed,
            _ => Phase::Unknown,
        }
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The number of partitions; 0 while it is not known.
    pub(super) fn partitions(&self) -> u32 {
        u32::try_from(self.flows().len()).unwrap_or(0)
    }

    /// The relay learns of the partitions by the report of this number; 0 for no report.
    pub(super) fn tell_by(&self, number: u64) {
        self.told_by.store(number, Ordering::Release);
    }

    /// The number of partitions, if the relay, which has taken `taken` reports, knows of it.
    pub(super) fn told_partitions(&self, taken: u64) -> Option<u32> {
        let told_by = self.told_by.load(Ordering::Acquire);
        let partitions = self.partitions();
        let is_settled = self.told_by.load(Ordering::Acquire) == told_by;
        (is_settled && taken >= told_by).then_some(partitions)
    }

    /// `max.message.bytes`, if it is known.
    pub(super) fn limit(&self) -> Option<u32> {
        Some(self.limit.load(Ordering::Acquire)).filter(|limit| *limit > 0)
    }

    pub(super) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Release);
    }

    /// Takes note of the partition count that the broker gives. `false`: it differs from the one in
    /// use, and is taken over by [`Topic::grow`] once nothing is out.
    pub(super) fn learn_partitions(&self, count: u32) -> bool {
        let known = self.partitions();
        if known == 0 {
            self.resize(count);
        } else if known != count {
            self.grown.store(count, Ordering::Release);
        }
        known == 0 || known == count
    }

    /// Takes over a changed partition count; nothing may be out. Gives the old and the new one.
    pub(super) fn grow(&self) -> Option<(u32, u32)> {
        let count = self.grown.swap(0, Ordering::AcqRel);
        let known = self.partitions();
        let changed = count > 0 && count != known;
        changed.then(|| {
            self.tell_by(u64::MAX);
            self.resize(count);
            (known, count)
        })
    }

    /// One delivery was handed over.
    pub(super) fn sent(&self, partition: u32) {
        if let Some(flow) = self.flows().get(partition as usize) {
            flow.sent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One delivery was acknowledged.
    pub(super) fn acked(&self, partition: u32) {
        if let Some(flow) = self.flows().get(partition as usize) {
            flow.acked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Acknowledged deliveries of all partitions.
    pub(super) fn total_acked(&self) -> u64 {
        self.flows().iter().map(|flow| flow.acked.load(Ordering::Relaxed)).sum()
    }

    /// Nothing is out any more.
    pub(super) fn nothing_out(&self) {
        for flow in self.flows().iter() {
            flow.sent.store(flow.acked.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// What is out, by partition.
    pub(super) fn looks(&self) -> Vec<Look> {
        let look = |(partition, flow): (usize, &Flow)| Look {
            topic: self.index,
            partition: u32::try_from(partition).unwrap_or(u32::MAX),
            // In this order, or a delivery between the two would make it look negative.
            acked: flow.acked.load(Ordering::Acquire),
            sent: flow.sent.load(Ordering::Acquire),
        };
        self.flows().iter().enumerate().map(look).collect()
    }

    /// Lanes that events may be waiting in: the waiting lane and those of `partitions` partitions.
    pub(super) fn lanes(&self, partitions: u32) -> impl Iterator<Item = Lane> {
        let index = self.index;
        let known = (0..partitions).map(move |partition| partition::lane(index, partition));
        std::iter::once(partition::waiting_lane(index)).chain(known)
    }

    /// Closes the topic: nothing is handed over until it is opened again.
    pub(super) fn close(&self, code: Code, now: Instant) {
        self.set_phase(Phase::Closed);
        let acked = self.total_acked();
        let mut closure = self.lock_closure();
        let in_a_row = closure.filter(|last| last.acked == acked).map_or(0, |last| last.times);
        *closure = Some(Closure { code, at: now, times: in_a_row.saturating_add(1), acked });
    }

    /// Why the topic is closed, or was last.
    pub(super) fn closure(&self) -> Option<Closure> {
        *self.lock_closure()
    }

    fn lock_closure(&self) -> MutexGuard<'_, Option<Closure>> {
        self.closure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resize(&self, count: u32) {
        let mut flows = self.flows.write().unwrap_or_else(PoisonError::into_inner);
        flows.resize_with(count as usize, Flow::default);
    }

    fn flows(&self) -> RwLockReadGuard<'_, Vec<Flow>> {
        self.flows.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table of topics; it only grows.
#[derive(Debug, Default)]
pub(super) struct Topics {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    list: Vec<Arc<Topic>>,
    by_name: HashMap<Arc<str>, Arc<Topic>, foldhash::fast::RandomState>,
}

impl Topics {
    /// The topic of this name, if events were sent to it.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.table().by_name.get(name).map(Arc::clone)
    }

    /// The topic at this place.
    pub(super) fn at(&self, index: u32) -> Option<Arc<Topic>> {
        self.table().list.get(index as usize).map(Arc::clone)
    }

    /// The topic of this name, put into the table if it is new.
    pub(super) fn add(&self, name: &Arc<str>) -> Arc<Topic> {
        if let Some(known) = self.find(name) {
            return known;
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let index = u32::try_from(table.list.len()).unwrap_or(u32::MAX);
        let topic = Arc::new(Topic::new(index, Arc::clone(name)));
        table.list.push(Arc::clone(&topic));
        table.by_name.insert(Arc::clone(name), Arc::clone(&topic));
        topic
    }

    /// All topics, as of now.
    pub(super) fn all(&self) -> Vec<Arc<Topic>> {
        self.table().list.clone()
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_partition_count_waits_for_the_producer_to_be_replaced() {
        let topic = Topics::default().add(&Arc::from("t"));
        assert!(topic.learn_partitions(3));
        assert!(!topic.learn_partitions(6));
        assert_eq!(topic.partitions(), 3);
        assert_eq!(topic.grow(), Some((3, 6)));
        assert_eq!(topic.partitions(), 6);
        assert_eq!(topic.grow(), None);
    }

    #[test]
    fn partitions_are_told_once_the_report_is_taken() {
        let topic = Topics::default().add(&Arc::from("t"));
        topic.learn_partitions(3);
        assert_eq!(topic.told_partitions(9), None);
        topic.tell_by(5);
        assert_eq!(topic.told_partitions(4), None);
        assert_eq!(topic.told_partitions(5), Some(3));
    }

    #[test]
    fn a_topic_has_one_place() {
        let topics = Topics::default();
        let first = topics.add(&Arc::from("t"));
        assert_eq!(topics.add(&Arc::from("t")).index, first.index);
        assert_ne!(topics.add(&Arc::from("u")).index, first.index);
    }
}
