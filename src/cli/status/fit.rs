//! Fits what is shown into a terminal, so that what comes first stays in sight.

use std::io;

/// A terminal's columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Size {
    /// Room for everything.
    pub(super) const UNBOUNDED: Self = Self { columns: usize::MAX, rows: usize::MAX };

    /// That of the terminal that standard output is now; what it does not say is without bounds.
    pub(super) fn of_terminal() -> Self {
        let Ok(size) = rustix::termios::tcgetwinsize(io::stdout()) else { return Self::UNBOUNDED };
        // Zero is what a terminal gives that does not know.
        let told = |count: u16| if count == 0 { usize::MAX } else { usize::from(count) };
        Self { columns: told(size.ws_col), rows: told(size.ws_row) }
    }
}

/// The beginning of `text`, in `columns` characters at most; `…` ends it where something is left out.
pub(super) fn width(text: &str, columns: usize) -> String {
    if text.chars().nth(columns).is_none() {
        return text.to_owned();
    }
    let Some(kept) = columns.checked_sub(1) else { return String::new() };
    text.chars().take(kept).chain(['…']).collect()
}

/// The first of `lines`, with one row left for the cursor; the last one says how many are left out.
pub(super) fn height(mut lines: Vec<String>, size: Size) -> Vec<String> {
    let rows = size.rows.saturating_sub(1).max(1);
    if lines.len() <= rows {
        return lines;
    }
    let left_out = lines.len() - (rows - 1);
    lines.truncate(rows - 1);
    let told = format!("… {left_out} more lines; `pgoutbox status` without --watch shows all");
    lines.push(width(&told, size.columns));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_ends_with_an_ellipsis() {
        assert_eq!(width("grün", 4), "grün");
        assert_eq!(width("grün", 3), "gr…");
        assert_eq!(width("grün", 1), "…");
        assert_eq!(width("grün", 0), "");
        assert_eq!(width("", 0), "");
        assert_eq!(width("grün", usize::MAX), "grün");
    }

    #[test]
    fn what_does_not_fit_is_counted_below_what_comes_first() {
        let lines = |count: usize| (1..=count).map(|line| line.to_string()).collect::<Vec<_>>();
        let fitted = |count, columns, rows| height(lines(count), Size { columns, rows });
        assert_eq!(fitted(3, 80, 4), ["1", "2", "3"]);
        let told = "… 2 more lines; `pgoutbox status` without --watch shows all";
        assert_eq!(fitted(4, 80, 4), ["1", "2", told]);
        assert_eq!(fitted(9, 10, 3), ["1", "… 8 more …"]);
        assert_eq!(fitted(2, 80, 1), [told]);
        assert_eq!(height(lines(999), Size::UNBOUNDED), lines(999));
    }
}
