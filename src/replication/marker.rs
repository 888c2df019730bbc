//! The marker: one row in `pgoutbox.relay` that says a slot has existed.
//!
//! A slot that is gone (dropped by somebody, lost in a failover, left behind by a restore) looks just
//! like one that was never made. Only the marker tells the two apart, and so keeps the relay from
//! beginning anew at "now" and losing what lies between (ARCHITECTURE.md, guarantee 12). It is no
//! position: that is the slot's alone.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::config::TableConfig;
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::postgres::Session;

use super::slot::SlotInfo;

/// Creates the schema and the table.
pub const CREATE: &str = include_str!("../../migrations/0002_relay.sql");

const EXISTS: &str = "SELECT to_regclass('pgoutbox.relay') IS NOT NULL";

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

/// Which cluster a session is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Made by `initdb`; the same on every physical copy.
    pub system_identifier: String,
    /// One more after each promotion.
    pub timeline: u32,
}

/// What slot and marker together mean.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Go on from the slot.
    Run,
    /// Go on, and write the marker: the cluster was promoted, and the slot came along.
    RunOnNewTimeline,
    /// Somebody else made the slot: write a marker for it, say so, go on.
    Adopt,
    /// The relay must not run.
    Stop(Failure),
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
/// `created_at` is a time before the slot was made; `None` where somebody else made it. Everything
/// that only the slot can have was written after it.
///
/// # Errors
///
/// Where the table cannot be written.
pub async fn write(
    session: &Session,
    slot: &str,
    server: &Server,
    position: Lsn,
    created_at: Option<&str>,
) -> Result<(), Failure> {
    let doing = format!("writing the marker of slot `{slot}`");
    let (timeline, position) = (i64::from(server.timeline), position.to_string());
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
    write(session, name, &server(session).await?, position, None).await
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

/// Decides from what was found; `tables` are for the recovery that a stop names.
pub fn decide(
    name: &str,
    tables: &[TableConfig],
    marker: Option<&Marker>,
    slot: Option<&SlotInfo>,
    server: &Server,
) -> Decision {
    match (marker, slot) {
        (Some(marker), _) if marker.system_identifier != server.system_identifier => {
            Decision::Stop(other_system(name, tables, marker, server))
        }
        (Some(marker), Some(_)) if marker.timeline != server.timeline => Decision::RunOnNewTimeline,
        (Some(_), Some(_)) => Decision::Run,
        (None, Some(_)) => Decision::Adopt,
        (Some(marker), None) => Decision::Stop(slot_gone(name, tables, marker, server)),
        (None, None) => Decision::Stop(never_made(name)),
    }
}

fn other_system(name: &str, tables: &[TableConfig], marker: &Marker, server: &Server) -> Failure {
    Failure::definite(format!(
        "slot `{name}` was made in system {}, but this is system {}: a copy of the database, or \
         another server",
        marker.system_identifier, server.system_identifier
    ))
    .hint(format!(
        "connect to the right server; to begin afresh on this one: {}",
        recovery(name, tables, marker.created_at.as_deref(), false)
    ))
}

fn slot_gone(name: &str, tables: &[TableConfig], marker: &Marker, server: &Server) -> Failure {
    let made = match &marker.created_at {
        Some(time) => format!("made on {time} at {}", marker.created_lsn),
        None => format!("adopted at {}", marker.created_lsn),
    };
    Failure::definite(format!(
        "slot `{name}` is gone: it was {made} in system {}, timeline {} (now {}); what was \
         committed since it was last confirmed may not have been delivered",
        marker.system_identifier, marker.timeline, server.timeline
    ))
    .hint(recovery(name, tables, marker.created_at.as_deref(), false))
}

fn never_made(name: &str) -> Failure {
    Failure::fixable(format!("slot `{name}` does not exist and never has"))
        .hint("create it with `pgoutbox init`, or start with `pgoutbox run --init`")
}

/// What to type when a slot's events are lost to it: a new slot, and the rows once more through it.
///
/// A row that is deleted and inserted by one statement keeps every column, its id too, and so
/// arrives as a copy that readers can tell. `since` is when the slot was made, if that is known;
/// `drop_slot` is for a slot that is still there but useless.
pub fn recovery(
    name: &str,
    tables: &[TableConfig],
    since: Option<&str>,
    drop_slot: bool,
) -> String {
    let slot = literal(name);
    let mut steps = Vec::new();
    if drop_slot {
        steps.push(format!("`SELECT pg_drop_replication_slot({slot})`"));
    }
    steps.push(format!("`DELETE FROM pgoutbox.relay WHERE slot = {slot}`"));
    steps.push("`pgoutbox init`".to_owned());
    steps.extend(tables.iter().map(|table| format!("`{}`", send_again(table, since))));
    format!(
        "{} (sends all rows of that time once more, with their own ids; a later `created_at` sends \
         fewer)",
        steps.join(", then ")
    )
}

fn send_again(table: &TableConfig, since: Option<&str>) -> String {
    let table = qualified(table);
    let since = literal(since.unwrap_or("-infinity"));
    format!(
        "WITH lost AS (DELETE FROM {table} WHERE created_at >= {since} RETURNING *) \
         INSERT INTO {table} SELECT * FROM lost"
    )
}

/// `"schema"."table"`, quoted for SQL.
pub fn qualified(table: &TableConfig) -> String {
    format!("{}.{}", escape_identifier(&table.schema), escape_identifier(&table.table))
}

/// A text as an SQL literal; the escaping adds a blank in front where it needs `E''`.
pub(crate) fn literal(text: &str) -> String {
    escape_literal(text).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::failure::Class;

    fn marker() -> Marker {
        Marker {
            system_identifier: "71".to_owned(),
            timeline: 3,
            created_lsn: Lsn::new(0x16_0000_0028),
            created_at: Some("2026-11-29 10:00:00+00".to_owned()),
        }
    }

    fn server(system_identifier: &str, timeline: u32) -> Server {
        Server { system_identifier: system_identifier.to_owned(), timeline }
    }

    fn decided(marker: Option<&Marker>, slot: bool, server: &Server) -> Decision {
        let table = TableConfig {
            schema: "public".to_owned(),
            table: "outbox".to_owned(),
            columns: BTreeMap::new(),
            order_by: Vec::new(),
        };
        let slot = slot.then(SlotInfo::default);
        decide("orders", &[table], marker, slot.as_ref(), server)
    }

    #[track_caller]
    fn stops(decision: Decision) -> Failure {
        match decision {
            Decision::Stop(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn slot_and_marker_run() {
        assert!(matches!(decided(Some(&marker()), true, &server("71", 3)), Decision::Run));
    }

    #[test]
    fn a_slot_alone_is_adopted() {
        assert!(matches!(decided(None, true, &server("71", 3)), Decision::Adopt));
    }

    #[test]
    fn a_marker_alone_stops_with_its_position_and_a_recovery() {
        let failure = stops(decided(Some(&marker()), false, &server("71", 4)));
        assert_eq!(failure.class(), Class::Definite);
        let message = failure.to_string();
        for part in ["`orders`", "16/28", "2026-11-29 10:00:00+00", "timeline 3 (now 4)"] {
            assert!(message.contains(part), "{message}");
        }
        let hint = failure.way_out().unwrap();
        for part in [
            "`DELETE FROM pgoutbox.relay WHERE slot = 'orders'`",
            "`pgoutbox init`",
            "DELETE FROM \"public\".\"outbox\" WHERE created_at >= '2026-11-29 10:00:00+00'",
        ] {
            assert!(hint.contains(part), "{hint}");
        }
        assert!(!hint.contains("pg_drop_replication_slot"), "{hint}");
    }

    #[test]
    fn neither_stops_and_names_init() {
        let failure = stops(decided(None, false, &server("71", 3)));
        assert!(failure.way_out().unwrap().contains("`pgoutbox init`"));
    }

    #[test]
    fn another_system_stops_with_and_without_a_slot() {
        for slot in [true, false] {
            let failure = stops(decided(Some(&marker()), slot, &server("72", 3)));
            assert_eq!(failure.class(), Class::Definite);
            assert!(failure.to_string().contains("system 71, but this is system 72"));
        }
    }

    #[test]
    fn a_new_timeline_with_the_slot_runs_and_updates_the_marker() {
        let decision = decided(Some(&marker()), true, &server("71", 4));
        assert!(matches!(decision, Decision::RunOnNewTimeline));
    }
}
