//! `pgoutbox status`: how a running relay is, as it says itself.

mod ask;
mod fit;
mod look;
mod screen;
mod units;
mod view;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::time::sleep;

use self::ask::Relay;
use self::look::{Look, Rates};
use self::screen::Screen;
use super::{ConfigArgs, runtime, unwritable};
use crate::failure::Failure;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Takes two looks, a second apart, at the relay's own /status; with --json one.

Exit code 0 where the relay is ready (streaming, or standby behind another one of its name), 1 where it is
not or does not run, 2 for a wrong configuration. With --watch, 0 once Ctrl-C ends it.

Examples:
  pgoutbox status -c orders.yaml
  pgoutbox status -c orders.yaml --watch
  pgoutbox status --url http://relay-1:7432 --json | jq .blocked_by
  pgoutbox status --url http://relay-1:7432 >/dev/null || echo 'not ready'";

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Where the relay answers, in place of the configuration's `http.listen`.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Looks again every second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Prints what the relay says as it says it; with --watch a line for each look.
    #[arg(long)]
    json: bool,
}

/// Asks the relay and prints the answer.
pub(super) fn run(arguments: StatusArgs) -> Result<ExitCode, Failure> {
    let relay = Relay::of(&arguments)?;
    let screen = Screen::new(arguments.watch, arguments.json);
    runtime()?.block_on(async {
        if arguments.watch { watch(&relay, screen).await } else { once(&relay, screen).await }
    })
}

async fn once(relay: &Relay, mut screen: Screen) -> Result<ExitCode, Failure> {
    let mut look = relay.look().await?;
    let mut rates = Rates::default();
    if screen.shows_rates() {
        sleep(INTERVAL).await;
        let before = std::mem::replace(&mut look, relay.look().await?);
        rates = Rates::between(&before, &look);
    }
    screen.show(&look, rates).map_err(unwritable)?;
    let is_ready = view::is_ready(&look.status);
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Until Ctrl-C, or until nobody reads on.
async fn watch(relay: &Relay, screen: Screen) -> Result<ExitCode, Failure> {
    tokio::select! {
        ended = look_on(relay, screen) => ended?,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(|error| {
            Failure::transient("cannot listen for signals").cause(error)
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A relay that does not answer may come back.
async fn look_on(relay: &Relay, mut screen: Screen) -> Result<(), Failure> {
    let mut before: Option<Look> = None;
    loop {
        let shown = match relay.look().await {
            Ok(look) => {
                let rates = before.as_ref().map(|before| Rates::between(before, &look));
                let shown = screen.show(&look, rates.unwrap_or_default());
                before = Some(look);
                shown
            }
            Err(failure) => {
                before = None;
                screen.show_failure(&failure)
            }
        };
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            shown => shown.map_err(unwritable)?,
        }
        sleep(INTERVAL).await;
    }
}
