//! `pgoutbox run`.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use super::{ConfigArgs, init, runtime};
use crate::alert::Alerts;
use crate::config::Config;
use crate::failure::{Class, Failure};
use crate::http;
use crate::relay::{Options, Stop, Supervisor};
use crate::slot_monitor::SlotMonitor;
use crate::status::Status;

/// How long a new slot may wait for open transactions.
const INIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Between two tries of `--init`.
const INIT_PAUSE: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
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
    let init = arguments.init.then_some(init::Options {
        url: None,
        create_table: arguments.create_table,
        timeout: INIT_TIMEOUT,
    });
    let runtime = runtime()?;
    let outcome = runtime.block_on(run_relay(config, Options { skip: arguments.skip }, init));
    // Nothing that is still running holds the exit up.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn run_relay(
    config: Config,
    options: Options,
    init: Option<init::Options>,
) -> Result<(), Failure> {
    let (name, listen) = (config.name.clone(), config.http_listen);
    info!(relay = name, version = env!("CARGO_PKG_VERSION"), "starting");
    let supervisor = Supervisor::new(config.clone(), options)?;
    let (relay, metrics) = (supervisor.status(), supervisor.metrics());
    let monitor =
        SlotMonitor::start(&config, supervisor.settings(), Arc::clone(&metrics), relay.clone());
    let status =
        Status::new(name, relay, monitor.reports(), Arc::clone(&metrics), supervisor.liveness());
    let _alerts = Alerts::start(&config, status.clone(), metrics);
    let _server = match listen {
        Some(listen) => Some(http::serve(listen, status).await?),
        None => None,
    };
    let (ask, mut stop) = Stop::new();
    tokio::spawn(listen_for_signals(signals()?, ask));
    if let Some(init) = init {
        make_what_is_missing(&config, &init, &mut stop).await?;
    }
    Box::pin(supervisor.run(stop)).await
}

/// Does what `init` does, or waits for a server that is not there yet, until a stop is asked for.
async fn make_what_is_missing(
    config: &Config,
    options: &init::Options,
    stop: &mut Stop,
) -> Result<(), Failure> {
    loop {
        let mut out = io::stderr();
        let done = tokio::select! {
            () = stop.requested() => return Ok(()),
            done = init::init(config, options, &mut out) => done,
        };
        match done {
            Err(failure) if failure.class() == Class::Transient => {
                warn!(%failure, "cannot start yet");
            }
            done => return done,
        }
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = sleep(INIT_PAUSE) => {}
        }
    }
}

fn signals() -> Result<[Signal; 2], Failure> {
    let listen = |kind| {
        signal(kind).map_err(|error| Failure::transient("cannot listen for signals").cause(error))
    };
    Ok([listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?])
}

/// The first signal asks for a stop, the second makes one.
async fn listen_for_signals([mut terminate, mut interrupt]: [Signal; 2], ask: watch::Sender<bool>) {
    for count in 1.. {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if count > 1 {
            warn!("stopped at once; what was not confirmed is sent again at the next start");
            std::process::exit(1);
        }
        info!("asked to stop; once more to stop at once");
        ask.send_replace(true);
    }
}
