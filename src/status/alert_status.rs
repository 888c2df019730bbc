//! One alert rule as `/alerts` and `/status` show it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::timestamp::Timestamp;

/// A rule and how it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertStatus {
    /// The rule's name.
    pub name: String,
    /// `inactive`, `pending` or `firing`.
    pub state: &'static str,
    /// `info`, `warning` or `critical`.
    pub severity: &'static str,
    /// What it looks at.
    pub metric: &'static str,
    /// The whole rule in words, as `above 1GiB for 5m`.
    pub rule: String,
    /// What the metric was at the last look, as people write it; `None` where it is not known.
    pub value: Option<String>,
    /// Since when it is pending or fires.
    pub since: Option<Timestamp>,
    /// All labels of the alert.
    pub labels: BTreeMap<String, String>,
    /// What is wrong, in a line; `None` while nothing is.
    pub summary: Option<String>,
    /// The same with its cause.
    pub description: Option<String>,
    /// What to type.
    pub fix: Option<String>,
    /// Where to read what to do.
    pub runbook_url: Option<String>,
}
