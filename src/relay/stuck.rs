//! Deliveries that came back so often, or for such a reason, that their destination does not move.
//!
//! A broker that gives deliveries back one by one says nothing of their destination. It moves again
//! once every delivery that it stood still for is settled.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::failure::{Class, Failure};
use crate::sink::DeliveryId;

/// So often an event may be refused before its destination counts as one that does not move: a queue
/// that is full for a moment looks like any other refusal.
const PATIENCE: u16 = 10;

/// Whether a delivery that came back `returns` times for this reason says that its destination does
/// not move. What an operator must mend is told at once.
pub(super) fn is_stuck(failure: &Failure, returns: u16) -> bool {
    failure.class() != Class::Transient || returns >= PATIENCE
}

/// The deliveries that destinations stand still for.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    destinations: HashMap<DeliveryId, Arc<str>, FixedState>,
    /// Deliveries by destination; never zero.
    counts: HashMap<Arc<str>, usize, FixedState>,
}

impl Stuck {
    /// `destination` stands still for this delivery.
    pub(super) fn add(&mut self, id: DeliveryId, destination: &str) {
        if self.destinations.contains_key(&id) {
            return;
        }
        let name = match self.counts.get_key_value(destination) {
            Some((name, _)) => Arc::clone(name),
            None => destination.into(),
        };
        *self.counts.entry(Arc::clone(&name)).or_default() += 1;
        self.destinations.insert(id, name);
    }

    /// The delivery is settled, or will never be. Gives the destination that moves again.
    pub(super) fn remove(&mut self, id: DeliveryId) -> Option<Arc<str>> {
        // Nearly always there is none.
        if self.destinations.is_empty() {
            return None;
        }
        let name = self.destinations.remove(&id)?;
        let count = self.counts.get_mut(&name)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.counts.remove(&name);
        Some(name)
    }

    /// Forgets all. Gives the destinations.
    pub(super) fn clear(&mut self) -> Vec<Arc<str>> {
        self.destinations.clear();
        self.counts.drain().map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_moves_again_with_the_last_delivery_that_it_stood_still_for() {
        let mut stuck = Stuck::default();
        for id in [1, 2, 2, 3] {
            stuck.add(DeliveryId(id), if id == 3 { "b" } else { "a" });
        }
        assert_eq!(stuck.remove(DeliveryId(7)), None);
        assert_eq!(stuck.remove(DeliveryId(1)), None);
        assert_eq!(stuck.remove(DeliveryId(2)).as_deref(), Some("a"));
        assert_eq!(stuck.remove(DeliveryId(2)), None);
        assert_eq!(stuck.clear(), ["b".into()]);
        assert_eq!(stuck.remove(DeliveryId(3)), None);
    }

    #[test]
    fn what_an_operator_must_mend_is_told_at_once() {
        assert!(is_stuck(&Failure::fixable("no route"), 1));
        assert!(!is_stuck(&Failure::transient("nack"), PATIENCE - 1));
        assert!(is_stuck(&Failure::transient("nack"), PATIENCE));
    }
}
