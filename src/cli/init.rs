//! `pgoutbox init`: makes what a relay needs in its database, or prints the SQL that does.
//!
//! Publication first, slot second: a slot that is older than its publication has events that no
//! server will decode for it. The marker last, when there is something to mark. What exists is kept,
//! so a second `init` changes nothing.

mod database;
mod grant;
mod script;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::{ConfigArgs, runtime, unwritable};
use crate::config::{Config, Secret};
use crate::failure::Failure;
use crate::postgres::Settings;

use script::script;

const EXAMPLES: &str = "\
Examples:
  pgoutbox init -c orders.yaml                      as the relay's own role
  pgoutbox init -c orders.yaml --create-table       the outbox table too
  pgoutbox init -c orders.yaml --url postgres://postgres@db/shop
                                                    as an administrator, with grants for the role
  pgoutbox init -c orders.yaml --print | psql shop  by somebody else's hand";

/// Arguments of `init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InitArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Connect as this administrator, and grant the configured role what `run` needs
    #[arg(long, value_name = "ADMIN", value_parser = |url: &str| Ok::<_, String>(Secret::new(url)))]
    url: Option<Secret>,
    /// Print the SQL instead of running it; needs no connection
    #[arg(long, conflicts_with = "url")]
    print: bool,
    /// Create an outbox table where the configured one does not exist
    #[arg(long)]
    create_table: bool,
    /// How long the new slot may wait for open transactions
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = seconds)]
    timeout: Duration,
}

/// What `init` does, apart from where it reads its configuration.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The administrator's connection string; `None` for the configured role.
    pub(crate) url: Option<Secret>,
    /// Create missing outbox tables.
    pub(crate) create_table: bool,
    /// Bound of the slot's creation.
    pub(crate) timeout: Duration,
}

/// Makes everything, or prints how.
pub(super) fn run(arguments: InitArgs) -> Result<ExitCode, Failure> {
    let config = arguments.config.load()?;
    let InitArgs { url, create_table, timeout, .. } = arguments;
    let options = Options { url, create_table, timeout };
    let mut out = io::stdout();
    if arguments.print {
        print(&mut out, &script(&config, &settings(&config)?, &options))?;
    } else {
        runtime()?.block_on(init(&config, &options, &mut out))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes everything, with one line on `out` for each thing that was made, found or granted; `run
/// --init` calls it too.
///
/// # Errors
///
/// What keeps `run` from starting, with the way out.
pub(crate) async fn init(
    config: &Config,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let settings = settings(config)?;
    let admin = match &options.url {
        Some(url) => Settings::parse(url.expose(), None)?,
        None => settings.clone(),
    };
    if admin.dbname != settings.dbname {
        return Err(Failure::configuration(format!(
            "`--url` is of database `{}`, the configuration of `{}`",
            admin.dbname, settings.dbname
        )));
    }
    let done = database::prepare(config, &settings, &admin, options, out).await;
    done.map_err(|failure| explained(failure, options))
}

fn settings(config: &Config) -> Result<Settings, Failure> {
    Settings::parse(config.source.url.expose(), config.source.password.as_ref())
}

/// A lack of privileges has one way out that always works.
fn explained(failure: Failure, options: &Options) -> Failure {
    let denied = failure.peer_code() == Some("42501") && failure.way_out().is_none();
    if !denied {
        return failure;
    }
    match options.url {
        None => failure.hint(
            "do it as an administrator with `pgoutbox init --url ADMIN`, or have the SQL run: \
             `pgoutbox init --print`",
        ),
        Some(_) => {
            failure.hint("use a superuser, or the owner of database and tables with REPLICATION")
        }
    }
}

fn print(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(unwritable)
}

/// One line of progress: what was done to what.
fn say(out: &mut dyn Write, verb: &str, what: &str) -> Result<(), Failure> {
    print(out, &format!("{verb:8} {what}\n"))
}

/// `90s`, `2m`.
fn seconds(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix('s'), text.strip_suffix('m')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 60),
        _ => return Err("a duration has a unit: `90s`, `2m`".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "a duration is a number and a unit: `90s`")?;
    Ok(Duration::from_secs(number.saturating_mul(unit)))
}
