//! Slots as the catalogue shows them, and how one is made.

mod create;

pub use create::{Created, create, create_sql};

use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::postgres::Session;

/// The only output plugin that the relay reads.
pub const PLUGIN: &str = "pgoutput";

// Columns that only newer servers have are asked for by way of JSON, where a missing one is NULL.
const DESCRIBE: &str = "\
SELECT slot.plugin::text,
       slot.database::text,
       slot.active_pid,
       activity.application_name,
       slot.wal_status,
       to_jsonb(slot) ->> 'invalidation_reason',
       slot.confirmed_flush_lsn::text,
       slot.restart_lsn::text,
       slot.temporary,
       slot.two_phase,
       coalesce((to_jsonb(slot) ->> 'failover')::boolean, false),
       coalesce((to_jsonb(slot) ->> 'synced')::boolean, false)
FROM pg_replication_slots AS slot
LEFT JOIN pg_stat_activity AS activity ON activity.pid = slot.active_pid
WHERE slot.slot_name = $1::text::name";

/// One slot (`pg_replication_slots`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotInfo {
    /// Output plugin; `None` for a physical slot.
    pub plugin: Option<String>,
    /// Its database; `None` for a physical slot.
    pub database: Option<String>,
    /// Who holds it, if somebody does.
    pub holder: Option<Holder>,
    /// `reserved`, `extended`, `unreserved` or `lost`; `None` while nothing is reserved.
    pub wal_status: Option<String>,
    /// Why it is of no use any more (servers from 17 on).
    pub invalidation_reason: Option<String>,
    /// Everything before this has been confirmed.
    pub confirmed_flush_lsn: Option<Lsn>,
    /// The WAL from here on is kept.
    pub restart_lsn: Option<Lsn>,
    /// Goes with its session.
    pub temporary: bool,
    /// Decodes prepared transactions at PREPARE.
    pub two_phase: bool,
    /// Is copied to standbys (17 on).
    pub failover: bool,
    /// Is such a copy (17 on).
    pub synced: bool,
}

/// The backend that holds a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id on the server.
    pub pid: i32,
    /// What it calls itself.
    pub application_name: Option<String>,
}

impl SlotInfo {
    /// Whether the WAL it needs is gone, or it was invalidated for another reason.
    pub fn is_lost(&self) -> bool {
        self.wal_status.as_deref() == Some("lost") || self.invalidation_reason.is_some()
    }
}

/// The slot of this name in the whole cluster, or none.
///
/// # Errors
///
/// Where the server cannot be asked.
pub async fn describe(session: &Session, name: &str) -> Result<Option<SlotInfo>, Failure> {
    let doing = format!("reading slot `{name}`");
    let Some(row) = session.query_opt(&doing, DESCRIBE, &[&name]).await? else { return Ok(None) };
    let lsn = |text: Option<String>| text.and_then(|text| text.parse().ok());
    let application_name: Option<String> = row.get(3);
    let holder = row.get::<_, Option<i32>>(2).map(|pid| Holder {
        pid,
        application_name: application_name.filter(|name| !name.is_empty()),
    });
    Ok(Some(SlotInfo {
        plugin: row.get(0),
        database: row.get(1),
        holder,
        wal_status: row.get(4),
        invalidation_reason: row.get(5),
        confirmed_flush_lsn: lsn(row.get(6)),
        restart_lsn: lsn(row.get(7)),
        temporary: row.get(8),
        two_phase: row.get(9),
        failover: row.get(10),
        synced: row.get(11),
    }))
}
