//! Prints looks: as blocks of lines, in place on a terminal, or as JSON.

use std::env;
use std::io::{self, IsTerminal, Write};

use super::look::{Look, Rates};
use super::view::view;
use crate::failure::Failure;

/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// Clears the rest of a line, and of the screen.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
const CLEAR_ALL: &str = "\x1b[2J";

/// Standard output.
#[derive(Debug)]
pub(super) struct Screen {
    mode: Mode,
    colour: bool,
    is_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Block after block.
    Blocks,
    /// One block in the place of the other.
    InPlace,
    /// One document, easy to read.
    Document,
    /// A document a line.
    Lines,
}

impl Screen {
    pub(super) fn new(watch: bool, json: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let mode = match (watch, json) {
            (true, true) => Mode::Lines,
            (false, true) => Mode::Document,
            (true, false) if is_terminal => Mode::InPlace,
            (_, false) => Mode::Blocks,
        };
        // https://no-color.org
        let colour = is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { mode, colour, is_first: true }
    }

    /// Whether [`Rates`] would be of use.
    pub(super) fn shows_rates(&self) -> bool {
        matches!(self.mode, Mode::Blocks | Mode::InPlace)
    }

    pub(super) fn show(&mut self, look: &Look, rates: Rates) -> io::Result<()> {
        match self.mode {
            Mode::Document => print(&format!("{:#}\n", look.status)),
            Mode::Lines => print(&format!("{}\n", look.status)),
            Mode::Blocks | Mode::InPlace => {
                let lines = view(&look.status, rates);
                self.block(lines.iter().map(|line| line.show(self.colour)).collect())
            }
        }
    }

    /// In the place of a look.
    pub(super) fn show_failure(&mut self, failure: &Failure) -> io::Result<()> {
        let lines = [
            Some(format!("error: {failure}")),
            failure.way_out().map(|hint| format!(" hint: {hint}")),
        ];
        match self.mode {
            Mode::Document | Mode::Lines => {
                super::super::report(failure);
                Ok(())
            }
            Mode::Blocks | Mode::InPlace => self.block(lines.into_iter().flatten().collect()),
        }
    }

    fn block(&mut self, lines: Vec<String>) -> io::Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let mut text = String::new();
        match self.mode {
            Mode::InPlace if is_first => text.push_str(CLEAR_ALL),
            Mode::Blocks if !is_first => text.push('\n'),
            _ => {}
        }
        if self.mode == Mode::InPlace {
            text.push_str(HOME);
        }
        for line in lines {
            text.push_str(&line);
            text.push_str(if self.mode == Mode::InPlace { CLEAR_LINE } else { "" });
            text.push('\n');
        }
        if self.mode == Mode::InPlace {
            text.push_str(CLEAR_BELOW);
        }
        print(&text)
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
