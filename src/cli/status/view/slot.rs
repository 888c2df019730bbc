//! The slot, as the relay's monitor sees it.

use serde_json::Value;

use super::super::units;
use super::{Line, Tone, figure, list, number, text, unknown};
use crate::lsn::Lsn;

/// Less time left than this is for somebody to act on at once, or today.
const HOUR: f64 = 3600.0;
const HOURS: f64 = 6.0 * HOUR;

/// What the monitor saw within these seconds is as good as what the relay says now.
const FRESH: f64 = 2.0;

/// More transactions that hold the slot back than these are counted.
const NAMED: usize = 3;

/// Everything about the slot.
pub(super) fn lines(status: &Value) -> Vec<Line> {
    let nothing = Value::Null;
    let monitor = status.get("monitor").unwrap_or(&nothing);
    let mut lines = vec![lag(status, monitor), time_left(monitor), slot(status, monitor)];
    lines.push(wal(status, monitor));
    lines.extend(walsender(monitor));
    lines.extend(holding(monitor));
    lines.extend(monitor_itself(monitor));
    lines
}

fn lag(status: &Value, monitor: &Value) -> Line {
    let seen = number(monitor, "/slot/confirmed_lag_bytes");
    let heard = || number(status, "/confirmed_lag_bytes");
    let bytes = figure(seen.or_else(heard), units::bytes);
    let since = number(monitor, "/lag_seconds");
    let seconds = figure(since, units::seconds);
    let age = number(status, "/monitor_age_seconds").filter(|age| *age > FRESH);
    let age = age.filter(|_| seen.or(since).is_some());
    let age = age.map_or_else(String::new, |age| format!(" ({} ago)", units::seconds(age)));
    Line::new("lag", format!("{bytes}, {seconds}{age}"))
}

fn time_left(monitor: &Value) -> Line {
    let label = "time left";
    let ends = [
        ("/seconds_to_exhaustion", "until the slot may be lost"),
        ("/seconds_to_full_disk", "until the WAL has filled its volume"),
    ];
    let known = ends.map(|(place, what)| number(monitor, place).map(|seconds| (seconds, what)));
    let known: Vec<_> = known.into_iter().flatten().collect();
    let Some(least) = known.iter().map(|(seconds, _)| *seconds).reduce(f64::min) else {
        return no_end_in_sight(label, monitor);
    };
    let words = known.iter().map(|(left, what)| format!("{} {what}", units::seconds(*left)));
    let tone = match least {
        _ if least < HOUR => Tone::Bad,
        _ if least < HOURS => Tone::Warning,
        _ => Tone::Plain,
    };
    Line::new(label, words.collect::<Vec<_>>().join(", ")).tone(tone)
}

/// Why there is no figure.
fn no_end_in_sight(label: &'static str, monitor: &Value) -> Line {
    if text(monitor, "/slot/wal_status") == Some("lost") {
        return Line::new(label, "none: the slot is lost").tone(Tone::Bad);
    }
    if !monitor.pointer("/slot").is_some_and(Value::is_object) {
        return Line::new(label, unknown());
    }
    if number(monitor, "/slot/safe_wal_size").is_some() {
        return Line::new(label, "no end in sight: what is left does not shrink");
    }
    match monitor.get("max_slot_wal_keep_size") {
        Some(Value::Null) => {
            let text = "unknown: nothing limits the WAL that slots keep (`max_slot_wal_keep_size`)";
            Line::new(label, text).tone(Tone::Warning)
        }
        _ => Line::new(label, unknown()),
    }
}

fn slot(status: &Value, monitor: &Value) -> Line {
    let name = text(monitor, "/slot/name").or_else(|| text(status, "/slot")).unwrap_or("unknown");
    let Some(slot) = monitor.get("slot").filter(|slot| slot.is_object()) else {
        return Line::new("slot", format!("{name}: {}", unknown()));
    };
    let wal_status = text(slot, "/wal_status");
    let mut words = vec![reader(slot)];
    words.push(format!("wal_status {}", wal_status.unwrap_or("unknown")));
    words.extend(text(slot, "/invalidation_reason").map(|why| format!("invalidated: {why}")));
    for flag in ["conflicting", "failover", "synced"] {
        let is_set = slot.get(flag).and_then(Value::as_bool) == Some(true);
        words.extend(is_set.then(|| flag.to_owned()));
    }
    let tone = match wal_status {
        Some("unreserved" | "lost") => Tone::Bad,
        Some("extended") => Tone::Warning,
        _ => Tone::Plain,
    };
    Line::new("slot", format!("{name}: {}", words.join(", "))).tone(tone)
}

/// Who reads the slot.
fn reader(slot: &Value) -> String {
    match slot.get("active").and_then(Value::as_bool) {
        Some(true) => match number(slot, "/active_pid") {
            Some(pid) => format!("read by pid {pid}"),
            None => "read".to_owned(),
        },
        Some(false) => match text(slot, "/inactive_since") {
            Some(since) => format!("read by nobody since {since}"),
            None => "read by nobody".to_owned(),
        },
        None => "reader unknown".to_owned(),
    }
}

fn wal(status: &Value, monitor: &Value) -> Line {
    let kept = figure(number(monitor, "/slot/retained_wal_bytes"), units::bytes);
    let safe = match monitor.get("max_slot_wal_keep_size") {
        Some(Value::Null) if monitor.get("slot").is_some_and(Value::is_object) => {
            "no limit".to_owned()
        }
        _ => format!("{} safe", figure(number(monitor, "/slot/safe_wal_size"), units::bytes)),
    };
    let growth = number(monitor, "/wal_bytes_per_second");
    let growth = figure(growth.map(f64::round), |bytes| format!("{}/s", units::bytes(bytes)));
    let confirmed = confirmed(status, monitor).map_or_else(unknown, |lsn| lsn.to_string());
    let text = format!("{kept} kept, {safe}, grows {growth}; confirmed up to {confirmed}");
    Line::new("WAL", text)
}

/// The confirmed position. A relay that has not begun to stream knows none, and another one may move the
/// slot while it stands by: then the monitor's look tells.
fn confirmed(status: &Value, monitor: &Value) -> Option<Lsn> {
    let position = |value: &Value, place: &str| text(value, place)?.parse::<Lsn>().ok();
    let own = position(status, "/confirmed");
    let seen = || {
        let behind = monitor.pointer("/slot/confirmed_lag_bytes")?.as_u64()?;
        let end = position(monitor, "/wal_position")?.as_u64();
        end.checked_sub(behind).map(Lsn::new)
    };
    own.max(seen()).filter(|lsn| *lsn != Lsn::ZERO)
}

fn walsender(monitor: &Value) -> Option<Line> {
    let walsender = monitor.get("walsender").filter(|it| it.is_object())?;
    let pid = figure(number(walsender, "/pid"), |pid| pid.to_string());
    let stages = ["sent", "write", "flush"].map(|stage| {
        let bytes = number(walsender, &format!("/{stage}_lag_bytes"));
        format!("{stage} {}", figure(bytes, units::bytes))
    });
    let sync_state = text(walsender, "/sync_state");
    let mut line = format!(
        "pid {pid}, behind by: {}; {}",
        stages.join(", "),
        sync_state.unwrap_or("sync_state unknown")
    );
    if let Some(event) = text(walsender, "/wait_event") {
        line.push_str(&format!(", waits for {event}"));
    }
    let makes_commits_wait = sync_state.is_some_and(|state| state != "async");
    let tone = if makes_commits_wait { Tone::Bad } else { Tone::Plain };
    Some(Line::new("walsender", line).tone(tone))
}

/// Transactions that hold the slot back.
fn holding(monitor: &Value) -> Vec<Line> {
    let all = list(monitor, "/holding");
    let mut lines: Vec<Line> = all
        .iter()
        .take(NAMED)
        .zip(["WAL held"].into_iter().chain(std::iter::repeat("")))
        .map(|(transaction, label)| Line::new(label, in_words(transaction)))
        .collect();
    if all.len() > NAMED {
        lines.push(Line::new("", format!("and by {} more", all.len() - NAMED)));
    }
    lines
}

fn in_words(transaction: &Value) -> String {
    let who = match (text(transaction, "/gid"), number(transaction, "/pid")) {
        (Some(gid), _) => format!("prepared transaction `{gid}`"),
        (None, Some(pid)) => match text(transaction, "/application_name") {
            Some(client) => format!("pid {pid} (`{client}`)"),
            None => format!("pid {pid}"),
        },
        (None, None) => unknown(),
    };
    let database = text(transaction, "/database");
    let database = database.map_or_else(String::new, |name| format!(" in `{name}`"));
    let age = figure(number(transaction, "/age_seconds"), units::seconds);
    format!("by {who}{database}, for {age}")
}

/// What the monitor warns of, and what it could not see.
fn monitor_itself(monitor: &Value) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(failure) = text(monitor, "/failure") {
        let of = text(monitor, "/looked_at").unwrap_or("never");
        let text = format!("the last look failed: {failure}; figures are of {of}");
        lines.push(Line::new("monitor", text).tone(Tone::Warning));
    }
    for (place, tone) in [("/warnings", Tone::Warning), ("/missing", Tone::Plain)] {
        for said in list(monitor, place).iter().filter_map(Value::as_str) {
            let label = if lines.is_empty() { "monitor" } else { "" };
            lines.push(Line::new(label, said).tone(tone));
        }
    }
    lines
}
