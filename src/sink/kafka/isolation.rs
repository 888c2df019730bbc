//! The events of refused batches, among which a poison event hides.
//!
//! While there are any, one event a lane is sent at a time. A suspect is cleared by its
//! acknowledgement; a named culprit clears the others of its partition, since they may be held back
//! behind it for long (where another one hides among them, it is found in a round of its own).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sink::DeliveryId;

/// A topic's place in the table, and a partition of it.
type Partition = (u32, u32);

/// The suspects.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    suspects: Mutex<HashMap<DeliveryId, Partition>>,
    // So that an acknowledgement costs nothing while there are none.
    left: AtomicUsize,
}

impl Isolation {
    /// Adds the events of refused batches.
    pub(super) fn suspect(&self, batch: HashMap<DeliveryId, Partition>) {
        self.change(|suspects| suspects.extend(batch));
    }

    /// The delivery was acknowledged.
    pub(super) fn acknowledged(&self, id: DeliveryId) {
        if self.left.load(Ordering::Relaxed) > 0 {
            self.change(|suspects| {
                suspects.remove(&id);
            });
        }
    }

    /// The culprit of this partition was named.
    pub(super) fn named(&self, partition: Partition) {
        self.change(|suspects| suspects.retain(|_, found| *found != partition));
    }

    /// Nothing of this topic is sent for now.
    pub(super) fn closed(&self, topic: u32) {
        self.change(|suspects| suspects.retain(|_, (found, _)| *found != topic));
    }

    /// Gives up: nothing moves.
    pub(super) fn clear(&self) {
        self.change(HashMap::clear);
    }

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<DeliveryId, Partition>)) {
        let mut suspects = self.lock();
        change(&mut suspects);
        self.left.store(suspects.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DeliveryId, Partition>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_are_cleared_by_acks_and_by_a_culprit() {
        let isolation = Isolation::default();
        let batch = [(1, (0, 0)), (2, (0, 0)), (3, (0, 1)), (4, (1, 0))];
        isolation.suspect(batch.map(|(id, partition)| (DeliveryId(id), partition)).into());
        isolation.acknowledged(DeliveryId(3));
        isolation.acknowledged(DeliveryId(9));
        assert_eq!(isolation.left(), 3);
        isolation.named((0, 0));
        assert_eq!(isolation.left(), 1);
        isolation.closed(1);
        assert_eq!(isolation.left(), 0);
    }
}
