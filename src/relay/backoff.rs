//! Pauses before another try.

use std::time::Duration;

use rand::Rng as _;

use super::stop::Stop;
use super::stuck::PATIENCE;

/// Pauses where the fault goes away by itself.
pub(super) const RETRY: Pauses =
    Pauses { first: Duration::from_millis(250), longest: Duration::from_secs(10) };
/// Pauses while an operator is waited for: with jitter, a second at least.
pub(super) const HALTED: Pauses =
    Pauses { first: Duration::from_secs(2), longest: Duration::from_secs(30) };
/// Pauses while another holds the slot.
pub(super) const STANDBY: Pauses =
    Pauses { first: Duration::from_millis(250), longest: Duration::from_secs(2) };

/// Pauses before a delivery that came back alone is made again, while that may be for a moment: so
/// short that an operator hears within seconds that it is not.
const RETURNED: Pauses =
    Pauses { first: Duration::from_millis(100), longest: Duration::from_secs(2) };
/// The same once its destination is known to stand still.
const STUCK: Pauses = Pauses { first: Duration::from_secs(4), longest: Duration::from_secs(30) };

/// How long pauses are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    /// The first one.
    pub(crate) first: Duration,
    /// None is longer.
    pub(crate) longest: Duration,
}

impl Pauses {
    /// The pause after `tries` failed ones before this one: doubled each time, with jitter, since
    /// what failed together must not all come back at one moment.
    pub(crate) fn after(self, tries: u32) -> Duration {
        let pause = self.first.saturating_mul(1 << tries.min(16)).min(self.longest);
        pause.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

/// The pause before a delivery is made again that has come back alone `returns` times.
pub(super) fn after_return(returns: u16) -> Duration {
    match returns.checked_sub(PATIENCE) {
        None => RETURNED.after(returns.saturating_sub(1).into()),
        Some(more) => STUCK.after(more.into()),
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
        for (tries, most) in [(0, 250), (1, 500), (4, 4000), (9, 10_000), (u32::MAX, 10_000)] {
            let (most, pause) = (Duration::from_millis(most), RETRY.after(tries));
            assert!(most / 2 <= pause && pause < most, "{tries}: {pause:?}");
        }
    }

    /// The case A04 gives thirty seconds, and the broker and the status want some of them.
    #[test]
    fn that_a_destination_stands_still_is_known_within_fifteen_seconds() {
        let until_told: Duration = (1..PATIENCE).map(after_return).sum();
        assert!(until_told < Duration::from_secs(15), "{until_told:?}");
        assert!(after_return(1) < Duration::from_millis(100));
        assert!(after_return(PATIENCE) >= Duration::from_secs(2));
        assert!(after_return(u16::MAX) < Duration::from_secs(30));
    }
}
