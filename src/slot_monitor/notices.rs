//! Dangers as they enter the log: once when they begin, and not again within a while. That nothing
//! limits the WAL is said at the start of a session, with all that `check` finds.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, warn};

use super::advice;
use super::report::SlotReport;

/// One that comes and goes is told no more often than this.
const AGAIN: Duration = Duration::from_secs(600);

/// What was told, and when.
#[derive(Debug, Default)]
pub(super) struct Notices {
    synchronous: Notice,
    wal_status: Notice,
}

#[derive(Debug, Default)]
struct Notice {
    text: Option<String>,
    told_at: Option<Instant>,
}

impl Notices {
    /// Tells what is new.
    pub(super) fn tell(&mut self, report: &SlotReport, now: Instant) {
        if let Some(text) = self.synchronous.news(advice::synchronous(report), now) {
            error!("{text}");
        }
        if let Some(text) = self.wal_status.news(advice::not_reserved(report), now) {
            warn!("{text}");
        }
    }
}

impl Notice {
    /// The text where it must be told: it is there, and was not there or was another before.
    fn news(&mut self, text: Option<String>, now: Instant) -> Option<&str> {
        if self.text == text {
            return None;
        }
        let is_early = self.told_at.is_some_and(|told| now < told + AGAIN);
        // A text that changes is news at any time: `wal_status` goes from bad to worse.
        let is_worse = self.text.is_some() && text.is_some();
        self.text = text;
        if self.text.is_none() || (is_early && !is_worse) {
            return None;
        }
        self.told_at = Some(now);
        self.text.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_danger_is_told_when_it_begins_and_when_it_grows() {
        let mut notice = Notice::default();
        let mut tell = |text: &str| {
            let text = (!text.is_empty()).then(|| text.to_owned());
            notice.news(text, Instant::now()).is_some()
        };
        assert!(!tell(""));
        assert!(tell("extended"));
        assert!(!tell("extended"), "still");
        assert!(tell("unreserved"), "worse");
        assert!(!tell(""));
    }

    #[tokio::test(start_paused = true)]
    async fn a_danger_that_comes_and_goes_is_told_once_in_a_while() {
        let mut notice = Notice::default();
        let mut told = 0;
        for look in 0..240 {
            let text = (look % 2 == 0).then(|| "extended".to_owned());
            told += usize::from(notice.news(text, Instant::now()).is_some());
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        assert_eq!(told, 2, "in twenty minutes");
    }
}
