//! What becomes of an event that can never be delivered: decided here and nowhere else.
//!
//! Today there are two answers: the relay halts at it, or the operator has named it in `run --skip`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use foldhash::fast::FixedState;
use tracing::{error, warn};

use super::state::{HaltedEvent, State};
use crate::failure::Failure;
use crate::sink::DeliveryId;

/// More halted events than this are counted but not listed.
const LISTED: usize = 100;

/// Of more halted events than these the state gives the number alone.
const NAMED: usize = 3;

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
    /// By the number of their delivery, so the oldest first, each with its way out.
    halted: BTreeMap<u64, (HaltedEvent, String)>,
    /// How many more there are, beyond [`LISTED`].
    unlisted: usize,
    /// Ordering keys of halted events that have no destination to wait for.
    barred: HashSet<u64, FixedState>,
}

impl Poison {
    pub(super) fn new(skip: impl IntoIterator<Item = String>) -> Self {
        Self {
            skip: skip.into_iter().collect(),
            halted: BTreeMap::new(),
            unlisted: 0,
            barred: HashSet::default(),
        }
    }

    /// Nothing is halted any more: the events will be read again.
    pub(super) fn begin_session(&mut self) {
        self.halted.clear();
        self.unlisted = 0;
        self.barred.clear();
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
        let event = HaltedEvent {
            id: id.to_owned(),
            destination: target.to_owned(),
            reason: reason.to_string(),
        };
        self.halted.insert(delivery.0, (event, way_out(id, reason)));
        if self.halted.len() > LISTED {
            // An older one may be found later: what another sink refuses.
            self.halted.pop_last();
            self.unlisted += 1;
        }
    }

    /// Nothing of this ordering key is sent any more: it would overtake an event whose destination
    /// nobody knows.
    pub(super) fn bar(&mut self, ordering_key: Option<u64>) {
        self.barred.extend(ordering_key);
    }

    /// Whether an event of this ordering key would overtake one that halts the relay.
    pub(super) fn bars(&self, ordering_key: Option<u64>) -> bool {
        ordering_key.is_some_and(|key| self.barred.contains(&key))
    }

    /// Whether an event halts the relay.
    pub(super) fn halts(&self) -> bool {
        !self.halted.is_empty()
    }

    /// Names the oldest, since it is what holds the position, and a few more.
    pub(super) fn state(&self) -> Option<State> {
        let named: Vec<_> = self.halted.values().take(NAMED).collect();
        if named.is_empty() {
            return None;
        }
        let mut reason: Vec<String> = named.iter().map(|(event, _)| sentence(event)).collect();
        let more = self.halted.len() - named.len() + self.unlisted;
        if more > 0 {
            reason.push(format!("{more} more (`/status` lists {})", self.halted.len()));
        }
        let hint: Vec<&str> = named.iter().map(|(_, hint)| hint.as_str()).collect();
        Some(State::Halted { reason: reason.join("; "), hint: Some(hint.join("; ")) })
    }

    pub(super) fn halted_events(&self) -> Vec<HaltedEvent> {
        self.halted.values().map(|(event, _)| event.clone()).collect()
    }
}

fn sentence(event: &HaltedEvent) -> String {
    let HaltedEvent { id, destination, reason } = event;
    match destination.as_str() {
        "" => format!("event `{id}` cannot be delivered: {reason}"),
        destination => format!("event `{id}` cannot be delivered to `{destination}`: {reason}"),
    }
}

/// The reason's own way out, if it has one, and the one that always works. What an operator has
/// mended outside is tried at the next start.
fn way_out(id: &str, reason: &Failure) -> String {
    let skip = format!("skip the event: `pgoutbox run --skip {}`", shell_word(id));
    match reason.way_out() {
        Some(way_out) => format!("{way_out} and start the relay again, or {skip}"),
        None => skip,
    }
}

/// `text` as one word of a POSIX shell.
fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_event_is_named_first_and_many_are_counted() {
        let mut poison = Poison::new([]);
        assert_eq!(poison.state(), None);
        for number in (0..105).rev() {
            let reason = Failure::transient("too large");
            poison.halt(DeliveryId(number), &format!("e-{number}"), "orders", &reason);
        }
        let Some(State::Halted { reason, hint }) = poison.state() else { panic!() };
        insta::assert_snapshot!(reason, @"event `e-0` cannot be delivered to `orders`: too large; event `e-1` cannot be delivered to `orders`: too large; event `e-2` cannot be delivered to `orders`: too large; 102 more (`/status` lists 100)");
        assert!(hint.unwrap().starts_with("skip the event: `pgoutbox run --skip e-0`; skip"));
        assert_eq!(poison.halted_events().len(), LISTED);
        poison.begin_session();
        assert!(!poison.halts() && poison.state().is_none());
    }

    #[test]
    fn a_way_out_can_be_typed_whatever_the_id() {
        let reason = Failure::transient("no");
        insta::assert_snapshot!(way_out("e-1", &reason), @"skip the event: `pgoutbox run --skip e-1`");
        insta::assert_snapshot!(way_out("it's", &reason), @r"skip the event: `pgoutbox run --skip 'it'\''s'`");
        let reason = reason.hint("add a route for it");
        insta::assert_snapshot!(way_out("1", &reason), @"add a route for it and start the relay again, or skip the event: `pgoutbox run --skip 1`");
    }
}
