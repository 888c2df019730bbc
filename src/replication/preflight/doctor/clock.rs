//! The server's clock beside the relay's: ages are differences of the two.

use std::time::{SystemTime, UNIX_EPOCH};

use super::super::{Context, Finding};
use crate::failure::Failure;
use crate::postgres;

const NOW: &str = "SELECT extract(epoch FROM clock_timestamp())::float8";

/// Seconds by which clocks may differ.
const TOLERATED: f64 = 1.0;

/// The quickest of these round trips tells most.
const TRIPS: usize = 3;

/// The server's clock less ours, in seconds, give or take half a round trip.
#[derive(Clone, Copy, Debug)]
struct Difference {
    seconds: f64,
    half_trip: f64,
}

pub(super) async fn ask(context: &Context<'_>) -> Result<Vec<Finding>, Failure> {
    let doing = "reading the server's clock";
    let client = context.session.client();
    let failed = |error: &_| postgres::failure(doing, error);
    // Beforehand, so that what is timed is one trip.
    let statement = client.prepare(NOW).await.map_err(|error| failed(&error))?;
    let mut best: Option<Difference> = None;
    for _ in 0..TRIPS {
        let before = now();
        let row = client.query_one(&statement, &[]).await.map_err(|error| failed(&error))?;
        let measured = Difference::of(before, row.get(0), now());
        if best.is_none_or(|best| measured.half_trip < best.half_trip) {
            best = Some(measured);
        }
    }
    Ok(best.map(judge).into_iter().collect())
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

impl Difference {
    /// From our clock before and after the server read its own.
    fn of(before: f64, theirs: f64, after: f64) -> Self {
        Self {
            seconds: theirs - f64::midpoint(before, after),
            half_trip: (after - before).abs() / 2.0,
        }
    }
}

fn judge(Difference { seconds, half_trip }: Difference) -> Finding {
    let off = seconds.abs();
    if off - half_trip <= TOLERATED {
        let millis = ((off + half_trip) * 1000.0).ceil();
        let message = format!("differs from the server's by at most {millis} ms");
        return Finding::ok("clock", message);
    }
    let side = if seconds > 0.0 { "ahead of" } else { "behind" };
    let message = format!(
        "the server's is {off:.1} s {side} the relay's: `delivery_seconds`, ages and lags in seconds \
         are wrong by as much, and alerts on them"
    );
    Finding::warning("clock", message)
        .fix("`timedatectl set-ntp true` on both machines (`chronyc tracking` shows the offset)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::preflight::Severity;

    #[track_caller]
    fn check(before: f64, theirs: f64, after: f64, severity: Severity) -> String {
        let finding = judge(Difference::of(before, theirs, after));
        assert_eq!(finding.severity, severity);
        finding.message
    }

    #[test]
    fn a_slow_answer_is_no_difference() {
        check(100.0, 100.1, 100.2, Severity::Ok);
        check(100.0, 104.9, 105.0, Severity::Ok);
        check(100.0, 100.9, 100.0, Severity::Ok);
    }

    #[test]
    fn a_difference_beyond_the_round_trip_is_told() {
        let ahead = check(100.0, 105.0, 100.2, Severity::Warning);
        assert!(ahead.starts_with("the server's is 4.9 s ahead of"), "{ahead}");
        let behind = check(100.0, 97.0, 100.0, Severity::Warning);
        assert!(behind.starts_with("the server's is 3.0 s behind"), "{behind}");
    }
}
