//! Idle positions that wait for the guard, and whether there is anything to do at all.

use crate::lsn::Lsn;

#[derive(Debug, Default)]
pub(in crate::source::wal) struct Idle {
    /// The newest idle position that the relay has not been told.
    waiting: Option<Lsn>,
    told: Lsn,
    last_commit_micros: i64,
    busy: bool,
}

impl Idle {
    /// The server had sent everything up to `wal_end`, and no transaction was open.
    pub(super) fn heard(&mut self, wal_end: Lsn) {
        self.busy = false;
        if wal_end > self.told {
            self.waiting = self.waiting.max(Some(wal_end));
        }
    }

    /// A transaction was read to its end.
    pub(super) fn committed(&mut self, commit_time_micros: i64) {
        self.busy = true;
        self.last_commit_micros = commit_time_micros;
        // Positions that wait are before this commit, and so will be part of what it confirms.
        self.waiting = None;
    }

    /// As far as the waiting position is within `covered`, an idle position that was heard as well.
    /// What is beyond it waits on: in a busy cluster there is always something, since positions come
    /// faster than anybody can look.
    pub(super) fn take_covered(&mut self, covered: Lsn) -> Option<Lsn> {
        let waiting = self.waiting?;
        let position = waiting.min(covered);
        if position <= self.told {
            return None;
        }
        self.told = position;
        if position == waiting {
            self.waiting = None;
        }
        Some(position)
    }

    /// Commit time of the last transaction, in microseconds since 1970; 0 before the first.
    pub(super) fn last_commit_micros(&self) -> i64 {
        self.last_commit_micros
    }

    /// Whether transactions have come since the last keepalive.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_position_waits_until_it_is_covered_and_is_told_once() {
        let mut idle = Idle::default();
        idle.heard(Lsn::new(10));
        assert_eq!(idle.take_covered(Lsn::ZERO), None);
        assert_eq!(idle.take_covered(Lsn::new(10)), Some(Lsn::new(10)));
        idle.heard(Lsn::new(10));
        assert_eq!(idle.take_covered(Lsn::new(99)), None);
    }

    #[test]
    fn a_newer_position_does_not_hold_an_older_one_up() {
        let mut idle = Idle::default();
        idle.heard(Lsn::new(10));
        idle.heard(Lsn::new(20));
        assert_eq!(idle.take_covered(Lsn::new(10)), Some(Lsn::new(10)));
        assert_eq!(idle.take_covered(Lsn::new(10)), None);
        assert_eq!(idle.take_covered(Lsn::new(20)), Some(Lsn::new(20)));
    }

    #[test]
    fn a_commit_takes_the_place_of_what_waits_before_it() {
        let mut idle = Idle::default();
        idle.heard(Lsn::new(10));
        idle.committed(1);
        assert_eq!(idle.take_covered(Lsn::new(99)), None);
    }
}
