//! What was written, and in which order it was committed.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

/// One committed row of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Uuid,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: String,
    pub(crate) event_type: String,
    /// The payload as PostgreSQL prints it.
    pub(crate) payload: String,
    /// Place among all committed events of the same aggregate, in commit order and without gaps.
    pub(crate) n: i64,
}

/// All that writers did.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    committed: HashMap<Uuid, Event>,
    rolled_back: HashSet<Uuid>,
}

impl History {
    /// Adds what was committed.
    pub(crate) fn commit(&mut self, events: impl IntoIterator<Item = Event>) {
        self.committed.extend(events.into_iter().map(|event| (event.id, event)));
    }

    /// Adds what was rolled back, by a transaction or to a savepoint.
    pub(crate) fn roll_back(&mut self, events: impl IntoIterator<Item = Event>) {
        self.rolled_back.extend(events.into_iter().map(|event| event.id));
    }

    /// Joins the history of another writer.
    pub(crate) fn merge(&mut self, other: Self) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
    }

    /// What was committed of one aggregate type: for a relay that sends each its own way.
    pub(crate) fn of_type(&self, aggregate_type: &str) -> Self {
        let is_of_type = |event: &&Event| event.aggregate_type == aggregate_type;
        let mut part = Self { rolled_back: self.rolled_back.clone(), ..Self::default() };
        part.commit(self.committed().filter(is_of_type).cloned());
        part
    }

    /// Committed events in no order.
    pub(crate) fn committed(&self) -> impl Iterator<Item = &Event> {
        self.committed.values()
    }

    /// Number of committed events.
    pub(crate) fn len(&self) -> usize {
        self.committed.len()
    }

    /// A committed event.
    pub(crate) fn get(&self, id: &Uuid) -> Option<&Event> {
        self.committed.get(id)
    }

    /// Whether the row was written and taken back.
    pub(crate) fn was_rolled_back(&self, id: &Uuid) -> bool {
        self.rolled_back.contains(id)
    }

    /// Number of rows that were taken back.
    pub(crate) fn rolled_back(&self) -> usize {
        self.rolled_back.len()
    }
}
