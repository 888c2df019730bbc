//! Whether a publication gives the relay every event.
//!
//! A publication that misses a table, some rows or a column is silent about it: nothing arrives, and
//! idle keepalives invite the relay to confirm past what was left out. So nothing is confirmed before
//! the catalogue has been asked (ARCHITECTURE.md, guarantee 2).

mod coverage;
mod gap;

pub use coverage::{Coverage, Partition, Wanted, coverage};
pub use gap::{Gap, GapKind};

use postgres_protocol::escape::escape_identifier;

use super::marker::recovery;
use super::quote::{literal, qualified};
use crate::config::TableConfig;
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::postgres::Session;

/// SQLSTATE of the error with which a stream ends where the server, up to 17, cannot find the
/// publication in the catalogue of that time (undefined_object).
pub const UNKNOWN: &str = "42704";

/// SQLSTATE of the warning that PostgreSQL gives in its place from 18 on, and skips the events
/// (object_not_in_prerequisite_state).
pub const SKIPPED: &str = "55000";

const TEMPLATE: &str = include_str!("../../migrations/0003_publication.sql");

const EXISTS: &str = "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1::text::name)";

/// The statement that makes `publication` for `tables`.
pub fn create_sql(publication: &str, tables: &[TableConfig]) -> String {
    let names: Vec<String> = tables.iter().map(qualified).collect();
    TEMPLATE
        .replace("PUBLICATION pgoutbox", &format!("PUBLICATION {}", escape_identifier(publication)))
        .replace("public.outbox", &names.join(", "))
}

/// The statement that adds `table` to `publication`.
pub fn add_table_sql(publication: &str, table: &TableConfig) -> String {
    format!("ALTER PUBLICATION {} ADD TABLE {}", escape_identifier(publication), qualified(table))
}

/// Whether there is such a publication now.
///
/// # Errors
///
/// Where the server cannot be asked.
pub async fn exists(session: &Session, publication: &str) -> Result<bool, Failure> {
    let doing = format!("looking for publication `{publication}`");
    Ok(session.query_one(&doing, EXISTS, &[&publication]).await?.get(0))
}

/// The failure to report where a stream ends with [`UNKNOWN`] or [`SKIPPED`] though the catalogue has
/// the publication: it was made after the slot's position.
pub fn made_after_slot(
    publication: &str,
    slot: &str,
    position: Lsn,
    tables: &[TableConfig],
) -> Failure {
    Failure::definite(format!(
        "publication `{publication}` was made after the position of slot `{slot}` ({position}), \
         where it does not exist yet; nothing was confirmed"
    ))
    .hint(format!(
        "either begin with a new slot and send the rows again: {}; or skip what was written before \
         now: `SELECT pg_replication_slot_advance({}, pg_current_wal_lsn())`",
        recovery(slot, tables, None, true),
        literal(slot),
    ))
}
