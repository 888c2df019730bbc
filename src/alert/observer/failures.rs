//! How many deliveries failed within the last minute.

use std::collections::{HashMap, VecDeque};

use super::super::facts::{Facts, Finding};
use super::super::moment::Moment;
use super::NAMED;
use crate::config::AlertMetric;
use crate::metrics::FailureCount;

/// What is looked back at.
const SPAN_SECONDS: f64 = 60.0;

/// Between two samples that are kept.
const STEP_SECONDS: f64 = 5.0;

/// Counts so far, by sink and reason: as many as there are series.
type Counts = HashMap<(String, String), f64>;

/// The counts of about a minute.
#[derive(Debug, Default)]
pub(super) struct Failures {
    samples: VecDeque<(Moment, Counts)>,
}

impl Failures {
    /// Sets the metric, and keeps the counts.
    pub(super) fn read(&mut self, facts: &mut Facts, counts: &[FailureCount], now: Moment) {
        let is_old = |taken: &Moment| now.seconds_since(*taken) >= SPAN_SECONDS;
        // The youngest of those that are old enough is what is compared with.
        while self.samples.get(1).is_some_and(|(taken, _)| is_old(taken)) {
            self.samples.pop_front();
        }
        let before = self.samples.front().map(|(_, counts)| counts);
        let mut failed: Vec<(&FailureCount, f64)> = counts
            .iter()
            .map(|count| {
                let key = (count.sink.clone(), count.reason.clone());
                let known = before.and_then(|before| before.get(&key)).copied().unwrap_or(0.0);
                (count, (count.total - known).max(0.0))
            })
            .filter(|(_, number)| *number > 0.0)
            .collect();
        failed.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        // A sum of none would be -0.
        let total = failed.iter().fold(0.0, |sum, (_, number)| sum + number);
        facts.known(AlertMetric::FailuresPerMinute, Some(total), |shown| {
            let named = failed.iter().take(NAMED).map(|(count, number)| {
                let FailureCount { sink, reason, .. } = count;
                match sink.as_str() {
                    "" => format!("{number} without a route: {reason}"),
                    sink => format!("{number} of sink `{sink}`: {reason}"),
                }
            });
            let cause: Vec<String> = named.collect();
            let text = format!("{shown} deliveries failed within a minute");
            Finding::new(text).cause(cause.join("; "))
        });
        let last = self.samples.back().map(|(taken, _)| *taken);
        if last.is_none_or(|taken| now.seconds_since(taken) >= STEP_SECONDS) {
            let counts = counts.iter().map(|it| ((it.sink.clone(), it.reason.clone()), it.total));
            self.samples.push_back((now, counts.collect()));
        }
    }
}
