//! The share of memory that unsettled events may hold.
//!
//! What is counted are the buffers that are actually held: an event is a slice of the buffer it was
//! read into, so one small unsettled event keeps its whole buffer, and its whole buffer counts. A
//! buffer is made only once its share has been taken, so the bound holds at every moment.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shares are counted in units of this many bytes, so that a semaphore's 32-bit permits suffice.
const UNIT: usize = 1024;

/// A number of bytes that is given out in shares; cheap to clone.
#[derive(Clone, Debug)]
pub struct Window {
    semaphore: Arc<Semaphore>,
    units: u32,
}

/// Bytes of a window that are taken until the last clone of this is dropped.
#[derive(Clone, Debug, Default)]
pub struct Share {
    #[expect(dead_code, reason = "held for what its drop does")]
    permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Window {
    /// A window of `bytes`.
    pub fn new(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        Self { semaphore: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Takes a share of `bytes` if there is room. A share larger than the window takes all of it.
    pub fn try_take(&self, bytes: usize) -> Option<Share> {
        let semaphore = Arc::clone(&self.semaphore);
        let permit = semaphore.try_acquire_many_owned(units(bytes).min(self.units)).ok()?;
        Some(Share { permit: Some(Arc::new(permit)) })
    }

    /// Waits until there is room for `bytes`, without taking it for longer than a moment.
    pub async fn has_room(&self, bytes: usize) {
        // The semaphore is never closed, so there is no error to tell.
        drop(self.semaphore.acquire_many(units(bytes).min(self.units)).await);
    }

    /// Bytes that are taken.
    pub fn held(&self) -> usize {
        let free = self.semaphore.available_permits();
        (self.units as usize).saturating_sub(free) * UNIT
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(MAX_UNITS)
}

/// Half of what a tokio semaphore takes on a 32-bit machine, and 512 GiB.
const MAX_UNITS: u32 = u32::MAX >> 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_given_back_with_its_last_clone() {
        let window = Window::new(10 * UNIT);
        let share = window.try_take(6 * UNIT).unwrap();
        let clone = share.clone();
        assert!(window.try_take(5 * UNIT).is_none());
        drop(share);
        assert_eq!(window.held(), 6 * UNIT);
        drop(clone);
        assert_eq!(window.held(), 0);
    }

    #[test]
    fn a_share_larger_than_the_window_takes_all_of_it() {
        let window = Window::new(4 * UNIT);
        let all = window.try_take(1 << 30).unwrap();
        assert!(window.try_take(1).is_none());
        drop(all);
        assert!(window.try_take(1).is_some());
    }

    #[tokio::test]
    async fn room_is_waited_for() {
        let window = Window::new(UNIT);
        let share = window.try_take(1).unwrap();
        let other = window.clone();
        let waiter = tokio::spawn(async move { other.has_room(1).await });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(share);
        waiter.await.unwrap();
    }
}
