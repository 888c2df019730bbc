//! The rules that are on where the configuration does not switch them off.
//!
//! A rule of the configuration that has the name of one of these takes its place. `docs/runbooks` has
//! a page for each, `deploy/prometheus` a rule.

use std::time::Duration;

use super::metric::AlertMetric as M;
use super::{Bound, Severity};

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1024.0 * MIB;
const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;

/// One default rule.
#[derive(Clone, Copy, Debug)]
pub struct DefaultRule {
    /// Its name: Alertmanager's `alertname`.
    pub name: &'static str,
    /// What it looks at.
    pub metric: M,
    /// On which side of it the alert fires.
    pub bound: Bound,
    /// What the metric is compared with: a number, bytes, seconds, or a place in `WAL_STATUSES`.
    pub threshold: f64,
    /// Back on the other side of this, it is over.
    pub clear: f64,
    /// Before it fires.
    pub wait: Duration,
    /// How bad it is.
    pub severity: Severity,
    /// The name of its runbook page.
    pub runbook: &'static str,
}

const fn rule(
    name: &'static str,
    runbook: &'static str,
    severity: Severity,
    metric: M,
    (bound, threshold, clear): (Bound, f64, f64),
    wait_seconds: u64,
) -> DefaultRule {
    let wait = Duration::from_secs(wait_seconds);
    DefaultRule { name, metric, bound, threshold, clear, wait, severity, runbook }
}

const fn above(threshold: f64, clear: f64) -> (Bound, f64, f64) {
    (Bound::Above, threshold, clear)
}

const fn below(threshold: f64, clear: f64) -> (Bound, f64, f64) {
    (Bound::Below, threshold, clear)
}

const YES: (Bound, f64, f64) = above(0.0, 0.0);
const NO: (Bound, f64, f64) = below(1.0, 1.0);

/// All of them: name, runbook page, severity, metric, threshold and where it is over, seconds before
/// it fires.
#[rustfmt::skip]
pub const DEFAULT_RULES: [DefaultRule; 22] = {
    use Severity::{Critical, Warning};
    [
        rule("PgoutboxBacklog", "backlog", Warning, M::WindowEvents, above(10_000.0, 5_000.0), 300),
        rule("PgoutboxSlotLagBytes", "slot-lag-bytes", Warning, M::SlotConfirmedLagBytes, above(GIB, 768.0 * MIB), 300),
        rule("PgoutboxSlotLagSeconds", "slot-lag-seconds", Warning, M::SlotLagSeconds, above(5.0 * MINUTE, MINUTE), 30),
        rule("PgoutboxSlotExhaustion", "slot-exhaustion", Warning, M::SlotSecondsToExhaustion, below(6.0 * HOUR, 8.0 * HOUR), 120),
        rule("PgoutboxSlotExhaustionImminent", "slot-exhaustion", Critical, M::SlotSecondsToExhaustion, below(HOUR, 2.0 * HOUR), 30),
        rule("PgoutboxDiskExhaustion", "disk-exhaustion", Warning, M::SlotSecondsToFullDisk, below(6.0 * HOUR, 8.0 * HOUR), 120),
        rule("PgoutboxDiskExhaustionImminent", "disk-exhaustion", Critical, M::SlotSecondsToFullDisk, below(HOUR, 2.0 * HOUR), 30),
        rule("PgoutboxWalStatusExtended", "wal-status", Warning, M::SlotWalStatus, above(0.0, 0.0), 0),
        rule("PgoutboxWalStatusUnreserved", "wal-status", Critical, M::SlotWalStatus, above(1.0, 1.0), 0),
        rule("PgoutboxWalUnlimited", "wal-unlimited", Warning, M::SlotUnlimitedWalBytes, above(10.0 * GIB, 8.0 * GIB), 300),
        rule("PgoutboxSlotInactive", "slot-inactive", Warning, M::SlotActive, NO, 120),
        rule("PgoutboxNoRelayActive", "no-relay-active", Critical, M::RelayActive, NO, 120),
        rule("PgoutboxNothingDelivered", "nothing-delivered", Critical, M::SecondsSinceDelivery, above(5.0 * MINUTE, 1.0), 0),
        rule("PgoutboxPositionStuck", "position-stuck", Warning, M::SecondsSinceConfirm, above(10.0 * MINUTE, 1.0), 0),
        rule("PgoutboxBrokerUnreachable", "broker-unreachable", Critical, M::SinksDisconnected, YES, 30),
        rule("PgoutboxBrokerBlocked", "broker-blocked", Warning, M::SinksBlocked, YES, 15),
        rule("PgoutboxPublishErrors", "publish-errors", Warning, M::FailuresPerMinute, above(10.0, 0.0), 60),
        rule("PgoutboxHalted", "halted", Critical, M::Halted, YES, 0),
        rule("PgoutboxSynchronousWalsender", "synchronous-walsender", Critical, M::WalsenderSynchronous, YES, 0),
        rule("PgoutboxPublicationGap", "publication-gap", Critical, M::PublicationGap, YES, 0),
        rule("PgoutboxTransactionHoldsSlot", "transaction-holds-slot", Warning, M::HoldingTransactionSeconds, above(30.0 * MINUTE, MINUTE), 0),
        rule("PgoutboxMonitorDown", "monitor-down", Warning, M::MonitorUp, NO, 120),
    ]
};
