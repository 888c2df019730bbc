//! The events that are not settled, and the memory they hold.

use std::collections::VecDeque;

use crate::routing::RoutedEvent;
use crate::sink::DeliveryId;
use crate::window::Share;

/// Unsettled events by delivery id. The ids of one session are without gaps.
#[derive(Debug)]
pub(super) struct Held {
    /// Id of the entry at the front.
    first: u64,
    entries: VecDeque<Entry>,
    /// Number of the batch at the front.
    first_batch: u64,
    batches: VecDeque<BatchShare>,
}

#[derive(Debug)]
struct Entry {
    event: Option<HeldEvent>,
    batch: u64,
    commit_time_micros: i64,
}

/// One event, or what is left of one that is not sent.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is the large one")]
pub(super) enum HeldEvent {
    /// To be sent until it is acknowledged.
    Sendable(RoutedEvent),
    /// Not to be sent in this session: a poison event, or one that must not overtake it; with what
    /// is known of where it would have gone, if anything.
    Barred(Option<Box<RoutedEvent>>),
}

impl HeldEvent {
    /// Where it goes or would have gone.
    pub(super) fn routed(&self) -> Option<&RoutedEvent> {
        match self {
            Self::Sendable(event) => Some(event),
            Self::Barred(event) => event.as_deref(),
        }
    }
}

#[derive(Debug)]
struct BatchShare {
    unsettled: usize,
    share: Option<Share>,
}

impl Held {
    /// Holds nothing; the first event will have the id `first`.
    pub(super) fn new(first: u64) -> Self {
        Self { first, entries: VecDeque::new(), first_batch: 0, batches: VecDeque::new() }
    }

    /// The events pushed from here on hold this share, together.
    pub(super) fn begin_batch(&mut self, share: Share) {
        self.batches.push_back(BatchShare { unsettled: 0, share: Some(share) });
    }

    /// No more events of the present batch: where none is held, neither is its share.
    pub(super) fn end_batch(&mut self) {
        self.release();
    }

    /// Takes the next event.
    pub(super) fn push(&mut self, event: HeldEvent, commit_time_micros: i64) {
        let batch = (self.first_batch + self.batches.len() as u64).saturating_sub(1);
        if let Some(last) = self.batches.back_mut() {
            last.unsettled += 1;
        }
        self.entries.push_back(Entry { event: Some(event), batch, commit_time_micros });
    }

    /// Takes the place of an event that needs no delivery.
    pub(super) fn push_settled(&mut self) {
        if self.entries.is_empty() {
            self.first += 1;
        } else {
            self.entries.push_back(Entry { event: None, batch: 0, commit_time_micros: 0 });
        }
    }

    /// The event `id`, unless it is settled.
    pub(super) fn get(&self, id: DeliveryId) -> Option<&HeldEvent> {
        self.entries.get(self.index(id)?)?.event.as_ref()
    }

    /// Keeps `id` from being sent.
    pub(super) fn bar(&mut self, id: DeliveryId) {
        let index = self.index(id);
        let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) else { return };
        if let Some(HeldEvent::Sendable(routed)) = entry.event.take() {
            entry.event = Some(HeldEvent::Barred(Some(Box::new(routed))));
        }
    }

    /// Lets the event `id` go. Gives it with its commit time, unless it had gone already.
    pub(super) fn settle(&mut self, id: DeliveryId) -> Option<(HeldEvent, i64)> {
        let index = self.index(id)?;
        let entry = self.entries.get_mut(index)?;
        let event = entry.event.take()?;
        let (batch, commit_time_micros) = (entry.batch, entry.commit_time_micros);
        while self.entries.front().is_some_and(|entry| entry.event.is_none()) {
            self.entries.pop_front();
            self.first += 1;
        }
        let index = usize::try_from(batch.saturating_sub(self.first_batch)).unwrap_or(usize::MAX);
        if let Some(batch) = self.batches.get_mut(index) {
            batch.unsettled -= 1;
            if batch.unsettled == 0 {
                self.release();
            }
        }
        Some((event, commit_time_micros))
    }

    /// The oldest event held, and its commit time.
    pub(super) fn oldest(&self) -> Option<(&HeldEvent, i64)> {
        let entry = self.entries.front()?;
        Some((entry.event.as_ref()?, entry.commit_time_micros))
    }

    /// Entries from the oldest unsettled event on: what a restart would read again.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn index(&self, id: DeliveryId) -> Option<usize> {
        usize::try_from(id.0.checked_sub(self.first)?).ok()
    }

    /// Gives back the share of every batch that no event holds any more.
    fn release(&mut self) {
        for batch in &mut self.batches {
            if batch.unsettled == 0 {
                batch.share = None;
            }
        }
        while self.batches.front().is_some_and(|batch| batch.share.is_none()) {
            self.batches.pop_front();
            self.first_batch += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Window;

    fn settle(held: &mut Held, id: u64) -> Option<i64> {
        held.settle(DeliveryId(id)).map(|(_, committed)| committed)
    }

    fn poison() -> HeldEvent {
        HeldEvent::Barred(None)
    }

    #[test]
    fn a_share_is_given_back_when_the_last_of_its_events_is_settled() {
        let window = Window::new(10 * 1024);
        let mut held = Held::new(5);
        for _ in 0..2 {
            held.begin_batch(window.try_take(1024).unwrap());
            held.push(poison(), 7);
            held.push(poison(), 8);
            held.end_batch();
        }
        assert_eq!(window.held(), 2048);
        assert_eq!(settle(&mut held, 7), Some(7));
        assert_eq!(settle(&mut held, 8), Some(8));
        assert_eq!(window.held(), 1024, "the second batch went before the first");
        assert_eq!(settle(&mut held, 6), Some(8));
        assert_eq!(settle(&mut held, 5), Some(7));
        assert_eq!(window.held(), 0);
        assert_eq!(held.len(), 0);
        assert_eq!(settle(&mut held, 5), None);
    }

    #[test]
    fn a_batch_without_events_holds_nothing() {
        let window = Window::new(10 * 1024);
        let mut held = Held::new(0);
        held.begin_batch(window.try_take(1024).unwrap());
        held.push_settled();
        held.end_batch();
        assert_eq!(window.held(), 0);
        held.begin_batch(window.try_take(1024).unwrap());
        held.push(poison(), 1);
        held.end_batch();
        assert!(held.get(DeliveryId(1)).is_some());
    }
}
