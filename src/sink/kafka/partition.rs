//! Which partition a key belongs to: Java's answer, computed here.
//!
//! Java's default partitioner hashes over *all* partitions, with or without a leader, so a key's
//! place does not depend on which brokers happen to be up. Computing it here rather than in the
//! client makes the lane of an event known before the event is handed over.

use crate::sink::Lane;

/// The partition of [`Lane`]s of a topic whose partitions are not known yet.
const UNKNOWN: u32 = u32::MAX;

/// The partition of `key` among `partitions`, as Java's `DefaultPartitioner` computes it:
/// `toPositive(murmur2(key)) % partitions`.
pub(super) fn of_key(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

/// The lane of partition `partition` of the topic at `topic` in the table of topics.
pub(super) fn lane(topic: u32, partition: u32) -> Lane {
    Lane((u64::from(topic) << 32) | u64::from(partition))
}

/// The lane that events of a topic wait in until its partitions are known; never open.
pub(super) fn waiting_lane(topic: u32) -> Lane {
    lane(topic, UNKNOWN)
}

/// The topic's place in the table, and the partition unless it is a waiting lane.
pub(super) fn parts(lane: Lane) -> (usize, Option<u32>) {
    let topic = usize::try_from(lane.0 >> 32).unwrap_or(usize::MAX);
    let partition = u32::try_from(lane.0 & u64::from(UNKNOWN)).unwrap_or(UNKNOWN);
    (topic, (partition != UNKNOWN).then_some(partition))
}

/// `org.apache.kafka.common.utils.Utils.murmur2`.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let (words, tail) = data.as_chunks::<4>();
    // Java's arrays have an `int` length: the low 32 bits are all that takes part.
    #[expect(clippy::cast_possible_truncation, reason = "as in Java")]
    let mut hash = SEED ^ data.len() as u32;
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        let rest = tail.iter().rev().fold(0, |rest, byte| (rest << 8) | u32::from(*byte));
        hash = (hash ^ rest).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_keys_go_where_java_puts_them() {
        let cases: [(&str, [u32; 3]); 7] = [
            ("ord-1001", [2, 0, 6]),
            ("ord-1002", [0, 2, 8]),
            ("ord-1003", [2, 0, 6]),
            ("cust-7", [1, 1, 1]),
            ("42", [0, 4, 4]),
            ("客-1", [3, 1, 7]),
            ("", [1, 3, 9]),
        ];
        for (key, expected) in cases {
            let found = [4, 6, 12].map(|partitions| of_key(key.as_bytes(), partitions));
            assert_eq!(found, expected, "key {key:?}");
        }
    }

    #[test]
    fn a_lane_gives_back_its_parts() {
        assert_eq!(parts(lane(7, 11)), (7, Some(11)));
        assert_eq!(parts(waiting_lane(7)), (7, None));
    }
}
