//! `alerts.rules`.

use std::time::Duration;

use super::metric::{AlertMetric, Unit, WAL_STATUSES};
use super::{AlertRule, Bound, CLEAR_AFTER, DEFAULT_RULES, DefaultRule, Severity, is_name, labels};
use crate::config::field::{Field, Fields};
use crate::config::{ConfigError, Problem, nearest};

const KEYS: [&str; 10] = [
    "name",
    "above",
    "below",
    "clear",
    "for",
    "clear_after",
    "severity",
    "labels",
    "runbook_url",
    "enabled",
];

/// More rules than any relay has use for.
const MAX_RULES: usize = 200;

/// A default as it is where the file says nothing.
pub(super) fn of_default(rule: &DefaultRule, runbooks: &str) -> AlertRule {
    AlertRule {
        name: rule.name.to_owned(),
        metric: rule.metric,
        bound: rule.bound,
        threshold: rule.threshold,
        clear: rule.clear,
        wait: rule.wait,
        clear_after: CLEAR_AFTER,
        severity: rule.severity,
        labels: std::collections::BTreeMap::new(),
        runbook_url: Some(format!("{runbooks}/{}.md", rule.runbook)),
    }
}

/// The file's rules by name; `None` is one that is switched off.
pub(super) fn rules(
    field: &Field<'_>,
    runbooks: &str,
) -> Result<Vec<(String, Option<AlertRule>)>, ConfigError> {
    let mut rules: Vec<(String, Option<AlertRule>)> = Vec::new();
    for item in field.list()? {
        let named = item.named()?;
        let [(metric, settings)] = named.as_slice() else {
            return Err(item.invalid(
                "must be a metric's name with its rule, as in `{slot_lag_seconds: {above: 10m}}`",
            ));
        };
        let metric = self::metric(metric, settings)?;
        let (name, rule) = rule(metric, settings, runbooks)?;
        if rules.iter().any(|(known, _)| *known == name) {
            let message = format!("two rules have the name `{name}`: give one another `name`");
            return Err(ConfigError::invalid(settings.key_location, message));
        }
        rules.push((name, rule));
    }
    if rules.len() > MAX_RULES {
        return Err(field.invalid(&format!("can have at most {MAX_RULES} rules")));
    }
    Ok(rules)
}

/// Prometheus' prefix may stand before a name.
fn metric(name: &str, field: &Field<'_>) -> Result<AlertMetric, ConfigError> {
    let plain = name.strip_prefix("pgoutbox_").unwrap_or(name);
    AlertMetric::named(plain).ok_or_else(|| {
        let nearest = nearest(plain, AlertMetric::all().map(AlertMetric::name)).map(str::to_owned);
        let problem =
            Problem::UnknownName { what: "metric".to_owned(), name: name.to_owned(), nearest };
        ConfigError::at(field.key_location, problem)
    })
}

fn rule(
    metric: AlertMetric,
    field: &Field<'_>,
    runbooks: &str,
) -> Result<(String, Option<AlertRule>), ConfigError> {
    let fields = field.fields(&KEYS)?;
    let words = [Severity::Info, Severity::Warning, Severity::Critical].map(|s| (s.name(), s));
    let severity = fields.read("severity", |f| f.choice(&words))?;
    let name = fields.read("name", self::name)?;
    let default = default_of(metric, name.as_deref(), severity).map(|it| of_default(it, runbooks));
    let name = name
        .or_else(|| default.as_ref().map(|rule| rule.name.clone()))
        .unwrap_or_else(|| camel_case(metric.name()));
    if let Some(other) = DEFAULT_RULES.iter().find(|it| it.name == name && it.metric != metric) {
        let message =
            format!("`{name}` is a default rule's name, and looks at `{}`", other.metric.name());
        return Err(ConfigError::invalid(field.key_location, message));
    }
    let switch = [("true", true), ("false", false)];
    let is_enabled = fields.read("enabled", |f| f.choice(&switch))?.unwrap_or(true);
    let limits = limits(metric, field, &fields, default.as_ref())?;
    // A rule that is off need not be a whole one.
    let Some((bound, threshold, clear)) = limits.filter(|_| is_enabled) else {
        if is_enabled {
            return Err(field.invalid("needs `above` or `below`"));
        }
        if default.is_none() {
            return Err(field.invalid("is switched off, and there is no default rule like it"));
        }
        return Ok((name, None));
    };
    let duration = |key| fields.read(key, |f: &Field<'_>| f.duration(Duration::ZERO));
    let of_default = |pick: fn(&AlertRule) -> Duration| default.as_ref().map(pick);
    let rule = AlertRule {
        metric,
        bound,
        threshold,
        clear,
        wait: duration("for")?.or(of_default(|it| it.wait)).unwrap_or_default(),
        clear_after: duration("clear_after")?
            .or(of_default(|it| it.clear_after))
            .unwrap_or(CLEAR_AFTER),
        severity: severity.or(default.as_ref().map(|it| it.severity)).unwrap_or(Severity::Warning),
        labels: fields.read("labels", labels)?.unwrap_or_default(),
        runbook_url: fields
            .read("runbook_url", Field::filled_text)?
            .or(default.and_then(|it| it.runbook_url)),
        name: name.clone(),
    };
    Ok((name, Some(rule)))
}

fn name(field: &Field<'_>) -> Result<String, ConfigError> {
    let name = field.text()?;
    if is_name(&name) {
        return Ok(name);
    }
    Err(field.invalid("must be 1 to 100 letters, digits and `_`, no digit first"))
}

/// The default whose place the rule takes: the one of its name, else the one of its metric; where
/// there are two, that of its severity.
fn default_of(
    metric: AlertMetric,
    name: Option<&str>,
    severity: Option<Severity>,
) -> Option<&'static DefaultRule> {
    let mut alike = DEFAULT_RULES.iter().filter(|rule| rule.metric == metric);
    if let Some(name) = name {
        return alike.find(|rule| rule.name == name);
    }
    let (first, second) = (alike.next()?, alike.next());
    let Some(second) = second else { return Some(first) };
    let severity = severity.unwrap_or(Severity::Warning);
    [first, second].into_iter().find(|rule| rule.severity == severity)
}

/// Side, threshold, and where it is over; `None` where neither the file nor a default tells.
fn limits(
    metric: AlertMetric,
    field: &Field<'_>,
    fields: &Fields<'_>,
    default: Option<&AlertRule>,
) -> Result<Option<(Bound, f64, f64)>, ConfigError> {
    let above = fields.read("above", |f| value(metric, f))?;
    let below = fields.read("below", |f| value(metric, f))?;
    let clear = fields.read("clear", |f| value(metric, f))?;
    let (bound, threshold, usual) = match (above, below) {
        (Some(_), Some(_)) => {
            return Err(field.invalid("takes `above` or `below`, not both"));
        }
        (Some(above), None) => (Bound::Above, above, above),
        (None, Some(below)) => (Bound::Below, below, below),
        (None, None) => match default {
            Some(rule) => (rule.bound, rule.threshold, rule.clear),
            None => return Ok(None),
        },
    };
    let clear = clear.unwrap_or(usual);
    if bound.is_past(clear, threshold) {
        let side = bound.name();
        let message =
            format!("`{}.clear` must not be {side} `{side}`: it would never be over", field.path);
        let place = fields.get("clear").map_or(field.key_location, |it| it.key_location);
        return Err(ConfigError::invalid(place, message));
    }
    Ok(Some((bound, threshold, clear)))
}

/// A threshold, written as the metric's unit has it.
#[expect(clippy::cast_precision_loss, reason = "a threshold of petabytes may be off by a byte")]
fn value(metric: AlertMetric, field: &Field<'_>) -> Result<f64, ConfigError> {
    match metric.unit() {
        Unit::Bytes => field.size(0, 1 << 60).map(|size| size as f64),
        Unit::Seconds => field.duration(Duration::ZERO).map(|duration| duration.as_secs_f64()),
        Unit::Flag => field.choice(&[("0", 0.0), ("1", 1.0)]),
        Unit::WalStatus => {
            let [reserved, extended, unreserved, lost] = WAL_STATUSES;
            field.choice(&[(reserved, 0.0), (extended, 1.0), (unreserved, 2.0), (lost, 3.0)])
        }
        Unit::Count => match field.text()?.parse::<f64>() {
            Ok(count) if count.is_finite() && count >= 0.0 => Ok(count),
            _ => Err(field.invalid("must be a number")),
        },
    }
}

/// `slot_safe_wal_bytes` as `PgoutboxSlotSafeWalBytes`.
fn camel_case(name: &str) -> String {
    let mut text = "Pgoutbox".to_owned();
    for word in name.split('_') {
        let mut letters = word.chars();
        text.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}
