//! Logs: text on a terminal, JSON lines otherwise; never payloads, never secrets.

use std::env;
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, LevelFilter};

use crate::failure::Failure;

/// What is logged: `info,pgoutbox::relay=debug`. A mistake in it is an error.
const VARIABLE: &str = "PGOUTBOX_LOG";

/// The same, where that is not set. Other programs may be meant by it, so a mistake is not an error.
const COMMON_VARIABLE: &str = "RUST_LOG";

const DEFAULT: &str = "info";

/// What may be named without a level and without `::`. Another bare word would be taken for a crate
/// that says nothing, and so would mute everything: most likely it is a level misspelt.
const CRATES: &[&str] = &["pgoutbox", "rdkafka", "lapin", "tokio_postgres", "rustls", "hyper"];

/// What says nothing, whatever is asked for: lapin logs returned messages with their payloads, and
/// at `trace` the login. What it has to say comes as errors.
const SILENT: &[&str] = &["lapin=off"];

/// Starts logging to standard error.
///
/// # Errors
///
/// A configuration failure that names [`VARIABLE`] and what is wrong with it.
pub(super) fn init() -> Result<(), Failure> {
    let filter = match asked(VARIABLE)? {
        Some(text) => filter(&text)?,
        None => asked(COMMON_VARIABLE)
            .ok()
            .flatten()
            .and_then(|text| EnvFilter::try_new(text).ok())
            .unwrap_or_else(|| EnvFilter::new(DEFAULT)),
    };
    let filter = SILENT
        .iter()
        .filter_map(|silent| silent.parse().ok())
        .fold(filter, EnvFilter::add_directive);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // Of a line that cannot be written it would tell the same place, and panic.
        .log_internal_errors(false);
    // A second start changes nothing and is not worth an error.
    let outcome = if io::stderr().is_terminal() {
        builder.try_init()
    } else {
        builder.with_ansi(false).json().flatten_event(true).try_init()
    };
    drop(outcome);
    Ok(())
}

/// A variable's text, unless it is not set or blank.
fn asked(variable: &str) -> Result<Option<String>, Failure> {
    let Some(text) = env::var_os(variable) else { return Ok(None) };
    let text = text.into_string().map_err(|_| {
        Failure::configuration(format!("`{variable}` in the environment is not UTF-8"))
    })?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

fn filter(text: &str) -> Result<EnvFilter, Failure> {
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    for part in &parts {
        let wrong = || {
            Failure::configuration(format!(
                "`{VARIABLE}` in the environment: `{part}` is neither a level nor `TARGET=LEVEL`"
            ))
            .hint("a level is `off`, `error`, `warn`, `info`, `debug` or `trace`; such as `info,pgoutbox::relay=debug`")
        };
        let is_bare = !part.contains(['=', '[']) && !part.contains("::");
        if is_bare && part.parse::<LevelFilter>().is_err() && !CRATES.contains(part) {
            return Err(wrong());
        }
        part.parse::<Directive>().map_err(|error| wrong().cause(error))?;
    }
    EnvFilter::try_new(parts.join(",")).map_err(|error| {
        Failure::configuration(format!("`{VARIABLE}` in the environment")).cause(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_heard_whatever_blanks_are_in_it() {
        for (text, heard) in [
            ("info", "info"),
            ("WARN, pgoutbox::relay=debug", "pgoutbox::relay=debug,warn"),
            ("rdkafka", "rdkafka=trace"),
            ("[span]=debug", "[span]=debug"),
        ] {
            assert_eq!(filter(text).unwrap().to_string(), heard);
        }
    }

    #[test]
    fn what_would_mute_the_relay_is_an_error() {
        for (text, part) in [
            ("loud", "`loud`"),
            ("info,pgoutbox::relay=trce", "`pgoutbox::relay=trce`"),
            ("inf,pgoutbox=debug", "`inf`"),
            ("pgoutbox=debug,=", "`=`"),
        ] {
            let failure = filter(text).unwrap_err().to_string();
            assert!(failure.contains(VARIABLE) && failure.contains(part), "{failure}");
        }
    }
}
