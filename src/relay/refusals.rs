//! When to speak of events that a broker refuses and that are tried again.
//!
//! A queue that is full for a moment is none of an operator's business, and one that stays full may
//! refuse a thousand aggregates at once: so an event is worth a line when it has come back for the
//! third time, some tenths of a second after the first, and there is a line a second at the most.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

/// The refusal of an event that is worth a line.
const WORTH_TELLING: u16 = 3;
/// From one line to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// What has been said of one sink's refusals, and what not yet.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    last: Option<Instant>,
    untold: u64,
}

impl Refusals {
    /// An event was refused for the `attempt`th time. Whether to say so now; where that must wait, it
    /// is counted.
    pub(super) fn add(&mut self, attempt: u16, now: Instant) -> bool {
        attempt == WORTH_TELLING && self.tell(now)
    }

    /// Whether to speak of an event now; where that must wait, it is counted.
    pub(super) fn tell(&mut self, now: Instant) -> bool {
        if self.is_too_early(now) {
            self.untold += 1;
            return false;
        }
        self.last = Some(now);
        true
    }

    /// How many events were counted only, once it is time to say so.
    pub(super) fn rest(&mut self, now: impl FnOnce() -> Instant) -> Option<NonZeroU64> {
        let untold = NonZeroU64::new(self.untold)?;
        let now = now();
        if self.is_too_early(now) {
            return None;
        }
        self.last = Some(now);
        self.untold = 0;
        Some(untold)
    }

    fn is_too_early(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.duration_since(last) < PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_of_once_and_not_at_its_first_refusal() {
        let (mut refusals, mut now) = (Refusals::default(), Instant::now());
        let told: Vec<u16> = (1..=20)
            .filter(|attempt| {
                now += PAUSE;
                refusals.add(*attempt, now)
            })
            .collect();
        assert_eq!(told, [WORTH_TELLING]);
        assert_eq!(refusals.rest(|| now + PAUSE), None);
    }

    #[test]
    fn a_thousand_events_are_two_lines_and_a_second_apart() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let told = (0..1000).filter(|_| refusals.add(WORTH_TELLING, now)).count();
        assert_eq!(told, 1);
        assert_eq!(refusals.rest(|| now + PAUSE / 2), None);
        assert_eq!(refusals.rest(|| now + PAUSE).map(NonZeroU64::get), Some(999));
        // That was a line, too.
        assert!(!refusals.add(WORTH_TELLING, now + PAUSE));
        assert_eq!(refusals.rest(|| now + PAUSE), None);
        assert_eq!(refusals.rest(|| now + 2 * PAUSE).map(NonZeroU64::get), Some(1));
    }
}
