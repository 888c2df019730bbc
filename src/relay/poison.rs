//! What becomes of an event that can never be delivered: decided here and nowhere else.
//!
//! Today there are two answers: the relay halts at it, or the operator has named it in `run --skip`.

use std::collections::{BTreeMap, HashSet};

use tracing::{error, warn};

use super::state::{HaltedEvent, State};
use crate::failure::Failure;
use crate::sink::DeliveryId;

/// More halted events than this are counted but not listed.
const LISTED: usize = 100;

/// The verdict on one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It stands, and holds what is behind it.
    Halt,
    /// It is settled without having been delivered.
    Skip,
}

/// The events that an operator gave up, and those that nobody has.
#[derive(Debug)]
pub(super) struct Poison {
    skip: HashSet<String>,
    halted: BTreeMap<u64, HaltedEvent>,
    /// What is said about the first.
    state: Option<State>,
}

impl Poison {
    pub(super) fn new(skip: impl IntoIterator<Item = String>) -> Self {
        Self { skip: skip.into_iter().collect(), halted: BTreeMap::new(), state: None }
    }

    /// Nothing is halted any more: the events will be read again.
    pub(super) fn begin_session(&mut self) {
        self.halted.clear();
        self.state = None;
    }

    /// Decides about the event with this id, and says so in the log.
    pub(super) fn judge(&self, id: &str, destination: &str, reason: &Failure) -> Verdict {
        if self.skip.contains(id) {
            warn!(event = id, destination, %reason, "event skipped, as `--skip` says");
            return Verdict::Skip;
        }
        let hint = way_out(id, reason);
        error!(event = id, destination, %reason, hint, "halted by an event that cannot be delivered");
        Verdict::Halt
    }

    /// The event of this delivery halts the relay.
    pub(super) fn halt(&mut self, delivery: DeliveryId, id: &str, target: &str, reason: &Failure) {
        let text = reason.to_string();
        if self.state.is_none() {
            let hint = Some(way_out(id, reason));
            let reason = format!("event `{id}` for `{target}`: {text}");
            self.state = Some(State::Halted { reason, hint });
        }
        if self.halted.len() < LISTED {
            let event =
                HaltedEvent { id: id.to_owned(), destination: target.to_owned(), reason: text };
            self.halted.insert(delivery.0, event);
        }
    }

    pub(super) fn state(&self) -> Option<State> {
        self.state.clone()
    }

    pub(super) fn halted_events(&self) -> Vec<HaltedEvent> {
        self.halted.values().cloned().collect()
    }
}

/// The reason's own way out; where it has none, the one that always works.
fn way_out(id: &str, reason: &Failure) -> String {
    let skip = || format!("skip the event: `pgoutbox run --skip '{id}'`");
    reason.way_out().map_or_else(skip, str::to_owned)
}
