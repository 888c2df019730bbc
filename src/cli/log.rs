//! Logs: text on a terminal, JSON lines otherwise; never payloads, never secrets.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// What is logged; `RUST_LOG` has the same form: `info,pgoutbox::relay=debug`.
const VARIABLE: &str = "PGOUTBOX_LOG";
const DEFAULT: &str = "info";

/// What says nothing, whatever is asked for: lapin logs returned messages with their payloads, and
/// at `trace` the login. What it has to say comes as errors.
const SILENT: &[&str] = &["lapin=off"];

/// Starts logging to standard error.
pub(super) fn init() {
    let filter = EnvFilter::try_from_env(VARIABLE)
        .or_else(|_| EnvFilter::try_from_default_env())
        .unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let filter = SILENT
        .iter()
        .filter_map(|silent| silent.parse().ok())
        .fold(filter, EnvFilter::add_directive);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A second start changes nothing and is not worth an error.
    let outcome = if io::stderr().is_terminal() {
        builder.try_init()
    } else {
        builder.with_ansi(false).json().flatten_event(true).try_init()
    };
    drop(outcome);
}
