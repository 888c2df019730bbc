//! Whether the relay's loop still turns.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout};

/// A loop that has not turned for this long will not turn again by itself.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// Between two beats while something is waited for.
const BEAT: Duration = Duration::from_secs(5);

/// A beat that the relay's loop gives and a liveness probe looks at; cheap to clone.
///
/// It says nothing about PostgreSQL or a broker: a relay that waits for one is alive, and killing
/// it would only send its window again.
#[derive(Clone, Debug)]
pub struct Liveness {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    origin: Instant,
    last_beat_millis: AtomicU64,
}

impl Liveness {
    /// Alive as of now.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                origin: Instant::now(),
                last_beat_millis: AtomicU64::new(0),
            }),
        }
    }

    /// Says that the loop turned. To be called at least every few seconds, idle or not.
    pub fn beat(&self) {
        self.shared.last_beat_millis.store(self.now_millis(), Ordering::Relaxed);
    }

    /// Waits for what may take longer than a turn of the loop and has a bound of its own: a pause, a
    /// server that reads much WAL before it answers.
    pub(super) async fn while_waiting<T>(&self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        loop {
            self.beat();
            if let Ok(outcome) = timeout(BEAT, &mut waiting).await {
                return outcome;
            }
        }
    }

    /// Whether the last beat is recent enough.
    pub fn is_alive(&self) -> bool {
        let last = self.shared.last_beat_millis.load(Ordering::Relaxed);
        Duration::from_millis(self.now_millis().saturating_sub(last)) <= STALLED_AFTER
    }

    fn now_millis(&self) -> u64 {
        u64::try_from(self.shared.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for Liveness {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_is_alive_until_it_has_not_beaten_for_30_seconds() {
        let liveness = Liveness::new();
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(liveness.is_alive());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!liveness.is_alive());
        liveness.clone().beat();
        assert!(liveness.is_alive());
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_waits_on_purpose_is_alive() {
        let liveness = Liveness::new();
        let watching = liveness.clone();
        let watch = async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1));
            loop {
                ticks.tick().await;
                assert!(watching.is_alive());
            }
        };
        tokio::select! {
            biased;
            () = watch => {}
            () = liveness.while_waiting(tokio::time::sleep(2 * STALLED_AFTER)) => {}
        }
    }
}
