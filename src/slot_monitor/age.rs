//! How old a position in the WAL is: when the server's WAL was seen past it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::lsn::Lsn;

/// Most samples that are kept, enough to tell an age of months to a few percent.
const MOST: usize = 512;

/// When the WAL was where, as far back as something is not confirmed. Pure: `now` counts from a moment
/// of the caller's choice.
#[derive(Debug, Default)]
pub(super) struct Ages {
    /// Growing in both.
    samples: VecDeque<(Duration, Lsn)>,
    /// The last position that was dropped, since it was confirmed: from there on nothing is missing.
    covered_from: Option<Lsn>,
}

/// The age of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// As old as this.
    Known(Duration),
    /// As old as this at least: the position was passed before the first sample.
    AtLeast(Duration),
}

impl Ages {
    /// The WAL has got to `position`. Where that is behind what was seen before, as on a standby that
    /// has taken over, everything begins anew.
    pub(super) fn look(&mut self, now: Duration, position: Lsn) {
        match self.samples.back() {
            Some((_, last)) if *last == position => return,
            Some((_, last)) if *last > position => *self = Self::default(),
            _ => {}
        }
        if self.samples.len() == MOST {
            self.thin(now);
        }
        self.samples.push_back((now, position));
    }

    /// How long ago the WAL went past `confirmed`, which is the age of the oldest WAL after it; zero
    /// where there is none. Forgets what is confirmed.
    pub(super) fn of(&mut self, now: Duration, confirmed: Lsn) -> Age {
        // The last sample stays, to tell a position that went back.
        while self.samples.len() > 1
            && let Some((_, position)) = self.samples.front()
            && *position <= confirmed
        {
            self.covered_from = Some(*position);
            self.samples.pop_front();
        }
        let Some((seen, position)) = self.samples.front() else {
            return Age::AtLeast(Duration::ZERO);
        };
        if *position <= confirmed {
            return Age::Known(Duration::ZERO);
        }
        let age = now.saturating_sub(*seen);
        match self.covered_from {
            Some(from) if from <= confirmed => Age::Known(age),
            _ => Age::AtLeast(age),
        }
    }

    /// Drops the sample that is missed least: without it a position is told younger by the gap, which
    /// matters the less the older the position is.
    fn thin(&mut self, now: Duration) {
        let samples = self.samples.make_contiguous();
        let error = |window: &[(Duration, Lsn)]| match window {
            [(before, _), _, (after, _)] => {
                let gap = after.saturating_sub(*before).as_secs_f64();
                gap / now.saturating_sub(*after).as_secs_f64()
            }
            _ => f64::INFINITY,
        };
        let errors = samples.windows(3).map(error).enumerate();
        if let Some((index, _)) = errors.min_by(|(_, one), (_, other)| one.total_cmp(other)) {
            self.samples.remove(index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ages(samples: &[(u64, u64)]) -> Ages {
        let mut ages = Ages::default();
        for (seconds, position) in samples {
            ages.look(at(*seconds), Lsn::new(*position));
        }
        ages
    }

    #[test]
    fn a_position_is_as_old_as_the_first_look_that_saw_the_wal_past_it() {
        let mut ages = ages(&[(0, 100), (10, 200), (20, 300), (30, 400)]);
        assert_eq!(ages.of(at(35), Lsn::new(100)), Age::Known(at(25)));
        assert_eq!(ages.of(at(36), Lsn::new(250)), Age::Known(at(16)));
        assert_eq!(ages.of(at(60), Lsn::new(250)), Age::Known(at(40)));
    }

    #[test]
    fn what_is_confirmed_altogether_has_no_age() {
        let mut ages = ages(&[(0, 100), (10, 200)]);
        assert_eq!(ages.of(at(1000), Lsn::new(200)), Age::Known(at(0)));
        // WAL that comes after a long time of nothing is as young as it is.
        ages.look(at(2000), Lsn::new(300));
        assert_eq!(ages.of(at(2000), Lsn::new(200)), Age::Known(at(0)));
        assert_eq!(ages.of(at(2005), Lsn::new(200)), Age::Known(at(5)));
    }

    #[test]
    fn what_was_passed_before_the_first_look_is_as_old_as_the_looks_at_least() {
        let mut ages = ages(&[(10, 200), (20, 300)]);
        assert_eq!(ages.of(at(40), Lsn::new(150)), Age::AtLeast(at(30)));
        assert_eq!(ages.of(at(40), Lsn::new(200)), Age::Known(at(20)));
        // Servers before 17 forget what was confirmed when they start again.
        assert_eq!(ages.of(at(40), Lsn::new(150)), Age::AtLeast(at(20)));
    }

    #[test]
    fn a_position_that_goes_back_begins_anew() {
        let mut ages = ages(&[(0, 1000), (10, 2000), (20, 500)]);
        assert_eq!(ages.of(at(25), Lsn::new(500)), Age::Known(at(0)));
        assert_eq!(ages.of(at(25), Lsn::new(400)), Age::AtLeast(at(5)));
    }

    #[test]
    fn a_long_outage_is_told_with_few_samples_and_little_error() {
        let mut ages = Ages::default();
        for look in 0..20_000 {
            ages.look(at(5 * look), Lsn::new(100 + look));
        }
        assert!(ages.samples.len() <= MOST);
        let now = at(100_000);
        for position in [100, 1000, 10_000, 19_000] {
            let truth = now - at(5 * (position + 1 - 100));
            let Age::Known(told) = ages.of(now, Lsn::new(position)) else { panic!() };
            let error = told.abs_diff(truth).as_secs_f64() / truth.as_secs_f64();
            assert!(error < 0.1, "{position}: {told:?}, not {truth:?}");
        }
    }
}
