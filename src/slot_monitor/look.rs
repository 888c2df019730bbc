//! One look at the server: one statement, one round trip.
//!
//! It reads views only, so it waits for nobody and nobody waits for it. Lists come as JSON, so that
//! one row holds everything; columns that only newer servers have are asked for by way of JSON, where
//! a missing one is NULL. What the role may not see is NULL too, never an error.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_postgres::{Row, Statement};

use super::report::{Decoding, HoldingTransaction};
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::postgres::{self, Session};

/// For error messages.
const DOING: &str = "looking at the slot";

/// A look never keeps the server busy for long. Compiling a query takes longer than this one does.
const PIN: &str = "\
SET statement_timeout = '5s';
SET lock_timeout = '1s';
SET jit = off";

// Transactions without an xid hold no slot back, and those of a moment are none to name.
const LOOK: &str = "\
WITH wal AS MATERIALIZED (
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                ELSE pg_current_wal_lsn() END AS at
), slot AS MATERIALIZED (
    SELECT * FROM pg_replication_slots
)
SELECT
    (SELECT at::text FROM wal),
    current_setting('server_version_num')::integer,
    pg_size_bytes(current_setting('max_slot_wal_keep_size')),
    pg_has_role('pg_read_all_stats', 'USAGE'),
    has_function_privilege('pg_ls_waldir()', 'EXECUTE') AND NOT pg_is_in_recovery(),
    (SELECT min(restart_lsn)::text FROM slot WHERE wal_status IS DISTINCT FROM 'lost'),
    (SELECT json_agg(shown)::text FROM (
        SELECT
            slot.slot_name AS name,
            slot.restart_lsn,
            slot.confirmed_flush_lsn,
            slot.active,
            slot.active_pid,
            slot.wal_status,
            slot.safe_wal_size,
            (extract(epoch FROM (fields ->> 'inactive_since')::timestamptz) * 1000000)::bigint
                AS inactive_since,
            extract(epoch FROM clock_timestamp() - (fields ->> 'inactive_since')::timestamptz)
                AS inactive_seconds,
            fields ->> 'invalidation_reason' AS invalidation_reason,
            (fields ->> 'conflicting')::boolean AS conflicting,
            (fields ->> 'failover')::boolean AS failover,
            (fields ->> 'synced')::boolean AS synced,
            CASE WHEN decoded.total_txns > 0 OR decoded.spill_txns > 0 THEN json_build_object(
                'spilled_transactions', decoded.spill_txns,
                'spilled_bytes', decoded.spill_bytes,
                'streamed_transactions', decoded.stream_txns,
                'streamed_bytes', decoded.stream_bytes,
                'transactions', decoded.total_txns,
                'bytes', decoded.total_bytes
            ) END AS decoding
        FROM slot
        CROSS JOIN LATERAL (SELECT to_jsonb(slot) AS fields) AS newer
        LEFT JOIN pg_stat_replication_slots AS decoded ON decoded.slot_name = slot.slot_name
        WHERE slot.slot_name = $1::text::name OR $2
        ORDER BY slot.slot_name IS DISTINCT FROM $1::text::name, slot.restart_lsn
        LIMIT 100
    ) AS shown),
    (SELECT row_to_json(sender)::text FROM (
        SELECT
            slot.active_pid AS pid,
            replication.sent_lsn,
            replication.write_lsn,
            replication.flush_lsn,
            replication.sync_state,
            activity.wait_event
        FROM slot
        LEFT JOIN pg_stat_replication AS replication ON replication.pid = slot.active_pid
        LEFT JOIN pg_stat_activity AS activity ON activity.pid = slot.active_pid
        WHERE slot.slot_name = $1::text::name AND slot.active_pid IS NOT NULL
    ) AS sender),
    (SELECT json_agg(holder)::text FROM (
        SELECT * FROM (
            SELECT pid, NULL::text AS gid, datname AS database,
                   nullif(application_name, '') AS application_name,
                   extract(epoch FROM clock_timestamp() - xact_start) AS age_seconds
            FROM pg_stat_activity
            WHERE backend_xid IS NOT NULL
            UNION ALL
            SELECT NULL, gid, database, NULL, extract(epoch FROM clock_timestamp() - prepared)
            FROM pg_prepared_xacts
        ) AS transaction
        WHERE age_seconds >= 1
        ORDER BY age_seconds DESC
        LIMIT 5
    ) AS holder)";

// Segments past the current one are spare: WAL to come takes them before it takes more of the disk.
const WAL_FILES: &str = "\
SELECT sum(size) FILTER (WHERE name <= pg_walfile_name(pg_current_wal_lsn()))::bigint,
       extract(epoch FROM clock_timestamp()
           - max(modification) FILTER (WHERE name = pg_walfile_name($1::text::pg_lsn)))::float8
FROM pg_ls_waldir()
WHERE name ~ '^[0-9A-F]{24}$'";

/// What one look gives.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) wal_position: Lsn,
    /// `server_version_num`.
    pub(super) version: i32,
    pub(super) max_slot_wal_keep_size: Option<u64>,
    /// The role may see what others do (`pg_read_all_stats`, part of `pg_monitor`).
    pub(super) sees_others: bool,
    /// It may list the WAL's files (`pg_monitor`), and this is no standby.
    pub(super) lists_wal: bool,
    /// The first WAL that any slot keeps.
    pub(super) oldest_restart_lsn: Option<Lsn>,
    /// The relay's slot, if there is one, and others if they were asked for.
    pub(super) slots: Vec<Slot>,
    pub(super) walsender: Option<Sender>,
    pub(super) holding: Vec<HoldingTransaction>,
}

/// A slot with its positions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Slot {
    pub(super) name: String,
    restart_lsn: Option<String>,
    confirmed_flush_lsn: Option<String>,
    pub(super) active: bool,
    pub(super) active_pid: Option<i32>,
    pub(super) wal_status: Option<String>,
    pub(super) safe_wal_size: Option<i64>,
    /// Microseconds since 1970.
    pub(super) inactive_since: Option<i64>,
    pub(super) inactive_seconds: Option<f64>,
    pub(super) invalidation_reason: Option<String>,
    pub(super) conflicting: Option<bool>,
    pub(super) failover: Option<bool>,
    pub(super) synced: Option<bool>,
    pub(super) decoding: Option<Decoding>,
}

/// A walsender with its positions.
#[derive(Debug, Deserialize)]
pub(super) struct Sender {
    pub(super) pid: i32,
    sent_lsn: Option<String>,
    write_lsn: Option<String>,
    flush_lsn: Option<String>,
    pub(super) sync_state: Option<String>,
    pub(super) wait_event: Option<String>,
}

/// What the files of `pg_wal` tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalFiles {
    /// Bytes of WAL that is written.
    pub(super) used_bytes: Option<u64>,
    /// Seconds since the segment of the asked position was last written: that position's WAL is at
    /// least as old. `None` where the segment is gone.
    pub(super) segment_age_seconds: Option<f64>,
}

impl Slot {
    pub(super) fn restart_lsn(&self) -> Option<Lsn> {
        parsed(self.restart_lsn.as_deref())
    }

    pub(super) fn confirmed_flush_lsn(&self) -> Option<Lsn> {
        parsed(self.confirmed_flush_lsn.as_deref())
    }
}

impl Sender {
    /// Sent, written and flushed.
    pub(super) fn positions(&self) -> [Option<Lsn>; 3] {
        [&self.sent_lsn, &self.write_lsn, &self.flush_lsn].map(|text| parsed(text.as_deref()))
    }
}

fn parsed(text: Option<&str>) -> Option<Lsn> {
    text.and_then(|text| text.parse().ok())
}

/// The statement of a look, prepared once a connection.
#[derive(Debug)]
pub(super) struct Looker {
    session: Session,
    look: Statement,
}

impl Looker {
    /// Prepares a session that was just connected.
    ///
    /// # Errors
    ///
    /// Where the server cannot be asked.
    pub(super) async fn new(session: Session) -> Result<Self, Failure> {
        session.batch(DOING, PIN).await?;
        let look = session.client().prepare(LOOK).await;
        Ok(Self { look: look.map_err(|error| postgres::failure(DOING, &error))?, session })
    }

    /// Looks at the slot, if its name is known, and with `all` at the others.
    ///
    /// # Errors
    ///
    /// Where the server cannot be asked, or answers what nobody can read.
    pub(super) async fn look(&self, slot: Option<&str>, all: bool) -> Result<Look, Failure> {
        let row = self.session.client().query_one(&self.look, &[&slot, &all]).await;
        read(&row.map_err(|error| postgres::failure(DOING, &error))?)
    }

    /// What `pg_wal` holds, where [`Look::lists_wal`]; it costs a look at every file there.
    ///
    /// # Errors
    ///
    /// As [`Looker::look`].
    pub(super) async fn wal_files(&self, position: Lsn) -> Result<WalFiles, Failure> {
        let doing = "looking at the WAL's files";
        let row = self.session.query_one(doing, WAL_FILES, &[&position.to_string()]).await?;
        Ok(WalFiles {
            used_bytes: cell::<Option<i64>>(&row, 0)?.and_then(|bytes| bytes.try_into().ok()),
            segment_age_seconds: cell(&row, 1)?,
        })
    }
}

fn read(row: &Row) -> Result<Look, Failure> {
    let position: Option<String> = cell(row, 0)?;
    let keep_size: Option<i64> = cell(row, 2)?;
    let oldest: Option<String> = cell(row, 5)?;
    Ok(Look {
        wal_position: parsed(position.as_deref()).unwrap_or_default(),
        version: cell(row, 1)?,
        max_slot_wal_keep_size: keep_size.and_then(|bytes| bytes.try_into().ok()),
        sees_others: cell(row, 3)?,
        lists_wal: cell(row, 4)?,
        oldest_restart_lsn: parsed(oldest.as_deref()),
        slots: json(row, 6)?.unwrap_or_default(),
        walsender: json(row, 7)?,
        holding: json(row, 8)?.unwrap_or_default(),
    })
}

fn cell<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    index: usize,
) -> Result<T, Failure> {
    row.try_get(index).map_err(|error| postgres::failure(DOING, &error))
}

fn json<T: DeserializeOwned>(row: &Row, index: usize) -> Result<Option<T>, Failure> {
    let Some(text) = cell::<Option<&str>>(row, index)? else { return Ok(None) };
    let value = serde_json::from_str(text);
    value.map(Some).map_err(|error| Failure::transient(DOING).cause(error))
}
