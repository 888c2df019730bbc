//! How long confirms may take.
//!
//! RabbitMQ confirms a message when its queues have it, which can be long: a quorum queue without a
//! majority takes as long as it has none. But a confirm can also have been lost. So what waits too
//! long is told, and then costs the connection, less and less often.
//!
//! Pure: the time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// After this it is told that a message is not confirmed.
const TELL: Duration = Duration::from_secs(30);

/// After this the connection is made anew, the first time and at most.
const HOPELESS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(16 * 60));

/// What the sink's oldest unconfirmed message means.
#[derive(Debug)]
pub(super) struct Patience {
    hopeless: Duration,
    /// Nothing could be confirmed before this.
    since: Instant,
}

/// What follows from a message's age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Fine,
    /// To be told.
    Slow,
    /// The connection is to be made anew.
    Hopeless,
}

impl Patience {
    pub(super) fn new(now: Instant) -> Self {
        Self { hopeless: HOPELESS.0, since: now }
    }

    /// The broker takes nothing: no message gets older.
    pub(super) fn hold(&mut self, now: Instant) {
        self.since = now;
    }

    /// What the message means that was published `at`, the oldest; `None` where none is out.
    pub(super) fn look(&mut self, at: Option<Instant>, now: Instant) -> Age {
        let age = at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at.max(self.since)));
        if age >= self.hopeless {
            self.hopeless = (self.hopeless * 2).min(HOPELESS.1);
            return Age::Hopeless;
        }
        if age >= TELL {
            return Age::Slow;
        }
        Age::Fine
    }

    /// Something that was slow has been confirmed.
    pub(super) fn restore(&mut self) {
        self.hopeless = HOPELESS.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lost_confirm_costs_the_connection_less_and_less_often() {
        let start = Instant::now();
        let mut patience = Patience::new(start);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(patience.look(None, after(1000)), Age::Fine);
        assert_eq!(patience.look(Some(start), after(29)), Age::Fine);
        assert_eq!(patience.look(Some(start), after(30)), Age::Slow);
        assert_eq!(patience.look(Some(start), after(60)), Age::Hopeless);
        assert_eq!(patience.look(Some(after(60)), after(179)), Age::Slow);
        assert_eq!(patience.look(Some(after(60)), after(180)), Age::Hopeless);
        patience.restore();
        assert_eq!(patience.look(Some(after(180)), after(240)), Age::Hopeless);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_ages_while_the_broker_takes_nothing() {
        let start = Instant::now();
        let mut patience = Patience::new(start);
        patience.hold(start + Duration::from_secs(500));
        assert_eq!(patience.look(Some(start), start + Duration::from_secs(520)), Age::Fine);
    }
}
