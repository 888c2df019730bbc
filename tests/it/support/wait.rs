//! The only place that sleeps.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Long enough for anything that takes a moment, even on a busy machine: a deadline, not a speed
/// claim.
pub(crate) const SHORT: Duration = Duration::from_secs(30);

/// Pause between two looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// Looks until `probe` gives a value.
///
/// # Panics
///
/// Where it gives none before `deadline`, naming `what`.
pub(crate) async fn wait_until<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let begin = Instant::now();
    loop {
        // One look may hang as well: on a server that is stopped, say.
        let left = (begin + deadline).saturating_duration_since(Instant::now());
        match timeout(left.max(INTERVAL), probe()).await {
            Ok(Some(value)) => return value,
            Ok(None) => {}
            Err(_) => panic!("waited {deadline:?} for {what}; the last look hung"),
        }
        assert!(begin.elapsed() < deadline, "waited {deadline:?} for {what}");
        sleep(INTERVAL).await;
    }
}
