//! What the monitor found at its last look.
//!
//! A figure that could not be had is `None`, never a guess; `missing` says why.

use serde::{Deserialize, Serialize, Serializer};

use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

/// Everything about the relay's slot, and the server it is on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SlotReport {
    /// When the server was last asked with success; `None` before the first time.
    pub looked_at: Option<Timestamp>,
    /// Why the last look failed; what else is here is then of `looked_at`.
    pub failure: Option<String>,
    /// The server's WAL position (`pg_current_wal_lsn()`).
    #[serde(serialize_with = "as_text")]
    pub wal_position: Lsn,
    /// How fast the WAL grows, in bytes a second, smoothed; `None` before the second look.
    pub wal_bytes_per_second: Option<f64>,
    /// `max_slot_wal_keep_size` in bytes; `None`: nothing limits what slots keep.
    pub max_slot_wal_keep_size: Option<u64>,
    /// The relay's slot; `None` where it does not exist, or the relay has none of its own yet.
    pub slot: Option<SlotFigures>,
    /// The server's other replication slots, where `monitor.all_slots` asks for them.
    pub other_slots: Vec<SlotFigures>,
    /// The walsender that serves the relay's slot.
    pub walsender: Option<Walsender>,
    /// Transactions that hold the slot back, the oldest first; a bounded number of them.
    pub holding: Vec<HoldingTransaction>,
    /// WAL bytes past the confirmed position that the relay has not read yet.
    pub unread_wal_bytes: Option<u64>,
    /// Age in seconds of the oldest WAL that is not confirmed, events not read yet included; 0 where
    /// everything is confirmed.
    pub lag_seconds: Option<f64>,
    /// Seconds until `safe_wal_size` is used up, and the slot may be lost. `None`: unknown, or it
    /// does not shrink.
    pub seconds_to_exhaustion: Option<f64>,
    /// Seconds until the WAL has filled its volume. `None`: unknown, or it does not grow.
    pub seconds_to_full_disk: Option<f64>,
    /// What could not be had, and what it takes, a line each.
    pub missing: Vec<String>,
    /// What endangers the slot or the server, a line each, with what to type.
    pub warnings: Vec<String>,
}

/// One replication slot (`pg_replication_slots`, `pg_stat_replication_slots`).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SlotFigures {
    /// Its name.
    pub name: String,
    /// WAL bytes from `restart_lsn` to the server's position: what the server keeps for it.
    pub retained_wal_bytes: Option<u64>,
    /// WAL bytes from `confirmed_flush_lsn` to the server's position.
    pub confirmed_lag_bytes: Option<u64>,
    /// Somebody reads it.
    pub active: bool,
    /// Who.
    pub active_pid: Option<i32>,
    /// `reserved`, `extended`, `unreserved` or `lost`; `None` while nothing is reserved.
    pub wal_status: Option<String>,
    /// Bytes that can still be written before the slot may be lost; may be negative. `None` where
    /// nothing limits that, or it is lost.
    pub safe_wal_size: Option<i64>,
    /// Since when nobody reads it (17 on).
    pub inactive_since: Option<Timestamp>,
    /// How long nobody has read it, in seconds: since `inactive_since`, or before 17 since the monitor
    /// has seen it so; 0 while somebody does.
    pub inactive_seconds: f64,
    /// Why it is of no use any more (17 on).
    pub invalidation_reason: Option<String>,
    /// It conflicted with recovery (16 on).
    pub conflicting: Option<bool>,
    /// Is copied to standbys (17 on).
    pub failover: Option<bool>,
    /// Is such a copy (17 on).
    pub synced: Option<bool>,
    /// What decoding it has cost; `None` before anything was decoded.
    pub decoding: Option<Decoding>,
}

/// Counters of `pg_stat_replication_slots` since its last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Decoding {
    /// Transactions that did not fit into `logical_decoding_work_mem`.
    pub spilled_transactions: u64,
    /// Bytes written to disk for them.
    pub spilled_bytes: u64,
    /// Transactions sent before their end.
    pub streamed_transactions: u64,
    /// Bytes sent for them.
    pub streamed_bytes: u64,
    /// Transactions decoded.
    pub transactions: u64,
    /// Bytes decoded for them.
    pub bytes: u64,
}

/// A walsender (`pg_stat_replication`, `pg_stat_activity`).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Walsender {
    /// Its process id.
    pub pid: i32,
    /// WAL bytes that it has not sent yet.
    pub sent_lag_bytes: Option<u64>,
    /// WAL bytes past what the relay has reported as written.
    pub write_lag_bytes: Option<u64>,
    /// WAL bytes past what the relay has reported as flushed: confirmed.
    pub flush_lag_bytes: Option<u64>,
    /// `async`; anything else makes commits wait for the relay.
    pub sync_state: Option<String>,
    /// What it waits for.
    pub wait_event: Option<String>,
}

/// A transaction that keeps a slot from moving on.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct HoldingTransaction {
    /// Its backend; `None` for a prepared one.
    pub pid: Option<i32>,
    /// Its name, if it is a prepared one.
    pub gid: Option<String>,
    /// Its database.
    pub database: Option<String>,
    /// What its client calls itself.
    pub application_name: Option<String>,
    /// Seconds since it began.
    pub age_seconds: f64,
}

fn as_text<S: Serializer>(lsn: &Lsn, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(lsn)
}
