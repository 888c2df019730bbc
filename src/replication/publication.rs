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

/// The failure to report where the server says that the publication does not exist (42704, from 18
/// on a warning with 55000) though the catalogue has it: it was made after the slot's position.
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
