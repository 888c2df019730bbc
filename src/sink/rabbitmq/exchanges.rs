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

/// The exchanges of one sink that are closed.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    closed: HashMap<Arc<str>, Closed, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct Closed {
    failure: Failure,
    tries: u32,
    try_at: Instant,
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
    /// It comes back.
    Back(Failure),
}

impl Exchanges {
    /// What to do with an event for `exchange`; `may_try` where nothing else is being tried.
    pub(super) fn way(&mut self, exchange: &str, may_try: bool, now: Instant) -> Way {
        if self.closed.is_empty() {
            return Way::Open;
        }
        match self.closed.get_mut(exchange) {
            None => Way::Open,
            Some(closed) if may_try && now >= closed.try_at => {
                Way::Try { publishes: closed.failure.peer_code() != Some("404") }
            }
            Some(closed) => Way::Back(closed.failure.clone()),
        }
    }

    /// The exchange does not take messages, as was just found; tried again after a pause.
    pub(super) fn close(&mut self, exchange: &Arc<str>, failure: Failure, now: Instant) {
        let tries = self.closed.get(exchange).map_or(0, |closed| closed.tries.saturating_add(1));
        let pause = PAUSES.0.saturating_mul(1 << tries.min(16)).min(PAUSES.1);
        self.closed.insert(Arc::clone(exchange), Closed { failure, tries, try_at: now + pause });
    }

    /// The exchange may be the one that does not take messages; to be tried at once.
    pub(super) fn suspect(&mut self, exchange: &Arc<str>, failure: Failure, now: Instant) {
        let closed = Closed { failure, tries: 0, try_at: now };
        self.closed.entry(Arc::clone(exchange)).or_insert(closed);
    }

    /// Why the exchange takes nothing, if it does not.
    pub(super) fn failure(&self, exchange: &str) -> Option<&Failure> {
        self.closed.get(exchange).map(|closed| &closed.failure)
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
        exchanges.suspect(&Arc::from("x"), Failure::fixable("refused"), now);
        assert!(is_try(&exchanges.way("x", true, now)));
        assert!(matches!(exchanges.way("x", false, now), Way::Back(_)));
        assert!(matches!(exchanges.way("y", false, now), Way::Open));
    }
}
