//! What a relay tells whoever asks: gathered here, published by the parts themselves.
//!
//! Ages are worked out when they are asked for. A relay that has stopped moving publishes nothing
//! new, and its ages must grow all the same.

mod alert_status;

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::relay::liveness::Liveness;
use crate::relay::state::{RelayStatus, SinkStatus, State};
use crate::slot_monitor::SlotReport;
use crate::timestamp::Timestamp;

pub use alert_status::AlertStatus;

/// Everything that can be asked about one relay.
#[derive(Clone, Debug)]
pub struct Status {
    name: String,
    relay: watch::Receiver<RelayStatus>,
    slots: watch::Receiver<SlotReport>,
    metrics: Arc<Metrics>,
    liveness: Liveness,
    alerts: Arc<watch::Sender<Vec<AlertStatus>>>,
}

impl Status {
    /// Gathers what the relay `name` and the monitor of its slot publish.
    pub fn new(
        name: impl Into<String>,
        relay: watch::Receiver<RelayStatus>,
        slots: watch::Receiver<SlotReport>,
        metrics: Arc<Metrics>,
        liveness: Liveness,
    ) -> Self {
        let alerts = Arc::default();
        Self { name: name.into(), relay, slots, metrics, liveness, alerts }
    }

    /// Whether the relay's loop turns.
    pub fn is_alive(&self) -> bool {
        self.liveness.is_alive()
    }

    /// The relay's state.
    pub fn state(&self) -> State {
        self.relay.borrow().state.clone()
    }

    /// All that the relay tells about itself.
    pub fn relay(&self) -> RelayStatus {
        self.relay.borrow().clone()
    }

    /// What the slot's monitor found at its last look.
    pub fn slots(&self) -> SlotReport {
        self.slots.borrow().clone()
    }

    /// Takes how the alert rules stand.
    pub fn show_alerts(&self, alerts: Vec<AlertStatus>) {
        self.alerts.send_replace(alerts);
    }

    /// The alert rules and how they stand, as a JSON object.
    ///
    /// # Errors
    ///
    /// Where they have no JSON form, which is a mistake in `status::alert_status`.
    pub fn alerts(&self) -> serde_json::Result<String> {
        let alerts = self.alerts.borrow();
        serde_json::to_string_pretty(&AlertsAnswer { relay: &self.name, alerts: &alerts })
    }

    /// The metrics in Prometheus' text format, those of this moment refreshed.
    ///
    /// # Errors
    ///
    /// Where the encoder refuses a metric family.
    pub fn metrics(&self) -> Result<String, prometheus::Error> {
        self.refresh(Timestamp::now());
        self.metrics.render()
    }

    /// The relay's status as a JSON object.
    ///
    /// # Errors
    ///
    /// Where the status has no JSON form, which is a mistake in `relay::state`.
    pub fn json(&self) -> serde_json::Result<String> {
        let (relay, slots) = (self.relay.borrow(), self.slots.borrow());
        let alerts = self.alerts.borrow();
        let now = Timestamp::now();
        serde_json::to_string_pretty(&Answer {
            name: &self.name,
            version: env!("CARGO_PKG_VERSION"),
            relay: &relay,
            uptime_seconds: now.seconds_since(relay.started_at),
            events_received: self.metrics.events_received.get(),
            confirmed_lag_bytes: confirmed_lag(&relay, &slots),
            oldest_unacknowledged_seconds: oldest_age(&relay, now),
            monitor: &slots,
            monitor_age_seconds: slots.looked_at.map(|at| now.seconds_since(at)),
            alerts: alerts.iter().filter(|alert| alert.state == "firing").collect(),
        })
    }

    /// Sets the gauges that follow from the status.
    fn refresh(&self, now: Timestamp) {
        let relay = self.relay.borrow();
        let lag = confirmed_lag(&relay, &self.slots.borrow());
        let metrics = &self.metrics;
        metrics.window_events.set(gauge(relay.window_events));
        metrics.window_bytes.set(gauge(relay.window_bytes));
        metrics.slot_confirmed_lag_bytes.set(gauge(lag));
        metrics.oldest_unacknowledged_seconds.set(oldest_age(&relay, now).unwrap_or(0.0));
        for name in State::NAMES {
            let in_force = name == relay.state.name();
            metrics.state.with_label_values(&[name]).set(i64::from(in_force));
        }
        relay.sinks.iter().for_each(|sink| self.refresh_sink(sink));
    }

    fn refresh_sink(&self, sink: &SinkStatus) {
        let Some(metrics) = self.metrics.sink(&sink.name) else { return };
        metrics.connected.set(i64::from(sink.connected));
        metrics.blocked.set(i64::from(!sink.blocked.is_empty()));
    }
}

/// The object that `/status` gives.
#[derive(Serialize)]
struct Answer<'a> {
    name: &'a str,
    version: &'static str,
    #[serde(flatten)]
    relay: &'a RelayStatus,
    uptime_seconds: f64,
    events_received: u64,
    confirmed_lag_bytes: u64,
    oldest_unacknowledged_seconds: Option<f64>,
    monitor: &'a SlotReport,
    /// Since the monitor's last look that succeeded; `None` before it.
    monitor_age_seconds: Option<f64>,
    /// Those that fire.
    alerts: Vec<&'a AlertStatus>,
}

/// The object that `/alerts` gives.
#[derive(Serialize)]
struct AlertsAnswer<'a> {
    relay: &'a str,
    alerts: &'a [AlertStatus],
}

/// WAL bytes past the confirmed position, as whoever has heard from the server last knows it: the
/// relay while it streams, the monitor otherwise.
pub(crate) fn confirmed_lag(relay: &RelayStatus, slots: &SlotReport) -> u64 {
    let of_slot = slots.slot.as_ref().and_then(|slot| slot.confirmed_lag_bytes);
    match of_slot {
        Some(lag) if slots.wal_position > relay.received => {
            lag.min(slots.wal_position.bytes_since(relay.confirmed))
        }
        _ => relay.confirmed_lag_bytes(),
    }
}

/// Seconds since the commit of the oldest unsettled event; `None` where there is none.
fn oldest_age(relay: &RelayStatus, now: Timestamp) -> Option<f64> {
    relay.oldest_unacknowledged.map(|commit| now.seconds_since(commit))
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;
    use crate::relay::state::BlockedDestination;
    use crate::slot_monitor::SlotFigures;

    fn blocked() -> RelayStatus {
        RelayStatus {
            state: State::Blocked { reason: "topic `a` has no leader".to_owned() },
            confirmed: Lsn::new(1000),
            received: Lsn::new(1500),
            window_events: 3,
            oldest_unacknowledged: Some(Timestamp::from_micros(10_000_000)),
            sinks: vec![SinkStatus {
                name: "events".to_owned(),
                connected: true,
                blocked: vec![BlockedDestination {
                    destination: Some("a".to_owned()),
                    reason: "no leader".to_owned(),
                }],
                delivered: 7,
            }],
            ..RelayStatus::default()
        }
    }

    fn status(relay: RelayStatus) -> (watch::Sender<RelayStatus>, Status) {
        let metrics = Arc::new(Metrics::new("orders", ["events"]).unwrap());
        let (sender, receiver) = watch::channel(relay);
        let slots = watch::Sender::new(SlotReport::default()).subscribe();
        (sender, Status::new("orders", receiver, slots, metrics, Liveness::new()))
    }

    #[tokio::test]
    async fn gauges_follow_the_status_as_it_is_now() {
        let (sender, status) = status(blocked());
        status.refresh(Timestamp::from_micros(12_500_000));
        let text = status.metrics.render().unwrap();
        for line in [
            r#"pgoutbox_state{state="blocked",relay="orders"} 1"#,
            r#"pgoutbox_state{state="streaming",relay="orders"} 0"#,
            r#"pgoutbox_window_events{relay="orders"} 3"#,
            r#"pgoutbox_slot_confirmed_lag_bytes{relay="orders"} 500"#,
            r#"pgoutbox_oldest_unacknowledged_seconds{relay="orders"} 2.5"#,
            r#"pgoutbox_sink_connected{sink="events",relay="orders"} 1"#,
            r#"pgoutbox_sink_blocked{sink="events",relay="orders"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }

        sender.send_replace(RelayStatus { state: State::Streaming, ..RelayStatus::default() });
        let text = status.metrics().unwrap();
        assert!(text.contains(r#"pgoutbox_state{state="blocked",relay="orders"} 0"#), "{text}");
        assert!(text.contains(r#"seconds{relay="orders"} 0"#), "{text}");
    }

    #[tokio::test]
    async fn the_lag_is_of_whoever_heard_from_the_server_last() {
        let monitor = |position, lag| SlotReport {
            wal_position: Lsn::new(position),
            slot: Some(SlotFigures { confirmed_lag_bytes: Some(lag), ..SlotFigures::default() }),
            ..SlotReport::default()
        };
        // No session yet, a session that hears more, one that was lost while the WAL went on, and one
        // that has confirmed since the monitor's look.
        for (confirmed, received, slots, lag) in [
            (0, 0, monitor(9000, 700), 700),
            (1000, 1500, monitor(1400, 900), 500),
            (1000, 1500, monitor(9000, 8000), 8000),
            (8500, 8500, monitor(9000, 8000), 500),
            (1000, 1500, SlotReport::default(), 500),
        ] {
            let (confirmed, received) = (Lsn::new(confirmed), Lsn::new(received));
            let relay = RelayStatus { confirmed, received, ..RelayStatus::default() };
            assert_eq!(confirmed_lag(&relay, &slots), lag, "{relay:?}");
        }
    }

    #[tokio::test]
    async fn the_age_of_the_oldest_event_grows_while_nothing_is_published() {
        let (_sender, status) = status(blocked());
        let relay = status.relay.borrow().clone();
        let age = |micros| oldest_age(&relay, Timestamp::from_micros(micros)).unwrap();
        assert!(age(30_000_000) > age(20_000_000));
    }

    #[tokio::test]
    async fn the_status_names_relay_version_and_sinks() {
        let (_sender, status) = status(blocked());
        let json: serde_json::Value = serde_json::from_str(&status.json().unwrap()).unwrap();
        assert_eq!(json["name"], "orders");
        assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(json["state"], "blocked");
        assert_eq!(json["confirmed_lag_bytes"], 500);
        assert_eq!(json["sinks"][0]["blocked"][0]["destination"], "a");
    }

    #[tokio::test]
    async fn the_age_of_the_monitors_look_is_of_this_moment() {
        let (_sender, mut status) = status(blocked());
        let age = |status: &Status| {
            let json: serde_json::Value = serde_json::from_str(&status.json().unwrap()).unwrap();
            json["monitor_age_seconds"].as_f64()
        };
        assert_eq!(age(&status), None);
        let a_minute_ago = Timestamp::from_micros(Timestamp::now().as_micros() - 60_000_000);
        let report = SlotReport { looked_at: Some(a_minute_ago), ..SlotReport::default() };
        status.slots = watch::Sender::new(report).subscribe();
        let age = age(&status).unwrap();
        assert!((60.0..90.0).contains(&age), "{age}");
    }
}
