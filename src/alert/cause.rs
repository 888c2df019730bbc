//! Why a slot does not move on, as far as relay and monitor can tell: in words, with what to type.

use super::facts::Finding;
use crate::config::AlertMetric;
use crate::relay::state::{HoldsBack, RelayStatus, SinkStatus, State};
use crate::slot_monitor::{HoldingTransaction, SlotReport};

/// More names than these are counted.
const NAMED: usize = 5;

/// A walsender that waits for this wants a standby that `synchronized_standby_slots` names.
const STANDBY_WAIT: &str = "WaitForStandbyConfirmation";

/// Something that is known to be behind a figure, and what to type about it.
type Cause = (String, Option<String>);

/// Why the relay does not go on, put into `finding`.
pub(super) fn explain_relay(finding: Finding, relay: &RelayStatus) -> Finding {
    with_causes(finding, of_state(relay))
}

/// Why the confirmed position does not move on, the weightiest first, put into `finding`.
pub(super) fn explain(finding: Finding, relay: &RelayStatus, slot: &SlotReport) -> Finding {
    with_causes(finding, of_position(relay, slot))
}

/// Why the server keeps WAL for the slot: the same, and the oldest transaction that is open, past
/// which the WAL is kept even where everything is confirmed.
pub(super) fn explain_wal(finding: Finding, relay: &RelayStatus, slot: &SlotReport) -> Finding {
    let mut causes = of_position(relay, slot);
    causes.extend(slot.holding.first().map(holding));
    with_causes(finding, causes)
}

/// What is to be done about the weightiest alone: what is behind it may be innocent.
fn with_causes(finding: Finding, causes: Vec<Cause>) -> Finding {
    let fix = finding.fix.clone().or_else(|| causes.first().and_then(|(_, fix)| fix.clone()));
    let texts: Vec<String> = causes.into_iter().map(|(text, _)| text).collect();
    finding.cause(texts.join("; ")).fix(fix)
}

fn of_position(relay: &RelayStatus, slot: &SlotReport) -> Vec<Cause> {
    let mut causes = of_state(relay);
    causes.extend(standby(slot));
    causes.extend(relay.blocked_by.as_ref().map(|event| (holds(event), None)));
    causes
}

fn of_state(relay: &RelayStatus) -> Vec<Cause> {
    match &relay.state {
        State::Halted { reason, hint } => {
            vec![(format!("the relay is halted: {reason}"), hint.clone())]
        }
        State::Blocked { reason } => vec![(reason.clone(), None)],
        State::Standby { holder } => {
            vec![(format!("{holder} has the slot, and this relay stands by"), None)]
        }
        State::Starting { reason } => vec![(format!("the relay is starting: {reason}"), None)],
        State::Streaming => {
            let away = relay.sinks.iter().filter(|sink| !sink.connected);
            away.map(|sink| (unreachable(sink), None)).collect()
        }
        State::Stopping { .. } => Vec::new(),
    }
}

/// The event that nothing is confirmed past.
fn holds(HoldsBack { event, sink, destination, .. }: &HoldsBack) -> String {
    match sink.as_str() {
        "" => format!("event `{event}` holds the position"),
        sink => format!("event `{event}` to `{destination}` of sink `{sink}` holds the position"),
    }
}

/// A sink whose broker is away.
pub(super) fn unreachable(sink: &SinkStatus) -> String {
    let name = &sink.name;
    match sink.blocked.first() {
        Some(blocked) => format!("sink `{name}`: {}", blocked.reason),
        None => format!("sink `{name}`: its broker is not connected"),
    }
}

/// What does not move of a sink: a few destinations by name, the others by number.
pub(super) fn blocked(sink: &SinkStatus) -> String {
    let named = sink.blocked.iter().take(NAMED).map(|blocked| match &blocked.destination {
        Some(destination) => format!("`{destination}`: {}", blocked.reason),
        None => blocked.reason.clone(),
    });
    let mut text = format!("sink `{}`: {}", sink.name, named.collect::<Vec<_>>().join(", "));
    if let Some(more) = sink.blocked.len().checked_sub(NAMED).filter(|more| *more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// A transaction that the slot has to wait for, and how to end it.
pub(super) fn holding(transaction: &HoldingTransaction) -> (String, Option<String>) {
    let HoldingTransaction { pid, gid, database, application_name, age_seconds } = transaction;
    let age = AlertMetric::HoldingTransactionSeconds.show(*age_seconds);
    let place = database.as_ref().map_or_else(String::new, |it| format!(" in database `{it}`"));
    match (gid, pid) {
        (Some(gid), _) => (
            format!("the prepared transaction `{gid}`{place}, {age} old, holds the slot back"),
            Some(format!("ROLLBACK PREPARED '{}' (or COMMIT PREPARED){place}", quoted(gid))),
        ),
        (None, Some(pid)) => {
            let client =
                application_name.as_ref().map_or_else(String::new, |it| format!(" (`{it}`)"));
            (
                format!(
                    "the transaction of pid {pid}{client}{place}, {age} old, holds the slot back"
                ),
                Some(format!("SELECT pg_terminate_backend({pid})")),
            )
        }
        (None, None) => (format!("a transaction{place}, {age} old, holds the slot back"), None),
    }
}

/// How many of `transactions` there are beside the oldest.
pub(super) fn others(transactions: &[HoldingTransaction]) -> String {
    match transactions.len().checked_sub(1).filter(|others| *others > 0) {
        Some(others) => format!("{others} more transactions hold it back too"),
        None => String::new(),
    }
}

fn standby(slot: &SlotReport) -> Option<(String, Option<String>)> {
    let walsender = slot.walsender.as_ref()?;
    let waits = walsender.wait_event.as_deref() == Some(STANDBY_WAIT);
    waits.then(|| {
        let pid = walsender.pid;
        let text = format!(
            "walsender {pid} waits ({STANDBY_WAIT}) for a standby that `synchronized_standby_slots` \
             names"
        );
        let fix = "bring that standby back, or take it out: ALTER SYSTEM SET \
                   synchronized_standby_slots = ''; SELECT pg_reload_conf()";
        (text, Some(fix.to_owned()))
    })
}

/// For between single quotes of SQL.
pub(super) fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::state::BlockedDestination;

    #[test]
    fn many_destinations_of_a_sink_are_one_bounded_text() {
        let destination = |number: usize| BlockedDestination {
            destination: Some(format!("orders.{number}")),
            reason: "no leader".to_owned(),
        };
        let sink = SinkStatus {
            name: "events".to_owned(),
            blocked: (0..100).map(destination).collect(),
            ..SinkStatus::default()
        };
        let text = blocked(&sink);
        assert!(text.starts_with("sink `events`: `orders.0`: no leader, "), "{text}");
        assert!(text.ends_with(" and 95 more"), "{text}");
    }

    #[test]
    fn the_one_to_end_is_named() {
        let transaction = HoldingTransaction {
            pid: Some(7),
            database: Some("shop".to_owned()),
            application_name: Some("psql".to_owned()),
            age_seconds: 3700.0,
            ..HoldingTransaction::default()
        };
        let (text, fix) = holding(&transaction);
        assert_eq!(
            text,
            "the transaction of pid 7 (`psql`) in database `shop`, 1h1m old, holds the slot back"
        );
        assert_eq!(fix.as_deref(), Some("SELECT pg_terminate_backend(7)"));
        let (text, fix) =
            holding(&HoldingTransaction { gid: Some("it's".to_owned()), ..transaction });
        assert!(text.starts_with("the prepared transaction `it's`"), "{text}");
        assert!(fix.unwrap().starts_with("ROLLBACK PREPARED 'it''s'"));
    }

    #[test]
    fn a_standby_that_is_waited_for_is_named() {
        let walsender = crate::slot_monitor::Walsender {
            pid: 9,
            wait_event: Some(STANDBY_WAIT.to_owned()),
            ..Default::default()
        };
        let slot = SlotReport { walsender: Some(walsender), ..SlotReport::default() };
        let relay = RelayStatus { state: State::Streaming, ..RelayStatus::default() };
        let finding = explain(Finding::new("lag"), &relay, &slot);
        assert!(finding.cause.contains(STANDBY_WAIT), "{finding:?}");
        assert!(finding.fix.unwrap().contains("synchronized_standby_slots"));
    }
}
