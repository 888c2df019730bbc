//! Finds partitions whose oldest delivery does not move.
//!
//! Deliveries of one partition are acknowledged in order, so a partition with something out and
//! no acknowledgement between two looks has had the same oldest delivery all the time. Counting is
//! all that the hot path does for it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// What one look at a partition shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// The topic's place in the table.
    pub(super) topic: u32,
    /// The partition.
    pub(super) partition: u32,
    /// Deliveries handed over.
    pub(super) sent: u64,
    /// Deliveries acknowledged.
    pub(super) acked: u64,
}

/// A partition that does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stuck {
    /// The topic's place in the table.
    pub(super) topic: u32,
    /// The partition.
    pub(super) partition: u32,
    /// Since when, as far as the looks tell.
    pub(super) age: Duration,
}

/// The partitions of one topic that do not move.
#[derive(Clone, Debug)]
pub(super) struct StuckTopic {
    /// The topic's acknowledged deliveries, at the look that found them: more, and it has moved.
    pub(super) acked: u64,
    /// The partitions; never empty.
    pub(super) partitions: Vec<Stuck>,
}

/// What earlier looks saw.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    heads: HashMap<(u32, u32), Head>,
}

#[derive(Debug)]
struct Head {
    acked: u64,
    since: Instant,
}

impl Stalls {
    /// Takes one look at every partition; gives those that have not moved for `threshold`.
    pub(super) fn look(
        &mut self,
        now: Instant,
        threshold: Duration,
        looks: impl IntoIterator<Item = Look>,
    ) -> Vec<Stuck> {
        let mut stuck = Vec::new();
        for Look { topic, partition, sent, acked } in looks {
            if sent <= acked {
                self.heads.remove(&(topic, partition));
                continue;
            }
            let head = self.heads.entry((topic, partition)).or_insert(Head { acked, since: now });
            if head.acked != acked {
                *head = Head { acked, since: now };
            }
            let age = now.saturating_duration_since(head.since);
            if age >= threshold {
                stuck.push(Stuck { topic, partition, age });
            }
        }
        stuck
    }

    /// Forgets everything: nothing is out any more.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn look(sent: u64, acked: u64) -> [Look; 1] {
        [Look { topic: 1, partition: 2, sent, acked }]
    }

    #[test]
    fn only_a_head_that_stays_is_stuck() {
        let start = Instant::now();
        let mut stalls = Stalls::default();
        assert!(stalls.look(start, LIMIT, look(5, 3)).is_empty());
        assert!(stalls.look(start + LIMIT, LIMIT, look(9, 4)).is_empty(), "it moved");
        let found = stalls.look(start + 2 * LIMIT, LIMIT, look(9, 4));
        assert_eq!(found, [Stuck { topic: 1, partition: 2, age: LIMIT }]);
    }

    #[test]
    fn an_empty_partition_begins_anew() {
        let start = Instant::now();
        let mut stalls = Stalls::default();
        assert!(stalls.look(start, LIMIT, look(5, 3)).is_empty());
        assert!(stalls.look(start + LIMIT / 2, LIMIT, look(5, 5)).is_empty());
        assert!(stalls.look(start + LIMIT, LIMIT, look(6, 5)).is_empty());
    }
}
