//! A relay that does not start, and what its operator reads and types.

use super::{Relay, SHORT, Settings};

/// The end of a `pgoutbox run` that refused to start.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: i32,
    /// The one line that says what is wrong.
    pub(crate) error: String,
    /// The way out; empty where there is none.
    pub(crate) hint: String,
}

impl Refusal {
    /// Runs the relay, which must end by itself with one error.
    pub(crate) async fn of(settings: &Settings, arguments: &[&str]) -> Self {
        let mut relay = Relay::start_with(settings, arguments, &[]);
        let status = relay.wait_exit(SHORT).await;
        let log = relay.whole_log();
        let after = |mark: &str| -> Vec<&str> {
            log.lines().filter_map(|line| line.strip_prefix(mark)).collect()
        };
        let [error] = after("error: ")[..] else { panic!("one error line in:\n{log}") };
        let hint = after(" hint: ").first().copied().unwrap_or_default().to_owned();
        Self { code: status.code().expect("an exit code"), error: error.to_owned(), hint }
    }

    /// Checks the exit code and that the error names all of this.
    #[track_caller]
    pub(crate) fn says(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        for word in words {
            assert!(self.error.contains(word), "`{word}` in {self:#?}");
        }
        self
    }
}

/// What stands between backticks: what an operator copies.
pub(crate) fn typed(hint: &str) -> Vec<String> {
    hint.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
