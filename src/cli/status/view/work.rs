//! The relay's work: its state, its events, its sinks, its alerts.

use serde_json::Value;

use super::super::look::Rates;
use super::super::units;
use super::{Line, Tone, figure, is_ready, list, number, text, unknown};

/// What comes before the slot: what a reader wants to know first.
pub(super) fn lines(status: &Value, rates: Rates) -> Vec<Line> {
    let mut lines = vec![relay(status)];
    lines.extend(state(status));
    lines.push(events(rates));
    lines.push(waiting(status));
    lines.push(held_by(status));
    lines
}

/// What comes after it.
pub(super) fn afterwards(status: &Value) -> Vec<Line> {
    let mut lines = sinks(status);
    lines.extend(alerts(status));
    lines.extend(last_error(status));
    lines
}

fn relay(status: &Value) -> Line {
    let name = text(status, "/name").unwrap_or("unknown");
    let version = text(status, "/version").unwrap_or("unknown");
    let uptime = figure(number(status, "/uptime_seconds"), units::seconds);
    let reconnects = match number(status, "/reconnects") {
        Some(count) if count > 0.0 => {
            format!(", {} to PostgreSQL", units::counted(count, "reconnect"))
        }
        _ => String::new(),
    };
    Line::new("relay", format!("{name}, version {version}, up for {uptime}{reconnects}"))
}

fn state(status: &Value) -> Vec<Line> {
    let name = text(status, "/state").unwrap_or("unknown");
    let tone = match name {
        _ if is_ready(status) => Tone::Good,
        "halted" | "unknown" => Tone::Bad,
        _ => Tone::Warning,
    };
    let mut lines = vec![Line::new("state", name).tone(tone)];
    let more = [
        ("reason", "/reason"),
        ("hint", "/hint"),
        ("holder", "/holder"),
        ("publication", "/publication_gap/reason"),
    ];
    for (label, place) in more {
        lines.extend(text(status, place).map(|text| Line::new(label, text).tone(tone)));
    }
    lines
}

fn events(rates: Rates) -> Line {
    let received = figure(rates.received, units::rate);
    let delivered = figure(rates.delivered, units::rate);
    Line::new("events", format!("received {received}, delivered {delivered}"))
}

fn waiting(status: &Value) -> Line {
    let Some(events) = number(status, "/window_events") else {
        return Line::new("unsettled", unknown());
    };
    if events == 0.0 {
        return Line::new("unsettled", "none");
    }
    let bytes = figure(number(status, "/window_bytes"), units::bytes);
    let age = figure(number(status, "/oldest_unacknowledged_seconds"), units::seconds);
    let events = units::counted(events, "event");
    let text = format!("{events} in {bytes}, the oldest committed {age} ago");
    Line::new("unsettled", text)
}

/// The event that holds the confirmed position.
fn held_by(status: &Value) -> Line {
    let label = "held by";
    let Some(held) = status.get("blocked_by") else { return Line::new(label, unknown()) };
    if held.is_null() {
        return Line::new(label, "nothing");
    }
    let id = text(held, "/event").unwrap_or("unknown");
    let sink = match (text(held, "/sink"), text(held, "/destination")) {
        (None | Some(""), None | Some("")) => String::new(),
        (Some(sink), None | Some("")) => format!(" for sink `{sink}`"),
        (sink, Some(place)) => format!(" for sink `{}`, `{place}`", sink.unwrap_or("unknown")),
    };
    match text(held, "/reason") {
        Some(reason) => {
            Line::new(label, format!("event `{id}`{sink}: {reason}")).tone(Tone::Warning)
        }
        None => Line::new(label, format!("event `{id}`{sink}, which is under way")),
    }
}

fn sinks(status: &Value) -> Vec<Line> {
    let mut lines = Vec::new();
    for sink in list(status, "/sinks") {
        let label = if lines.is_empty() { "sinks" } else { "" };
        lines.push(Line::new(label, sink_in_words(sink)).tone(tone_of(sink)));
        for blocked in list(sink, "/blocked") {
            let place = text(blocked, "/destination").unwrap_or("all");
            let reason = text(blocked, "/reason").unwrap_or("unknown");
            lines.push(Line::new("", format!("  `{place}`: {reason}")).tone(Tone::Warning));
        }
    }
    if lines.is_empty() {
        lines.push(Line::new("sinks", unknown()));
    }
    lines
}

fn sink_in_words(sink: &Value) -> String {
    let name = text(sink, "/name").unwrap_or("unknown");
    let connected = match sink.get("connected").and_then(Value::as_bool) {
        Some(true) => "connected",
        Some(false) => "not connected",
        None => "connection unknown",
    };
    let delivered = figure(number(sink, "/delivered"), |count| count.to_string());
    let blocked = match list(sink, "/blocked").len() {
        0 => "",
        _ => ", blocked",
    };
    format!("{name}: {connected}{blocked}, delivered {delivered}")
}

fn tone_of(sink: &Value) -> Tone {
    match sink.get("connected").and_then(Value::as_bool) {
        Some(false) => Tone::Bad,
        _ if !list(sink, "/blocked").is_empty() => Tone::Warning,
        _ => Tone::Plain,
    }
}

/// Left out where it is what the state's reason says already.
fn last_error(status: &Value) -> Option<Line> {
    let label = "last error";
    let error = match status.get("last_error") {
        None => return Some(Line::new(label, unknown())),
        Some(Value::Null) => return Some(Line::new(label, "none")),
        Some(error) => error,
    };
    let reason = text(error, "/reason");
    if reason.is_some() && reason == text(status, "/reason") {
        return None;
    }
    let at = text(error, "/at").unwrap_or("unknown");
    Some(Line::new(label, format!("{at}: {}", reason.unwrap_or("unknown"))))
}

/// The alerts that fire, each with what to type.
fn alerts(status: &Value) -> Vec<Line> {
    let label = "alerts";
    if status.get("alerts").is_none() {
        return vec![Line::new(label, unknown())];
    }
    let mut lines = Vec::new();
    for alert in list(status, "/alerts") {
        let label = if lines.is_empty() { label } else { "" };
        lines.push(alert_in_words(label, alert));
        lines.extend(text(alert, "/fix").map(|fix| Line::new("", format!("  {fix}"))));
    }
    if lines.is_empty() {
        lines.push(Line::new(label, "none fires"));
    }
    lines
}

fn alert_in_words(label: &'static str, alert: &Value) -> Line {
    let name = text(alert, "/name").unwrap_or("unknown");
    let severity = text(alert, "/severity").unwrap_or("unknown");
    let summary = text(alert, "/summary").map_or_else(String::new, |it| format!(": {it}"));
    let tone = if severity == "critical" { Tone::Bad } else { Tone::Warning };
    Line::new(label, format!("{severity} {name}{summary}")).tone(tone)
}
