//! The task that looks, judges and tells.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};

use super::bulletin::Bulletin;
use super::engine::{Change, Engine};
use super::facts::{Facts, Reading};
use super::moment::Moment;
use super::notice::Alert;
use super::observer::{Observer, Seen};
use super::target::{Target, chain};
use crate::config::{AlertMetric, Config, Severity};
use crate::metrics::Metrics;
use crate::status::{AlertStatus, Status};
use crate::timestamp::Timestamp;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The alerts of one relay; they end when this is dropped.
#[derive(Debug)]
pub struct Alerts {
    bulletin: watch::Receiver<Bulletin>,
    tasks: Vec<JoinHandle<()>>,
}

/// Alerts that fire, for those who come next.
#[derive(Debug, Default)]
pub struct Firing(Vec<Alert>);

impl Alerts {
    /// Begins to judge what `status` and `metrics` show. `firing` is what fired under the
    /// configuration before: it goes on, or is over where there is no such rule any more. To be called
    /// in a runtime.
    pub fn start(config: &Config, status: Status, metrics: Arc<Metrics>, firing: Firing) -> Self {
        let (sender, bulletin) = watch::channel(Bulletin::default());
        let mut tasks: Vec<JoinHandle<()>> = Target::all(config)
            .into_iter()
            .map(|target| tokio::spawn(target.serve(bulletin.clone(), Arc::clone(&metrics))))
            .collect();
        let watcher = Watcher {
            engine: engine(config),
            observer: Observer::default(),
            status,
            metrics,
            bulletin: sender,
        };
        tasks.push(tokio::spawn(watcher.run(firing)));
        Self { bulletin, tasks }
    }

    /// What fires now.
    pub fn firing(&self) -> Firing {
        Firing(self.bulletin.borrow().firing())
    }

    /// Every rule of `config`, for when no relay says how it stands.
    pub fn rules(config: &Config) -> Vec<AlertStatus> {
        let statuses = engine(config).statuses().into_iter();
        statuses.map(|status| AlertStatus { state: "unknown", ..status }).collect()
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn engine(config: &Config) -> Engine {
    Engine::new(&config.alerts, &config.name, config.source.slot.as_deref())
}

struct Watcher {
    engine: Engine,
    observer: Observer,
    status: Status,
    metrics: Arc<Metrics>,
    bulletin: watch::Sender<Bulletin>,
}

impl Watcher {
    async fn run(mut self, firing: Firing) {
        let changes = self.engine.take_over(firing.0, Moment::now());
        changes.iter().for_each(|change| self.count(change));
        self.bulletin.send_modify(|bulletin| {
            bulletin.update(&changes, std::iter::empty());
        });
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look(Moment::now());
        }
    }

    fn look(&mut self, now: Moment) {
        let facts = self.observer.observe(&self.seen(), now);
        self.show(&facts);
        let changes = self.engine.step(&facts, now);
        for change in &changes {
            tell(change);
            self.count(change);
        }
        self.status.show_alerts(self.engine.statuses());
        self.bulletin.send_if_modified(|bulletin| bulletin.update(&changes, self.engine.firing()));
    }

    fn seen(&self) -> Seen {
        let metrics = &self.metrics;
        let mut relay = self.status.relay();
        // Between two sessions the status does not follow its sinks.
        for sink in &mut relay.sinks {
            let connected = metrics.sink(&sink.name).map(|sink| sink.connected.get() == 1);
            sink.connected = connected.unwrap_or(sink.connected);
        }
        Seen {
            slot: self.status.slots(),
            is_active: metrics.active.get() == 1,
            failures: metrics.failures(),
            relay,
        }
    }

    /// What is worked out for the rules alone, and is a figure for others all the same.
    fn show(&self, facts: &Facts) {
        let metrics = &self.metrics;
        for (metric, gauge) in [
            (AlertMetric::PublicationGap, &metrics.publication_gap),
            (AlertMetric::SecondsSinceConfirm, &metrics.seconds_since_confirm),
        ] {
            if let Reading::Known(value, _) = facts.get(metric) {
                gauge.set(*value);
            }
        }
    }

    fn count(&self, change: &Change) {
        let (Change::Fired(alert) | Change::Resolved(alert)) = change;
        let firing = i64::from(matches!(change, Change::Fired(_)));
        let labels = [alert.name.as_str(), alert.severity.name()];
        self.metrics.alerts.firing.with_label_values(&labels).set(firing);
    }
}

/// One line a change.
fn tell(change: &Change) {
    let (Change::Fired(alert) | Change::Resolved(alert)) = change;
    let Alert { name, severity, annotations, .. } = alert;
    let of = |annotation: &str| annotations.get(annotation).map_or("", String::as_str);
    let (description, fix, runbook) = (of("description"), of("fix"), of("runbook_url"));
    let level = severity.name();
    match (change, severity) {
        (Change::Resolved(_), _) => {
            info!(alert = name, severity = level, description, "alert resolved");
        }
        (Change::Fired(_), Severity::Critical) => {
            error!(alert = name, severity = level, description, fix, runbook, "alert firing");
        }
        (Change::Fired(_), Severity::Warning) => {
            warn!(alert = name, severity = level, description, fix, runbook, "alert firing");
        }
        (Change::Fired(_), Severity::Info) => {
            info!(alert = name, severity = level, description, fix, runbook, "alert firing");
        }
    }
}

/// How a test alert went with one target.
#[derive(Debug)]
pub struct Sent {
    /// `alertmanager` or `webhook`.
    pub kind: &'static str,
    /// As much of its address as may be shown.
    pub address: String,
    /// Why it was not taken, where it was not.
    pub failure: Option<String>,
}

/// Sends a test alert to every target of `config`, firing and then resolved.
pub async fn send_test(config: &Config) -> Vec<Sent> {
    let firing = test_alert(config);
    let mut sent = Vec::new();
    for target in Target::all(config) {
        let mut outcome = target.send(&[&firing]).await;
        if outcome.is_ok() {
            let resolved = Alert { ends_at: Some(Timestamp::now()), ..firing.clone() };
            outcome = target.send(&[&resolved]).await;
        }
        let failure = outcome.err().map(|error| chain(&error));
        sent.push(Sent { kind: target.kind(), address: target.shown().to_owned(), failure });
    }
    sent
}

fn test_alert(config: &Config) -> Alert {
    let mut labels = config.alerts.labels.clone();
    for (name, value) in
        [("alertname", "PgoutboxTest"), ("severity", "info"), ("relay", &*config.name)]
    {
        labels.insert(name.to_owned(), value.to_owned());
    }
    labels.extend(config.source.slot.clone().map(|slot| ("slot".to_owned(), slot)));
    let summary = format!("relay `{}`: a test of its alerts, nothing is wrong", config.name);
    let description = "sent by `pgoutbox alerts test`".to_owned();
    Alert {
        name: "PgoutboxTest".to_owned(),
        severity: Severity::Info,
        metric: AlertMetric::Halted,
        value: 0.0,
        labels,
        annotations: BTreeMap::from([("summary", summary), ("description", description)]),
        starts_at: Timestamp::now(),
        ends_at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_default_rule_as_it_is() {
        let text = "source: {postgres: {url: postgres://localhost/shop}}";
        let config = Config::parse(text, None, &|_| None).unwrap();
        let page = include_str!("../../docs/alerts.md");
        for AlertStatus { name, metric, rule, severity, .. } in Alerts::rules(&config) {
            let line = format!("| `{name}` | `{metric}` | {rule} | {severity} |");
            assert!(page.contains(&line), "docs/alerts.md lacks: {line}");
        }
    }
}
