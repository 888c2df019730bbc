//! The relay's own alerts, as a real Alertmanager gets them: each fires, names its cause, and is over.
//!
//! The rules are the defaults, scaled down.

mod kafka;
mod rabbitmq;
mod slot;
mod targets;

use serde_json::{Value, json};

use crate::support::{PrivateAlertmanager, SHORT, Settings, wait_until};

/// An Alertmanager that a relay tells.
struct Watched {
    alertmanager: PrivateAlertmanager,
    /// Tells this relay's alerts from others'.
    relay: &'static str,
}

impl Watched {
    async fn new() -> Self {
        Self { alertmanager: PrivateAlertmanager::start().await, relay: "orders" }
    }

    /// `settings` with these rules in place of the defaults of their metrics, and with looks that are
    /// quick. A rule is `[metric, {…}]`.
    fn settings(&self, settings: Settings, rules: &[(&str, Value)]) -> Settings {
        let rules: Vec<Value> = rules.iter().map(|(metric, rule)| quick(metric, rule)).collect();
        let alerts = json!({
            "alertmanager": self.alertmanager.url(),
            "repeat": "1s",
            "labels": {"team": "shop"},
            "rules": rules,
        });
        settings.with("name", self.relay).with("monitor.interval", "300ms").with("alerts", alerts)
    }

    /// Waits until the alert fires, with all of the words somewhere in its annotations.
    async fn fires(&self, name: &str, words: &[&str]) -> Value {
        wait_until(&format!("{name} with {words:?}"), 2 * SHORT, async || {
            let alert = self.of_name(name).await?;
            let text = alert["annotations"].to_string();
            words.iter().all(|word| text.contains(word)).then_some(alert)
        })
        .await
    }

    /// Waits until it fires no more.
    async fn is_over(&self, name: &str) {
        wait_until(&format!("the end of {name}"), 2 * SHORT, async || {
            self.of_name(name).await.is_none().then_some(())
        })
        .await;
    }

    async fn of_name(&self, name: &str) -> Option<Value> {
        let alerts = self.alertmanager.alerts().await;
        let label = |alert: &Value, label: &str| alert["labels"][label].as_str().map(str::to_owned);
        alerts.into_iter().find(|alert| {
            label(alert, "alertname").as_deref() == Some(name)
                && label(alert, "relay").as_deref() == Some(self.relay)
        })
    }
}

fn quick(metric: &str, rule: &Value) -> Value {
    let mut rule = rule.clone();
    for (key, value) in [("for", "300ms"), ("clear_after", "300ms")] {
        rule.as_object_mut().unwrap().entry(key).or_insert(json!(value));
    }
    json!({metric: rule})
}

/// The words of an alert's annotation.
fn annotation<'a>(alert: &'a Value, name: &str) -> &'a str {
    alert["annotations"][name].as_str().unwrap_or("")
}
