//! What `pgoutbox status` shows: a function of the document that `/status` gives, and nothing else.
//!
//! A relay of another version may leave figures out, or give more; what is not there is `unknown`.

mod slot;
mod work;

use serde_json::Value;

use super::fit;
use super::look::Rates;

/// Width of the labels.
const INDENT: usize = 12;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// What it is about; empty where it goes on with what the line before is about.
    label: &'static str,
    text: String,
    tone: Tone,
}

/// What a line's colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Warning,
    Bad,
}

impl Line {
    fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, text: text.into(), tone: Tone::Plain }
    }

    fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// As text of one line of `columns` characters at most, without its end.
    pub(super) fn show(&self, colour: bool, columns: usize) -> String {
        // What comes from elsewhere must not move the cursor.
        let text = self.text.replace(|c: char| c.is_control(), " ");
        let text = fit::width(&text, columns.saturating_sub(INDENT));
        let Self { label, tone, .. } = self;
        match tone.code().filter(|_| colour) {
            Some(code) => format!("{label:INDENT$}\x1b[{code}m{text}\x1b[0m"),
            None => format!("{label:INDENT$}{text}"),
        }
    }
}

impl Tone {
    const fn code(self) -> Option<u8> {
        match self {
            Self::Plain => None,
            Self::Good => Some(32),
            Self::Warning => Some(33),
            Self::Bad => Some(31),
        }
    }
}

/// Everything about one relay.
pub(super) fn view(status: &Value, rates: Rates) -> Vec<Line> {
    let mut lines = work::lines(status, rates);
    lines.extend(slot::lines(status));
    lines.extend(work::afterwards(status));
    lines
}

/// Whether `/readyz` would say so.
pub(super) fn is_ready(status: &Value) -> bool {
    matches!(text(status, "/state"), Some("streaming" | "standby"))
}

fn text<'a>(value: &'a Value, place: &str) -> Option<&'a str> {
    value.pointer(place)?.as_str()
}

fn number(value: &Value, place: &str) -> Option<f64> {
    value.pointer(place)?.as_f64()
}

fn list<'a>(value: &'a Value, place: &str) -> &'a [Value] {
    value.pointer(place).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A figure as `show` gives it, or `unknown`.
fn figure(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(unknown, show)
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests;
