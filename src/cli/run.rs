//! `pgoutbox run`.

mod rotation;
mod service;
mod signals;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::time::sleep;
use tracing::{info, warn};

use self::service::Service;
use self::signals::{Ask, Asked};
use super::{ConfigArgs, init, runtime};
use crate::config::Config;
use crate::failure::{Class, Failure};
use crate::relay::Options;

/// How long a new slot may wait for open transactions.
const INIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Between two tries of `--init`.
const INIT_PAUSE: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
SIGTERM and SIGINT stop it: what is with the brokers is waited for. SIGHUP reads the configuration again; one
that is wrong changes nothing.

Examples:
  pgoutbox run -c orders.yaml
  pgoutbox run -c orders.yaml --init
  pgoutbox run -c orders.yaml --skip 5f0c2b7e-3a41-4a6e-9f0a-0d5b8f1c7e21";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Gives up the event with this id if it cannot be delivered; may be given several times.
    #[arg(long, value_name = "ID")]
    skip: Vec<String>,
    /// Does what `init` does first, for containers: creates what is missing, adopts what exists.
    #[arg(long)]
    init: bool,
    /// With `--init`: creates the outbox table too, if it is missing.
    #[arg(long, requires = "init")]
    create_table: bool,
}

/// Runs the relay until it is told to stop.
pub(super) fn run(arguments: RunArgs) -> Result<ExitCode, Failure> {
    let config = arguments.config.load()?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(run_relay(config, arguments));
    // Nothing that is still running holds the exit up.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn run_relay(config: Config, arguments: RunArgs) -> Result<(), Failure> {
    info!(relay = config.name, version = env!("CARGO_PKG_VERSION"), "starting");
    let options = Options { skip: arguments.skip, is_reload: false };
    let file = arguments.config.config;
    let service = Service::start(config.clone(), file, options).await?;
    let mut asked = signals::listen()?;
    if arguments.init {
        let options = init::Options {
            url: None,
            create_table: arguments.create_table,
            timeout: INIT_TIMEOUT,
        };
        if !make_what_is_missing(&config, &options, &mut asked).await? {
            return Ok(());
        }
    }
    service.run(asked).await
}

/// Does what `init` does, or waits for a server that is not there yet. `false`: a stop was asked for
/// first.
async fn make_what_is_missing(
    config: &Config,
    options: &init::Options,
    asked: &mut Asked,
) -> Result<bool, Failure> {
    loop {
        let mut out = io::stderr();
        let done = tokio::select! {
            Some(ask) = asked.recv() => match ask {
                Ask::Stop => return Ok(false),
                Ask::Reload => continue,
            },
            done = init::init(config, options, &mut out) => done,
        };
        match done {
            Err(failure) if failure.class() == Class::Transient => {
                warn!(%failure, "cannot start yet");
            }
            done => return done.map(|()| true),
        }
        tokio::select! {
            Some(Ask::Stop) = asked.recv() => return Ok(false),
            () = sleep(INIT_PAUSE) => {}
        }
    }
}
