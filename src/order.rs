//! Decides what one sink may be handed now.
//!
//! Events of one [`Lane`] never overtake each other, through refusals and resends. A lane admits one
//! event at a time until its first ack (a broker that has no state for a producer takes any first
//! sequence number, so a second event could land while the first is refused), and then as many as
//! the sink has room for. After a [`Report::Reset`](crate::sink::Report::Reset) everything unsettled
//! is handed over again, in order. A lane can be held after a poison event and is closed while the
//! sink does not know where it leads; other lanes go on.
//!
//! Pure: the time is an argument.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use foldhash::fast::FixedState;
use tokio::time::Instant;

use crate::sink::{DeliveryId, Lane, Pace};

/// A lane without an ack for this long starts slowly again. Well under the 24 h after which Kafka
/// forgets an idle producer by default (`producer.id.expiration.ms`).
const COLD_AFTER: Duration = Duration::from_secs(30 * 60);

/// What one sink holds, by delivery.
#[derive(Debug)]
pub struct Order {
    /// Id of the delivery at the front.
    first: u64,
    entries: VecDeque<Entry>,
    lanes: HashMap<Lane, LaneState, FixedState>,
    /// May be handed over, in this order.
    ready: VecDeque<u64>,
    pace: Pace,
    limits: Limits,
}

/// Events of one lane that may be with the sink at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Before the lane's first ack.
    pub cold: usize,
    /// After it.
    pub warm: usize,
}

impl Limits {
    /// No limit at all.
    pub const NONE: Self = Self { cold: usize::MAX, warm: usize::MAX };
    /// One before the first ack, then no limit: Kafka's partitions.
    pub const SLOW_START: Self = Self { cold: 1, warm: usize::MAX };

    /// So many, whatever was acknowledged: RabbitMQ's ordering keys.
    pub const fn fixed(limit: usize) -> Self {
        Self { cold: limit, warm: limit }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    lane: Lane,
    state: State,
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

#[derive(Debug, Default)]
struct LaneState {
    /// Ready or out.
    admitted: usize,
    waiting: VecDeque<u64>,
    last_ack: Option<Instant>,
    /// The sink cannot send here at the moment.
    closed: bool,
    /// Nothing from this delivery on may be handed over: it is a poison event.
    held: Option<u64>,
}

impl LaneState {
    fn limit(&self, pace: Pace, limits: Limits, now: Instant) -> usize {
        if self.closed {
            return 0;
        }
        if pace == Pace::OneByOne {
            return 1;
        }
        let warm = self.last_ack.is_some_and(|ack| now.duration_since(ack) < COLD_AFTER);
        if warm { limits.warm } else { limits.cold }
    }

    fn is_held(&self, id: u64) -> bool {
        self.held.is_some_and(|held| id >= held)
    }
}

impl Order {
    /// Nothing held; the first delivery will have an id of at least `first`.
    pub fn new(limits: Limits, first: u64) -> Self {
        Self {
            first,
            entries: VecDeque::new(),
            lanes: HashMap::default(),
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
            self.entries.push_back(Entry { lane, state: State::Settled });
        }
        self.entries.push_back(Entry { lane, state: State::Waiting });
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
            state.admitted -= 1;
            state.waiting.push_front(id.0);
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
                state.admitted -= 1;
                state.waiting.push_front(id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
