//! What the slot monitor shows.

use prometheus::{Gauge, GaugeVec, IntGauge, IntGaugeVec, Opts};

use super::catalogue::Catalogue;
use super::{gauge, register};

/// Metrics of the relay's slot and its server. A figure that is not known has no sample: a vector
/// without labels is [shown](Known::show) or reset.
#[derive(Debug)]
pub struct SlotMetrics {
    /// WAL bytes that the server keeps for the slot.
    pub retained_wal_bytes: Known,
    /// WAL bytes past the confirmed position that the relay has not read yet.
    pub unread_wal_bytes: Known,
    /// Age of the oldest WAL that is not confirmed.
    pub lag_seconds: Known,
    /// Bytes that can still be written before the slot may be lost.
    pub safe_wal_bytes: Known,
    /// Seconds until they are used up.
    pub seconds_to_exhaustion: Known,
    /// Seconds until the WAL has filled its volume.
    pub seconds_to_full_disk: Known,
    /// How long nobody has read the slot.
    pub inactive_seconds: Known,
    /// 1 for the slot's `wal_status`, 0 for the others.
    pub wal_status: IntGaugeVec,
    /// 1 while somebody reads the slot.
    pub active: IntGauge,
    /// 1 where the slot was invalidated.
    pub invalidated: IntGauge,
    /// 1 where the slot conflicts with recovery.
    pub conflicting: IntGauge,
    /// 1 where the slot is copied to standbys.
    pub failover: IntGauge,
    /// 1 where the slot is such a copy.
    pub synced: IntGauge,
    /// Counters of decoding, by `counter`.
    pub decoding: GaugeVec,
    /// WAL bytes by which the walsender is behind, by `stage`: `sent`, `write`, `flush`.
    pub walsender_lag_bytes: GaugeVec,
    /// 1 where commits wait for the relay.
    pub walsender_synchronous: IntGauge,
    /// Age of the oldest transaction that holds the slot back.
    pub holding_transaction_seconds: Known,
    /// How fast the server's WAL grows.
    pub wal_bytes_per_second: Known,
    /// 1 while the monitor's looks succeed.
    pub monitor_up: IntGauge,
    /// Of the server's other slots, by `slot`.
    pub others: OtherSlots,
}

/// Metrics of the server's other slots.
#[derive(Debug)]
pub struct OtherSlots {
    /// WAL bytes that the server keeps for it.
    pub retained_wal_bytes: GaugeVec,
    /// Bytes that can still be written before it may be lost.
    pub safe_wal_bytes: GaugeVec,
    /// 1 while somebody reads it.
    pub active: GaugeVec,
}

/// A gauge that has a sample only while its figure is known.
#[derive(Debug)]
pub struct Known(GaugeVec);

impl Known {
    fn new(r: &Catalogue, name: &str, help: &str) -> Result<Self, prometheus::Error> {
        Ok(Self(register(r, GaugeVec::new(Opts::new(name, help), &[])?)?))
    }

    /// Shows the figure, or none.
    pub fn show(&self, figure: Option<f64>) {
        match figure {
            Some(figure) => self.gauge().set(figure),
            None => self.0.reset(),
        }
    }

    fn gauge(&self) -> Gauge {
        self.0.with_label_values::<&str>(&[])
    }
}

impl SlotMetrics {
    /// What a `wal_status` can be.
    pub const WAL_STATUSES: [&'static str; 4] = ["reserved", "extended", "unreserved", "lost"];

    pub(super) fn new(r: &Catalogue) -> Result<Self, prometheus::Error> {
        let known = |name: &str, help: &str| Known::new(r, name, help);
        let vec = |name: &str, help: &str, labels: &[&str]| {
            register(r, GaugeVec::new(Opts::new(name, help), labels)?)
        };
        Ok(Self {
            retained_wal_bytes: known("slot_retained_wal_bytes", "WAL kept for the slot")?,
            unread_wal_bytes: known("slot_unread_wal_bytes", "WAL the relay has not read yet")?,
            lag_seconds: known("slot_lag_seconds", "Age of the oldest unconfirmed WAL")?,
            safe_wal_bytes: known("slot_safe_wal_bytes", "WAL until the slot may be lost")?,
            seconds_to_exhaustion: known(
                "slot_seconds_to_exhaustion",
                "Seconds until the slot may be lost",
            )?,
            seconds_to_full_disk: known(
                "slot_seconds_to_full_disk",
                "Seconds until WAL fills its volume",
            )?,
            inactive_seconds: known("slot_inactive_seconds", "How long nobody has read the slot")?,
            wal_status: register(
                r,
                IntGaugeVec::new(
                    Opts::new("slot_wal_status", "1 for the slot's wal_status"),
                    &["status"],
                )?,
            )?,
            active: gauge(r, "slot_active", "1 while somebody reads the slot")?,
            invalidated: gauge(r, "slot_invalidated", "1 where the slot was invalidated")?,
            conflicting: gauge(r, "slot_conflicting", "1 where it conflicts with recovery")?,
            failover: gauge(r, "slot_failover", "1 where the slot is copied to standbys")?,
            synced: gauge(r, "slot_synced", "1 where the slot is a standby's copy")?,
            decoding: vec("slot_decoding", "Counters of pg_stat_replication_slots", &["counter"])?,
            walsender_lag_bytes: vec("walsender_lag_bytes", "WAL it is behind by", &["stage"])?,
            walsender_synchronous: gauge(
                r,
                "walsender_synchronous",
                "1 where commits wait for the relay",
            )?,
            holding_transaction_seconds: known(
                "holding_transaction_seconds",
                "Age of the oldest transaction that holds the slot back",
            )?,
            wal_bytes_per_second: known("wal_bytes_per_second", "Growth of the server's WAL")?,
            monitor_up: gauge(r, "monitor_up", "1 while the monitor's looks succeed")?,
            others: OtherSlots {
                retained_wal_bytes: vec(
                    "other_slot_retained_wal_bytes",
                    "WAL kept for another slot",
                    &["slot"],
                )?,
                safe_wal_bytes: vec(
                    "other_slot_safe_wal_bytes",
                    "WAL until another slot may be lost",
                    &["slot"],
                )?,
                active: vec("other_slot_active", "1 while somebody reads it", &["slot"])?,
            },
        })
    }
}
