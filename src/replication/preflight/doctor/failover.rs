//! Whether a promoted standby would have the slot (PostgreSQL 17 and newer: older ones have no such
//! slots).

use super::super::{Context, Finding};
use crate::failure::Failure;
use crate::postgres::{Host, Settings};
use crate::replication::slot::SlotInfo;

// Without `pg_read_all_stats` a walsender's state cannot be seen; a standby's slot can.
const STANDBYS: &str = "\
SELECT current_setting('server_version_num')::integer >= 170000,
       EXISTS (
         SELECT FROM pg_stat_replication AS sender
         LEFT JOIN pg_replication_slots AS slot ON slot.active_pid = sender.pid
         WHERE sender.state = 'streaming' AND slot.slot_type IS DISTINCT FROM 'logical'),
       coalesce(current_setting('synchronized_standby_slots', true), ''),
       ARRAY(
         SELECT slot_name::text FROM pg_replication_slots
         WHERE slot_type = 'physical' AND active AND NOT temporary ORDER BY 1)";

pub(super) async fn ask(
    context: &Context<'_>,
    slot: Option<&SlotInfo>,
) -> Result<Vec<Finding>, Failure> {
    let (Some(name), Some(slot)) = (&context.config.source.slot, slot) else {
        return Ok(Vec::new());
    };
    let row = context.session.query_one("reading the standbys", STANDBYS, &[]).await?;
    let (is_known, is_streamed): (bool, bool) = (row.get(0), row.get(1));
    let (waits_for, theirs): (String, Vec<String>) = (row.get(2), row.get(3));
    let has_standby = is_streamed || !theirs.is_empty();
    if !is_known || !has_standby {
        return Ok(Vec::new());
    }
    let found = if slot.failover {
        waits_for.is_empty().then(|| ahead(&theirs))
    } else {
        Some(left_behind(context.settings, name))
    };
    Ok(found.into_iter().collect())
}

/// Nobody can alter a slot that is held, and pgoutbox has no command of its own for it.
fn left_behind(settings: &Settings, name: &str) -> Finding {
    let host = match &settings.host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(directory) => directory.display().to_string(),
    };
    Finding::warning(
        format!("slot `{name}`"),
        "has not FAILOVER, and this server has a standby: once that is promoted, the slot is not \
         there, and what was committed meanwhile is not delivered",
    )
    .fix(format!(
        "while the relay is stopped: `psql \"host={host} port={} user={} dbname={} \
         replication=database\" -c 'ALTER_REPLICATION_SLOT {name} (FAILOVER true)'`; and \
         `sync_replication_slots = on` and `hot_standby_feedback = on` on the standby",
        settings.port, settings.user, settings.dbname
    ))
}

/// The relay may deliver what a standby does not have yet, and after a promotion never has.
fn ahead(standbys: &[String]) -> Finding {
    let names = if standbys.is_empty() { "…".to_owned() } else { standbys.join(", ") };
    Finding::warning(
        "`synchronized_standby_slots`",
        "is empty: the relay may deliver events that a standby does not have yet, and that are gone \
         from the database once it is promoted",
    )
    .fix(format!(
        "`ALTER SYSTEM SET synchronized_standby_slots = '{names}'` (the standbys' physical slots; \
         while one of them is away, nothing is delivered), `SELECT pg_reload_conf()`"
    ))
}
