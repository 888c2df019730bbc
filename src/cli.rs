//! The command line.
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 for a stop that
//! was asked for, 1 for a failure, 2 for a wrong configuration or command line, 141 where nobody reads
//! standard output any more.

mod log;
mod init;
mod check;
mod alerts;
mod run;
mod status;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::Config;
use crate::failure::{Class, Failure};

const EXAMPLES: &str = "\
Examples:
  pgoutbox init -c orders.yaml --url postgres://postgres@db/shop --create-table
  pgoutbox check -c orders.yaml
  pgoutbox run -c orders.yaml
  pgoutbox status -c orders.yaml --watch

Without a broker, events go to standard output:
  printf 'source: {postgres: {url: \"postgres://me@localhost/shop\"}}' > try.yaml
  pgoutbox run -c try.yaml --init --create-table";

/// Publishes a PostgreSQL outbox table's events to Kafka or RabbitMQ, and confirms what the broker has acknowledged.
#[derive(Debug, Parser)]
#[command(name = "pgoutbox", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Creates what a relay needs in its database: publication, slot, marker.
    Init(init::InitArgs),
    /// Checks everything that `run` needs, a line for each thing.
    Check(check::CheckArgs),
    /// Shows the alert rules and how they stand, or sends a test alert.
    Alerts(alerts::AlertsArgs),
    /// Runs the relay until SIGTERM or SIGINT.
    Run(run::RunArgs),
    /// Shows how a running relay is: state, rates, lag, time left, sinks.
    Status(status::StatusArgs),
}

/// The code of a failure by which nobody reads what a command prints.
const NO_READER: &str = "EPIPE";

/// What a shell gives for a program that SIGPIPE ends.
const SIGPIPE: u8 = 128 + 13;

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file.
    #[arg(
        short,
        long,
        value_name = "FILE",
        env = "PGOUTBOX_CONFIG",
        default_value = "pgoutbox.yaml"
    )]
    pub(crate) config: PathBuf,
}

impl ConfigArgs {
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        Ok(Config::load(&self.config)?)
    }
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = log::init().and_then(|()| match cli.command {
        Command::Init(arguments) => init::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Alerts(arguments) => alerts::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Status(arguments) => status::run(arguments),
    });
    match outcome {
        Ok(code) => code,
        // As `| head` wants it: nobody is there to be told.
        Err(failure) if failure.peer_code() == Some(NO_READER) => ExitCode::from(SIGPIPE),
        Err(failure) => {
            report(&failure);
            ExitCode::from(if failure.class() == Class::Configuration { 2 } else { 1 })
        }
    }
}

/// The last words: what is wrong, and the way out on a line of its own.
pub(crate) fn report(failure: &Failure) {
    let mut text = format!("error: {failure}\n");
    if let Some(hint) = failure.way_out() {
        text.push_str(&format!(" hint: {hint}\n"));
    }
    // Where nobody reads it, the exit code still tells.
    io::stderr().write_all(text.as_bytes()).ok();
}

/// What a command ends with where its output cannot be written.
pub(crate) fn unwritable(error: io::Error) -> Failure {
    let failure = Failure::definite("standard output cannot be written");
    let is_unread = error.kind() == io::ErrorKind::BrokenPipe;
    let failure = if is_unread { failure.code(NO_READER) } else { failure };
    failure.cause(error)
}

/// A runtime for one command.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    // The relay's loop has the main thread; these serve HTTP and the guard.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::transient("cannot start the runtime").cause(error))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
