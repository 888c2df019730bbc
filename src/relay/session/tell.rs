//! What a session tells: its state, its figures, and that it is alive.

use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::{Phase, Session, Why};
use crate::relay::holds::holds_back;
use crate::relay::outgoing::Outgoing;
use crate::relay::state::{PublicationGap, State, combine};

/// The source's reader is a thread of its own; it turns ten times a second, whatever it waits for.
/// One that has not turned for this long will not turn again.
const STALLED_AFTER: Duration = Duration::from_secs(15);

impl Session<'_> {
    /// What the parts have to say about the relay's state, as one.
    pub(super) fn state(&self) -> State {
        let (stopping, lost) = match &self.phase {
            Phase::Running => (None, None),
            Phase::Draining { why: Why::Stop, .. } => {
                let reason = match self.books.ledger.unsettled() {
                    0 if self.books.ledger.in_transaction() => {
                        "reads the open transaction to its end".to_owned()
                    }
                    0 => "confirms what was acknowledged".to_owned(),
                    1 => "waits for 1 event's acknowledgement".to_owned(),
                    events => format!("waits for the acknowledgements of {events} events"),
                };
                (Some(State::Stopping { reason }), None)
            }
            Phase::Draining { why: Why::Lost(failure), .. } => {
                (None, Some(State::Starting { reason: failure.to_string() }))
            }
        };
        let own = [
            stopping,
            lost,
            self.source_halt.as_ref().map(State::halted),
            self.relay.setback.as_ref().map(State::halted),
            self.guard.coverage_lost().as_ref().map(State::halted),
            self.relay.poison.state(),
        ];
        let sinks = self.relay.outgoing.iter().flat_map(Outgoing::states);
        combine(own.into_iter().flatten().chain(sinks))
    }

    /// Puts what there is to see where others look for it.
    pub(super) fn publish(&mut self) {
        let state = self.state();
        let outgoing = &self.relay.outgoing;
        let sinks: Vec<_> = outgoing.iter().map(Outgoing::status).collect();
        let halted = self.relay.poison.halted_events();
        let blocked_by = holds_back(&self.books.held, outgoing, &sinks, &halted);
        let gap = self.guard.coverage_lost().map(|failure| PublicationGap {
            reason: failure.to_string(),
            hint: failure.way_out().map(str::to_owned),
        });
        let publisher = &self.relay.publisher;
        if self.reader.beats(self.source.coverage.turns(), Instant::now()) {
            publisher.beat();
        }
        publisher.change(|status| {
            status.state = state;
            status.confirmed = self.books.ledger.confirmed().0;
            status.received = self.source.coverage.heard().max(status.confirmed);
            status.window_events = self.books.ledger.unsettled() as u64;
            status.window_bytes = self.relay.window.held() as u64;
            status.oldest_unacknowledged = blocked_by.as_ref().map(|event| event.committed_at);
            status.blocked_by = blocked_by;
            status.sinks = sinks;
            status.halted_events = halted;
            status.publication_gap = gap;
        });
        debug!(unsettled = self.books.ledger.unsettled(), confirmed = %self.books.ledger.confirmed(), "tick");
    }
}

/// Whether the reader's loop still turns: a relay whose reader is stuck is not alive, though its own
/// loop may be.
#[derive(Debug)]
pub(super) struct Pulse {
    turns: u64,
    at: Instant,
}

impl Pulse {
    pub(super) fn new(now: Instant) -> Self {
        Self { turns: 0, at: now }
    }

    /// Takes how often the reader's loop has turned so far.
    fn beats(&mut self, turns: u64, now: Instant) -> bool {
        if turns != self.turns {
            *self = Self { turns, at: now };
        }
        now.duration_since(self.at) <= STALLED_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_not_turned_for_long_is_not_alive_until_it_turns() {
        let now = Instant::now();
        let mut pulse = Pulse::new(now);
        assert!(pulse.beats(0, now + STALLED_AFTER), "it may just have begun");
        let late = now + STALLED_AFTER + Duration::from_secs(1);
        assert!(!pulse.beats(0, late));
        assert!(pulse.beats(1, late));
        assert!(pulse.beats(1, late + STALLED_AFTER));
        assert!(!pulse.beats(1, late + 2 * STALLED_AFTER));
    }
}
