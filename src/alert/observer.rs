//! From what a relay, its monitor and its metrics show to a reading of every metric.
//!
//! It remembers what the parts themselves do not: since when nothing has been delivered, since when
//! the position has not moved, how many deliveries failed within the last minute.

mod failures;
mod slot;

use super::cause::{blocked, explain, explain_relay, unreachable};
use super::facts::{Facts, Finding};
use super::moment::Moment;
use crate::config::AlertMetric as M;
use crate::lsn::Lsn;
use crate::metrics::FailureCount;
use crate::relay::state::{HaltedEvent, RelayStatus, SinkStatus, State};
use crate::slot_monitor::SlotReport;
use failures::Failures;

/// More events or destinations than these are counted, not named.
const NAMED: usize = 5;

/// Everything there is to see at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) relay: RelayStatus,
    pub(super) slot: SlotReport,
    /// This relay has the slot.
    pub(super) is_active: bool,
    pub(super) failures: Vec<FailureCount>,
}

/// What has to be remembered from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Observer {
    delivery: Option<Still<u64>>,
    confirm: Option<Still<Lsn>>,
    failures: Failures,
}

/// Something that has not changed since.
#[derive(Debug)]
struct Still<T> {
    value: T,
    since: Moment,
}

impl Observer {
    /// Every metric, as `seen` shows it `now`.
    pub(super) fn observe(&mut self, seen: &Seen, now: Moment) -> Facts {
        let mut facts = Facts::default();
        self.progress(&mut facts, seen, now);
        window(&mut facts, seen, now);
        state(&mut facts, seen);
        sinks(&mut facts, seen);
        slot::read(&mut facts, seen);
        self.failures.read(&mut facts, &seen.failures, now);
        facts
    }

    fn progress(&mut self, facts: &mut Facts, seen: &Seen, now: Moment) {
        let Seen { relay, slot, .. } = seen;
        let delivered = relay.sinks.iter().map(|sink| sink.delivered).sum();
        let waits = relay.window_events > 0;
        let seconds = still_for(&mut self.delivery, waits.then_some(delivered), now);
        let name = slot_name(relay);
        facts.known(M::SecondsSinceDelivery, Some(seconds), |shown| {
            let events = relay.window_events;
            let text = format!("no event was acknowledged for {shown} although {events} wait");
            explain(Finding::new(text), relay, slot)
        });
        // Who stands by has no position of its own.
        let is_behind = relay.received.max(slot.wal_position) > relay.confirmed;
        let own = relay.confirmed != Lsn::ZERO && !matches!(relay.state, State::Standby { .. });
        let position = (own && is_behind).then_some(relay.confirmed);
        let seconds = still_for(&mut self.confirm, position, now);
        facts.known(M::SecondsSinceConfirm, Some(seconds), |shown| {
            let text = format!(
                "the confirmed position of {name} has been {} for {shown} although the WAL grew",
                relay.confirmed
            );
            explain(Finding::new(text), relay, slot)
        });
    }
}

/// How long `value` has been the same; 0 where there is none.
fn still_for<T: PartialEq>(still: &mut Option<Still<T>>, value: Option<T>, now: Moment) -> f64 {
    match (&still, value) {
        (Some(known), Some(value)) if known.value == value => now.seconds_since(known.since),
        (_, value) => {
            *still = value.map(|value| Still { value, since: now });
            0.0
        }
    }
}

fn window(facts: &mut Facts, seen: &Seen, now: Moment) {
    let Seen { relay, slot, .. } = seen;
    let finding = |text: String| explain(Finding::new(text), relay, slot);
    facts.known(M::WindowEvents, Some(number(relay.window_events)), |shown| {
        finding(format!("{shown} events are read and not settled"))
    });
    facts.known(M::WindowBytes, Some(number(relay.window_bytes)), |shown| {
        finding(format!("{shown} of events are read and not settled"))
    });
    let age = relay.oldest_unacknowledged.map_or(0.0, |commit| now.time.seconds_since(commit));
    facts.known(M::OldestUnacknowledgedSeconds, Some(age), |shown| {
        finding(format!("the oldest event that is not settled was committed {shown} ago"))
    });
}

fn state(facts: &mut Facts, seen: &Seen) {
    let Seen { relay, is_active, .. } = seen;
    let is_run = *is_active || matches!(relay.state, State::Standby { .. });
    let name = slot_name(relay);
    let mut finding = Finding::new(format!("no relay reads {name}"));
    if !is_run {
        finding = explain_relay(finding, relay);
    }
    facts.flag(M::RelayActive, is_run, finding);

    let halted = match &relay.state {
        State::Halted { reason, hint } => {
            let cause = halted_events(&relay.halted_events);
            Some(Finding::new(format!("halted: {reason}")).cause(cause).fix(hint.clone()))
        }
        _ => None,
    };
    facts.flag(M::Halted, halted.is_some(), halted.unwrap_or_default());

    let gap = relay.publication_gap.as_ref();
    let finding = gap.map(|gap| {
        let cause = "until that is mended, events may be missed and no idle position is confirmed";
        Finding::new(gap.reason.clone()).cause(cause).fix(gap.hint.clone())
    });
    facts.flag(M::PublicationGap, gap.is_some(), finding.unwrap_or_default());
}

/// The events that halt the relay, where there are more than the state names.
fn halted_events(events: &[HaltedEvent]) -> String {
    if events.len() < 2 {
        return String::new();
    }
    let named = events.iter().take(NAMED).map(|event| match event.destination.as_str() {
        "" => format!("`{}`", event.id),
        destination => format!("`{}` to `{destination}`", event.id),
    });
    let mut text = format!("events {}", named.collect::<Vec<_>>().join(", "));
    if let Some(more) = events.len().checked_sub(NAMED).filter(|more| *more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn sinks(facts: &mut Facts, seen: &Seen) {
    let (on, off): (Vec<&SinkStatus>, Vec<&SinkStatus>) =
        seen.relay.sinks.iter().partition(|sink| sink.connected);
    let stuck: Vec<&SinkStatus> = on.into_iter().filter(|sink| !sink.blocked.is_empty()).collect();
    facts.known(M::SinksDisconnected, Some(number(off.len() as u64)), |_| {
        let text = match off.len() {
            1 => "a sink has no connection to its broker".to_owned(),
            count => format!("{count} sinks have no connection to their brokers"),
        };
        Finding::new(text).cause(join(&off, unreachable))
    });
    facts.known(M::SinksBlocked, Some(number(stuck.len() as u64)), |_| {
        let hint = match &seen.relay.state {
            State::Halted { hint, .. } => hint.clone(),
            _ => None,
        };
        let text = match stuck.len() {
            1 => "a sink does not take everything".to_owned(),
            count => format!("{count} sinks do not take everything"),
        };
        Finding::new(text).cause(join(&stuck, blocked)).fix(hint)
    });
}

fn join(sinks: &[&SinkStatus], text: impl Fn(&SinkStatus) -> String) -> String {
    let texts: Vec<String> = sinks.iter().take(NAMED).map(|sink| text(sink)).collect();
    texts.join("; ")
}

/// The slot as messages name it.
fn slot_name(relay: &RelayStatus) -> String {
    relay.slot.as_ref().map_or_else(|| "the slot".to_owned(), |slot| format!("slot `{slot}`"))
}

#[expect(clippy::cast_precision_loss, reason = "of petabytes, a byte is none")]
fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests;
