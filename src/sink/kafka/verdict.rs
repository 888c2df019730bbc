//! What the failed deliveries of a producer say, read together once it has been emptied.
//!
//! A broker judges a batch as a whole, so a refused batch names its culprit only where it held one
//! event. Whether it did can be seen afterwards: events of one batch fail with one code together,
//! and what waited behind it is only reported as purged. So one refusal in a partition is the
//! culprit at any pace, and two or more mean that one event at a time must be sent to find it.

use std::collections::{BTreeMap, HashMap};

use rdkafka::error::RDKafkaErrorCode as Code;

use super::error::{Kind, kind};
use crate::sink::DeliveryId;

/// One delivery that was reported as failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    /// The delivery.
    pub(super) id: DeliveryId,
    /// The topic's place in the table.
    pub(super) topic: u32,
    /// The partition.
    pub(super) partition: u32,
    /// Why.
    pub(super) code: Code,
    /// Bytes of key and value.
    pub(super) size: usize,
}

/// What follows from the failures.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Poison events.
    pub(super) culprits: Vec<Failed>,
    /// Events that one batch was refused with, by id: their partition.
    pub(super) suspects: HashMap<DeliveryId, (u32, u32)>,
    /// Size of the largest batch that was refused as a whole for its size, by topic.
    pub(super) oversize: BTreeMap<u32, usize>,
    /// Topics that take nothing, and why.
    pub(super) closed: BTreeMap<u32, Code>,
    /// A failure that neither an event nor a topic is to blame for.
    pub(super) doubt: Option<Code>,
}

/// Reads the failures of one producer together.
pub(super) fn judge(failures: &[Failed]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut refused: BTreeMap<(u32, u32), Vec<Failed>> = BTreeMap::new();
    for failed in failures {
        match kind(failed.code) {
            Kind::Purged => {}
            Kind::Message => {
                refused.entry((failed.topic, failed.partition)).or_default().push(*failed);
            }
            Kind::Topic => {
                verdict.closed.insert(failed.topic, failed.code);
            }
            Kind::Doubt => verdict.doubt = verdict.doubt.or(Some(failed.code)),
        }
    }
    for (partition, batch) in refused {
        match batch.as_slice() {
            [only] => verdict.culprits.push(*only),
            several => verdict.suspect(partition, several),
        }
    }
    verdict
}

impl Verdict {
    fn suspect(&mut self, partition: (u32, u32), batch: &[Failed]) {
        self.suspects.extend(batch.iter().map(|failed| (failed.id, partition)));
        if batch.iter().any(|failed| super::error::is_size(failed.code)) {
            let size: usize = batch.iter().map(|failed| failed.size).sum();
            let largest = self.oversize.entry(partition.0).or_default();
            *largest = size.max(*largest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(id: u64, partition: u32, code: Code) -> Failed {
        Failed { id: DeliveryId(id), topic: 0, partition, code, size: 100 }
    }

    #[test]
    fn a_batch_of_one_names_its_culprit() {
        let verdict = judge(&[
            failed(7, 1, Code::MessageSizeTooLarge),
            failed(9, 1, Code::PurgeQueue),
            failed(8, 1, Code::PurgeInflight),
        ]);
        let ids: Vec<u64> = verdict.culprits.iter().map(|failed| failed.id.0).collect();
        assert_eq!(ids, [7]);
        assert!(verdict.suspects.is_empty());
    }

    #[test]
    fn a_batch_of_several_names_nobody() {
        let verdict = judge(&[
            failed(1, 0, Code::MessageSizeTooLarge),
            failed(2, 0, Code::MessageSizeTooLarge),
            failed(3, 1, Code::InvalidRecord),
        ]);
        assert_eq!(verdict.suspects.len(), 2);
        assert_eq!(verdict.oversize.get(&0), Some(&200));
        let ids: Vec<u64> = verdict.culprits.iter().map(|failed| failed.id.0).collect();
        assert_eq!(ids, [3], "the other partition's batch held one event");
    }

    #[test]
    fn a_denied_topic_is_not_its_events_fault() {
        let verdict = judge(&[failed(1, 0, Code::TopicAuthorizationFailed)]);
        assert!(verdict.culprits.is_empty() && verdict.doubt.is_none());
        assert_eq!(verdict.closed.len(), 1);
    }
}
