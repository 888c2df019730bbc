//! Decides how far the source may be confirmed.
//!
//! A source can only be told "everything up to here is safe", and brokers acknowledge out of order.
//! So events are numbered in commit order, the settled ones at the front are let go, and a position
//! is confirmed once every event before it has gone. Positions are those of commits and of idle
//! keepalives only, never one inside a transaction (guarantee 1).
//!
//! Pure: no clock, no I/O. The tests below hold it against a slow and obvious model.

use std::collections::VecDeque;

use crate::source::Position;

/// The ledger of one session. Its confirmed position never goes back.
#[derive(Debug)]
pub struct Ledger {
    /// Number of the event at the front.
    first: u64,
    events: VecDeque<Entry>,
    marks: VecDeque<Mark>,
    transaction: Transaction,
    unsettled: usize,
    /// Confirmable only at or past this: the largest "not before" that the front has passed.
    floor: Position,
    confirmed: Position,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Deliveries (one a sink) that are still to be settled.
    outstanding: u8,
    not_before: Position,
}

/// `position` may be confirmed once every event numbered below `before` is settled.
#[derive(Clone, Copy, Debug)]
struct Mark {
    before: u64,
    position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transaction {
    Open,
    None,
}

impl Ledger {
    /// A ledger in which everything up to `confirmed` is settled, and whose first event will have
    /// the number `first`.
    pub fn new(confirmed: Position, first: u64) -> Self {
        Self {
            first,
            events: VecDeque::new(),
            marks: VecDeque::new(),
            transaction: Transaction::None,
            unsettled: 0,
            floor: Position::default(),
            confirmed,
        }
    }

    /// The events that follow belong to one transaction, until [`Ledger::commit`].
    pub fn begin(&mut self) {
        self.transaction = Transaction::Open;
    }

    /// Takes the next event, which goes to `sinks` sinks, and gives its number. With no sink it is
    /// settled at once.
    pub fn event(&mut self, sinks: u8) -> u64 {
        let number = self.first + self.events.len() as u64;
        self.events.push_back(Entry { outstanding: sinks, not_before: Position::default() });
        if sinks == 0 {
            self.advance();
        } else {
            self.unsettled += 1;
        }
        number
    }

    /// The open transaction is whole and ends before `position`.
    pub fn commit(&mut self, position: Position) {
        self.transaction = Transaction::None;
        self.mark(position);
    }

    /// Nothing was published up to `position`. Ignored within a transaction.
    pub fn progress(&mut self, position: Position) {
        if self.transaction == Transaction::None {
            self.mark(position);
        }
    }

    /// One delivery of the event `number` is settled: acknowledged, dropped or skipped; or, with
    /// `not_before`, settled by a write to PostgreSQL that ends there (guarantee 3).
    ///
    /// Gives whether this was the event's last delivery. A number that is not held (of an earlier
    /// session, or settled already) changes nothing.
    pub fn settle(&mut self, number: u64, not_before: Option<Position>) -> bool {
        let Some(entry) = self.entry(number).filter(|entry| entry.outstanding > 0) else {
            return false;
        };
        entry.not_before = entry.not_before.max(not_before.unwrap_or_default());
        entry.outstanding -= 1;
        if entry.outstanding > 0 {
            return false;
        }
        self.unsettled -= 1;
        self.advance();
        true
    }

    /// Everything before this is settled. Never goes back.
    pub fn confirmed(&self) -> Position {
        self.confirmed
    }

    /// Events that are not settled.
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// The number that the next event will have.
    pub fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Whether a transaction has begun and its commit has not come.
    pub fn in_transaction(&self) -> bool {
        self.transaction == Transaction::Open
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.events.get_mut(index)
    }

    fn mark(&mut self, position: Position) {
        let before = self.next();
        match self.marks.back_mut() {
            // The later of two positions with the same events before them is the one that counts.
            Some(last) if last.before == before => last.position = last.position.max(position),
            _ => self.marks.push_back(Mark { before, position }),
        }
        self.advance();
    }

    fn advance(&mut self) {
        while let Some(entry) = self.events.front().filter(|entry| entry.outstanding == 0) {
            self.floor = self.floor.max(entry.not_before);
            self.events.pop_front();
            self.first += 1;
            self.confirm();
        }
        self.confirm();
    }

    /// Confirms the marks that every event before them has been let go of.
    fn confirm(&mut self) {
        while let Some(mark) = self.marks.front().filter(|mark| mark.before <= self.first) {
            if mark.position >= self.floor {
                self.confirmed = self.confirmed.max(mark.position);
            }
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lsn::Lsn;

    fn at(lsn: u64) -> Position {
        Position(Lsn::new(lsn))
    }

    fn ledger() -> Ledger {
        Ledger::new(at(1), 0)
    }

    #[test]
    fn a_commit_waits_for_the_slowest_delivery() {
        let mut ledger = ledger();
        ledger.begin();
        let (first, second) = (ledger.event(1), ledger.event(1));
        ledger.commit(at(10));
        assert!(ledger.settle(second, None));
        assert_eq!(ledger.confirmed(), at(1));
        assert!(ledger.settle(first, None));
        assert_eq!(ledger.confirmed(), at(10));
    }

    #[test]
    fn nothing_inside_a_transaction_is_confirmed() {
        let mut ledger = ledger();
        ledger.begin();
        let event = ledger.event(1);
        ledger.settle(event, None);
        ledger.progress(at(5));
        assert_eq!(ledger.confirmed(), at(1));
        ledger.commit(at(10));
        assert_eq!(ledger.confirmed(), at(10));
    }

    #[test]
    fn an_idle_position_waits_for_the_events_before_it() {
        let mut ledger = ledger();
        ledger.begin();
        let event = ledger.event(1);
        ledger.commit(at(10));
        ledger.progress(at(20));
        ledger.progress(at(30));
        assert_eq!(ledger.confirmed(), at(1));
        ledger.settle(event, None);
        assert_eq!(ledger.confirmed(), at(30));
    }

    #[test]
    fn an_event_counts_once_for_each_of_its_sinks() {
        let mut ledger = ledger();
        ledger.begin();
        let event = ledger.event(2);
        ledger.commit(at(10));
        assert!(!ledger.settle(event, None));
        assert_eq!(ledger.confirmed(), at(1));
        assert!(ledger.settle(event, None));
        assert_eq!(ledger.confirmed(), at(10));
        assert!(!ledger.settle(event, None), "settled already");
    }

    #[test]
    fn what_a_write_settled_is_not_confirmed_before_the_write() {
        let mut ledger = ledger();
        ledger.begin();
        let event = ledger.event(1);
        ledger.commit(at(10));
        ledger.settle(event, Some(at(25)));
        assert_eq!(ledger.confirmed(), at(1), "10 is before the write at 25");
        ledger.progress(at(20));
        assert_eq!(ledger.confirmed(), at(1));
        ledger.progress(at(25));
        assert_eq!(ledger.confirmed(), at(25));
    }

    #[test]
    fn reports_of_an_earlier_session_change_nothing() {
        let mut ledger = Ledger::new(at(1), 7);
        ledger.begin();
        let event = ledger.event(1);
        ledger.commit(at(10));
        assert_eq!(event, 7);
        assert!(!ledger.settle(6, None));
        assert!(!ledger.settle(8, None));
        assert_eq!(ledger.confirmed(), at(1));
    }

    /// One step of a generated history.
    #[derive(Clone, Debug)]
    enum Step {
        Transaction(Vec<u8>),
        Progress,
        Settle(usize, Option<u64>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            prop::collection::vec(0u8..3, 0..5).prop_map(Step::Transaction),
            Just(Step::Progress),
            (any::<usize>(), prop::option::weighted(0.1, 0u64..40))
                .prop_map(|(which, ahead)| Step::Settle(which, ahead)),
            (any::<usize>(), Just(None)).prop_map(|(which, ahead)| Step::Settle(which, ahead)),
        ];
        prop::collection::vec(step, 0..120)
    }

    /// The obvious model: everything that ever happened, looked through from the start each time.
    #[derive(Default)]
    struct Model {
        /// (deliveries outstanding, not before), by event number.
        events: Vec<(u8, u64)>,
        /// (events before it, position).
        marks: Vec<(usize, u64)>,
    }

    impl Model {
        fn is_confirmable(&self, before: usize, position: u64) -> bool {
            self.events[..before]
                .iter()
                .all(|(outstanding, not_before)| *outstanding == 0 && *not_before <= position)
        }

        fn confirmed(&self) -> u64 {
            let confirmable = self.marks.iter().filter(|(b, p)| self.is_confirmable(*b, *p));
            confirmable.map(|(_, position)| *position).max().unwrap_or(1).max(1)
        }
    }

    proptest! {
        #[test]
        fn generated_histories_agree_with_the_model(steps in steps()) {
            let mut ledger = ledger();
            let mut model = Model::default();
            let mut end = 1;
            let mut seen = at(1);
            for step in steps {
                match step {
                    Step::Transaction(sinks) => {
                        ledger.begin();
                        for sinks in sinks {
                            prop_assert_eq!(ledger.event(sinks), model.events.len() as u64);
                            model.events.push((sinks, 0));
                        }
                        end += 10;
                        ledger.commit(at(end));
                        model.marks.push((model.events.len(), end));
                    }
                    Step::Progress => {
                        end += 1;
                        ledger.progress(at(end));
                        model.marks.push((model.events.len(), end));
                    }
                    Step::Settle(which, ahead) if !model.events.is_empty() => {
                        let which = which % model.events.len();
                        let not_before = ahead.map(|ahead| end + ahead);
                        ledger.settle(which as u64, not_before.map(at));
                        let (outstanding, floor) = &mut model.events[which];
                        if *outstanding > 0 {
                            *outstanding -= 1;
                            *floor = (*floor).max(not_before.unwrap_or(0));
                        }
                    }
                    Step::Settle(..) => {}
                }
                prop_assert!(ledger.confirmed() >= seen, "went back");
                seen = ledger.confirmed();
                // The ledger may forget a position that a "not before" held back for a moment; it
                // never confirms more than the model allows.
                prop_assert!(seen <= at(model.confirmed()));
                if model.events.iter().all(|(_, floor)| *floor == 0) {
                    prop_assert_eq!(seen, at(model.confirmed()));
                }
                let unsettled = model.events.iter().filter(|(left, _)| *left > 0).count();
                prop_assert_eq!(ledger.unsettled(), unsettled);
            }
        }
    }
}
