//! The marker: one row in `pgoutbox.relay` that says a slot has existed.
//!
//! A slot that is gone (dropped by somebody, lost in a failover, left behind by a restore) looks just
//! like one that was never made. Only the marker tells the two apart, and so keeps the relay from
//! beginning anew at "now" and losing what lies between (ARCHITECTURE.md, guarantee 12). It is no
//! position: that is the slot's alone.

mod decision;
mod recovery;

pub use decision::{Decision, decide};
pub use recovery::recovery;

use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::postgres::Session;

use super::slot::SlotInfo;

/// Creates the schema and the table.
pub const CREATE: &str = include_str!("../../migrations/0002_relay.sql");

const EXISTS: &str = "\
SELECT EXISTS (
    SELECT
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'pgoutbox' AND relname = 'relay')";

const READ: &str = "\
SELECT system_identifier, timeline, created_lsn::text, created_at::text
FROM pgoutbox.relay
WHERE slot = $1";

const WRITE: &str = "\
INSERT INTO pgoutbox.relay AS relay (slot, system_identifier, timeline, created_lsn, created_at)
VALUES ($1, $2, $3, $4::text::pg_lsn, $5::text::timestamptz)
ON CONFLICT (slot) DO UPDATE
SET timeline = EXCLUDED.timeline, updated_at = now()
WHERE relay.system_identifier = EXCLUDED.system_identifier";

// The timeline of the WAL being written; `pg_control_checkpoint` tells the last checkpoint's, which
// for a while after a promotion is the old one.
const SERVER: &str = "\
SELECT system_identifier::text,
       ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
FROM pg_control_system()";

/// What the marker of one slot says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The system in which the slot was made.
    pub system_identifier: String,
    /// The timeline it was last seen on.
    pub timeline: u32,
    /// The slot's position when it was made or adopted.
    pub created_lsn: Lsn,
    /// When it was made, as PostgreSQL prints it in UTC; `None` where somebody else made the slot.
    pub created_at: Option<String>,
}

/// How a slot came to its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// It was made just now. Everything that only this slot has was written after `began_at`, when
    /// the server began to make it.
    Created {
        /// A time as PostgreSQL prints it.
        began_at: &'a str,
    },
    /// It was there already, and nobody knows since when.
    Adopted,
}

/// Which cluster a session is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Made by `initdb`; the same on every physical copy.
    pub system_identifier: String,
    /// One more after each promotion.
    pub timeline: u32,
}

/// Whether the marker table is there.
///
/// # Errors
///
/// Where the server cannot be asked.
pub async fn table_exists(session: &Session) -> Result<bool, Failure> {
    let doing = "looking for `pgoutbox.relay`";
    Ok(session.query_one(doing, EXISTS, &[]).await?.get(0))
}

/// The marker of `slot`; none too where the table itself is missing.
///
/// # Errors
///
/// Where the table cannot be read.
pub async fn read(session: &Session, slot: &str) -> Result<Option<Marker>, Failure> {
    if !table_exists(session).await? {
        return Ok(None);
    }
    let doing = format!("reading the marker of slot `{slot}`");
    let Some(row) = session.query_opt(&doing, READ, &[&slot]).await? else { return Ok(None) };
    let created_lsn: String = row.get(2);
    Ok(Some(Marker {
        system_identifier: row.get(0),
        timeline: timeline(row.get(1))?,
        created_lsn: created_lsn.parse().unwrap_or(Lsn::ZERO),
        created_at: row.get(3),
    }))
}

/// Writes the marker of a slot that is at `position`. One that is there keeps its position and time,
/// and only learns the timeline.
///
/// # Errors
///
/// Where the table cannot be written.
pub async fn write(
    session: &Session,
    slot: &str,
    server: &Server,
    position: Lsn,
    origin: Origin<'_>,
) -> Result<(), Failure> {
    let doing = format!("writing the marker of slot `{slot}`");
    let (timeline, position) = (i64::from(server.timeline), position.to_string());
    let created_at = match origin {
        Origin::Created { began_at } => Some(began_at),
        Origin::Adopted => None,
    };
    session
        .execute(
            &doing,
            WRITE,
            &[&slot, &server.system_identifier, &timeline, &position, &created_at],
        )
        .await
        .map(drop)
}

/// Does to the marker what `decision` asks for: nothing, unless the slot was adopted or the cluster
/// promoted.
///
/// # Errors
///
/// Where the table cannot be written.
pub async fn keep(
    session: &Session,
    name: &str,
    decision: &Decision,
    slot: &SlotInfo,
) -> Result<(), Failure> {
    if !matches!(decision, Decision::Adopt | Decision::RunOnNewTimeline) {
        return Ok(());
    }
    let position = slot.confirmed_flush_lsn.unwrap_or_default();
    write(session, name, &server(session).await?, position, Origin::Adopted).await
}

/// Which cluster this is; not on a server in recovery.
///
/// # Errors
///
/// Where the server cannot be asked.
pub async fn server(session: &Session) -> Result<Server, Failure> {
    let row = session.query_one("identifying the server", SERVER, &[]).await?;
    Ok(Server { system_identifier: row.get(0), timeline: timeline(row.get(1))? })
}

fn timeline(number: i64) -> Result<u32, Failure> {
    u32::try_from(number).map_err(|error| {
        Failure::definite(format!("{number} is not a timeline of PostgreSQL")).cause(error)
    })
}
