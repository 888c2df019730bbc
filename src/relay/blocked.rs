//! What of one sink does not move, and what is said of it.

use std::collections::BTreeMap;

use tracing::{error, info, warn};

use super::state::{BlockedDestination, State};
use crate::failure::{Class, Failure};

/// More blocked destinations than these are counted, and neither named in the state nor logged: a
/// routing key can be another for every event.
const NAMED: usize = 10;
/// More blocked destinations than these are not listed in the status.
const LISTED: usize = 100;

/// The blocked destinations of one sink; `None` is the whole sink.
#[derive(Debug)]
pub(super) struct Blocked {
    sink: String,
    failures: BTreeMap<Option<String>, Failure>,
}

impl Blocked {
    /// Nothing of the sink of this name is blocked.
    pub(super) fn new(sink: String) -> Self {
        Self { sink, failures: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.failures.is_empty()
    }

    /// The destination does not move; takes the place of an earlier failure of the same one.
    pub(super) fn add(&mut self, destination: Option<String>, failure: Failure) {
        let known = self.failures.get(&destination).map(ToString::to_string);
        let is_news = known.as_deref() != Some(failure.to_string().as_str());
        if is_news && self.failures.len() < NAMED {
            let (sink, name) = (&self.sink, destination.as_deref().unwrap_or(""));
            let hint = failure.way_out().unwrap_or("");
            match failure.class() {
                Class::Transient => warn!(sink, destination = name, %failure, "blocked"),
                _ => error!(sink, destination = name, %failure, hint, "halted"),
            }
        }
        self.failures.insert(destination, failure);
    }

    /// The destination moves again.
    pub(super) fn remove(&mut self, destination: &Option<String>) {
        if self.failures.remove(destination).is_some() && self.failures.len() < NAMED {
            let name = destination.as_deref().unwrap_or("");
            info!(sink = self.sink, destination = name, "moves again");
        }
    }

    /// What the sink has to say about the relay's state; what an operator must mend comes first.
    pub(super) fn states(&self) -> impl Iterator<Item = State> + '_ {
        let halted = self.failures.iter().filter(|(_, failure)| is_halt(failure));
        let waiting = self.failures.iter().filter(|(_, failure)| !is_halt(failure));
        let named = halted.chain(waiting).take(NAMED).map(|(destination, failure)| {
            let destination = destination.as_deref().unwrap_or("all");
            let reason = format!("sink `{}`, `{destination}`: {failure}", self.sink);
            state(is_halt(failure), reason, failure.way_out())
        });
        named.chain(self.unnamed())
    }

    /// That there are more than are named, as a part of the state in force.
    fn unnamed(&self) -> Option<State> {
        let more = self.failures.len().checked_sub(NAMED).filter(|more| *more > 0)?;
        let reason = format!("sink `{}`: and {more} more", self.sink);
        Some(state(self.failures.values().any(is_halt), reason, None))
    }

    /// The destinations for the status.
    pub(super) fn list(&self) -> Vec<BlockedDestination> {
        let listed = self.failures.iter().take(LISTED).map(|(destination, failure)| {
            BlockedDestination { destination: destination.clone(), reason: failure.to_string() }
        });
        listed.collect()
    }
}

fn is_halt(failure: &Failure) -> bool {
    failure.class() != Class::Transient
}

fn state(is_halt: bool, reason: String, hint: Option<&str>) -> State {
    if is_halt {
        State::Halted { reason, hint: hint.map(str::to_owned) }
    } else {
        State::Blocked { reason }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::combine;
    use super::*;

    #[test]
    fn a_halt_is_named_however_many_others_wait() {
        let mut blocked = Blocked::new("tasks".to_owned());
        for number in 0..1000 {
            blocked.add(Some(format!("a{number}")), Failure::transient("nack"));
        }
        blocked.add(Some("z".to_owned()), Failure::fixable("no route").hint("bind it"));
        let states: Vec<State> = blocked.states().collect();
        assert_eq!(states.len(), NAMED + 1);
        let reason = "sink `tasks`, `z`: no route; sink `tasks`: and 991 more".to_owned();
        let halted = State::Halted { reason, hint: Some("bind it".to_owned()) };
        assert_eq!(combine(states), halted);
        assert_eq!(blocked.list().len(), LISTED);

        blocked.remove(&Some("z".to_owned()));
        assert!(matches!(combine(blocked.states()), State::Blocked { .. }));
    }

    #[test]
    fn a_few_are_all_named() {
        let mut blocked = Blocked::new("tasks".to_owned());
        blocked.add(None, Failure::transient("no connection"));
        let reason = "sink `tasks`, `all`: no connection".to_owned();
        assert_eq!(combine(blocked.states()), State::Blocked { reason });
        blocked.remove(&None);
        assert!(blocked.is_empty());
        assert_eq!(combine(blocked.states()), State::Streaming);
    }
}
