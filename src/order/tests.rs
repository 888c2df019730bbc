//! Stories about lanes, and one generated history against a broker that fails at will.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::lane::COLD_AFTER;
use super::*;

const LANE: Lane = Lane(1);
const OTHER: Lane = Lane(2);

fn order() -> (Order, Instant) {
    (Order::new(Limits::SLOW_START, 0), Instant::now())
}

/// Hands over all that may be.
fn send(order: &mut Order) -> Vec<u64> {
    let mut sent = Vec::new();
    while let Some(id) = order.next() {
        order.sent();
        sent.push(id.0);
    }
    sent
}

#[test]
fn a_lane_starts_with_one_and_opens_at_its_first_ack() {
    let (mut order, now) = order();
    for id in 0..4 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    order.push(DeliveryId(4), OTHER, true, now);
    assert_eq!(send(&mut order), [0, 4]);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(send(&mut order), [1, 2, 3]);
}

#[test]
fn an_idle_lane_starts_slowly_again() {
    let (mut order, now) = order();
    order.push(DeliveryId(0), LANE, true, now);
    send(&mut order);
    order.settle(DeliveryId(0), true, now);
    let later = now + COLD_AFTER;
    order.push(DeliveryId(1), LANE, true, later);
    order.push(DeliveryId(2), LANE, true, later);
    assert_eq!(send(&mut order), [1]);
}

#[test]
fn a_reset_sends_the_unsettled_again_in_order() {
    let (mut order, now) = order();
    for id in 0..4 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    send(&mut order);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(send(&mut order), [1, 2, 3]);
    order.settle(DeliveryId(2), true, now);
    assert_eq!(order.reset(Pace::SlowStart, now), 2);
    assert_eq!(send(&mut order), [1]);
    order.settle(DeliveryId(1), true, now);
    assert_eq!(send(&mut order), [3]);
}

#[test]
fn one_by_one_stays_so_until_the_pace_changes() {
    let (mut order, now) = order();
    for id in 0..4 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    order.reset(Pace::OneByOne, now);
    assert_eq!(send(&mut order), [0]);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(send(&mut order), [1]);
    order.set_pace(Pace::SlowStart, now);
    assert_eq!(send(&mut order), [2, 3]);
}

#[test]
fn a_held_lane_stops_and_the_others_go_on() {
    let (mut order, now) = order();
    order.push(DeliveryId(0), LANE, true, now);
    send(&mut order);
    order.hold(DeliveryId(0));
    order.push(DeliveryId(1), LANE, true, now);
    order.push(DeliveryId(2), OTHER, true, now);
    assert_eq!(send(&mut order), [2]);
    order.reset(Pace::SlowStart, now);
    assert_eq!(send(&mut order), [2], "a reset does not let it go");
}

#[test]
fn what_was_ready_in_a_held_lane_is_called_back() {
    let (mut order, now) = order();
    for id in 0..3 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    send(&mut order);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(order.next(), Some(DeliveryId(1)));
    order.hold(DeliveryId(1));
    assert_eq!(order.next(), None);
}

#[test]
fn what_stands_before_a_held_event_goes_on() {
    let (mut order, now) = order();
    for id in 0..4 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    order.hold(DeliveryId(2));
    assert_eq!(send(&mut order), [0]);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(send(&mut order), [1]);
    order.settle(DeliveryId(1), true, now);
    assert_eq!(send(&mut order), [] as [u64; 0]);
    order.settle(DeliveryId(2), false, now);
    assert_eq!(send(&mut order), [3], "skipped, and so free again");
}

#[test]
fn a_closed_lane_waits_until_its_place_is_known() {
    let (mut order, now) = order();
    for id in 0..3 {
        order.push(DeliveryId(id), LANE, false, now);
    }
    assert_eq!(send(&mut order), [] as [u64; 0]);
    order.relane(LANE, now, |id| (Lane(10 + id.0 % 2), true));
    assert_eq!(send(&mut order), [0, 1]);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(send(&mut order), [2]);
}

#[test]
fn a_lane_that_opens_again_goes_on_in_order() {
    let (mut order, now) = order();
    order.push(DeliveryId(0), LANE, false, now);
    order.push(DeliveryId(1), LANE, false, now);
    order.relane(LANE, now, |_| (LANE, true));
    assert_eq!(send(&mut order), [0]);
}

#[test]
fn ids_of_other_sinks_leave_no_trace() {
    let (mut order, now) = order();
    order.push(DeliveryId(3), LANE, true, now);
    order.push(DeliveryId(7), OTHER, true, now);
    assert_eq!(send(&mut order), [3, 7]);
    order.settle(DeliveryId(3), true, now);
    order.settle(DeliveryId(7), true, now);
    assert_eq!(order.unsettled(), 0);
    assert!(order.entries.is_empty());
}

fn fixed(limit: usize) -> (Order, Instant) {
    (Order::new(Limits::fixed(limit), 0), Instant::now())
}

const PAUSE: Duration = Duration::from_secs(1);

#[test]
fn a_lane_with_a_limit_of_one_waits_for_each_ack() {
    let (mut order, now) = fixed(1);
    for id in 0..3 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    order.push(DeliveryId(3), OTHER, true, now);
    assert_eq!(send(&mut order), [0, 3]);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(send(&mut order), [1]);
}

#[test]
fn what_comes_back_pauses_its_lane_and_no_other() {
    let (mut order, now) = fixed(1);
    for id in 0..2 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    order.push(DeliveryId(2), OTHER, true, now);
    order.push(DeliveryId(3), OTHER, true, now);
    assert_eq!(send(&mut order), [0, 2]);
    order.give_back(DeliveryId(0), now + PAUSE);
    order.settle(DeliveryId(2), true, now);
    assert_eq!(send(&mut order), [3], "the other lane goes on");
    assert_eq!(order.next_due(), Some(now + PAUSE));
    order.wake(now + PAUSE / 2);
    assert_eq!(send(&mut order), [] as [u64; 0]);
    order.wake(now + PAUSE);
    assert_eq!(send(&mut order), [0], "before what is later");
    assert_eq!(order.next_due(), None);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(send(&mut order), [1]);
}

#[test]
fn returns_are_counted_through_a_reset() {
    let (mut order, now) = fixed(1);
    order.push(DeliveryId(0), LANE, true, now);
    for count in 1..=3 {
        assert_eq!(send(&mut order), [0]);
        order.give_back(DeliveryId(0), now + PAUSE);
        assert_eq!(order.returns(DeliveryId(0)), count);
        order.wake(now + PAUSE);
    }
    send(&mut order);
    order.reset(Pace::SlowStart, now);
    assert_eq!(order.returns(DeliveryId(0)), 3);
    assert_eq!(order.returns(DeliveryId(7)), 0);
}

#[test]
fn a_pause_outlasts_a_reset() {
    let (mut order, now) = fixed(1);
    order.push(DeliveryId(0), LANE, true, now);
    order.push(DeliveryId(1), LANE, true, now);
    send(&mut order);
    order.give_back(DeliveryId(0), now + PAUSE);
    assert_eq!(order.reset(Pace::SlowStart, now), 0);
    assert_eq!(send(&mut order), [] as [u64; 0]);
    order.wake(now + PAUSE);
    assert_eq!(send(&mut order), [0]);
}

#[test]
fn above_a_limit_of_one_what_is_ready_waits_for_what_came_back() {
    let (mut order, now) = fixed(2);
    for id in 0..5 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    assert_eq!(send(&mut order), [0, 1]);
    order.settle(DeliveryId(0), true, now);
    assert_eq!(order.next(), Some(DeliveryId(2)));
    order.give_back(DeliveryId(1), now + PAUSE);
    assert_eq!(order.next(), None);
    order.wake(now + PAUSE);
    assert_eq!(send(&mut order), [1, 2]);
}

#[test]
fn of_two_that_came_back_the_earlier_goes_first() {
    let (mut order, now) = fixed(2);
    for id in 0..3 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    send(&mut order);
    order.give_back(DeliveryId(1), now + PAUSE);
    order.give_back(DeliveryId(0), now + PAUSE / 2);
    assert_eq!(order.next_due(), Some(now + PAUSE), "the longer pause holds");
    order.wake(now + PAUSE);
    assert_eq!(send(&mut order), [0, 1]);
}

#[test]
fn a_poison_event_behind_one_that_came_back_stays_behind_it() {
    let (mut order, now) = fixed(2);
    for id in 0..3 {
        order.push(DeliveryId(id), LANE, true, now);
    }
    send(&mut order);
    order.give_back(DeliveryId(0), now + PAUSE);
    order.hold(DeliveryId(1));
    order.wake(now + PAUSE);
    assert_eq!(send(&mut order), [0]);
}

#[test]
fn a_skipped_delivery_leaves_no_pause_behind() {
    let (mut order, now) = fixed(1);
    order.push(DeliveryId(0), LANE, true, now);
    send(&mut order);
    order.give_back(DeliveryId(0), now + PAUSE);
    order.settle(DeliveryId(0), false, now);
    order.wake(now + PAUSE);
    assert!(order.lanes.is_empty() && order.pauses.is_empty());
}

#[test]
fn lanes_without_end_leave_no_trace() {
    let (mut order, now) = fixed(1);
    for id in 0..100_000 {
        order.push(DeliveryId(id), Lane(id), true, now);
        if id >= 100 {
            send(&mut order);
            order.settle(DeliveryId(id - 100), true, now);
        }
        assert!(order.lanes.len() <= 101);
    }
}

#[test]
fn a_lane_of_kafkas_is_remembered() {
    let (mut order, now) = order();
    order.push(DeliveryId(0), LANE, true, now);
    send(&mut order);
    order.settle(DeliveryId(0), true, now);
    order.push(DeliveryId(1), LANE, true, now);
    order.push(DeliveryId(2), LANE, true, now);
    assert_eq!(send(&mut order), [1, 2], "it had its first ack");
}

#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    Ack(usize),
    Reset(bool),
    Pace(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..3).prop_map(Step::Push),
        4 => any::<usize>().prop_map(Step::Ack),
        1 => any::<bool>().prop_map(Step::Reset),
        1 => any::<bool>().prop_map(Step::Pace),
    ]
}

fn pace(one_by_one: bool) -> Pace {
    if one_by_one { Pace::OneByOne } else { Pace::SlowStart }
}

proptest! {
    /// A broker that acknowledges in any order and forgets everything at will never sees an event
    /// of a lane before an earlier one that it has not at least been handed since the last reset,
    /// never two of a lane that has no ack, and in the end has had every event.
    #[test]
    fn a_lane_never_overtakes_itself(steps in prop::collection::vec(step(), 0..200)) {
        let (mut order, now) = order();
        let mut next = 0;
        let mut lane_of = BTreeMap::new();
        let mut settled = std::collections::BTreeSet::new();
        let mut out: Vec<u64> = Vec::new();
        let mut warm = std::collections::BTreeSet::new();
        let mut steps = steps.into_iter().peekable();
        loop {
            match steps.next() {
                Some(Step::Push(lane)) => {
                    lane_of.insert(next, lane);
                    order.push(DeliveryId(next), Lane(lane), true, now);
                    next += 1;
                }
                Some(Step::Ack(which)) if !out.is_empty() => {
                    let id = out.remove(which % out.len());
                    settled.insert(id);
                    warm.insert(lane_of[&id]);
                    order.settle(DeliveryId(id), true, now);
                }
                Some(Step::Reset(one)) => {
                    prop_assert_eq!(order.reset(pace(one), now), out.len() as u64);
                    out.clear();
                    warm.clear();
                }
                Some(Step::Pace(one)) => {
                    order.set_pace(pace(one), now);
                }
                Some(Step::Ack(_)) => {}
                None if out.is_empty() => break,
                None => {
                    let id = out.remove(0);
                    settled.insert(id);
                    warm.insert(lane_of[&id]);
                    order.settle(DeliveryId(id), true, now);
                }
            }
            for id in send(&mut order) {
                let lane = lane_of[&id];
                let earlier = lane_of.iter().filter(|(other, l)| **other < id && **l == lane);
                for (other, _) in earlier {
                    prop_assert!(settled.contains(other) || out.contains(other), "{other} < {id}");
                }
                let together = out.iter().filter(|other| lane_of[other] == lane).count();
                if !warm.contains(&lane) {
                    prop_assert_eq!(together, 0, "a second one in a cold lane");
                }
                out.push(id);
            }
        }
        prop_assert_eq!(settled.len() as u64, next);
        prop_assert_eq!(order.unsettled(), 0);
    }
}

#[derive(Clone, Debug)]
enum SingleStep {
    Push(u64),
    Ack(usize),
    /// A nack or a return, and the pause after it.
    Return(usize, u64),
    /// A lost connection.
    Reset,
    /// The sink has room for so many only.
    Send(usize),
    Wait(u64),
}

fn single_step() -> impl Strategy<Value = SingleStep> {
    prop_oneof![
        4 => (0u64..4).prop_map(SingleStep::Push),
        3 => any::<usize>().prop_map(SingleStep::Ack),
        3 => (any::<usize>(), 1u64..50).prop_map(|(which, pause)| SingleStep::Return(which, pause)),
        1 => Just(SingleStep::Reset),
        3 => (0usize..4).prop_map(SingleStep::Send),
        3 => (0u64..30).prop_map(SingleStep::Wait),
    ]
}

/// What a broker and its clock know of a history in which deliveries come back one by one.
struct Broker {
    order: Order,
    now: Instant,
    limit: usize,
    lane_of: BTreeMap<u64, u64>,
    settled: std::collections::BTreeSet<u64>,
    out: Vec<u64>,
    /// Nothing of the lane before then.
    due: BTreeMap<u64, Instant>,
}

impl Broker {
    fn new(limit: usize) -> Self {
        let (order, now) = fixed(limit);
        let (lane_of, settled, due) = Default::default();
        Self { order, now, limit, lane_of, settled, out: Vec::new(), due }
    }

    fn ack(&mut self, which: usize) {
        let id = self.out.remove(which % self.out.len());
        self.settled.insert(id);
        self.order.settle(DeliveryId(id), true, self.now);
    }

    fn give_back(&mut self, which: usize, pause: u64) {
        let id = self.out.remove(which % self.out.len());
        let until = self.now + Duration::from_millis(pause);
        let due = self.due.entry(self.lane_of[&id]).or_insert(until);
        *due = until.max(*due);
        self.order.give_back(DeliveryId(id), until);
    }

    /// Takes at most `room`, and checks each against what the broker knows.
    fn take(&mut self, room: usize) -> Result<usize, TestCaseError> {
        self.order.wake(self.now);
        let mut taken = 0;
        while taken < room
            && let Some(DeliveryId(id)) = self.order.next()
        {
            self.order.sent();
            let lane = self.lane_of[&id];
            let due = self.due.get(&lane).copied();
            prop_assert!(due.is_none_or(|due| due <= self.now), "{id} in a paused lane");
            let together = self.out.iter().filter(|out| self.lane_of[out] == lane).count();
            prop_assert!(together < self.limit, "{id} above the limit");
            let earlier = self.lane_of.iter().filter(|(other, l)| **other < id && **l == lane);
            for (other, _) in earlier {
                let settled = self.settled.contains(other);
                let out = self.limit > 1 && self.out.contains(other);
                prop_assert!(settled || out, "{id} before {other}");
            }
            self.out.push(id);
            taken += 1;
        }
        Ok(taken)
    }

    /// Everything is taken and acknowledged in the end, and nothing is kept of it.
    fn finish(mut self) -> Result<(), TestCaseError> {
        loop {
            self.take(usize::MAX)?;
            if !self.out.is_empty() {
                self.ack(0);
                continue;
            }
            match self.order.next_due() {
                Some(due) => self.now = due,
                None => break,
            }
        }
        prop_assert_eq!(self.settled.len(), self.lane_of.len());
        prop_assert_eq!(self.order.unsettled(), 0);
        prop_assert!(self.order.entries.is_empty() && self.order.ready.is_empty());
        prop_assert!(self.order.lanes.is_empty() && self.order.pauses.is_empty());
        Ok(())
    }
}

proptest! {
    /// A broker that acknowledges and gives back at will, in any order, loses its connection and has
    /// no room: with a limit of one an event is never taken before every earlier one of its lane is
    /// settled; never are more of a lane out than its limit, nor any within a pause; and in the end
    /// every event has been acknowledged and nothing is kept.
    #[test]
    fn what_comes_back_is_never_overtaken(
        limit in 1usize..4,
        steps in prop::collection::vec(single_step(), 0..300),
    ) {
        let mut broker = Broker::new(limit);
        for step in steps {
            match step {
                SingleStep::Push(lane) => {
                    let id = broker.lane_of.len() as u64;
                    broker.lane_of.insert(id, lane);
                    broker.order.push(DeliveryId(id), Lane(lane), true, broker.now);
                }
                SingleStep::Ack(which) if !broker.out.is_empty() => broker.ack(which),
                SingleStep::Return(which, pause) if !broker.out.is_empty() => {
                    broker.give_back(which, pause);
                }
                SingleStep::Ack(_) | SingleStep::Return(..) => {}
                SingleStep::Reset => {
                    let again = broker.order.reset(Pace::SlowStart, broker.now);
                    prop_assert_eq!(again, broker.out.len() as u64);
                    broker.out.clear();
                }
                SingleStep::Send(room) => {
                    broker.take(room)?;
                }
                SingleStep::Wait(millis) => broker.now += Duration::from_millis(millis),
            }
        }
        broker.finish()?;
    }
}
