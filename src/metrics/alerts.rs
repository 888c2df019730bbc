//! What the alerts show about themselves.

use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use super::catalogue::Catalogue;
use super::register;

/// Metrics of the relay's own alerts.
#[derive(Debug)]
pub struct AlertMetrics {
    /// 1 while an alert fires, by `alert` and `severity`.
    pub firing: IntGaugeVec,
    /// Notifications that were taken, by `target`: `alertmanager` or `webhook`.
    pub sent: IntCounterVec,
    /// Tries to send one that failed, by `target`.
    pub failed: IntCounterVec,
}

impl AlertMetrics {
    pub(super) fn new(r: &Catalogue) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            register(r, IntCounterVec::new(Opts::new(name, help), &["target"])?)
        };
        let firing = Opts::new("alert_firing", "1 while the alert fires");
        Ok(Self {
            firing: register(r, IntGaugeVec::new(firing, &["alert", "severity"])?)?,
            sent: counter("alert_notifications_total", "Notifications sent")?,
            failed: counter("alert_notification_failures_total", "Notifications not sent")?,
        })
    }
}
