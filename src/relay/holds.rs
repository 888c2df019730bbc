//! Which event holds the confirmed position back: the oldest that is not settled.

use super::held::Held;
use super::outgoing::Outgoing;
use super::state::{HaltedEvent, HoldsBack, SinkStatus};
use crate::timestamp::Timestamp;

/// Nothing is wrong, but it may take long.
const LIMITED: &str =
    "under way, or waits for its turn: `max_rate` lets no more through at present";

/// The oldest unsettled event, with where it goes and, where that is known, why it is not settled.
pub(super) fn holds_back(
    held: &Held,
    outgoing: &[Outgoing],
    sinks: &[SinkStatus],
    halted: &[HaltedEvent],
) -> Option<HoldsBack> {
    let (event, committed) = held.oldest()?;
    let committed_at = Timestamp::from_micros(committed);
    let Some(routed) = event.routed() else {
        // It has no destination; the events that halt the relay are in order, and it is the first.
        let first = halted.first();
        return Some(HoldsBack {
            event: first.map_or_else(String::new, |halted| halted.id.clone()),
            sink: String::new(),
            destination: String::new(),
            committed_at,
            reason: first.map(|halted| halted.reason.clone()),
        });
    };
    let index = usize::from(routed.sink.0);
    let (id, destination) = (String::from_utf8_lossy(&routed.id), routed.destination.name());
    let own = halted.iter().find(|halted| halted.id == id).map(|halted| halted.reason.clone());
    let reason = own.or_else(|| {
        let blocked = &sinks.get(index)?.blocked;
        let stands = blocked.iter().find(|blocked| match &blocked.destination {
            None => true,
            Some(stands) => *stands == destination,
        });
        stands.map(|blocked| blocked.reason.clone())
    });
    let is_limited = outgoing.get(index).is_some_and(Outgoing::is_limited);
    let reason = reason.or_else(|| is_limited.then(|| LIMITED.to_owned()));
    Some(HoldsBack {
        sink: outgoing.get(index).map_or_else(String::new, |sink| sink.name().to_owned()),
        event: id.into_owned(),
        destination: destination.into_owned(),
        committed_at,
        reason,
    })
}
