//! The configured slot and its marker.

use postgres_protocol::escape::escape_identifier;

use super::{Context, Finding};
use crate::config::SourceConfig;
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::postgres::Settings;
use crate::replication::marker::{self, Decision, Marker, Origin, recovery};
use crate::replication::quote::literal;
use crate::replication::slot::{self, PLUGIN, SlotInfo};

/// Looks at slot and marker; the decision stands only where nothing is wrong with either.
pub(super) async fn ask(
    context: &Context<'_>,
    name: &str,
    findings: &mut Vec<Finding>,
) -> Result<(Option<SlotInfo>, Option<Decision>), Failure> {
    let session = context.session;
    let found = slot::describe(session, name).await?;
    let server = marker::server(session).await?;
    let marker = match marker_table(context, &server).await? {
        Ok(()) => marker::read(session, name).await?,
        Err(finding) => {
            findings.push(finding);
            findings.extend(found.as_ref().map(|slot| line(context, name, slot, None)));
            return Ok((found, None));
        }
    };
    let tables = &context.config.source.tables;
    let decision = marker::decide(name, tables, marker.as_ref(), found.as_ref(), &server);
    match (&decision, &found) {
        (Decision::Stop(failure), _) => {
            findings.push(Finding::from_failure(format!("slot `{name}`"), failure));
        }
        (_, Some(slot)) => {
            findings.push(line(context, name, slot, marker.as_ref()));
            findings.extend(adopted(name, &decision));
        }
        (_, None) => {}
    }
    Ok((found, Some(decision)))
}

/// Whether the marker may be written, found by writing one and taking it back. The error inside is
/// what is wrong with the table, the one outside is that it could not be asked.
async fn marker_table(
    context: &Context<'_>,
    server: &marker::Server,
) -> Result<Result<(), Finding>, Failure> {
    let session = context.session;
    if !marker::table_exists(session).await? {
        return Ok(Err(Finding::error("table `pgoutbox.relay`", "does not exist")
            .fix("`pgoutbox init`, or `pgoutbox init --url ADMIN` as an administrator")));
    }
    session.batch("beginning a transaction", "BEGIN").await?;
    let written =
        marker::write(session, "pgoutbox check", server, Lsn::ZERO, Origin::Adopted).await;
    session.batch("taking the marker back", "ROLLBACK").await?;
    let Err(failure) = written else { return Ok(Ok(())) };
    let role = escape_identifier(&context.settings.user);
    Ok(Err(Finding::from_failure("table `pgoutbox.relay`", &failure).fix(format!(
        "`GRANT USAGE ON SCHEMA pgoutbox TO {role}`, `GRANT SELECT, INSERT, UPDATE ON \
         pgoutbox.relay TO {role}`"
    ))))
}

fn adopted(name: &str, decision: &Decision) -> Option<Finding> {
    let message = "has no marker, so somebody else made it; `run` adopts it and writes one";
    matches!(decision, Decision::Adopt)
        .then(|| Finding::warning(format!("slot `{name}`"), message).fix("`pgoutbox init`"))
}

/// Whether a relay of this configuration can read the slot, now or once it is free; `created_at` is
/// its marker's time, for the recovery.
///
/// # Errors
///
/// Why it never can, with the way out.
pub fn usable(
    name: &str,
    slot: &SlotInfo,
    source: &SourceConfig,
    settings: &Settings,
    created_at: Option<&str>,
) -> Result<(), Failure> {
    if let Some(failure) = wrong_kind(name, slot, &settings.dbname) {
        return Err(failure);
    }
    if slot.is_lost() {
        return Err(lost(name, slot).hint(recovery(name, &source.tables, created_at, true)));
    }
    Ok(())
}

/// The slot's own state.
fn line(context: &Context<'_>, name: &str, slot: &SlotInfo, marker: Option<&Marker>) -> Finding {
    let subject = format!("slot `{name}`");
    let created_at = marker.and_then(|marker| marker.created_at.as_deref());
    let source = &context.config.source;
    if let Err(failure) = usable(name, slot, source, context.settings, created_at) {
        return Finding::from_failure(subject, &failure);
    }
    let failover = if slot.failover { ", failover" } else { "" };
    let position = slot.confirmed_flush_lsn.unwrap_or_default();
    let status = slot.wal_status.as_deref().unwrap_or("unknown");
    let state = format!("confirmed to {position}, wal_status {status}{failover}");
    let Some(holder) = &slot.holder else { return Finding::ok(subject, state) };
    let application = holder.application_name.as_deref().unwrap_or("no application name");
    if application == format!("pgoutbox:{}", context.config.name) {
        let message = format!("a relay of this name runs (pid {}); {state}", holder.pid);
        return Finding::ok(subject, message);
    }
    let message = format!("is held by pid {} ({application}); `run` waits for it", holder.pid);
    Finding::warning(subject, message)
        .fix(format!("if nobody needs that: `SELECT pg_terminate_backend({})`", holder.pid))
}

/// A slot that this relay can never read.
fn wrong_kind(name: &str, slot: &SlotInfo, database: &str) -> Option<Failure> {
    let other = "name another one in `slot`, or, if nobody needs it,";
    let drop = format!("{other} `SELECT pg_drop_replication_slot({})`", literal(name));
    let failure = match (&slot.plugin, &slot.database) {
        (None, _) => Failure::definite(format!("slot `{name}` is a physical slot")),
        (Some(plugin), _) if plugin != PLUGIN => {
            Failure::definite(format!("slot `{name}` has the plugin `{plugin}`, not `{PLUGIN}`"))
        }
        (_, Some(theirs)) if theirs != database => Failure::definite(format!(
            "slot `{name}` belongs to the database `{theirs}`, not to `{database}`"
        )),
        _ if slot.temporary => Failure::definite(format!("slot `{name}` is a temporary one")),
        _ if slot.two_phase => Failure::definite(format!(
            "slot `{name}` decodes prepared transactions early (two_phase)"
        )),
        _ if slot.synced => Failure::definite(format!(
            "slot `{name}` is a standby's copy that was not finished when this server was promoted"
        )),
        _ => return None,
    };
    Some(failure.hint(drop))
}

/// `wal_status = lost`, or invalidated for another reason.
fn lost(name: &str, slot: &SlotInfo) -> Failure {
    let reason = slot.invalidation_reason.as_deref().unwrap_or("its WAL is gone");
    let position = slot.confirmed_flush_lsn.unwrap_or_default();
    Failure::definite(format!(
        "slot `{name}` is lost ({reason}; wal_status {}): it was confirmed to {position}, what was \
         committed after that may not have been delivered",
        slot.wal_status.as_deref().unwrap_or("unknown")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> SlotInfo {
        SlotInfo {
            plugin: Some("pgoutput".to_owned()),
            database: Some("shop".to_owned()),
            wal_status: Some("reserved".to_owned()),
            ..SlotInfo::default()
        }
    }

    #[test]
    fn only_a_persistent_pgoutput_slot_of_this_database_will_do() {
        assert!(wrong_kind("s", &slot(), "shop").is_none());
        for (slot, part) in [
            (SlotInfo { plugin: None, ..slot() }, "physical"),
            (SlotInfo { plugin: Some("wal2json".to_owned()), ..slot() }, "`wal2json`"),
            (SlotInfo { database: Some("other".to_owned()), ..slot() }, "`other`, not to `shop`"),
            (SlotInfo { temporary: true, ..slot() }, "temporary"),
            (SlotInfo { two_phase: true, ..slot() }, "two_phase"),
        ] {
            let failure = wrong_kind("s", &slot, "shop").unwrap();
            assert!(failure.to_string().contains(part), "{failure}");
        }
    }

    #[test]
    fn a_slot_is_lost_by_status_or_by_reason() {
        assert!(!slot().is_lost());
        assert!(SlotInfo { wal_status: Some("lost".to_owned()), ..slot() }.is_lost());
        let idle = Some("idle_timeout".to_owned());
        assert!(SlotInfo { invalidation_reason: idle, ..slot() }.is_lost());
    }
}
