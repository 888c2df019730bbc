//! Exchanges that do not take messages at the moment.
//!
//! A publish to a missing exchange closes the channel, and takes along what else is on it. So once
//! an exchange is known to be missing or refused, its events come back without being published, but
//! for one now and then that is *tried* beside the channel.
//!
//! Pure: the time is an argument.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::failure::Failure;

/// Pause before the first try, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Most exchanges that are remembered: routing that makes names without end must not make memory
/// without end, and one that is forgotten is found out again.
const MOST: usize = 4096;

/// The exchanges of one sink that are closed.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    closed: HashMap<Arc<str>, Closed, foldhash::fast::RandomState>,
}

#[derive(Debug)]
enum Closed {
    /// It does not take messages.
    Known { failure: Failure, tries: u32, try_at: Instant },
    /// It, or another one, does not take messages.
    Suspected,
}

/// What to do with an event.
#[derive(Debug)]
pub(super) enum Way {
    /// Publish it.
    Open,
    /// Find out with it whether the exchange takes messages.
    Try {
        /// Whether it must be published for that; that a missing one exists can be asked.
        publishes: bool,
    },
    /// It is to be tried after another one.
    Wait,
    /// It comes back.
    Back(Failure),
}

impl Exchanges {
    /// What to do with an event for `exchange`; `may_try` where nothing else is being tried.
    pub(super) fn way(&self, exchange: &str, may_try: bool, now: Instant) -> Way {
        if self.closed.is_empty() {
            return Way::Open;
        }
        match self.closed.get(exchange) {
            None => Way::Open,
            Some(Closed::Suspected) if may_try => Way::Try { publishes: true },
            Some(Closed::Suspected) => Way::Wait,
            Some(Closed::Known { failure, try_at, .. }) if may_try && now >= *try_at => {
                Way::Try { publishes: failure.peer_code() != Some("404") }
            }
            Some(Closed::Known { failure, .. }) => Way::Back(failure.clone()),
        }
    }

    /// The exchange does not take messages, as was just found; tried again after a pause.
    pub(super) fn close(&mut self, exchange: &Arc<str>, failure: Failure, now: Instant) {
        let tries = match self.closed.get(exchange) {
            Some(Closed::Known { tries, .. }) => tries.saturating_add(1),
            Some(Closed::Suspected) | None => 0,
        };
        let pause = PAUSES.0.saturating_mul(1 << tries.min(16)).min(PAUSES.1);
        let closed = Closed::Known { failure, tries, try_at: now + pause };
        if self.closed.len() >= MOST {
            self.closed.clear();
        }
        self.closed.insert(Arc::clone(exchange), closed);
    }

    /// The exchange may be the one that does not take messages.
    pub(super) fn suspect(&mut self, exchange: &Arc<str>) {
        self.closed.entry(Arc::clone(exchange)).or_insert(Closed::Suspected);
    }

    /// Why the exchange takes nothing, if that is known.
    pub(super) fn failure(&self, exchange: &str) -> Option<&Failure> {
        match self.closed.get(exchange)? {
            Closed::Known { failure, .. } => Some(failure),
            Closed::Suspected => None,
        }
    }

    /// The exchange takes messages.
    pub(super) fn open(&mut self, exchange: &str) {
        self.closed.remove(exchange);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_try(way: &Way) -> bool {
        matches!(way, Way::Try { .. })
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_exchange_is_tried_less_and_less_often() {
        let mut exchanges = Exchanges::default();
        let (name, mut now) = (Arc::from("x"), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..7 {
            exchanges.close(&name, Failure::fixable("missing"), now);
            let mut pause = Duration::ZERO;
            while !is_try(&exchanges.way("x", true, now + pause)) {
                pause += Duration::from_secs(1);
            }
            now += pause;
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        exchanges.open("x");
        assert!(matches!(exchanges.way("x", true, now), Way::Open));
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_tried_at_a_time_and_the_others_flow() {
        let mut exchanges = Exchanges::default();
        let now = Instant::now();
        exchanges.suspect(&Arc::from("x"));
        assert!(is_try(&exchanges.way("x", true, now)));
        assert!(matches!(exchanges.way("x", false, now), Way::Wait));
        assert!(matches!(exchanges.way("y", false, now), Way::Open));
        exchanges.close(&Arc::from("x"), Failure::fixable("refused"), now);
        assert!(matches!(exchanges.way("x", true, now), Way::Back(_)));
    }
}
