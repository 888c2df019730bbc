//! Looks at a relay, and what two of them tell together.

use serde_json::Value;
use tokio::time::Instant;

/// The document that `/status` gave, and when.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) status: Value,
    pub(super) at: Instant,
}

/// Events a second between two looks; `None` where there is nothing to compare with, or the relay was
/// started between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) received: Option<f64>,
    pub(super) delivered: Option<f64>,
}

impl Rates {
    pub(super) fn between(before: &Look, now: &Look) -> Self {
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        if started(before) != started(now) || seconds <= 0.0 {
            return Self::default();
        }
        let rate = |count: fn(&Value) -> Option<u64>| {
            let grown = count(&now.status)?.checked_sub(count(&before.status)?)?;
            // Far below 2^53 between two looks.
            Some(grown as f64 / seconds)
        };
        Self { received: rate(received), delivered: rate(delivered) }
    }
}

fn started(look: &Look) -> Option<&Value> {
    look.status.get("started_at")
}

fn received(status: &Value) -> Option<u64> {
    status.get("events_received")?.as_u64()
}

/// By all sinks together.
fn delivered(status: &Value) -> Option<u64> {
    let sinks = status.get("sinks")?.as_array()?;
    sinks.iter().map(|sink| sink.get("delivered")?.as_u64()).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn look(at: Instant, started: &str, received: u64, delivered: u64) -> Look {
        let sinks = json!([{"delivered": delivered}, {"delivered": 0}]);
        let status = json!({"started_at": started, "events_received": received, "sinks": sinks});
        Look { status, at }
    }

    #[test]
    fn two_looks_give_a_rate() {
        let begin = Instant::now();
        let before = look(begin, "a", 10, 5);
        let now = look(begin + Duration::from_secs(2), "a", 30, 6);
        let rates = Rates { received: Some(10.0), delivered: Some(0.5) };
        assert_eq!(Rates::between(&before, &now), rates);
    }

    #[test]
    fn looks_at_two_starts_give_none() {
        let begin = Instant::now();
        let before = look(begin, "a", 10, 5);
        let now = look(begin + Duration::from_secs(2), "b", 30, 6);
        assert_eq!(Rates::between(&before, &now), Rates::default());
        let counted_anew = look(begin + Duration::from_secs(2), "a", 20, 1);
        let rates = Rates { received: Some(5.0), delivered: None };
        assert_eq!(Rates::between(&before, &counted_anew), rates);
        assert_eq!(Rates::between(&before, &before), Rates::default());
    }
}
