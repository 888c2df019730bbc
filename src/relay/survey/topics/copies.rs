//! How many brokers have an event when it is acknowledged.

use super::{Fault, Mend, Topic};
use crate::replication::preflight::Severity;

/// Faults of `topic` in a cluster of `size` brokers.
pub(super) fn faults(topic: &Topic, size: usize) -> Vec<Fault> {
    let least: Option<usize> = topic.number("min.insync.replicas");
    let mut faults: Vec<Fault> = replication(topic.copies, least, size).into_iter().collect();
    faults.extend(least.and_then(|least| out_of_sync(topic, least)));
    if topic.is("unclean.leader.election.enable", "true") {
        let message = "`unclean.leader.election.enable` is true: a copy that was behind may become \
                       the leader, and acknowledged events are gone";
        faults.push(Fault::setting(message, "unclean.leader.election.enable=false"));
    }
    faults
}

/// A cluster of one broker has no better to offer. What may not be read, `None`, is not judged.
fn replication(copies: usize, least: Option<usize>, size: usize) -> Option<Fault> {
    let reassign = "three copies: `kafka-reassign-partitions.sh` with a plan that names three brokers \
                    for each partition, then `min.insync.replicas=2`";
    match (copies, least) {
        _ if size < 2 || copies == 0 => None,
        (1, _) => {
            let message = "has one copy: the loss of its broker's disk loses acknowledged events, and \
                           while that broker is away nothing is taken";
            Some(Fault::new(message, Mend::Other(reassign.to_owned())))
        }
        (_, Some(least)) if least >= copies => {
            let message = format!(
                "`min.insync.replicas` is {least} of {copies} copies: while one broker is away, \
                 nothing is taken"
            );
            Some(match copies {
                2 => Fault::new(message, Mend::Other(reassign.to_owned())),
                _ => Fault::setting(message, format!("min.insync.replicas={}", copies - 1)),
            })
        }
        (_, Some(least @ (0 | 1))) => {
            let message = format!(
                "`min.insync.replicas` is {least} of {copies} copies: an event may be acknowledged \
                 with one copy, and is gone if that is lost"
            );
            Some(match copies {
                2 => Fault::new(message, Mend::Other(reassign.to_owned())),
                _ => Fault::setting(message, "min.insync.replicas=2"),
            })
        }
        _ => None,
    }
}

/// It ends by itself when a broker comes back.
fn out_of_sync(topic: &Topic, least: usize) -> Option<Fault> {
    let (partition, in_sync) = topic.in_sync;
    (in_sync < least.min(topic.copies)).then(|| Fault {
        severity: Severity::Error,
        ..Fault::new(
            format!(
                "partition {partition} has {in_sync} of {} copies in sync, and `min.insync.replicas` \
                 asks for {least}: it takes nothing now",
                topic.copies
            ),
            Mend::Other(
                "start the brokers that are away: `kafka-topics.sh --describe \
                 --under-min-isr-partitions` shows them"
                    .to_owned(),
            ),
        )
    })
}
