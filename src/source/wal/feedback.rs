//! When to report to the server, and when the server counts as gone.
//!
//! A walsender can be silent for minutes while it decodes what is not published, so its connection is
//! judged by answers to replies that were asked for, never by data. Replies are asked for from the
//! timer, never in answer to a keepalive: two sides that answer each other never stop.

use std::time::Duration;

use tokio::time::Instant;

/// At most ten reports a second.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// At least one report in this time, whatever the server's timeout is.
const MAX_INTERVAL: Duration = Duration::from_secs(10);
/// Without a `wal_sender_timeout`, an answer is waited for this long.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// A shorter `wal_sender_timeout` does not make us less patient than this.
const MIN_PATIENCE: Duration = Duration::from_secs(10);

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Report; with `true`, ask for an answer.
    Report(bool),
    /// The server has not answered in time.
    Dead,
}

#[derive(Debug)]
pub(super) struct Feedback {
    interval: Duration,
    patience: Duration,
    reported: Instant,
    /// When the answer that is waited for was asked for.
    asked: Option<Instant>,
    /// The server is known to be alive up to here.
    heard: Instant,
}

impl Feedback {
    pub(super) fn new(wal_sender_timeout: Option<Duration>, now: Instant) -> Self {
        let timeout = wal_sender_timeout.unwrap_or(DEFAULT_TIMEOUT);
        Self {
            interval: (timeout / 4).clamp(MIN_INTERVAL, MAX_INTERVAL),
            patience: timeout.max(MIN_PATIENCE),
            reported: now,
            asked: None,
            heard: now,
        }
    }

    /// Something came from the server.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.asked = None;
    }

    /// Nothing can be heard while nothing is read: what was asked for need not be answered.
    pub(super) fn deaf(&mut self) {
        self.asked = None;
    }

    /// What is due, where `news` says that there is something new to report.
    pub(super) fn due(&self, news: bool, now: Instant) -> Due {
        if self.asked.is_some_and(|asked| now.duration_since(asked) >= self.patience) {
            return Due::Dead;
        }
        let since = now.duration_since(self.reported);
        if since >= self.interval {
            // An answer is wanted once in an interval; one that is on its way is enough.
            return Due::Report(now.duration_since(self.heard) >= self.interval / 2);
        }
        if news && since >= MIN_INTERVAL { Due::Report(false) } else { Due::Nothing }
    }

    /// A report was sent.
    pub(super) fn reported(&mut self, asked: bool, now: Instant) {
        self.reported = now;
        if asked && self.asked.is_none() {
            self.asked = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn news_is_reported_soon_but_at_most_ten_times_a_second() {
        let now = Instant::now();
        let mut feedback = Feedback::new(Some(60 * SECOND), now);
        assert_eq!(feedback.due(true, now), Due::Nothing);
        let later = now + MIN_INTERVAL;
        assert_eq!(feedback.due(true, later), Due::Report(false));
        assert_eq!(feedback.due(false, later), Due::Nothing);
        feedback.reported(false, later);
        assert_eq!(feedback.due(true, later), Due::Nothing);
    }

    #[test]
    fn a_silent_server_is_asked_well_within_its_timeout() {
        let now = Instant::now();
        let feedback = Feedback::new(Some(2 * SECOND), now);
        assert_eq!(feedback.due(false, now + SECOND / 2), Due::Report(true));
    }

    #[test]
    fn a_server_that_does_not_answer_is_dead_and_one_that_answers_is_not() {
        let now = Instant::now();
        let mut feedback = Feedback::new(Some(20 * SECOND), now);
        feedback.reported(true, now + 5 * SECOND);
        assert_ne!(feedback.due(false, now + 24 * SECOND), Due::Dead);
        assert_eq!(feedback.due(false, now + 25 * SECOND), Due::Dead);
        feedback.heard(now + 24 * SECOND);
        assert_ne!(feedback.due(false, now + 25 * SECOND), Due::Dead);
    }

    #[test]
    fn while_nothing_is_read_nobody_is_dead() {
        let now = Instant::now();
        let mut feedback = Feedback::new(Some(20 * SECOND), now);
        feedback.reported(true, now);
        feedback.deaf();
        assert_eq!(feedback.due(false, now + 100 * SECOND), Due::Report(true));
    }
}
