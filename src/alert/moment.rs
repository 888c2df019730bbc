//! Now, as an argument.

use tokio::time::Instant;

use crate::timestamp::Timestamp;

/// One moment on both clocks: durations are measured on the one that never jumps, and shown on the
/// other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    pub(super) time: Timestamp,
}

impl Moment {
    /// This moment.
    pub(super) fn now() -> Self {
        Self { instant: Instant::now(), time: Timestamp::now() }
    }

    /// Seconds since `earlier`.
    pub(super) fn seconds_since(self, earlier: Self) -> f64 {
        self.instant.saturating_duration_since(earlier.instant).as_secs_f64()
    }
}

#[cfg(test)]
impl Moment {
    /// Seconds after `self`.
    pub(super) fn plus(self, seconds: f64) -> Self {
        let micros = (seconds * 1e6) as i64;
        Self {
            instant: self.instant + std::time::Duration::from_secs_f64(seconds),
            time: Timestamp::from_micros(self.time.as_micros() + micros),
        }
    }
}
