//! How long until the WAL that a slot keeps has used up its room. Pure: `now` is an argument.
//!
//! The room shrinks by what the WAL grows, as long as `restart_lsn` stands still. Where it moves, it
//! moves in steps of some 15 s (PostgreSQL records the running transactions that often), so that the
//! room of a healthy slot goes up and down all the time. A forecast that followed it would flap; so
//! this one asks how much of the WAL's growth the slot has made up for over several such steps.

use std::collections::VecDeque;
use std::time::Duration;

use crate::lsn::Lsn;

/// Rates are of this long, and of this many looks at least.
const WINDOW: (Duration, u32) = (Duration::from_secs(90), 18);
/// A slot that has not moved for this long stands still.
const STILL: (Duration, u32) = (Duration::from_secs(45), 9);
/// Looks before anything is foretold.
const FIRST: u32 = 6;
/// The same in time, where the slot is read: it may just not have made its first step.
const FIRST_STEP: Duration = Duration::from_secs(25);
/// A slot that leaves less than this share of the growth behind keeps up: steps are never told apart
/// from that.
const LEAST_SHARE: f64 = 0.25;
/// What is further away than this will come otherwise.
const HORIZON_SECONDS: f64 = 30.0 * 86_400.0;

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    position: Lsn,
    /// The first WAL that is kept.
    kept_from: Option<Lsn>,
    confirmed: Option<Lsn>,
}

impl Sample {
    fn kept(&self) -> u64 {
        self.kept_from.map_or(0, |from| self.position.bytes_since(from))
    }
}

/// The WAL's growth, and how much of it stays.
#[derive(Debug)]
pub(super) struct Growth {
    interval: Duration,
    samples: VecDeque<Sample>,
}

impl Growth {
    /// For looks that come every `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, samples: VecDeque::new() }
    }

    /// The WAL has got to `position` and is kept from `kept_from` on, if at all; `confirmed` shows a slot
    /// that is read before `kept_from` does. A position behind the last one is another server's:
    /// everything begins anew.
    pub(super) fn look(
        &mut self,
        now: Duration,
        position: Lsn,
        kept_from: Option<Lsn>,
        confirmed: Option<Lsn>,
    ) {
        if self.samples.back().is_some_and(|last| last.position > position || last.at >= now) {
            self.samples.clear();
        }
        self.samples.push_back(Sample { at: now, position, kept_from, confirmed });
        // One sample at the window's edge or before it stays, so that the window is always full.
        let edge = now.saturating_sub(self.span(WINDOW));
        while self.samples.get(1).is_some_and(|second| second.at <= edge) {
            self.samples.pop_front();
        }
    }

    /// Bytes a second, smoothed; `None` before the second look.
    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        (seconds > 0.0).then(|| last.position.bytes_since(first.position) as f64 / seconds)
    }

    /// Seconds until `room` bytes are used up; 0 where they are, never negative. `None` where nothing
    /// grows, where the slot keeps up, or before enough looks to tell.
    pub(super) fn seconds_until_full(&self, room: i64) -> Option<f64> {
        if room <= 0 {
            return Some(0.0);
        }
        let share = self.share_kept()?;
        let seconds = room as f64 / (self.bytes_per_second()? * share);
        (share >= LEAST_SHARE && seconds <= HORIZON_SECONDS).then_some(seconds)
    }

    /// The share of the WAL's growth that adds to what is kept, from 0 to 1.
    fn share_kept(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        last.kept_from?;
        let span = last.at.saturating_sub(first.at);
        let is_read = last.confirmed.is_none() || last.confirmed != first.confirmed;
        if span < self.interval * (FIRST - 1) || (is_read && span < FIRST_STEP) {
            return None;
        }
        let since = last.at.saturating_sub(self.span(STILL));
        let mut lately = self.samples.iter().filter(|sample| sample.at >= since);
        if lately.all(|sample| sample.kept_from == last.kept_from) {
            return Some(1.0);
        }
        // What is kept goes up and down in steps; its low points tell the trend.
        let middle = first.at + span / 2;
        let low = |later: bool| {
            let half = self.samples.iter().filter(move |sample| (sample.at >= middle) == later);
            half.min_by_key(|sample| sample.kept())
        };
        let (before, after) = (low(false)?, low(true)?);
        let grown = after.position.bytes_since(before.position);
        if span < self.span(WINDOW) * 2 / 3 || grown == 0 {
            return Some(0.0);
        }
        let added = after.kept().saturating_sub(before.kept());
        Some((added as f64 / grown as f64).min(1.0))
    }

    fn span(&self, (least, looks): (Duration, u32)) -> Duration {
        least.max(self.interval * looks)
    }
}

#[cfg(test)]
mod tests;
