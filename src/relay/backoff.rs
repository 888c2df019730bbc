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

/// Pauses before a delivery that came back alone is made again.
pub(super) const RETURNED: Pauses =
    Pauses { first: Duration::from_millis(100), longest: Duration::from_secs(30) };

/// How long pauses are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
}

impl Pauses {
    /// The pause after `tries` failed ones before this one: doubled each time, with jitter, since
    /// what failed together must not all come back at one moment.
    pub(super) fn after(self, tries: u32) -> Duration {
        let pause = self.first.saturating_mul(1 << tries.min(16)).min(self.longest);
        pause.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

/// Pauses that grow, with jitter.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Waits for as long as it is time for, or until a stop is asked for.
    pub(super) async fn pause(&mut self, pauses: Pauses, stop: &mut Stop) {
        let pause = pauses.after(self.tries);
        self.tries += 1;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.requested() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_with_jitter_below() {
        for (tries, most) in [(0, 100), (1, 200), (5, 3200), (9, 30_000), (u32::MAX, 30_000)] {
            let (most, pause) = (Duration::from_millis(most), RETURNED.after(tries));
            assert!(most / 2 <= pause && pause < most, "{tries}: {pause:?}");
        }
    }
}
