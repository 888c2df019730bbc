//! What is read from a relay's status, and what is said of it.

use super::super::facts::Reading;
use super::*;
use crate::relay::state::{BlockedDestination, PublicationGap};
use crate::slot_monitor::{HoldingTransaction, SlotFigures, Walsender};
use crate::timestamp::Timestamp;

fn sink(delivered: u64) -> SinkStatus {
    SinkStatus { name: "events".to_owned(), connected: true, delivered, ..SinkStatus::default() }
}

fn relay() -> RelayStatus {
    RelayStatus {
        state: State::Streaming,
        slot: Some("orders".to_owned()),
        confirmed: Lsn::new(1000),
        received: Lsn::new(1000),
        sinks: vec![sink(7)],
        ..RelayStatus::default()
    }
}

fn report() -> SlotReport {
    let slot = SlotFigures {
        name: "orders".to_owned(),
        active: true,
        wal_status: Some("reserved".to_owned()),
        retained_wal_bytes: Some(5 << 30),
        confirmed_lag_bytes: Some(3 << 30),
        ..SlotFigures::default()
    };
    SlotReport {
        looked_at: Some(Timestamp::from_micros(1)),
        lag_seconds: Some(0.0),
        slot: Some(slot),
        ..SlotReport::default()
    }
}

fn seen(relay: RelayStatus, slot: SlotReport) -> Seen {
    Seen { relay, slot, is_active: true, failures: Vec::new() }
}

fn observe(seen: &Seen) -> Facts {
    Observer::default().observe(seen, Moment::now())
}

#[track_caller]
fn known(facts: &Facts, metric: M) -> (f64, Finding) {
    match facts.get(metric) {
        Reading::Known(value, finding) => (*value, finding.clone()),
        other => panic!("{metric:?}: {other:?}"),
    }
}

#[track_caller]
fn check(facts: &Facts, metric: M, expected: f64) {
    let (value, finding) = known(facts, metric);
    assert!((value - expected).abs() < 0.01, "{metric:?} is {value}: {finding:?}");
}

#[test]
fn a_healthy_relay_gives_no_rule_a_reason() {
    let mut slot = report();
    slot.max_slot_wal_keep_size = Some(10 << 30);
    slot.slot.as_mut().unwrap().confirmed_lag_bytes = Some(0);
    let facts = observe(&seen(relay(), slot));
    for rule in crate::config::DEFAULT_RULES {
        if let Reading::Known(value, finding) = facts.get(rule.metric) {
            let past = rule.bound.is_past(*value, rule.threshold);
            assert!(!past, "{} at {value}: {finding:?}", rule.name);
        }
    }
}

#[test]
fn nothing_delivered_is_measured_only_while_events_wait() {
    let mut observer = Observer::default();
    let now = Moment::now();
    let waiting = |delivered, events| {
        let relay = RelayStatus { window_events: events, sinks: vec![sink(delivered)], ..relay() };
        seen(relay, report())
    };
    check(&observer.observe(&waiting(7, 0), now), M::SecondsSinceDelivery, 0.0);
    check(&observer.observe(&waiting(7, 3), now.plus(100.0)), M::SecondsSinceDelivery, 0.0);
    let facts = observer.observe(&waiting(7, 3), now.plus(160.0));
    check(&facts, M::SecondsSinceDelivery, 60.0);
    let (_, finding) = known(&facts, M::SecondsSinceDelivery);
    assert_eq!(finding.headline, "no event was acknowledged for 1m although 3 wait");
    check(&observer.observe(&waiting(8, 3), now.plus(170.0)), M::SecondsSinceDelivery, 0.0);
    check(&observer.observe(&waiting(8, 0), now.plus(500.0)), M::SecondsSinceDelivery, 0.0);
}

#[test]
fn a_position_is_stuck_only_while_there_is_wal_past_it() {
    let mut observer = Observer::default();
    let now = Moment::now();
    let at = |received| seen(RelayStatus { received: Lsn::new(received), ..relay() }, report());
    check(&observer.observe(&at(1000), now), M::SecondsSinceConfirm, 0.0);
    check(&observer.observe(&at(1000), now.plus(900.0)), M::SecondsSinceConfirm, 0.0);
    check(&observer.observe(&at(1500), now.plus(901.0)), M::SecondsSinceConfirm, 0.0);
    let facts = observer.observe(&at(1500), now.plus(1501.0));
    check(&facts, M::SecondsSinceConfirm, 600.0);
}

#[test]
fn failures_are_those_of_the_last_minute_by_reason() {
    let mut observer = Observer::default();
    let now = Moment::now();
    let failing = |total| {
        let reason = "NOT_ENOUGH_REPLICAS".to_owned();
        let failures = vec![FailureCount { sink: "events".to_owned(), reason, total }];
        Seen { failures, ..seen(relay(), report()) }
    };
    for second in 0..=50 {
        let facts = observer.observe(&failing(f64::from(second)), now.plus(f64::from(second)));
        check(&facts, M::FailuresPerMinute, f64::from(second));
    }
    let facts = observer.observe(&failing(90.0), now.plus(90.0));
    let (value, finding) = known(&facts, M::FailuresPerMinute);
    assert!((55.0..=65.0).contains(&value), "{value}");
    assert!(finding.cause.ends_with("of sink `events`: NOT_ENOUGH_REPLICAS"), "{finding:?}");
    for second in [120.0, 180.0, 200.0] {
        observer.observe(&failing(90.0), now.plus(second));
    }
    let facts = observer.observe(&failing(90.0), now.plus(201.0));
    check(&facts, M::FailuresPerMinute, 0.0);
    let (_, finding) = known(&facts, M::FailuresPerMinute);
    assert_eq!(finding.headline, "0 deliveries failed within a minute");
}

#[test]
fn a_sink_without_its_broker_is_not_one_that_is_blocked() {
    let blocked = |destination: Option<&str>, reason: &str| BlockedDestination {
        destination: destination.map(str::to_owned),
        reason: reason.to_owned(),
    };
    let away = SinkStatus {
        connected: false,
        blocked: vec![blocked(None, "connection refused")],
        ..sink(0)
    };
    let stuck = SinkStatus {
        name: "tasks".to_owned(),
        blocked: vec![blocked(Some("payments"), "low on memory")],
        ..sink(0)
    };
    let facts = observe(&seen(RelayStatus { sinks: vec![away, stuck], ..relay() }, report()));
    let (count, finding) = known(&facts, M::SinksDisconnected);
    assert!((count - 1.0).abs() < f64::EPSILON);
    assert_eq!(finding.cause, "sink `events`: connection refused");
    let (count, finding) = known(&facts, M::SinksBlocked);
    assert!((count - 1.0).abs() < f64::EPSILON);
    assert_eq!(finding.cause, "sink `tasks`: `payments`: low on memory");
}

#[test]
fn a_halt_names_its_events_and_the_way_out() {
    let event = |number: u32| HaltedEvent {
        id: number.to_string(),
        destination: "orders".to_owned(),
        reason: "too large".to_owned(),
    };
    let reason = "event `0` cannot be delivered to `orders`: too large".to_owned();
    let halted = RelayStatus {
        state: State::Halted { reason, hint: Some("run --skip 0".to_owned()) },
        halted_events: (0..8).map(event).collect(),
        ..relay()
    };
    let (_, finding) = known(&observe(&seen(halted, report())), M::Halted);
    assert!(finding.headline.contains("event `0` cannot be delivered to `orders`"), "{finding:?}");
    assert!(finding.cause.ends_with("and 3 more"), "{finding:?}");
    assert_eq!(finding.fix.as_deref(), Some("run --skip 0"));
}

#[test]
fn a_slot_that_somebody_else_has_is_no_relay() {
    let held = RelayStatus {
        state: State::Blocked { reason: "slot `orders` is held by pid 7 (`psql`)".to_owned() },
        ..relay()
    };
    let other = Seen { is_active: false, ..seen(held, report()) };
    let (value, finding) = known(&observe(&other), M::RelayActive);
    assert!(value.abs() < f64::EPSILON);
    assert!(finding.cause.contains("pid 7 (`psql`)"), "{finding:?}");
    let standby = State::Standby { holder: "pid 8 (`pgoutbox:orders`)".to_owned() };
    let standby =
        Seen { is_active: false, ..seen(RelayStatus { state: standby, ..relay() }, report()) };
    check(&observe(&standby), M::RelayActive, 1.0);
}

fn open_transaction() -> SlotReport {
    let holder = HoldingTransaction {
        pid: Some(4711),
        database: Some("shop".to_owned()),
        age_seconds: 720.0,
        ..HoldingTransaction::default()
    };
    let figures = SlotFigures {
        name: "orders".to_owned(),
        retained_wal_bytes: Some(3 << 30),
        ..SlotFigures::default()
    };
    let wal_position = Lsn::new(1000 + (3 << 30));
    SlotReport { holding: vec![holder], slot: Some(figures), wal_position, ..report() }
}

#[test]
fn an_open_transaction_is_why_wal_is_kept() {
    let facts = observe(&seen(relay(), open_transaction()));
    let (value, finding) = known(&facts, M::SlotRetainedWalBytes);
    assert!((value - 3.0 * 1_073_741_824.0).abs() < 1.0);
    assert_eq!(finding.headline, "the server keeps 3GiB of WAL for slot `orders`");
    assert!(finding.cause.contains("pid 4711 in database `shop`, 12m old"), "{finding:?}");
    assert_eq!(finding.fix.as_deref(), Some("SELECT pg_terminate_backend(4711)"));
}

#[test]
fn an_open_transaction_is_not_to_be_ended_for_what_it_does_not_hold() {
    let state = State::Starting { reason: "no broker of `b:1` can be reached".to_owned() };
    let starting = RelayStatus { state, ..relay() };
    let away = Seen { is_active: false, ..seen(starting, open_transaction()) };
    let facts = observe(&away);
    for metric in [M::RelayActive, M::SlotActive, M::SlotConfirmedLagBytes] {
        let (_, finding) = known(&facts, metric);
        assert!(finding.cause.contains("no broker of `b:1`"), "{metric:?}: {finding:?}");
        assert_eq!(finding.fix, None, "{metric:?}");
    }
    // Even where it holds something, what weighs more comes first.
    let (_, finding) = known(&facts, M::SlotRetainedWalBytes);
    assert!(finding.cause.contains("4711") && finding.fix.is_none(), "{finding:?}");
}

#[test]
fn a_monitor_that_fails_makes_its_figures_unknown() {
    let failing = SlotReport { failure: Some("connection refused".to_owned()), ..report() };
    let facts = observe(&seen(relay(), failing));
    check(&facts, M::MonitorUp, 0.0);
    assert_eq!(known(&facts, M::MonitorUp).1.cause, "connection refused");
    for metric in [M::SlotWalStatus, M::SlotActive, M::SlotSecondsToExhaustion] {
        assert_eq!(facts.get(metric), &Reading::Unknown);
    }
    // Before the first look there is nothing to say of it either.
    let facts = observe(&seen(relay(), SlotReport::default()));
    assert_eq!(facts.get(M::MonitorUp), &Reading::Unknown);
}

#[test]
fn no_time_to_exhaustion_is_good_news() {
    let facts = observe(&seen(relay(), report()));
    assert_eq!(facts.get(M::SlotSecondsToExhaustion), &Reading::Fine);
}

#[test]
fn what_the_slot_shows_is_named() {
    let mut slot = report();
    let figures = slot.slot.as_mut().unwrap();
    figures.wal_status = Some("unreserved".to_owned());
    figures.active = false;
    slot.walsender =
        Some(Walsender { pid: 9, sync_state: Some("sync".to_owned()), ..Walsender::default() });
    let gap = PublicationGap { reason: "no table".to_owned(), hint: Some("ALTER …".to_owned()) };
    let facts = observe(&seen(RelayStatus { publication_gap: Some(gap), ..relay() }, slot));
    check(&facts, M::SlotWalStatus, 2.0);
    check(&facts, M::SlotActive, 0.0);
    check(&facts, M::WalsenderSynchronous, 1.0);
    check(&facts, M::PublicationGap, 1.0);
    check(&facts, M::SlotUnlimitedWalBytes, 5.0 * 1_073_741_824.0);
    assert!(known(&facts, M::WalsenderSynchronous).1.headline.contains("walsender 9"));
    assert_eq!(known(&facts, M::PublicationGap).1.fix.as_deref(), Some("ALTER …"));
}
