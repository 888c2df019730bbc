//! Runs Prometheus' own judge of rules.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::support::run_to_end;

/// `promtool ARGUMENTS` beside the rules.
///
/// # Panics
///
/// Where it has something to say against them, with what that is.
pub(super) fn promtool(arguments: &[&str], directory: &Path) -> String {
    let program = env::var_os("PROMTOOL").unwrap_or_else(|| {
        panic!("PROMTOOL is not set: run `make test`, or eval \"$(dev/services env)\"")
    });
    run_to_end(Command::new(program).args(arguments).current_dir(directory))
}
