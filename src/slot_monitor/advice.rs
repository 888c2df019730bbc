//! What a report says in words: what is missing in it, and what is wrong.

use postgres_protocol::escape::escape_identifier;

use super::look::Look;
use super::report::SlotReport;
use super::volume::Room;
use crate::relay::state::RelayStatus;

/// A line for all that could not be had for one cause, with the way to have it.
pub(super) fn missing(look: &Look, room: &Room, relay: &RelayStatus, role: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let grant = format!("GRANT pg_monitor TO {}", escape_identifier(role));
    if !look.sees_others {
        lines.push(format!(
            "the walsender's positions and `sync_state`, and the open transactions of other roles: \
             `{grant}`"
        ));
    }
    if !look.lists_wal {
        lines.push(format!("the size and age of the WAL's files (`pg_ls_waldir`): `{grant}`"));
    }
    if look.version < 170_000 {
        lines.push(
            "`inactive_since`, `invalidation_reason`, `failover` and `synced`: PostgreSQL 17 and later \
             tell them"
                .to_owned(),
        );
    }
    match (&relay.slot, look.slots.iter().any(|slot| Some(&slot.name) == relay.slot.as_ref())) {
        (Some(name), false) => lines.push(format!("the slot: there is none named `{name}`")),
        (None, _) => lines
            .push("the slot: a temporary one has its name only once the relay streams".to_owned()),
        (Some(_), true) => {}
    }
    if let Room::Unreadable(why) = room {
        lines.push(format!("the time until the disk is full: `monitor.wal_volume_path` {why}"));
    }
    lines
}

/// A line for each danger.
pub(super) fn warnings(report: &SlotReport) -> Vec<String> {
    [synchronous(report), not_reserved(report), unlimited(report)].into_iter().flatten().collect()
}

/// That commits wait for the relay.
pub(super) fn synchronous(report: &SlotReport) -> Option<String> {
    let sender = report.walsender.as_ref()?;
    let state = sender.sync_state.as_deref().filter(|state| *state != "async")?;
    Some(format!(
        "the relay's walsender (pid {}) is a synchronous standby (`sync_state` {state}): commits wait for \
         the relay, and a broker that stops will stop them all; name the standbys that are meant in \
         `synchronous_standby_names`, without `*`",
        sender.pid
    ))
}

/// That the slot may lose, or has lost, what it needs.
pub(super) fn not_reserved(report: &SlotReport) -> Option<String> {
    let slot = report.slot.as_ref()?;
    let status = slot.wal_status.as_deref().filter(|status| *status != "reserved")?;
    let meaning = match status {
        "extended" => "it keeps more WAL than `max_wal_size`",
        "unreserved" => "the next checkpoint may remove WAL that it needs",
        "lost" => "WAL that it needs is gone: see `pgoutbox check`",
        _ => "see PostgreSQL's manual, `pg_replication_slots`",
    };
    Some(format!("`wal_status` of slot `{}` is {status}: {meaning}", slot.name))
}

/// That a relay that stays away fills the disk.
pub(super) fn unlimited(report: &SlotReport) -> Option<String> {
    let slot = report.slot.as_ref()?;
    if report.max_slot_wal_keep_size.is_some() {
        return None;
    }
    Some(format!(
        "nothing limits the WAL that slot `{}` keeps, so a relay that stays away fills the disk (how \
         soon, `monitor.wal_volume_size` or `wal_volume_path` lets it tell): `ALTER SYSTEM SET \
         max_slot_wal_keep_size = '…'`, then `SELECT pg_reload_conf()`",
        slot.name
    ))
}
