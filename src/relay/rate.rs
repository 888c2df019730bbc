//! How many events a second a sink is handed, where `max_rate` limits it.
//!
//! A bucket of tokens. It is small, so that what waits goes out evenly; and it is waited for until
//! half of it is there, so that a limited relay wakes some forty times a second, not for each event.

use std::time::Duration;

use tokio::time::Instant;

/// What a full bucket lasts for at the limit.
const BURST: f64 = 0.05;

/// What a token may lack by rounding: a moment of whole nanoseconds is not quite when it is there, and
/// to ask again at once would be hot.
const ROUNDING: f64 = 1e-6;

/// A limit, and what of it is left.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl Rate {
    /// At most so many events a second, from `now` on.
    pub(super) fn new(per_second: usize, now: Instant) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "no relay is as fast as 2^52 a second")]
        let per_second = per_second as f64;
        Self { per_second, tokens: 1.0, at: now }
    }

    /// Whether one more may go now; if so, it is counted.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.size());
        self.at = self.at.max(now);
        let has_one = self.tokens >= 1.0 - ROUNDING;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }

    /// What was taken last did not go.
    pub(super) fn give_back(&mut self) {
        self.tokens += 1.0;
    }

    /// When it is worth to ask again.
    pub(super) fn due(&self) -> Instant {
        let missing = (self.size() / 2.0).max(1.0) - self.tokens;
        self.at + Duration::from_secs_f64(missing.max(0.0) / self.per_second)
    }

    fn size(&self) -> f64 {
        (self.per_second * BURST).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many go in so many milliseconds, if one asks whenever it is due.
    fn count(per_second: usize, millis: u64) -> usize {
        let begun = Instant::now();
        let end = begun + Duration::from_millis(millis);
        let (mut rate, mut now, mut count) = (Rate::new(per_second, begun), begun, 0);
        while now <= end {
            while rate.take(now) {
                count += 1;
            }
            let due = rate.due();
            assert!(due > now, "{per_second} a second: hot");
            now = due;
        }
        count
    }

    proptest! {
        #[test]
        fn a_limited_sink_gets_its_rate_and_no_more(per_second in 1_usize..100_000) {
            let seconds = 10;
            let count = count(per_second, seconds * 1000);
            let most = per_second * 10 + (per_second / 20).max(1) + 1;
            prop_assert!(count <= most, "{count} in {seconds} s at {per_second} a second");
            prop_assert!(count * 100 >= per_second * 10 * 95, "{count} at {per_second} a second");
        }
    }

    #[test]
    fn a_limit_that_does_not_divide_a_second_is_not_asked_hot() {
        for per_second in 1..100 {
            count(per_second, 10_000);
        }
    }

    #[test]
    fn what_was_not_used_does_not_add_up() {
        let begun = Instant::now();
        let mut rate = Rate::new(1000, begun);
        let later = begun + Duration::from_secs(3600);
        let burst = std::iter::from_fn(|| rate.take(later).then_some(())).count();
        assert_eq!(burst, 50);
    }

    #[test]
    fn what_did_not_go_may_go_later() {
        let now = Instant::now();
        let mut rate = Rate::new(1, now);
        assert!(rate.take(now) && !rate.take(now));
        rate.give_back();
        assert!(rate.take(now));
    }
}
