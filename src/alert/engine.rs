//! The rules and how each stands: inactive, pending, firing.
//!
//! A rule becomes *pending* once its threshold is passed, *fires* when that has lasted for its time,
//! and is *resolved* when the metric has been back at `clear` for another. Between the two limits
//! nothing changes, so that a figure that swings around one of them does not flap. What is not known
//! is no news: it keeps a firing alert, and starts a pending one anew.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::{Facts, Finding, Reading};
use super::moment::Moment;
use super::notice::Alert;
use crate::config::{AlertRule, AlertsConfig};
use crate::status::AlertStatus;
use crate::timestamp::Timestamp;

/// All rules of one relay.
#[derive(Debug)]
pub(super) struct Engine {
    tracked: Vec<Tracked>,
}

/// A rule with its state.
#[derive(Debug)]
struct Tracked {
    rule: AlertRule,
    labels: BTreeMap<String, String>,
    phase: Phase,
    value: Option<f64>,
}

#[derive(Debug)]
enum Phase {
    Inactive,
    /// The threshold is passed since then.
    Pending {
        since: Moment,
    },
    /// It fires.
    Firing {
        since: Timestamp,
        /// The metric has been back since then.
        over: Option<Moment>,
        /// The last news of what is wrong.
        finding: Finding,
        value: f64,
    },
}

impl Phase {
    /// That of an alert which another engine fired; the next look says of it what there is to say.
    fn firing_already(alert: &Alert) -> Self {
        let headline = alert.annotations.get("summary").cloned().unwrap_or_default();
        let finding = Finding::new(headline).fix(alert.annotations.get("fix").cloned());
        Self::Firing { since: alert.starts_at, over: None, finding, value: alert.value }
    }
}

/// What became of a rule at one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// It begins to fire.
    Fired(Alert),
    /// It is over.
    Resolved(Alert),
}

impl Engine {
    /// The rules of `config` for the relay of this name; `slot` is the configuration's, since an
    /// alert's labels must stay what they are.
    pub(super) fn new(config: &AlertsConfig, relay: &str, slot: Option<&str>) -> Self {
        let tracked = config.rules.iter().map(|rule| {
            let mut labels = config.labels.clone();
            labels.extend(rule.labels.clone());
            labels.insert("alertname".to_owned(), rule.name.clone());
            labels.insert("severity".to_owned(), rule.severity.name().to_owned());
            labels.insert("relay".to_owned(), relay.to_owned());
            labels.extend(slot.map(|slot| ("slot".to_owned(), slot.to_owned())));
            Tracked { rule: rule.clone(), labels, phase: Phase::Inactive, value: None }
        });
        Self { tracked: tracked.collect() }
    }

    /// Takes over alerts that fire since before this engine: what it has the same rule for goes on, and
    /// the rest is over `now`, since nobody judges it any more.
    pub(super) fn take_over(&mut self, alerts: Vec<Alert>, now: Moment) -> Vec<Change> {
        let change =
            |alert: Alert| match self.tracked.iter_mut().find(|it| it.labels == alert.labels) {
                Some(tracked) => {
                    tracked.phase = Phase::firing_already(&alert);
                    Change::Fired(alert)
                }
                None => Change::Resolved(Alert { ends_at: Some(now.time), ..alert }),
            };
        alerts.into_iter().map(change).collect()
    }

    /// Judges the facts of this moment.
    pub(super) fn step(&mut self, facts: &Facts, now: Moment) -> Vec<Change> {
        self.tracked.iter_mut().filter_map(|it| it.step(facts, now)).collect()
    }

    /// All alerts that fire.
    pub(super) fn firing(&self) -> impl Iterator<Item = Alert> + '_ {
        self.tracked.iter().filter_map(|tracked| tracked.alert(None))
    }

    /// Every rule and how it stands.
    pub(super) fn statuses(&self) -> Vec<AlertStatus> {
        self.tracked.iter().map(Tracked::status).collect()
    }
}

impl Tracked {
    fn step(&mut self, facts: &Facts, now: Moment) -> Option<Change> {
        let reading = facts.get(self.rule.metric);
        let known = match reading {
            Reading::Known(value, finding) => Some((*value, finding)),
            Reading::Fine | Reading::Unknown => None,
        };
        self.value = known.map(|(value, _)| value);
        let past = known.filter(|(value, _)| self.rule.bound.is_past(*value, self.rule.threshold));
        let is_over = match reading {
            Reading::Known(value, _) => !self.rule.bound.is_past(*value, self.rule.clear),
            Reading::Fine => true,
            Reading::Unknown => false,
        };
        let clear_after = self.rule.clear_after;
        match &mut self.phase {
            Phase::Inactive | Phase::Pending { .. } => {
                let Some((value, finding)) = past else {
                    self.phase = Phase::Inactive;
                    return None;
                };
                let since = match self.phase {
                    Phase::Pending { since } => since,
                    _ => now,
                };
                if !has_lasted(since, self.rule.wait, now) {
                    self.phase = Phase::Pending { since };
                    return None;
                }
                let finding = finding.clone();
                self.phase = Phase::Firing { since: now.time, over: None, finding, value };
                self.alert(None).map(Change::Fired)
            }
            Phase::Firing { over, finding, value, .. } => {
                // Until it is over, what is said of it stays news.
                if let Some((last, news)) = known.filter(|_| !is_over) {
                    (*value, *finding) = (last, news.clone());
                }
                if !is_over {
                    *over = None;
                    return None;
                }
                let since = *over.get_or_insert(now);
                if !has_lasted(since, clear_after, now) {
                    return None;
                }
                let resolved = self.alert(Some(now.time)).map(Change::Resolved);
                self.phase = Phase::Inactive;
                resolved
            }
        }
    }

    fn alert(&self, ends_at: Option<Timestamp>) -> Option<Alert> {
        let Phase::Firing { since, finding, value, .. } = &self.phase else { return None };
        let AlertRule { name, metric, severity, runbook_url, .. } = &self.rule;
        let relay = self.labels.get("relay").map_or("", String::as_str);
        let summary = format!("relay `{relay}`: {}", finding.headline);
        let cause = if finding.cause.is_empty() { "" } else { ": " };
        let description = format!(
            "{}{cause}{} (rule: {} {})",
            finding.headline,
            finding.cause,
            metric.name(),
            self.rule_in_words()
        );
        let mut annotations = BTreeMap::from([("summary", summary), ("description", description)]);
        annotations.extend(finding.fix.clone().map(|fix| ("fix", fix)));
        annotations.extend(runbook_url.clone().map(|url| ("runbook_url", url)));
        Some(Alert {
            name: name.clone(),
            severity: *severity,
            metric: *metric,
            value: *value,
            labels: self.labels.clone(),
            annotations,
            starts_at: *since,
            ends_at,
        })
    }

    fn rule_in_words(&self) -> String {
        let AlertRule { metric, bound, threshold, clear, wait, .. } = &self.rule;
        let mut text = format!("{} {}", bound.name(), metric.show(*threshold));
        if !wait.is_zero() {
            let wait = crate::config::show_duration(*wait);
            text.push_str(&format!(" for {wait}"));
        }
        if clear != threshold {
            text.push_str(&format!(", clear at {}", metric.show(*clear)));
        }
        text
    }

    fn status(&self) -> AlertStatus {
        let (state, since) = match &self.phase {
            Phase::Inactive => ("inactive", None),
            Phase::Pending { since } => ("pending", Some(since.time)),
            Phase::Firing { since, .. } => ("firing", Some(*since)),
        };
        let alert = self.alert(None);
        let annotation =
            |name: &str| alert.as_ref().and_then(|alert| alert.annotations.get(name)).cloned();
        AlertStatus {
            name: self.rule.name.clone(),
            state,
            severity: self.rule.severity.name(),
            metric: self.rule.metric.name(),
            rule: self.rule_in_words(),
            value: self.value.map(|value| self.rule.metric.show(value)),
            since,
            labels: self.labels.clone(),
            summary: annotation("summary"),
            description: annotation("description"),
            fix: annotation("fix"),
            runbook_url: self.rule.runbook_url.clone(),
        }
    }
}

fn has_lasted(since: Moment, duration: Duration, now: Moment) -> bool {
    now.instant.saturating_duration_since(since.instant) >= duration
}

#[cfg(test)]
pub(super) mod tests;
