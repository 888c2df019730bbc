//! What an operator sees, word for word. The documents are made of the types that `/status` gives.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::lsn::Lsn;
use crate::relay::state::{
    BlockedDestination, HoldsBack, LastError, RelayStatus, SinkStatus, State,
};
use crate::slot_monitor::{HoldingTransaction, SlotFigures, SlotReport, Walsender};
use crate::status::AlertStatus;
use crate::timestamp::Timestamp;

const MIB: f64 = 1_048_576.0;

fn document(relay: &RelayStatus, monitor: &SlotReport) -> Value {
    let mut status = serde_json::to_value(relay).unwrap();
    let answer = json!({
        "name": "orders",
        "version": "0.1.0",
        "uptime_seconds": 11_520.0,
        "events_received": 10,
        "confirmed_lag_bytes": relay.confirmed_lag_bytes(),
        "oldest_unacknowledged_seconds": relay.oldest_unacknowledged.map(|_| 12.5),
        "monitor": monitor,
        "monitor_age_seconds": monitor.looked_at.map(|_| 0.5),
        "alerts": [],
    });
    status.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    status
}

fn shown(status: &Value, rates: Rates) -> String {
    let lines: Vec<String> =
        view(status, rates).iter().map(|line| line.show(false, usize::MAX)).collect();
    lines.join("\n")
}

fn healthy() -> (RelayStatus, SlotReport) {
    let relay = RelayStatus {
        state: State::Streaming,
        slot: Some("orders".to_owned()),
        confirmed: Lsn::new(0x16_B374_D848),
        received: Lsn::new(0x16_B374_D848),
        sinks: vec![SinkStatus {
            name: "events".to_owned(),
            connected: true,
            delivered: 1_234_567,
            ..SinkStatus::default()
        }],
        ..RelayStatus::default()
    };
    let monitor = SlotReport {
        looked_at: Some(Timestamp::from_micros(1_767_323_045_000_000)),
        wal_bytes_per_second: Some(1.25 * MIB),
        max_slot_wal_keep_size: Some(4 << 30),
        slot: Some(SlotFigures {
            name: "orders".to_owned(),
            retained_wal_bytes: Some(24 << 20),
            confirmed_lag_bytes: Some(2048),
            active: true,
            active_pid: Some(4711),
            wal_status: Some("reserved".to_owned()),
            safe_wal_size: Some(4 << 30),
            failover: Some(true),
            ..SlotFigures::default()
        }),
        walsender: Some(Walsender {
            pid: 4711,
            sent_lag_bytes: Some(0),
            write_lag_bytes: Some(512),
            flush_lag_bytes: Some(2048),
            sync_state: Some("async".to_owned()),
            wait_event: Some("WalSenderWaitForWal".to_owned()),
        }),
        lag_seconds: Some(0.25),
        ..SlotReport::default()
    };
    (relay, monitor)
}

#[test]
fn a_relay_in_order() {
    let (relay, monitor) = healthy();
    let rates = Rates { received: Some(120.0), delivered: Some(119.5) };
    let status = document(&relay, &monitor);
    assert!(is_ready(&status));
    insta::assert_snapshot!(shown(&status, rates), @r"
    relay       orders, version 0.1.0, up for 3h 12m
    state       streaming
    events      received 120/s, delivered 120/s
    unsettled   none
    held by     nothing
    lag         2.0 KiB, 0.2s
    time left   no end in sight: what is left does not shrink
    slot        orders: read by pid 4711, wal_status reserved, failover
    WAL         24.0 MiB kept, 4.0 GiB safe, grows 1.2 MiB/s; confirmed up to 16/B374D848
    walsender   pid 4711, behind by: sent 0 B, write 512 B, flush 2.0 KiB; async, waits for WalSenderWaitForWal
    sinks       events: connected, delivered 1234567
    alerts      none fires
    last error  none
    ");
}

#[test]
fn a_relay_that_is_halted_with_a_slot_in_danger() {
    let (mut relay, mut monitor) = healthy();
    let reason = "event `7` cannot be delivered to `orders`: too large (10)".to_owned();
    let hint = "skip the event: `pgoutbox run --skip 7`".to_owned();
    relay.state = State::Halted { reason: reason.clone(), hint: Some(hint) };
    relay.window_events = 3;
    relay.window_bytes = 12_288;
    relay.oldest_unacknowledged = Some(Timestamp::default());
    relay.blocked_by = Some(HoldsBack {
        event: "7".to_owned(),
        sink: "events".to_owned(),
        destination: "orders".to_owned(),
        committed_at: Timestamp::default(),
        reason: Some("too large (10)".to_owned()),
    });
    relay.last_error =
        Some(LastError { at: Timestamp::from_micros(1_767_323_045_000_000), reason });
    relay.reconnects = 2;
    let slot = monitor.slot.as_mut().unwrap();
    slot.wal_status = Some("unreserved".to_owned());
    slot.safe_wal_size = Some(-1024);
    monitor.lag_seconds = Some(7500.0);
    monitor.seconds_to_exhaustion = Some(200.0);
    monitor.seconds_to_full_disk = Some(100_000.0);
    monitor.failure = Some("cannot connect".to_owned());
    monitor.missing = vec!["`safe_wal_size`: cannot be read".to_owned()];
    monitor.warnings = vec!["the slot is about to be lost: raise it".to_owned()];
    let mut status = document(&relay, &monitor);
    let halted = AlertStatus {
        name: "PgoutboxHalted".to_owned(),
        state: "firing",
        severity: "critical",
        metric: "halted",
        rule: "above 0".to_owned(),
        value: Some("1".to_owned()),
        since: None,
        labels: BTreeMap::new(),
        summary: Some("halted".to_owned()),
        description: None,
        fix: Some("skip it".to_owned()),
        runbook_url: None,
    };
    status["alerts"] = json!([halted, {"name": "PgoutboxBacklog", "severity": "warning"}]);
    assert!(!is_ready(&status));
    insta::assert_snapshot!(shown(&status, Rates::default()), @r"
    relay       orders, version 0.1.0, up for 3h 12m, 2 reconnects to PostgreSQL
    state       halted
    reason      event `7` cannot be delivered to `orders`: too large (10)
    hint        skip the event: `pgoutbox run --skip 7`
    events      received unknown, delivered unknown
    unsettled   3 events in 12.0 KiB, the oldest committed 13s ago
    held by     event `7` for sink `events`, `orders`: too large (10)
    lag         2.0 KiB, 2h 5m
    time left   3m 20s until the slot may be lost, 1d 3h until the WAL has filled its volume
    slot        orders: read by pid 4711, wal_status unreserved, failover
    WAL         24.0 MiB kept, -1.0 KiB safe, grows 1.2 MiB/s; confirmed up to 16/B374D848
    walsender   pid 4711, behind by: sent 0 B, write 512 B, flush 2.0 KiB; async, waits for WalSenderWaitForWal
    monitor     the last look failed: cannot connect; figures are of 2026-01-02T03:04:05.000000Z
                the slot is about to be lost: raise it
                `safe_wal_size`: cannot be read
    sinks       events: connected, delivered 1234567
    alerts      critical PgoutboxHalted: halted
                  skip it
                warning PgoutboxBacklog
    ");
}

#[test]
fn a_relay_whose_broker_and_database_both_trouble_it() {
    let (mut relay, mut monitor) = healthy();
    relay.state = State::Blocked { reason: "sink `events`, `all`: no broker".to_owned() };
    let blocked = |destination: Option<&str>, reason: &str| BlockedDestination {
        destination: destination.map(str::to_owned),
        reason: reason.to_owned(),
    };
    relay.sinks[0].connected = false;
    relay.sinks[0].blocked = vec![blocked(None, "no broker")];
    relay.sinks.push(SinkStatus {
        name: "tasks".to_owned(),
        connected: true,
        blocked: vec![blocked(Some("payments with paid"), "nack")],
        delivered: 3,
    });
    monitor.max_slot_wal_keep_size = None;
    let slot = monitor.slot.as_mut().unwrap();
    (slot.safe_wal_size, slot.active) = (None, false);
    slot.inactive_since = Some(Timestamp::from_micros(1_767_323_045_000_000));
    monitor.walsender.as_mut().unwrap().sync_state = Some("quorum".to_owned());
    let open = |pid: i32| HoldingTransaction {
        pid: Some(pid),
        database: Some("shop".to_owned()),
        application_name: (pid == 7).then(|| "billing".to_owned()),
        age_seconds: 750.0,
        ..HoldingTransaction::default()
    };
    let prepared = HoldingTransaction {
        gid: Some("tx-1".to_owned()),
        age_seconds: 90_000.0,
        ..HoldingTransaction::default()
    };
    monitor.holding = vec![prepared, open(7), open(8), open(9), open(10)];
    insta::assert_snapshot!(shown(&document(&relay, &monitor), Rates::default()), @r"
    relay       orders, version 0.1.0, up for 3h 12m
    state       blocked
    reason      sink `events`, `all`: no broker
    events      received unknown, delivered unknown
    unsettled   none
    held by     nothing
    lag         2.0 KiB, 0.2s
    time left   unknown: nothing limits the WAL that slots keep (`max_slot_wal_keep_size`)
    slot        orders: read by nobody since 2026-01-02T03:04:05.000000Z, wal_status reserved, failover
    WAL         24.0 MiB kept, no limit, grows 1.2 MiB/s; confirmed up to 16/B374D848
    walsender   pid 4711, behind by: sent 0 B, write 512 B, flush 2.0 KiB; quorum, waits for WalSenderWaitForWal
    WAL held    by prepared transaction `tx-1`, for 1d 1h
                by pid 7 (`billing`) in `shop`, for 12m 30s
                by pid 8 in `shop`, for 12m 30s
                and by 2 more
    sinks       events: not connected, blocked, delivered 1234567
                  `all`: no broker
                tasks: connected, blocked, delivered 3
                  `payments with paid`: nack
    alerts      none fires
    last error  none
    ");
}

/// One of another version, say: nothing is guessed.
#[test]
fn what_a_relay_leaves_out_is_unknown() {
    let status = json!({"state": "standby", "holder": "pid 7", "slot": "orders"});
    assert!(is_ready(&status));
    insta::assert_snapshot!(shown(&status, Rates::default()), @r"
    relay       unknown, version unknown, up for unknown
    state       standby
    holder      pid 7
    events      received unknown, delivered unknown
    unsettled   unknown
    held by     unknown
    lag         unknown, unknown
    time left   unknown
    slot        orders: unknown
    WAL         unknown kept, unknown safe, grows unknown; confirmed up to unknown
    sinks       unknown
    alerts      unknown
    last error  unknown
    ");
}

#[test]
fn the_last_error_is_shown_where_the_reason_does_not_say_it() {
    let (mut relay, monitor) = healthy();
    let at = Timestamp::from_micros(1_767_323_045_000_000);
    relay.last_error = Some(LastError { at, reason: "no broker".to_owned() });
    let last = "\nlast error  2026-01-02T03:04:05.000000Z: no broker";
    for (state, shows) in [
        (State::Streaming, true),
        (State::Blocked { reason: "nack".to_owned() }, true),
        (State::Blocked { reason: "no broker".to_owned() }, false),
    ] {
        relay.state = state;
        let lines = shown(&document(&relay, &monitor), Rates::default());
        assert_eq!(lines.ends_with(last), shows, "{lines}");
        assert_eq!(lines.contains("last error"), shows, "{lines}");
    }
}

#[test]
fn a_look_that_is_not_of_this_moment_has_its_age_beside_the_lag() {
    let (relay, monitor) = healthy();
    let mut status = document(&relay, &monitor);
    for (age, shows) in [(2.0, "2.0 KiB, 0.2s\n"), (4.0, "2.0 KiB, 0.2s (4.0s ago)\n")] {
        status["monitor_age_seconds"] = json!(age);
        let lines = shown(&status, Rates::default());
        assert!(lines.contains(&format!("\nlag         {shows}")), "{lines}");
    }
    // The relay's own figure is of this moment.
    status["monitor"] = json!({});
    let lines = shown(&status, Rates::default());
    assert!(lines.contains("\nlag         0 B, unknown\n"), "{lines}");
}

#[test]
fn one_event_and_one_reconnect_are_singular() {
    let (mut relay, monitor) = healthy();
    (relay.window_events, relay.window_bytes, relay.reconnects) = (1, 512, 1);
    relay.oldest_unacknowledged = Some(Timestamp::default());
    let lines = shown(&document(&relay, &monitor), Rates::default());
    assert!(lines.contains(", 1 reconnect to PostgreSQL\n"), "{lines}");
    assert!(lines.contains("unsettled   1 event in 512 B, "), "{lines}");
}

#[test]
fn before_anything_was_confirmed_the_slots_own_position_is_shown() {
    let (mut relay, mut monitor) = healthy();
    (relay.confirmed, relay.received) = (Lsn::ZERO, Lsn::ZERO);
    relay.state = State::Standby { holder: "pid 7 (`pgoutbox:orders`)".to_owned() };
    let confirmed_up_to = |relay: &RelayStatus, monitor: &SlotReport, shows: &str| {
        let lines = shown(&document(relay, monitor), Rates::default());
        assert!(lines.contains(&format!("; confirmed up to {shows}\n")), "{shows}: {lines}");
    };
    monitor.wal_position = Lsn::new(0x16_B374_E048);
    confirmed_up_to(&relay, &monitor, "16/B374D848");
    confirmed_up_to(&relay, &SlotReport::default(), "unknown");
    // The relay knows of a confirmation before the monitor's next look, and of none while it stands by.
    relay.confirmed = Lsn::new(0x16_B374_D900);
    confirmed_up_to(&relay, &monitor, "16/B374D900");
    relay.confirmed = Lsn::new(0x16_0000_0000);
    confirmed_up_to(&relay, &monitor, "16/B374D848");
}

#[test]
fn before_the_monitors_first_look_the_slot_is_unknown() {
    let (relay, _) = healthy();
    let lines = shown(&document(&relay, &SlotReport::default()), Rates::default());
    assert!(lines.contains("time left   unknown\n"), "{lines}");
    assert!(lines.contains("slot        orders: unknown\n"), "{lines}");
}

#[test]
fn what_comes_from_elsewhere_cannot_move_the_cursor() {
    let line = Line::new("reason", "a\x1b[2J\nb").tone(Tone::Bad);
    assert_eq!(line.show(false, usize::MAX), "reason      a [2J b");
    assert_eq!(line.show(true, usize::MAX), "reason      \x1b[31ma [2J b\x1b[0m");
}

#[test]
fn a_line_fits_the_terminal_with_its_label_and_its_colour() {
    let line = Line::new("reason", "no broker").tone(Tone::Bad);
    assert_eq!(line.show(false, 21), "reason      no broker");
    assert_eq!(line.show(false, 20), "reason      no brok…");
    assert_eq!(line.show(true, 20), "reason      \x1b[31mno brok…\x1b[0m");
}
