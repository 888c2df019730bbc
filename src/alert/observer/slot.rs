//! What the slot's monitor sees.

use super::super::cause::{explain, explain_relay, explain_wal, holding, others};
use super::super::facts::{Facts, Finding, Reading};
use super::{Seen, number, slot_name};
use crate::config::{AlertMetric as M, WAL_STATUSES};
use crate::lsn::Lsn;
use crate::relay::state::RelayStatus;
use crate::slot_monitor::{SlotFigures, SlotReport};
use crate::status::confirmed_lag;

/// Sets what the monitor knows. Figures of an earlier look are not those of now: while the monitor
/// fails they are not known.
pub(super) fn read(facts: &mut Facts, seen: &Seen) {
    let Seen { relay, slot: report, .. } = seen;
    if report.looked_at.is_some() || report.failure.is_some() {
        let is_up = report.failure.is_none();
        let why = report.failure.clone().unwrap_or_default();
        let finding = Finding::new("the slot cannot be watched").cause(why).fix(tried());
        facts.flag(M::MonitorUp, is_up, finding);
    }
    lag(facts, relay, report);
    if report.looked_at.is_none() || report.failure.is_some() {
        return;
    }
    server(facts, relay, report);
    match &report.slot {
        Some(slot) => figures(facts, slot, relay, report),
        None if relay.slot.is_some() => {
            let text = format!("{} does not exist", slot_name(relay));
            facts.flag(M::SlotActive, false, Finding::new(text).fix(tried()));
        }
        None => {}
    }
}

/// The figure that the metric of this name shows, as soon as either of them knows it.
fn lag(facts: &mut Facts, relay: &RelayStatus, report: &SlotReport) {
    let is_known = report.slot.is_some() || relay.received != Lsn::ZERO;
    let bytes = is_known.then(|| confirmed_lag(relay, report));
    let name = slot_name(relay);
    facts.known(M::SlotConfirmedLagBytes, bytes.map(number), |shown| {
        let text = format!("{name} is {shown} of WAL behind the server");
        explain(Finding::new(text), relay, report)
    });
}

fn server(facts: &mut Facts, relay: &RelayStatus, report: &SlotReport) {
    let name = slot_name(relay);
    facts.known(M::SlotLagSeconds, report.lag_seconds, |shown| {
        let text = format!("{name} is {shown} behind the server");
        explain(Finding::new(text), relay, report)
    });
    facts.known(M::SlotUnreadWalBytes, report.unread_wal_bytes.map(number), |shown| {
        let text = format!("{shown} of WAL is not read yet from {name}");
        explain(Finding::new(text), relay, report)
    });
    // No time is known where the room does not shrink, and then nothing is wrong.
    let left = |seconds: Option<f64>, finding: &dyn Fn(&str) -> Finding, metric: M| match seconds {
        Some(seconds) => Reading::Known(seconds, finding(&metric.show(seconds))),
        None => Reading::Fine,
    };
    let exhaustion = |shown: &str| {
        let text = format!("{name} may be lost in {shown}: `safe_wal_size` is then used up");
        explain_wal(Finding::new(text).fix(more_room()), relay, report)
    };
    facts.set(
        M::SlotSecondsToExhaustion,
        left(report.seconds_to_exhaustion, &exhaustion, M::SlotSecondsToExhaustion),
    );
    let disk = |shown: &str| {
        let fix = "make the volume larger, or end what holds the slot back; a slot that is given up: \
                   SELECT pg_drop_replication_slot(…)";
        let text = format!("the server's WAL fills its volume in {shown}");
        explain_wal(Finding::new(text).fix(Some(fix.to_owned())), relay, report)
    };
    facts.set(
        M::SlotSecondsToFullDisk,
        left(report.seconds_to_full_disk, &disk, M::SlotSecondsToFullDisk),
    );
    match report.holding.first() {
        Some(oldest) => {
            let (text, fix) = holding(oldest);
            let finding = Finding::new(text).cause(others(&report.holding)).fix(fix);
            facts.set(M::HoldingTransactionSeconds, Reading::Known(oldest.age_seconds, finding));
        }
        None => facts.set(M::HoldingTransactionSeconds, Reading::Fine),
    }
    synchronous(facts, report);
}

fn synchronous(facts: &mut Facts, report: &SlotReport) {
    let Some(walsender) = &report.walsender else {
        return facts.set(M::WalsenderSynchronous, Reading::Fine);
    };
    let Some(state) = &walsender.sync_state else { return };
    let text = format!(
        "the relay's walsender {} is a synchronous standby (`sync_state` {state})",
        walsender.pid
    );
    let cause =
        "every commit of the server waits for the relay, so a broker that stops stops them all";
    let fix = "name the standbys that are meant, without `*`: ALTER SYSTEM SET \
               synchronous_standby_names = '…'; SELECT pg_reload_conf()";
    let finding = Finding::new(text).cause(cause).fix(Some(fix.to_owned()));
    facts.flag(M::WalsenderSynchronous, state != "async", finding);
}

fn figures(facts: &mut Facts, slot: &SlotFigures, relay: &RelayStatus, report: &SlotReport) {
    let name = format!("slot `{}`", slot.name);
    let explained = |finding: Finding| explain_wal(finding, relay, report);
    facts.known(M::SlotRetainedWalBytes, slot.retained_wal_bytes.map(number), |shown| {
        explained(Finding::new(format!("the server keeps {shown} of WAL for {name}")))
    });
    let unlimited = match report.max_slot_wal_keep_size {
        Some(_) => Some(0.0),
        None => slot.retained_wal_bytes.map(number),
    };
    facts.known(M::SlotUnlimitedWalBytes, unlimited, |shown| {
        let text = format!("the server keeps {shown} of WAL for {name}, and nothing limits that");
        let fix = "ALTER SYSTEM SET max_slot_wal_keep_size = '…'; SELECT pg_reload_conf()";
        explained(Finding::new(text).fix(Some(fix.to_owned())))
    });
    match slot.safe_wal_size {
        Some(size) => {
            #[expect(clippy::cast_precision_loss, reason = "of petabytes, a byte is none")]
            let size = size as f64;
            facts.known(M::SlotSafeWalBytes, Some(size), |shown| {
                let text = format!("{name} may be lost after {shown} more of WAL");
                explained(Finding::new(text).fix(more_room()))
            });
        }
        None => facts.set(M::SlotSafeWalBytes, Reading::Fine),
    }
    wal_status(facts, slot, &explained);
    let finding = explain_relay(Finding::new(format!("nobody reads {name}")), relay);
    let since = slot.inactive_since.map(|since| format!("inactive since {since}"));
    let why = Some(finding.cause.clone()).filter(|why| !why.is_empty());
    let causes: Vec<String> = since.into_iter().chain(why).collect();
    facts.flag(M::SlotActive, slot.active, finding.cause(causes.join("; ")));
}

fn wal_status(facts: &mut Facts, slot: &SlotFigures, explained: &dyn Fn(Finding) -> Finding) {
    let Some(status) = slot.wal_status.as_deref() else { return };
    let places = WAL_STATUSES.into_iter().zip(0_u8..);
    let Some((_, place)) = places.into_iter().find(|(word, _)| *word == status) else { return };
    let mut text = format!("`wal_status` of slot `{}` is {status}", slot.name);
    if let Some(size) = slot.safe_wal_size {
        text.push_str(&format!(" (`safe_wal_size` {size})"));
    }
    let finding = match (status, &slot.invalidation_reason) {
        ("lost", reason) => {
            let reason = reason.as_deref().unwrap_or("wal_removed");
            let cause =
                format!("WAL that it needs is gone ({reason}): no relay can read on from it");
            Finding::new(text).cause(cause).fix(tried())
        }
        _ => explained(Finding::new(text).fix(more_room())),
    };
    facts.set(M::SlotWalStatus, Reading::Known(f64::from(place), finding));
}

/// What tries the same connections, and knows more of what is wrong with them.
fn tried() -> Option<String> {
    Some("pgoutbox check".to_owned())
}

fn more_room() -> Option<String> {
    let fix = "end what holds the slot back; for more room: ALTER SYSTEM SET max_slot_wal_keep_size = \
               '…'; SELECT pg_reload_conf()";
    Some(fix.to_owned())
}
