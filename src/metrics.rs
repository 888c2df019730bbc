//! The one place that knows metric names.
//!
//! One [`Metrics`] a relay, with a registry of its own and the label `relay` on everything, so that
//! two relays can live in one process. Handles are looked up once, at start: the hot path only adds.

mod catalogue;
mod alerts;
mod slot;

use std::collections::HashMap;

pub use alerts::AlertMetrics;
use catalogue::Catalogue;
pub use catalogue::Family;
use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};
pub use slot::{Known, OtherSlots, SlotMetrics};

/// Begins every name.
const PREFIX: &str = "pgoutbox";

/// Upper bounds of `delivery_seconds`: commit to ack, from a healthy millisecond to an outage; close
/// together where a healthy relay's events are.
const DELIVERY_SECONDS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
    120.0, 600.0,
];

/// The metrics of one relay.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Vec<Family>,
    /// Outbox events read from the source.
    pub events_received: IntCounter,
    /// Changes of the outbox table that are not inserts, by `operation`.
    pub changes_ignored: IntCounterVec,
    /// Events that no route matched under `on_unmatched: drop`.
    pub events_dropped: IntCounter,
    /// Events settled by `run --skip`.
    pub events_skipped: IntCounter,
    /// Unsettled events.
    pub window_events: IntGauge,
    /// Bytes of source buffers that unsettled events hold.
    pub window_bytes: IntGauge,
    /// Age of the oldest unsettled event's commit.
    pub oldest_unacknowledged_seconds: Gauge,
    /// WAL bytes between the server's end of WAL, as last heard, and the confirmed position.
    pub slot_confirmed_lag_bytes: IntGauge,
    /// 1 for the state the relay is in, 0 for the others.
    pub state: IntGaugeVec,
    /// 1 while the publication leaves out something that the relay needs.
    pub publication_gap: Gauge,
    /// How long the confirmed position has been the same although the WAL grew.
    pub seconds_since_confirm: Gauge,
    /// 1 while this relay holds the slot.
    pub active: IntGauge,
    /// 1 while the replication connection stands.
    pub source_connected: IntGauge,
    /// Reconnects, by `peer`: `source` or the sink's name.
    pub reconnects: IntCounterVec,
    /// The slot, as the monitor sees it.
    pub slot: SlotMetrics,
    /// The relay's own alerts.
    pub alerts: AlertMetrics,
    /// Reloads of the configuration, by `outcome`: `applied`, `refused`.
    pub reloads: IntCounterVec,
    failed: IntCounterVec,
    sinks: HashMap<String, SinkMetrics>,
}

/// How often deliveries of one sink failed for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureCount {
    /// The sink; empty for events without a route.
    pub sink: String,
    /// The reason's code.
    pub reason: String,
    /// Since the process began.
    pub total: f64,
}

/// The metrics of one sink of one relay; cheap to clone.
#[derive(Clone, Debug)]
pub struct SinkMetrics {
    /// Events that the broker acknowledged.
    pub delivered: IntCounter,
    /// Events handed over again after a failure.
    pub resent: IntCounter,
    /// Commit to ack.
    pub delivery_seconds: Histogram,
    /// The row's `created_at` to ack.
    pub created_delivery_seconds: Histogram,
    /// 1 while the broker is connected.
    pub connected: IntGauge,
    /// Connections that were made anew.
    pub reconnects: IntCounter,
    /// 1 while the sink takes nothing, or a destination does not move.
    pub blocked: IntGauge,
    failed: IntCounterVec,
    name: String,
}

impl SinkMetrics {
    /// Counts a failed delivery; `reason` comes from a bounded set of codes, never from a payload.
    pub fn failed(&self, reason: &str) {
        self.failed.with_label_values(&[self.name.as_str(), reason]).inc();
    }
}

impl Metrics {
    /// The metrics of the relay `relay` with these sinks.
    ///
    /// # Errors
    ///
    /// Only where two metrics have one name, which is a mistake in this file.
    pub fn new<'a>(
        relay: &str,
        sinks: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(
            Some(PREFIX.to_owned()),
            Some(HashMap::from([("relay".to_owned(), relay.to_owned())])),
        )?;
        let catalogue = Catalogue::new(registry.clone());
        let r = &catalogue;
        let build = register(
            r,
            IntGaugeVec::new(Opts::new("build_info", "Always 1, with the version"), &["version"])?,
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let reconnects = register(
            r,
            IntCounterVec::new(Opts::new("reconnects_total", "Reconnects"), &["peer"])?,
        )?;
        let per_sink = PerSink::new(r, reconnects.clone())?;
        let sinks = sinks.into_iter().map(|name| (name.to_owned(), per_sink.of(name))).collect();
        Ok(Self {
            events_received: counter(r, "events_received_total", "Outbox events read")?,
            changes_ignored: register(
                r,
                IntCounterVec::new(
                    Opts::new("changes_ignored_total", "Updates, deletes and truncates ignored"),
                    &["operation"],
                )?,
            )?,
            events_dropped: counter(r, "events_dropped_total", "Events no route matched")?,
            events_skipped: counter(r, "events_skipped_total", "Events settled by run --skip")?,
            window_events: gauge(r, "window_events", "Unsettled events")?,
            window_bytes: gauge(r, "window_bytes", "Bytes that unsettled events hold")?,
            oldest_unacknowledged_seconds: register(
                r,
                Gauge::new("oldest_unacknowledged_seconds", "Age of the oldest unsettled commit")?,
            )?,
            slot_confirmed_lag_bytes: gauge(
                r,
                "slot_confirmed_lag_bytes",
                "WAL bytes past the confirmed position",
            )?,
            state: register(
                r,
                IntGaugeVec::new(Opts::new("state", "1 for the state in force"), &["state"])?,
            )?,
            publication_gap: register(
                r,
                Gauge::new("publication_gap", "1 while the publication leaves something out")?,
            )?,
            seconds_since_confirm: register(
                r,
                Gauge::new(
                    "seconds_since_confirm",
                    "Since when the confirmed position has stood still while the WAL grew",
                )?,
            )?,
            active: gauge(r, "active", "1 while this relay holds the slot")?,
            source_connected: gauge(r, "source_connected", "1 while replication is connected")?,
            reconnects,
            slot: SlotMetrics::new(r)?,
            alerts: AlertMetrics::new(r)?,
            reloads: register(
                r,
                IntCounterVec::new(Opts::new("reloads_total", "Reloads asked for"), &["outcome"])?,
            )?,
            failed: per_sink.failed,
            sinks,
            families: catalogue.into_families(),
            registry,
        })
    }

    /// Counts an event that has no route to a sink; `reason` as for [`SinkMetrics::failed`].
    pub fn failed_unrouted(&self, reason: &str) {
        self.failed.with_label_values(&["", reason]).inc();
    }

    /// Failed deliveries so far, by sink and reason; as many as there are series.
    pub fn failures(&self) -> Vec<FailureCount> {
        let families = self.failed.collect();
        let series = families.iter().flat_map(prometheus::proto::MetricFamily::get_metric);
        let count = |series: &prometheus::proto::Metric| {
            let label = |name: &str| {
                let label = series.get_label().iter().find(|label| label.name() == name);
                label.map_or_else(String::new, |label| label.value().to_owned())
            };
            let total = series.get_counter().get_value();
            FailureCount { sink: label("sink"), reason: label("reason"), total }
        };
        series.map(count).collect()
    }

    /// The metrics of the sink `name`, which must be one of those given to [`Metrics::new`].
    pub fn sink(&self, name: &str) -> Option<&SinkMetrics> {
        self.sinks.get(name)
    }

    /// What there is, by name, whether it has a sample yet or not.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// All of them in Prometheus' text format.
    ///
    /// # Errors
    ///
    /// Where the encoder refuses a metric family.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

struct PerSink {
    delivered: IntCounterVec,
    resent: IntCounterVec,
    failed: IntCounterVec,
    delivery_seconds: prometheus::HistogramVec,
    created_delivery_seconds: prometheus::HistogramVec,
    connected: IntGaugeVec,
    reconnects: IntCounterVec,
    blocked: IntGaugeVec,
}

impl PerSink {
    fn new(r: &Catalogue, reconnects: IntCounterVec) -> Result<Self, prometheus::Error> {
        let opts = Opts::new;
        let delivered = opts("events_delivered_total", "Events acknowledged by the broker");
        let resent = opts("events_resent_total", "Events handed over again");
        let failed = opts("events_failed_total", "Failed deliveries");
        let connected = opts("sink_connected", "1 while the broker is connected");
        let blocked = opts("sink_blocked", "1 while a destination does not move");
        let seconds = HistogramOpts::new("delivery_seconds", "Commit to ack")
            .buckets(DELIVERY_SECONDS.to_vec());
        let created = HistogramOpts::new("created_delivery_seconds", "The row's created_at to ack")
            .buckets(DELIVERY_SECONDS.to_vec());
        Ok(Self {
            delivered: register(r, IntCounterVec::new(delivered, &["sink"])?)?,
            resent: register(r, IntCounterVec::new(resent, &["sink"])?)?,
            failed: register(r, IntCounterVec::new(failed, &["sink", "reason"])?)?,
            delivery_seconds: register(r, prometheus::HistogramVec::new(seconds, &["sink"])?)?,
            created_delivery_seconds: register(
                r,
                prometheus::HistogramVec::new(created, &["sink"])?,
            )?,
            connected: register(r, IntGaugeVec::new(connected, &["sink"])?)?,
            reconnects,
            blocked: register(r, IntGaugeVec::new(blocked, &["sink"])?)?,
        })
    }

    fn of(&self, name: &str) -> SinkMetrics {
        SinkMetrics {
            delivered: self.delivered.with_label_values(&[name]),
            resent: self.resent.with_label_values(&[name]),
            failed: self.failed.clone(),
            delivery_seconds: self.delivery_seconds.with_label_values(&[name]),
            created_delivery_seconds: self.created_delivery_seconds.with_label_values(&[name]),
            connected: self.connected.with_label_values(&[name]),
            reconnects: self.reconnects.with_label_values(&[name]),
            blocked: self.blocked.with_label_values(&[name]),
            name: name.to_owned(),
        }
    }
}

fn register<C: Collector + Clone + 'static>(r: &Catalogue, c: C) -> Result<C, prometheus::Error> {
    r.register(c)
}

fn counter(r: &Catalogue, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    register(r, IntCounter::new(name, help)?)
}

fn gauge(r: &Catalogue, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    register(r, IntGauge::new(name, help)?)
}
