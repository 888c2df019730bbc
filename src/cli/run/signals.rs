//! What a running relay is asked for by signals.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::failure::Failure;

/// Signals that have not been acted on yet; what comes beyond them asks for nothing new.
const WAITING: usize = 4;

/// One signal's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// SIGTERM, SIGINT: drain, confirm, stop.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// What is asked for, in order.
pub(super) type Asked = mpsc::Receiver<Ask>;

/// Listens for the signals from now on.
pub(super) fn listen() -> Result<Asked, Failure> {
    let listen = |kind| {
        signal(kind).map_err(|error| Failure::transient("cannot listen for signals").cause(error))
    };
    let (ask, asked) = mpsc::channel(WAITING);
    let stops = [listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?];
    tokio::spawn(forward(stops, listen(SignalKind::hangup())?, ask));
    Ok(asked)
}

/// The first stop asks for one, the second makes one.
async fn forward(stops: [Signal; 2], mut hangup: Signal, ask: mpsc::Sender<Ask>) {
    let ([mut terminate, mut interrupt], mut is_stopping) = (stops, false);
    loop {
        let asked = tokio::select! {
            _ = terminate.recv() => Ask::Stop,
            _ = interrupt.recv() => Ask::Stop,
            _ = hangup.recv() => Ask::Reload,
        };
        if asked == Ask::Stop {
            if is_stopping {
                warn!("stopped at once; what was not confirmed is sent again at the next start");
                std::process::exit(1);
            }
            info!("asked to stop; once more to stop at once");
            is_stopping = true;
        }
        // A full channel holds a reload already, or its end is near.
        if ask.try_send(asked).is_err() && asked == Ask::Stop {
            ask.send(asked).await.ok();
        }
    }
}
