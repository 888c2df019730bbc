//! What a rule can look at.

use std::time::Duration;

use super::super::unit;

/// A figure that alert rules compare with a threshold. Where Prometheus has the same figure, its
/// name is that one without `pgoutbox_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertMetric {
    /// Unsettled events that the relay holds.
    WindowEvents,
    /// Bytes of source buffers that they hold.
    WindowBytes,
    /// Age of the oldest unsettled event's commit.
    OldestUnacknowledgedSeconds,
    /// WAL bytes past the confirmed position.
    SlotConfirmedLagBytes,
    /// WAL bytes that the server keeps for the slot.
    SlotRetainedWalBytes,
    /// WAL bytes that it keeps while `max_slot_wal_keep_size` limits nothing; 0 where it does.
    SlotUnlimitedWalBytes,
    /// WAL bytes that the relay has not read yet.
    SlotUnreadWalBytes,
    /// Age of the oldest WAL that is not confirmed.
    SlotLagSeconds,
    /// Bytes that can still be written before the slot may be lost.
    SlotSafeWalBytes,
    /// Seconds until they are used up.
    SlotSecondsToExhaustion,
    /// Seconds until the WAL has filled its volume.
    SlotSecondsToFullDisk,
    /// `wal_status`, from `reserved` to `lost`.
    SlotWalStatus,
    /// 1 while somebody reads the slot.
    SlotActive,
    /// 1 while this relay streams, or another of its name does.
    RelayActive,
    /// How long no event was acknowledged although some wait; 0 while none waits.
    SecondsSinceDelivery,
    /// How long the confirmed position has not moved although the WAL grew.
    SecondsSinceConfirm,
    /// Sinks whose broker is not connected.
    SinksDisconnected,
    /// Sinks that are connected and take nothing, or have a destination that does not move.
    SinksBlocked,
    /// Failed deliveries within the last minute.
    FailuresPerMinute,
    /// 1 while the relay is halted.
    Halted,
    /// 1 where commits wait for the relay.
    WalsenderSynchronous,
    /// 1 while the publication leaves something out.
    PublicationGap,
    /// Age of the oldest transaction that holds the slot back.
    HoldingTransactionSeconds,
    /// 1 while the monitor's looks succeed.
    MonitorUp,
}

/// What a metric's threshold is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number.
    Count,
    /// A size: `1GiB`.
    Bytes,
    /// A duration: `5m`.
    Seconds,
    /// A word of [`WAL_STATUSES`].
    WalStatus,
    /// 0 or 1.
    Flag,
}

/// `wal_status` from good to bad; a rule's threshold is the word's place.
pub const WAL_STATUSES: [&str; 4] = ["reserved", "extended", "unreserved", "lost"];

/// Every metric with its name and unit.
const METRICS: [(AlertMetric, &str, Unit); 24] = {
    use AlertMetric as M;
    [
        (M::WindowEvents, "window_events", Unit::Count),
        (M::WindowBytes, "window_bytes", Unit::Bytes),
        (M::OldestUnacknowledgedSeconds, "oldest_unacknowledged_seconds", Unit::Seconds),
        (M::SlotConfirmedLagBytes, "slot_confirmed_lag_bytes", Unit::Bytes),
        (M::SlotRetainedWalBytes, "slot_retained_wal_bytes", Unit::Bytes),
        (M::SlotUnlimitedWalBytes, "slot_unlimited_wal_bytes", Unit::Bytes),
        (M::SlotUnreadWalBytes, "slot_unread_wal_bytes", Unit::Bytes),
        (M::SlotLagSeconds, "slot_lag_seconds", Unit::Seconds),
        (M::SlotSafeWalBytes, "slot_safe_wal_bytes", Unit::Bytes),
        (M::SlotSecondsToExhaustion, "slot_seconds_to_exhaustion", Unit::Seconds),
        (M::SlotSecondsToFullDisk, "slot_seconds_to_full_disk", Unit::Seconds),
        (M::SlotWalStatus, "slot_wal_status", Unit::WalStatus),
        (M::SlotActive, "slot_active", Unit::Flag),
        (M::RelayActive, "relay_active", Unit::Flag),
        (M::SecondsSinceDelivery, "seconds_since_delivery", Unit::Seconds),
        (M::SecondsSinceConfirm, "seconds_since_confirm", Unit::Seconds),
        (M::SinksDisconnected, "sinks_disconnected", Unit::Count),
        (M::SinksBlocked, "sinks_blocked", Unit::Count),
        (M::FailuresPerMinute, "failures_per_minute", Unit::Count),
        (M::Halted, "halted", Unit::Flag),
        (M::WalsenderSynchronous, "walsender_synchronous", Unit::Flag),
        (M::PublicationGap, "publication_gap", Unit::Flag),
        (M::HoldingTransactionSeconds, "holding_transaction_seconds", Unit::Seconds),
        (M::MonitorUp, "monitor_up", Unit::Flag),
    ]
};

impl AlertMetric {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        METRICS.into_iter().map(|(metric, ..)| metric)
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        self.entry().map_or("", |(_, name, _)| name)
    }

    /// What its threshold is written as.
    pub fn unit(self) -> Unit {
        self.entry().map_or(Unit::Count, |(.., unit)| unit)
    }

    /// The metric of this name.
    pub(crate) fn named(wanted: &str) -> Option<Self> {
        METRICS.iter().find(|(_, name, _)| *name == wanted).map(|(metric, ..)| *metric)
    }

    /// A value of this metric as people write it.
    pub fn show(self, value: f64) -> String {
        match self.unit() {
            Unit::Count => format!("{}", (value * 10.0).round() / 10.0),
            Unit::Flag => format!("{value}"),
            Unit::Bytes => show_bytes(value),
            Unit::Seconds => unit::show_duration(Duration::from_secs_f64(value.clamp(0.0, 1e15))),
            Unit::WalStatus => WAL_STATUSES
                .into_iter()
                .zip(0_u32..)
                .find(|(_, place)| f64::from(*place) >= value)
                .map_or("lost", |(word, _)| word)
                .to_owned(),
        }
    }

    fn entry(self) -> Option<(Self, &'static str, Unit)> {
        METRICS.into_iter().find(|(metric, ..)| *metric == self)
    }
}

/// `bytes` in the largest unit that they fill, with one digit after the point where it says more.
fn show_bytes(bytes: f64) -> String {
    let units = [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")];
    match units.into_iter().find(|(size, _)| bytes.abs() >= *size) {
        Some((size, unit)) => format!("{}{unit}", (bytes / size * 10.0).round() / 10.0),
        None => format!("{}B", bytes.round()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_own_name() {
        for metric in AlertMetric::all() {
            assert_eq!(AlertMetric::named(metric.name()), Some(metric));
        }
    }

    #[test]
    fn a_value_is_shown_as_it_would_be_written() {
        assert_eq!(AlertMetric::SlotConfirmedLagBytes.show(1.5 * 1_073_741_824.0), "1.5GiB");
        assert_eq!(AlertMetric::SlotSafeWalBytes.show(-2048.0), "-2KiB");
        assert_eq!(AlertMetric::SlotLagSeconds.show(300.0), "5m");
        assert_eq!(AlertMetric::SlotWalStatus.show(2.0), "unreserved");
        assert_eq!(AlertMetric::WindowEvents.show(10_000.0), "10000");
    }
}
