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
pub(super) const PATIENCE: u16 = 10;

/// Whether a delivery that came back `returns` times for this reason says that its destination does
/// not move. What an operator must mend is told at once.
pub(super) fn is_stuck(failure: &Failure, returns: u16) -> bool {
    failure.class() != Class::Transient || returns >= PATIENCE
}

/// The deliveries that destinations stand still for.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    destinations: HashMap<DeliveryId, Arc<str>, FixedState>,
    standing: HashMap<Arc<str>, Standing, FixedState>,
}

/// One destination.
#[derive(Debug, Default)]
struct Standing {
    /// Deliveries that it stands still for; never zero.
    deliveries: usize,
    /// The broker's word for why, as last told.
    code: String,
}

impl Stuck {
    /// `destination` stands still for this delivery, for a reason that the broker calls `code`. Whether
    /// that is news: one delivery speaks for all others of its destination.
    pub(super) fn add(&mut self, id: DeliveryId, destination: &str, code: &str) -> bool {
        let name = match self.standing.get_key_value(destination) {
            Some((name, _)) => Arc::clone(name),
            None => destination.into(),
        };
        let standing = self.standing.entry(Arc::clone(&name)).or_default();
        let is_news = standing.deliveries == 0 || standing.code != code;
        if is_news {
            code.clone_into(&mut standing.code);
        }
        if self.destinations.insert(id, name).is_none() {
            standing.deliveries += 1;
        }
        is_news
    }

    /// The delivery is settled, or will never be. Gives the destination that moves again.
    pub(super) fn remove(&mut self, id: DeliveryId) -> Option<Arc<str>> {
        // Nearly always there is none.
        if self.destinations.is_empty() {
            return None;
        }
        let name = self.destinations.remove(&id)?;
        let standing = self.standing.get_mut(&name)?;
        standing.deliveries -= 1;
        if standing.deliveries > 0 {
            return None;
        }
        self.standing.remove(&name);
        Some(name)
    }

    /// Forgets all. Gives the destinations.
    pub(super) fn clear(&mut self) -> Vec<Arc<str>> {
        self.destinations.clear();
        self.standing.drain().map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_moves_again_with_the_last_delivery_that_it_stood_still_for() {
        let mut stuck = Stuck::default();
        for id in [1, 2, 2, 3] {
            stuck.add(DeliveryId(id), if id == 3 { "b" } else { "a" }, "312");
        }
        assert_eq!(stuck.remove(DeliveryId(7)), None);
        assert_eq!(stuck.remove(DeliveryId(1)), None);
        assert_eq!(stuck.remove(DeliveryId(2)).as_deref(), Some("a"));
        assert_eq!(stuck.remove(DeliveryId(2)), None);
        assert_eq!(stuck.clear(), ["b".into()]);
        assert_eq!(stuck.remove(DeliveryId(3)), None);
    }

    #[test]
    fn one_delivery_speaks_for_its_destination_until_the_reason_changes() {
        let mut stuck = Stuck::default();
        assert!(stuck.add(DeliveryId(1), "a", "404"));
        assert!(!stuck.add(DeliveryId(2), "a", "404"));
        assert!(!stuck.add(DeliveryId(1), "a", "404"));
        assert!(stuck.add(DeliveryId(2), "a", "312"));
        assert!(!stuck.add(DeliveryId(1), "a", "312"));
    }

    #[test]
    fn what_an_operator_must_mend_is_told_at_once() {
        assert!(is_stuck(&Failure::fixable("no route"), 1));
        assert!(!is_stuck(&Failure::transient("nack"), PATIENCE - 1));
        assert!(is_stuck(&Failure::transient("nack"), PATIENCE));
    }
}
