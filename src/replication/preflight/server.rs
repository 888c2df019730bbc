//! The server: version, role, settings, free places.

use super::{Context, Finding};
use crate::failure::{Class, Failure};
use crate::postgres::{Session, Settings};
use crate::replication::slot::SlotInfo;

/// The oldest server that pgoutput and our catalogue queries work on.
const OLDEST: i32 = 140_000;
/// The oldest version that its makers still support, and so do we.
const OLDEST_SUPPORTED: i32 = 150_000;
/// The first version that nobody has tried yet.
const UNTRIED: i32 = 190_000;

const SERVER: &str = "\
SELECT current_setting('server_version_num')::integer,
       current_setting('server_version'),
       pg_is_in_recovery(),
       current_setting('wal_level')";

const CAPACITY: &str = "\
SELECT current_setting('max_wal_senders')::bigint,
       (SELECT count(*) FROM pg_stat_replication),
       current_setting('max_replication_slots')::bigint,
       (SELECT count(*) FROM pg_replication_slots),
       current_setting('max_slot_wal_keep_size') = '-1',
       coalesce(current_setting('idle_replication_slot_timeout', true), '0')";

/// Whether a relay can work here at all; an error says why not.
///
/// # Errors
///
/// Where the server cannot be asked.
pub async fn finding(session: &Session, settings: &Settings) -> Result<Finding, Failure> {
    let row = session.query_one("reading the server's state", SERVER, &[]).await?;
    let subject = format!("server `{settings}`");
    Ok(suitability(row.get(0), row.get(1), row.get(2), row.get(3), &subject))
}

fn suitability(
    number: i32,
    version: &str,
    in_recovery: bool,
    wal_level: &str,
    subject: &str,
) -> Finding {
    if in_recovery {
        return Finding::error(subject, "is a standby (in recovery); a relay needs the primary")
            .fix("connect to the primary");
    }
    if number < OLDEST {
        return Finding::error(subject, format!("PostgreSQL {version} is too old"))
            .fix("upgrade to PostgreSQL 15 or newer")
            .class(Class::Definite);
    }
    if wal_level != "logical" {
        return Finding::error(subject, format!("`wal_level` is `{wal_level}`, not `logical`"))
            .fix("`ALTER SYSTEM SET wal_level = logical`, then restart the server");
    }
    if number < OLDEST_SUPPORTED {
        let message = format!("PostgreSQL {version} is out of support and not tested");
        return Finding::warning(subject, message).fix("upgrade to PostgreSQL 15 or newer");
    }
    if number >= UNTRIED {
        let message = format!("PostgreSQL {version} is newer than this release knows");
        return Finding::warning(subject, message);
    }
    Finding::ok(subject, format!("PostgreSQL {version}, wal_level logical"))
}

/// Room for one more walsender and slot, and how long the server keeps WAL for a stopped relay.
pub(super) async fn capacity(
    context: &Context<'_>,
    slot: Option<&SlotInfo>,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let row = context.session.query_one("reading the server's settings", CAPACITY, &[]).await?;
    let (max_senders, senders, max_slots, slots): (i64, i64, i64, i64) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    // The holder of our own slot makes room when it goes.
    if senders >= max_senders && slot.is_none_or(|slot| slot.holder.is_none()) {
        findings.push(used_up("max_wal_senders", max_senders, "pg_stat_replication"));
    }
    // A temporary slot, or one that `init` would make.
    if slots >= max_slots && slot.is_none() {
        findings.push(used_up("max_replication_slots", max_slots, "pg_replication_slots"));
    }
    if context.config.source.slot.is_some() {
        findings.extend(retention(row.get(4), row.get(5)));
    }
    Ok(())
}

fn used_up(setting: &str, limit: i64, view: &str) -> Finding {
    Finding::error(format!("`{setting}`"), format!("all {limit} are in use"))
        .fix(format!(
            "look at `SELECT * FROM {view}`, end what nobody needs, or raise `{setting}` and restart"
        ))
        .class(Class::Transient)
}

fn retention(unlimited: bool, idle_timeout: &str) -> Vec<Finding> {
    let idle = (idle_timeout != "0").then(|| {
        let message =
            format!("a relay that is stopped for longer than {idle_timeout} loses its slot");
        Finding::warning("`idle_replication_slot_timeout`", message)
            .fix("`ALTER SYSTEM SET idle_replication_slot_timeout = 0`, `SELECT pg_reload_conf()`")
    });
    let unlimited = unlimited.then(|| {
        let message = "is unlimited: while the relay is stopped, WAL grows until the disk is full";
        Finding::warning("`max_slot_wal_keep_size`", message).fix(
            "`ALTER SYSTEM SET max_slot_wal_keep_size = '100GB'` (more than the WAL of the longest \
             outage, less than the disk has free; a slot that needs more is lost), `SELECT \
             pg_reload_conf()`",
        )
    });
    idle.into_iter().chain(unlimited).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::preflight::Severity;

    #[track_caller]
    fn check(number: i32, in_recovery: bool, wal_level: &str, severity: Severity, part: &str) {
        let finding = suitability(number, "x.y", in_recovery, wal_level, "server `db`");
        assert_eq!(finding.severity, severity);
        assert!(finding.message.contains(part), "{}", finding.message);
    }

    #[test]
    fn old_servers_are_refused_and_new_ones_are_not() {
        check(130_012, false, "logical", Severity::Error, "too old");
        check(140_023, false, "logical", Severity::Warning, "out of support");
        check(150_020, false, "logical", Severity::Ok, "PostgreSQL x.y");
        check(180_006, false, "logical", Severity::Ok, "PostgreSQL x.y");
        check(190_000, false, "logical", Severity::Warning, "newer");
    }

    #[test]
    fn a_standby_is_one_refusal_whatever_else_is_wrong() {
        check(150_020, true, "replica", Severity::Error, "standby");
    }

    #[test]
    fn another_wal_level_is_refused() {
        check(150_020, false, "replica", Severity::Error, "`wal_level` is `replica`");
    }
}
