//! Stories about lanes, and one generated history against a broker that fails at will.

use std::collections::BTreeMap;

use proptest::prelude::*;

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
