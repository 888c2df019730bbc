//! Prints looks: as blocks of lines, in place on a terminal, or as JSON.

use std::env;
use std::io::{self, IsTerminal, Write};

use super::fit::{self, Size};
use super::look::{Look, Rates};
use super::view::view;
use crate::failure::Failure;

/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// What is longer than its line is cut off, not wrapped: characters that are two columns wide can make it
/// so. And back to what is usual.
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
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
                let size = self.size();
                let lines = view(&look.status, rates);
                let lines = lines.iter().map(|line| line.show(self.colour, size.columns));
                self.block(lines.collect(), size)
            }
        }
    }

    /// In the place of a look.
    pub(super) fn show_failure(&mut self, failure: &Failure) -> io::Result<()> {
        match self.mode {
            Mode::Document | Mode::Lines => {
                super::super::report(failure);
                Ok(())
            }
            Mode::Blocks | Mode::InPlace => {
                let size = self.size();
                let hint = failure.way_out().map(|hint| format!(" hint: {hint}"));
                let lines = [format!("error: {failure}")].into_iter().chain(hint);
                self.block(lines.map(|line| fit::width(&line, size.columns)).collect(), size)
            }
        }
    }

    /// What there is room for, at this moment: a terminal may be made larger. Blocks scroll.
    fn size(&self) -> Size {
        if self.mode == Mode::InPlace { Size::of_terminal() } else { Size::UNBOUNDED }
    }

    fn block(&mut self, lines: Vec<String>, size: Size) -> io::Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if self.mode == Mode::InPlace {
            return print(&in_place(&fit::height(lines, size), is_first));
        }
        let between = if is_first { "" } else { "\n" };
        print(&format!("{between}{}\n", lines.join("\n")))
    }
}

/// Puts `lines` in the place of those that are there. Each line is cleared before it is written: behind
/// one that fills the whole width its last character would be cleared.
fn in_place(lines: &[String], is_first: bool) -> String {
    let mut text = format!("{}{HOME}{CUT}", if is_first { CLEAR_ALL } else { "" });
    for line in lines {
        text.extend([CLEAR_LINE, line, "\n"]);
    }
    text + WRAP + CLEAR_BELOW
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_the_place_of_the_one_before() {
        let lines = ["one".to_owned(), "two".to_owned()];
        let first = in_place(&lines, true);
        let next = "\x1b[H\x1b[?7l\x1b[Kone\n\x1b[Ktwo\n\x1b[?7h\x1b[J";
        assert_eq!(first, format!("{CLEAR_ALL}{next}"));
        assert_eq!(in_place(&lines, false), next);
    }
}
