//! How old a position in the WAL is: when the server's WAL was seen past it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::lsn::Lsn;

/// Most samples that are kept. When they are as many, every second of the older half goes: what is
/// old is told less exactly.
const MOST: usize = 1024;

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
            self.thin();
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

    fn thin(&mut self) {
        let half = self.samples.len() / 2;
        let mut index = 0;
        self.samples.retain(|_| {
            index += 1;
            index > half || index % 2 == 1
        });
    }
}
