//! Pauses before another try.

use std::time::Duration;

use rand::Rng as _;

use super::stop::Stop;

/// Pauses where the fault goes away by itself.
pub(super) const RETRY: Pauses =
    Pauses { first: Duration::from_millis(250), longest: Duration::from_secs(10) };
/// Pauses while an operator is waited for: with jitter, a second at least.
pub(super) const HALTED: Pauses =
    Pauses { first: Duration::from_secs(2), longest: Duration::from_secs(30) };
/// Pauses while another holds the slot.
pub(super) const STANDBY: Pauses =
    Pauses { first: Duration::from_millis(250), longest: Duration::from_secs(2) };

/// How long pauses are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
}

/// Pauses that grow, with jitter.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Waits for as long as it is time for, or until a stop is asked for.
    pub(super) async fn pause(&mut self, pauses: Pauses, stop: &mut Stop) {
        let pause = pauses.first.saturating_mul(1 << self.tries.min(16)).min(pauses.longest);
        self.tries += 1;
        // Relays that lost one server must not all come back at one moment.
        let pause = pause.mul_f64(rand::rng().random_range(0.5..1.0));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.requested() => {}
        }
    }
}
