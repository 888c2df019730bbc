//! `alerts`.

mod defaults;
mod metric;
mod rule;
mod target;

use std::collections::BTreeMap;
use std::time::Duration;

use super::field::{Field, Fields};
use super::{ConfigError, Secret, TlsFiles};

pub use defaults::{DEFAULT_RULES, DefaultRule};
pub use metric::{AlertMetric, Unit, WAL_STATUSES};

/// `alerts`: what the relay raises an alarm about, and whom it tells.
#[derive(Clone, Debug)]
pub struct AlertsConfig {
    /// Alertmanagers; each gets every alert.
    pub alertmanagers: Vec<HttpTarget>,
    /// Gets every alert too, in a form of our own.
    pub webhook: Option<HttpTarget>,
    /// How often a firing alert is sent again.
    pub repeat: Duration,
    /// Labels of every alert.
    pub labels: BTreeMap<String, String>,
    /// The rules in force, the defaults first; those that are switched off are not here.
    pub rules: Vec<AlertRule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRule {
    /// Alertmanager's `alertname`; no two rules share one.
    pub name: String,
    /// What it looks at.
    pub metric: AlertMetric,
    /// On which side of the threshold the alert fires.
    pub bound: Bound,
    /// What the metric is compared with: a number, bytes, seconds, or a place in [`WAL_STATUSES`].
    pub threshold: f64,
    /// Back on the other side of this, it is over; never on the firing side of `threshold`.
    pub clear: f64,
    /// How long the threshold must be passed before it fires.
    pub wait: Duration,
    /// How long it must be over before it is resolved.
    pub clear_after: Duration,
    /// How bad it is.
    pub severity: Severity,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
    /// Where to read what to do.
    pub runbook_url: Option<String>,
}

/// On which side of its threshold a rule fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Where the metric is greater.
    Above,
    /// Where it is less.
    Below,
}

impl Bound {
    /// The word of the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Above => "above",
            Self::Below => "below",
        }
    }

    /// Whether `value` is strictly on this side of `limit`.
    pub fn is_past(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Above => value > limit,
            Self::Below => value < limit,
        }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Look tomorrow.
    Warning,
    /// Act now.
    Critical,
}

impl Severity {
    /// The word of the configuration and of the label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Where alerts are sent by HTTP.
#[derive(Clone, Debug)]
pub struct HttpTarget {
    /// `http://host:port/path`, without user and password; its path may be a token.
    pub url: Secret,
    /// `http://host:port` of it: fit to be shown.
    pub shown: String,
    /// Who says that we may.
    pub login: Option<Login>,
    /// Files for `https`; to be read at every connection.
    pub tls: TlsFiles,
}

/// How a request proves that it may be made.
#[derive(Clone, Debug)]
pub enum Login {
    /// `Authorization: Basic …`.
    Password {
        /// User.
        username: String,
        /// Password.
        password: Secret,
    },
    /// `Authorization: Bearer …`.
    Token(Secret),
}

const REPEAT: Duration = Duration::from_secs(60);
const CLEAR_AFTER: Duration = Duration::from_secs(10);

/// Where a default rule's runbook is, unless `runbooks` says so.
const RUNBOOKS: &str = "docs/runbooks";

/// Labels that every alert has of its own.
const OWN_LABELS: [&str; 4] = ["alertname", "severity", "relay", "slot"];

impl Default for AlertsConfig {
    fn default() -> Self {
        Self {
            alertmanagers: Vec::new(),
            webhook: None,
            repeat: REPEAT,
            labels: BTreeMap::new(),
            rules: DEFAULT_RULES.iter().map(|rule| rule::of_default(rule, RUNBOOKS)).collect(),
        }
    }
}

pub(super) fn alerts(field: &Field<'_>) -> Result<AlertsConfig, ConfigError> {
    let keys = &["alertmanager", "webhook", "repeat", "labels", "runbooks", "defaults", "rules"];
    let fields = field.fields(keys)?;
    Ok(AlertsConfig {
        alertmanagers: fields.read("alertmanager", target::targets)?.unwrap_or_default(),
        webhook: fields.read("webhook", target::target)?,
        repeat: fields.read("repeat", |f| f.duration(Duration::from_secs(1)))?.unwrap_or(REPEAT),
        labels: fields.read("labels", labels)?.unwrap_or_default(),
        rules: rules(&fields)?,
    })
}

/// The defaults, with those of the file in their places, and then the file's others.
fn rules(fields: &Fields<'_>) -> Result<Vec<AlertRule>, ConfigError> {
    let switch = [("on", true), ("off", false)];
    let has_defaults = fields.read("defaults", |f| f.choice(&switch))?.unwrap_or(true);
    let runbooks = fields.read("runbooks", Field::filled_text)?;
    let runbooks = runbooks.as_deref().unwrap_or(RUNBOOKS).trim_end_matches('/');
    let mut of_file = fields.read("rules", |f| rule::rules(f, runbooks))?.unwrap_or_default();
    let mut rules = Vec::new();
    for default in DEFAULT_RULES.iter().filter(|_| has_defaults) {
        match of_file.iter().position(|(name, _)| name == default.name) {
            Some(place) => rules.extend(of_file.remove(place).1),
            None => rules.push(rule::of_default(default, runbooks)),
        }
    }
    rules.extend(of_file.into_iter().filter_map(|(_, rule)| rule));
    Ok(rules)
}

/// Names and values of labels, as Prometheus has them.
fn labels(field: &Field<'_>) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut labels = BTreeMap::new();
    for (name, value) in field.named()? {
        if OWN_LABELS.contains(&name) {
            let message = format!("the label `{name}` is every alert's own");
            return Err(ConfigError::invalid(value.key_location, message));
        }
        if !is_name(name) {
            let message = format!("a label's name is of letters, digits and `_`, unlike `{name}`");
            return Err(ConfigError::invalid(value.key_location, message));
        }
        labels.insert(name.to_owned(), value.filled_text()?);
    }
    Ok(labels)
}

/// Prometheus' names of labels; a rule's name is as plain.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=100).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests;
