//! Decides what one sink may be handed now.
//!
//! Events of one [`Lane`] never overtake each other, through refusals and resends. A lane admits one
//! event at a time until its first ack (a broker that has no state for a producer takes any first
//! sequence number, so a second event could land while the first is refused), and then as many as
//! the sink has room for. After a [`Report::Reset`](crate::sink::Report::Reset) everything unsettled
//! is handed over again, in order. A lane can be held after a poison event and is closed while the
//! sink does not know where it leads; other lanes go on.
//!
//! Where a sink's deliveries come back one by one ([`Order::give_back`]), a lane has a fixed limit
//! instead. With a limit of one nothing later of the lane is with the sink while an earlier event is
//! on its way back, and so nothing can overtake it.
//!
//! Pure: the time is an argument.

mod lane;

use std::collections::{BTreeSet, HashMap, VecDeque};

use foldhash::fast::FixedState;
use tokio::time::Instant;

use crate::sink::{DeliveryId, Lane, Pace};
use lane::LaneState;
pub use lane::Limits;

/// What one sink holds, by delivery.
#[derive(Debug)]
pub struct Order {
    /// Id of the delivery at the front.
    first: u64,
    entries: VecDeque<Entry>,
    lanes: HashMap<Lane, LaneState, FixedState>,
    /// Lanes that wait for a moment, and which.
    pauses: BTreeSet<(Instant, Lane)>,
    /// May be handed over, in this order.
    ready: VecDeque<u64>,
    pace: Pace,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    lane: Lane,
    state: State,
    /// How often it came back alone.
    returns: u16,
}

impl Entry {
    const fn new(lane: Lane, state: State) -> Self {
        Self { lane, state, returns: 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In its lane's queue.
    Waiting,
    /// In `ready`.
    Ready,
    /// With the sink.
    Out,
    /// Nothing more to do.
    Settled,
}

impl Order {
    /// Nothing held; the first delivery will have an id of at least `first`.
    pub fn new(limits: Limits, first: u64) -> Self {
        Self {
            first,
            entries: VecDeque::new(),
            lanes: HashMap::default(),
            pauses: BTreeSet::new(),
            ready: VecDeque::new(),
            pace: Pace::SlowStart,
            limits,
        }
    }

    /// Takes the next delivery. Ids come in rising order; those left out count as settled.
    pub fn push(&mut self, id: DeliveryId, lane: Lane, open: bool, now: Instant) {
        if self.entries.is_empty() {
            self.first = id.0;
        }
        // Ids that went to other sinks.
        while self.first + (self.entries.len() as u64) < id.0 {
            self.entries.push_back(Entry::new(lane, State::Settled));
        }
        self.entries.push_back(Entry::new(lane, State::Waiting));
        self.lanes.entry(lane).or_default().closed = !open;
        self.admit(id.0, lane, now);
    }

    /// The delivery to hand over next, and whether it leaves at once is up to the sink:
    /// [`Order::sent`] says that it took it.
    pub fn next(&self) -> Option<DeliveryId> {
        self.ready.front().copied().map(DeliveryId)
    }

    /// The sink took what [`Order::next`] gave.
    pub fn sent(&mut self) {
        if let Some(id) = self.ready.pop_front()
            && let Some(entry) = self.entry(id)
        {
            entry.state = State::Out;
        }
    }

    /// The delivery needs nothing more. With `acknowledged`, its lane has been proven to work.
    pub fn settle(&mut self, id: DeliveryId, acknowledged: bool, now: Instant) {
        let Some(entry) = self.entry(id.0) else { return };
        let (lane, state) = (entry.lane, entry.state);
        if state == State::Settled {
            return;
        }
        entry.state = State::Settled;
        if state == State::Ready {
            self.ready.retain(|ready| *ready != id.0);
        }
        if let Some(lane) = self.lanes.get_mut(&lane) {
            match state {
                State::Waiting => lane.waiting.retain(|waiting| *waiting != id.0),
                State::Ready | State::Out | State::Settled => lane.admitted -= 1,
            }
            if acknowledged {
                lane.last_ack = Some(now);
            }
        }
        if let Some(lane) = self.lanes.get_mut(&lane)
            && lane.held == Some(id.0)
        {
            lane.held = None;
        }
        self.promote(lane, now);
        self.forget(lane);
        while self.entries.front().is_some_and(|entry| entry.state == State::Settled) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    /// Nothing is with the sink any more: everything unsettled is handed over again, in order, at
    /// `pace`. Gives how many had been with the sink.
    pub fn reset(&mut self, pace: Pace, now: Instant) -> u64 {
        self.pace = pace;
        self.ready.clear();
        for lane in self.lanes.values_mut() {
            lane.admitted = 0;
            lane.waiting.clear();
            lane.last_ack = None;
        }
        let mut were_out = 0;
        let mut again = Vec::with_capacity(self.entries.len());
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if entry.state != State::Settled {
                were_out += u64::from(entry.state == State::Out);
                entry.state = State::Waiting;
                again.push((self.first + index as u64, entry.lane));
            }
        }
        for (id, lane) in again {
            self.admit(id, lane, now);
        }
        were_out
    }

    /// The sink has given this one delivery back: it is handed over again, before what is later in
    /// its lane, but nothing of the lane before `until`. What else of the lane is with the sink stays
    /// there. `false` where the delivery was not with the sink.
    pub fn give_back(&mut self, id: DeliveryId, until: Instant) -> bool {
        let Some(entry) = self.entry(id.0).filter(|entry| entry.state == State::Out) else {
            return false;
        };
        entry.state = State::Waiting;
        entry.returns = entry.returns.saturating_add(1);
        let lane = entry.lane;
        let Some(state) = self.lanes.get_mut(&lane) else { return false };
        state.take_back(id.0);
        let is_paused_longer = state.paused.is_some_and(|paused| paused >= until);
        if !is_paused_longer {
            if let Some(earlier) = state.paused.replace(until) {
                self.pauses.remove(&(earlier, lane));
            }
            self.pauses.insert((until, lane));
        }
        if self.lanes.get(&lane).is_some_and(|state| state.admitted > 0) {
            self.call_back(lane, 0);
        }
        true
    }

    /// How often this delivery was given back.
    pub fn returns(&self, id: DeliveryId) -> u16 {
        let index = id.0.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.entries.get(index)).map_or(0, |entry| entry.returns)
    }

    /// When [`Order::wake`] has something to do next.
    pub fn next_due(&self) -> Option<Instant> {
        self.pauses.first().map(|(due, _)| *due)
    }

    /// Ends the pauses that are over.
    pub fn wake(&mut self, now: Instant) {
        while let Some((due, lane)) = self.pauses.first().copied()
            && due <= now
        {
            self.pauses.remove(&(due, lane));
            if let Some(state) = self.lanes.get_mut(&lane) {
                state.paused = None;
            }
            self.promote(lane, now);
            self.forget(lane);
        }
    }

    /// Goes on at `pace`; what is with the sink stays there.
    pub fn set_pace(&mut self, pace: Pace, now: Instant) {
        self.pace = pace;
        let lanes: Vec<Lane> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.promote(lane, now);
        }
    }

    /// Hands over nothing of the lane of `id` from `id` on, until that is settled. What stands before
    /// it goes on.
    pub fn hold(&mut self, id: DeliveryId) {
        let Some(entry) = self.entry(id.0) else { return };
        let lane = entry.lane;
        let was_out = entry.state == State::Out;
        entry.state = State::Waiting;
        let Some(state) = self.lanes.get_mut(&lane) else { return };
        state.held = Some(state.held.map_or(id.0, |held| held.min(id.0)));
        if was_out {
            state.take_back(id.0);
        }
        self.call_back(lane, id.0);
    }

    /// The sink may give another lane for what waits in `lane`, or say that it is open now.
    pub fn relane(
        &mut self,
        lane: Lane,
        now: Instant,
        mut place: impl FnMut(DeliveryId) -> (Lane, bool),
    ) {
        self.call_back(lane, 0);
        let Some(state) = self.lanes.get_mut(&lane) else { return };
        let held = state.held.take();
        for id in std::mem::take(&mut state.waiting) {
            let (lane, open) = place(DeliveryId(id));
            if let Some(entry) = self.entry(id) {
                entry.lane = lane;
            }
            self.lanes.entry(lane).or_default().closed = !open;
            self.admit(id, lane, now);
        }
        if let Some(held) = held {
            self.hold(DeliveryId(held));
        }
        self.promote(lane, now);
    }

    /// Deliveries that are with the sink.
    pub fn out(&self) -> impl Iterator<Item = DeliveryId> + '_ {
        let is_out = |(_, entry): &(u64, &Entry)| entry.state == State::Out;
        (self.first..).zip(&self.entries).filter(is_out).map(|(id, _)| DeliveryId(id))
    }

    /// Whether nothing is with the sink, and all that waits does so behind a held delivery.
    pub fn stands_still(&self) -> bool {
        (self.first..).zip(&self.entries).all(|(id, entry)| match entry.state {
            State::Settled => true,
            State::Waiting => self.lanes.get(&entry.lane).is_some_and(|lane| lane.is_held(id)),
            State::Ready | State::Out => false,
        })
    }

    /// Deliveries that are with the sink or wait.
    pub fn unsettled(&self) -> usize {
        self.entries.iter().filter(|entry| entry.state != State::Settled).count()
    }

    fn entry(&mut self, id: u64) -> Option<&mut Entry> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(index)
    }

    /// Makes `id` ready if its lane has room and nothing of the lane waits before it.
    fn admit(&mut self, id: u64, lane: Lane, now: Instant) {
        let (pace, limits) = (self.pace, self.limits);
        let state = self.lanes.entry(lane).or_default();
        let has_room = state.admitted < state.limit(pace, limits, now) && !state.is_held(id);
        if !state.waiting.is_empty() || !has_room {
            state.waiting.push_back(id);
            return;
        }
        state.admitted += 1;
        self.make_ready(id);
    }

    /// Makes ready what waits in `lane`, as far as it has room.
    fn promote(&mut self, lane: Lane, now: Instant) {
        let (pace, limits) = (self.pace, self.limits);
        while let Some(state) = self.lanes.get_mut(&lane)
            && state.admitted < state.limit(pace, limits, now)
            && let Some(id) = state.waiting.front().copied().filter(|id| !state.is_held(*id))
        {
            state.waiting.pop_front();
            state.admitted += 1;
            self.make_ready(id);
        }
    }

    /// Forgets `lane` where it is empty and nothing of it need be remembered.
    fn forget(&mut self, lane: Lane) {
        if self.limits.forgets && self.lanes.get(&lane).is_some_and(LaneState::is_empty) {
            self.lanes.remove(&lane);
        }
    }

    fn make_ready(&mut self, id: u64) {
        if let Some(entry) = self.entry(id) {
            entry.state = State::Ready;
            self.ready.push_back(id);
        }
    }

    /// Puts what is ready in `lane` from `first` on, but not with the sink yet, back to the front of
    /// the lane's queue.
    fn call_back(&mut self, lane: Lane, first: u64) {
        let mut ready = std::mem::take(&mut self.ready);
        let mut back = Vec::new();
        ready.retain(|id| {
            let is_here = *id >= first && self.entry(*id).is_some_and(|entry| entry.lane == lane);
            if is_here {
                back.push(*id);
            }
            !is_here
        });
        self.ready = ready;
        for id in back.into_iter().rev() {
            if let Some(entry) = self.entry(id) {
                entry.state = State::Waiting;
            }
            if let Some(state) = self.lanes.get_mut(&lane) {
                state.take_back(id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
