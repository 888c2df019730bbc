//! An alert, and the two forms in which it is sent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::config::{AlertMetric, Severity};
use crate::timestamp::Timestamp;

/// One alert: firing, or over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Alert {
    pub(super) name: String,
    pub(super) severity: Severity,
    pub(super) metric: AlertMetric,
    /// What the metric was when something was last wrong.
    pub(super) value: f64,
    /// All that tell it from others, `alertname` and `severity` too.
    pub(super) labels: BTreeMap<String, String>,
    /// `summary`, `description`, and where they are known `fix` and `runbook_url`.
    pub(super) annotations: BTreeMap<&'static str, String>,
    pub(super) starts_at: Timestamp,
    /// `None` while it fires.
    pub(super) ends_at: Option<Timestamp>,
}

impl Alert {
    /// `firing` or `resolved`.
    pub(super) const fn status(&self) -> &'static str {
        if self.ends_at.is_some() { "resolved" } else { "firing" }
    }
}

/// One of Alertmanager's `postableAlerts` (its API, version 2).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Postable<'a> {
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<&'static str, String>,
    starts_at: Timestamp,
    ends_at: Timestamp,
    #[serde(rename = "generatorURL", skip_serializing_if = "Option::is_none")]
    generator_url: Option<&'a str>,
}

/// The body of `POST /api/v2/alerts`. A firing alert that is not sent again ends by itself `lifetime`
/// after `now`, as Prometheus' do: a relay that is gone cannot say that it is over.
pub(super) fn alertmanager(
    alerts: &[&Alert],
    generator_url: Option<&str>,
    lifetime: Duration,
    now: Timestamp,
) -> serde_json::Result<Vec<u8>> {
    let postable = alerts.iter().map(|alert| Postable {
        labels: &alert.labels,
        annotations: &alert.annotations,
        starts_at: alert.starts_at,
        ends_at: alert.ends_at.unwrap_or_else(|| later(now, lifetime)),
        generator_url,
    });
    serde_json::to_vec(&postable.collect::<Vec<_>>())
}

/// The webhook's document: docs/alerts.md is its description.
pub(super) fn webhook(
    alerts: &[&Alert],
    relay: &str,
    repeat: Duration,
    now: Timestamp,
) -> serde_json::Result<Vec<u8>> {
    let is_firing = alerts.iter().any(|alert| alert.ends_at.is_none());
    let alerts: Vec<Value> = alerts.iter().map(|alert| document(alert)).collect();
    serde_json::to_vec(&json!({
        "version": 1,
        "status": if is_firing { "firing" } else { "resolved" },
        "relay": relay,
        "sent_at": now,
        "repeat_seconds": repeat.as_secs_f64(),
        "alerts": alerts,
    }))
}

fn document(alert: &Alert) -> Value {
    let Alert { name, severity, metric, value, labels, annotations, starts_at, ends_at } = alert;
    json!({
        "name": name,
        "status": alert.status(),
        "severity": severity.name(),
        "metric": metric.name(),
        "value": value,
        "labels": labels,
        "annotations": annotations,
        "starts_at": starts_at,
        "ends_at": ends_at,
    })
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(time.as_micros().saturating_add(micros))
}

#[cfg(test)]
mod tests {
    use super::super::engine::tests::alert;
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(60_000_000);

    #[test]
    fn alertmanager_gets_a_list_in_which_what_fires_ends_by_itself() {
        let over = Alert { ends_at: Some(Timestamp::from_micros(50_000_000)), ..alert("b") };
        let body = alertmanager(
            &[&alert("a"), &over],
            Some("http://127.0.0.1:7432/alerts"),
            Duration::from_secs(240),
            NOW,
        );
        let json: Value = serde_json::from_slice(&body.unwrap()).unwrap();
        let expected = json!([
            {
                "labels": {"alertname": "a"},
                "annotations": {"summary": "eleven"},
                "startsAt": "1970-01-01T00:00:00.000001Z",
                "endsAt": "1970-01-01T00:05:00.000000Z",
                "generatorURL": "http://127.0.0.1:7432/alerts",
            },
            {
                "labels": {"alertname": "b"},
                "annotations": {"summary": "eleven"},
                "startsAt": "1970-01-01T00:00:00.000001Z",
                "endsAt": "1970-01-01T00:00:50.000000Z",
                "generatorURL": "http://127.0.0.1:7432/alerts",
            },
        ]);
        assert_eq!(json, expected);
    }

    #[test]
    fn the_webhook_gets_all_in_one_document() {
        let over = Alert { ends_at: Some(NOW), ..alert("b") };
        let read = |alerts: &[&Alert]| -> Value {
            let body = webhook(alerts, "orders", Duration::from_secs(60), NOW).unwrap();
            serde_json::from_slice(&body).unwrap()
        };
        let json = read(&[&alert("a"), &over]);
        assert_eq!(json["status"], "firing");
        assert_eq!(json["relay"], "orders");
        assert_eq!(json["alerts"][0]["status"], "firing");
        assert_eq!(json["alerts"][0]["metric"], "window_events");
        assert_eq!(json["alerts"][1]["status"], "resolved");
        assert_eq!(json["alerts"][1]["ends_at"], "1970-01-01T00:01:00.000000Z");
        assert_eq!(read(&[&over])["status"], "resolved");
    }
}
