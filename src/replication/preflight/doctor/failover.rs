//! Whether a promoted standby would have the slot (PostgreSQL 17 and newer: older ones have no such
//! slots).

use super::super::{Context, Finding};
use crate::failure::Failure;
use crate::postgres::{Host, Settings};
use crate::replication::slot::SlotInfo;

// A walsender that serves neither a logical slot nor an archive of WAL. Without `pg_read_all_stats`
// its state cannot be seen; the standby's slot can.
const STANDBYS: &str = "\
SELECT current_setting('server_version_num')::integer >= 170000,
       coalesce(current_setting('synchronized_standby_slots', true), ''),
       ARRAY(
         SELECT coalesce(slot.slot_name::text, '')
         FROM pg_stat_replication AS sender
         LEFT JOIN pg_replication_slots AS slot ON slot.active_pid = sender.pid
         WHERE slot.slot_type IS DISTINCT FROM 'logical'
           AND slot.temporary IS NOT TRUE
           AND (sender.state = 'streaming' OR slot.slot_type = 'physical')
           AND coalesce(sender.application_name, '')
               NOT IN ('pg_receivewal', 'barman_receive_wal', 'pg_basebackup')
         ORDER BY 1)";

pub(super) async fn ask(
    context: &Context<'_>,
    slot: Option<&SlotInfo>,
) -> Result<Vec<Finding>, Failure> {
    let (Some(name), Some(slot)) = (&context.config.source.slot, slot) else {
        return Ok(Vec::new());
    };
    let row = context.session.query_one("reading the standbys", STANDBYS, &[]).await?;
    let (is_known, waits_for): (bool, String) = (row.get(0), row.get(1));
    let standbys: Vec<String> = row.get(2);
    if !is_known || standbys.is_empty() {
        return Ok(Vec::new());
    }
    let found = if slot.failover {
        waits_for.is_empty().then(|| ahead(&standbys))
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
/// `standbys` are their slots, empty for one that has none.
fn ahead(standbys: &[String]) -> Finding {
    let slots: Vec<&str> =
        standbys.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    let names = if slots.is_empty() { "…".to_owned() } else { slots.join(", ") };
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
