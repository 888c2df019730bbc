//! Two buffers that the relay and a sink's thread exchange.
//!
//! The relay fills one while the thread empties the other. Whatever gathers during one write is the
//! next batch, so batches grow exactly when the other side is slow, and neither a channel hop nor
//! an allocation falls on an event.

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A buffer of the type `B` that changes hands.
#[derive(Debug, Default)]
pub(super) struct Exchange<B> {
    shared: Mutex<Shared<B>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Shared<B> {
    buffer: B,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Whoever waits for the buffer goes on waiting.
    #[default]
    Filling,
    /// The buffer may be taken.
    Sealed,
    /// Nothing comes any more.
    Closed,
}

/// Whether more can follow what was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    Follows,
    Never,
}

impl<B> Exchange<B> {
    /// Puts something into the buffer. Only ever waits for the moment of an exchange.
    pub(super) fn fill<T>(&self, put: impl FnOnce(&mut B) -> T) -> T {
        put(&mut self.lock().buffer)
    }

    /// Lets the other side have the buffer.
    pub(super) fn seal(&self) {
        let mut shared = self.lock();
        if shared.phase == Phase::Filling {
            shared.phase = Phase::Sealed;
            self.changed.notify_one();
        }
    }

    /// Lets the other side have the buffer, as the last one.
    pub(super) fn close(&self) {
        self.lock().phase = Phase::Closed;
        self.changed.notify_one();
    }

    /// Waits until the buffer may be taken, and takes it in exchange for `spare`, which should be
    /// empty.
    pub(super) fn take(&self, spare: &mut B) -> More {
        let shared = self.lock();
        let mut shared = self
            .changed
            .wait_while(shared, |shared| shared.phase == Phase::Filling)
            .unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut shared.buffer, spare);
        if shared.phase == Phase::Closed {
            return More::Never;
        }
        shared.phase = Phase::Filling;
        More::Follows
    }

    fn lock(&self) -> MutexGuard<'_, Shared<B>> {
        // What is in the buffer was put there whole or not at all.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn what_was_put_in_is_taken_once_and_in_order() {
        let exchange = Exchange::<Vec<u8>>::default();
        exchange.fill(|buffer| buffer.push(1));
        exchange.fill(|buffer| buffer.push(2));
        exchange.seal();
        let mut taken = Vec::new();
        assert_eq!(exchange.take(&mut taken), More::Follows);
        assert_eq!(taken, [1, 2]);
        taken.clear();
        exchange.fill(|buffer| buffer.push(3));
        exchange.close();
        assert_eq!(exchange.take(&mut taken), More::Never);
        assert_eq!(taken, [3]);
    }

    #[test]
    fn taking_waits_for_the_seal() {
        let exchange = Arc::new(Exchange::<Vec<u8>>::default());
        let taker = Arc::clone(&exchange);
        let taker = thread::spawn(move || {
            let mut taken = Vec::new();
            taker.take(&mut taken);
            taken
        });
        exchange.fill(|buffer| buffer.extend([1, 2, 3]));
        exchange.seal();
        assert_eq!(taker.join().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn a_seal_after_the_close_does_not_reopen() {
        let exchange = Exchange::<Vec<u8>>::default();
        exchange.close();
        exchange.seal();
        assert_eq!(exchange.take(&mut Vec::new()), More::Never);
    }
}
