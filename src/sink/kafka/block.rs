//! What does not move at the moment, and why.
//!
//! The relay logs what it is told of; what lasts is logged again here, now and then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::failure::{Class, Failure};
use crate::sink::{Mailbox, Report};

/// How often an unchanged cause is logged again.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// A destination: a topic, or the whole sink.
type Name = Option<Arc<str>>;

/// When a destination counts as moving again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Once somebody says so.
    Said,
    /// Once more of the destination's deliveries than these are acknowledged.
    Acked(u64),
    /// The same, or nothing is out for it, and none of its partitions is stuck.
    Flowing(u64),
}

/// What a destination has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Deliveries acknowledged.
    pub(super) acked: u64,
    /// Whether deliveries are out.
    pub(super) is_out: bool,
    /// Whether one of its partitions does not move.
    pub(super) is_stuck: bool,
}

/// The destinations that do not move.
#[derive(Debug)]
pub(super) struct Blocks {
    sink: String,
    mailbox: Mailbox,
    entries: Mutex<BTreeMap<Name, Block>>,
}

#[derive(Debug)]
struct Block {
    failure: Failure,
    logged: Instant,
    until: Until,
}

impl Blocks {
    pub(super) fn new(sink: &str, mailbox: Mailbox) -> Self {
        Self { sink: sink.to_owned(), mailbox, entries: Mutex::default() }
    }

    /// The destination does not move because of `failure`. Reported when the cause is new.
    pub(super) fn set(&self, name: &Name, failure: Failure, until: Until) {
        let now = Instant::now();
        let mut entries = self.entries();
        let known = entries.get_mut(name);
        if let Some(block) = known.filter(|block| is_same(&block.failure, &failure)) {
            block.until = until;
            if now.saturating_duration_since(block.logged) >= LOG_EVERY {
                block.logged = now;
                self.log(name, &failure);
            }
            return;
        }
        let report = Report::Blocked {
            destination: name.as_deref().map(str::to_owned),
            failure: failure.clone(),
        };
        entries.insert(name.clone(), Block { failure, logged: now, until });
        self.mailbox.put(report);
    }

    /// What kept the destination from moving is over, so far as [`Until::Said`] says.
    pub(super) fn clear(&self, name: &Name) {
        let mut entries = self.entries();
        if entries.get(name).is_some_and(|block| block.until == Until::Said) {
            entries.remove(name);
            self.report_clear(name);
        }
    }

    /// Clears what waits for acknowledgements, and had them.
    pub(super) fn clear_moved(&self, progress: impl Fn(&Name) -> Progress) {
        let mut entries = self.entries();
        let has_moved = |name: &Name, block: &Block| {
            let Progress { acked, is_out, is_stuck } = progress(name);
            match block.until {
                Until::Said => false,
                Until::Acked(before) => acked > before,
                Until::Flowing(before) => !is_stuck && (acked > before || !is_out),
            }
        };
        let moved: Vec<Name> = entries
            .iter()
            .filter(|(name, block)| has_moved(name, block))
            .map(|(name, _)| name.clone())
            .collect();
        for name in moved {
            entries.remove(&name);
            self.report_clear(&name);
        }
    }

    /// The code of the destination's cause, if it does not move.
    pub(super) fn code(&self, name: &Name) -> Option<String> {
        self.entries().get(name).and_then(|block| block.failure.peer_code().map(str::to_owned))
    }

    fn report_clear(&self, name: &Name) {
        self.mailbox.put(Report::Unblocked { destination: name.as_deref().map(str::to_owned) });
    }

    fn log(&self, name: &Name, failure: &Failure) {
        let (sink, topic, hint) = (&self.sink, name.as_deref(), failure.way_out());
        if failure.class() == Class::Transient {
            tracing::warn!(%sink, topic, %failure, hint, "deliveries still do not move");
        } else {
            tracing::error!(%sink, topic, %failure, hint, "deliveries still do not move");
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Name, Block>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Texts differ in details (a port, a time); what matters is the cause.
fn is_same(a: &Failure, b: &Failure) -> bool {
    a.class() == b.class() && a.peer_code() == b.peer_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> (Blocks, Mailbox) {
        let mailbox = Mailbox::default();
        (Blocks::new("s", mailbox.clone()), mailbox)
    }

    fn reports(mailbox: &Mailbox) -> Vec<&'static str> {
        let mut reports = Vec::new();
        mailbox.take(&mut reports);
        let name = |report: &Report| match report {
            Report::Blocked { .. } => "blocked",
            Report::Unblocked { .. } => "unblocked",
            _ => "other",
        };
        reports.iter().map(name).collect()
    }

    #[test]
    fn a_cause_is_reported_once_until_it_changes() {
        let (blocks, mailbox) = blocks();
        let topic = Some(Arc::from("t"));
        let failure = |code: &str| Failure::transient("does not move").code(code);
        blocks.set(&topic, failure("NOT_ENOUGH_REPLICAS"), Until::Acked(3));
        blocks.set(&topic, failure("NOT_ENOUGH_REPLICAS"), Until::Acked(3));
        assert_eq!(reports(&mailbox), ["blocked"]);
        blocks.set(&topic, failure("LEADER_NOT_AVAILABLE"), Until::Acked(3));
        assert_eq!(reports(&mailbox), ["blocked"]);
        blocks.clear_moved(|_| Progress { acked: 3, ..Default::default() });
        assert!(reports(&mailbox).is_empty());
        blocks.clear_moved(|_| Progress { acked: 4, ..Default::default() });
        assert_eq!(reports(&mailbox), ["unblocked"]);
    }
}
