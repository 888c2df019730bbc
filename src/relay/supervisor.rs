//! Begins sessions, and begins them again.
//!
//! Before the first session every refusal that an operator must mend ends the process; afterwards it
//! is a state, and the relay tries again with jittered backoff, so that it flows again by itself.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::sync::{Notify, watch};
use tracing::{error, info, warn};

use super::liveness::Liveness;
use super::outgoing::{self, Outgoing};
use super::poison::Poison;
use super::publisher::Publisher;
use super::session::{End, Relay, Session};
use super::state::{RelayStatus, State};
use crate::config::{Config, KafkaConfig, OnHalt, SinkConfig};
use crate::failure::{Class, Failure};
use crate::metrics::Metrics;
use crate::postgres::Settings;
use crate::replication::Identity;
use crate::routing::Router;
use crate::sink::{Mailbox, Sink, kafka, null, stdout};
use crate::source::Position;
use crate::source::wal::guard::{Guard, GuardConfig};
use crate::source::wal::{WalConfig, WalSource};
use crate::window::Window;

/// The first pause before another try, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// While an operator is waited for, the longest pause is this.
const HALTED_BACKOFF: Duration = Duration::from_secs(30);
/// SQLSTATE of a slot that somebody else holds.
const SLOT_ACTIVE: &str = "55006";

/// A stop that may have been asked for; cheap to clone.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A stop that is asked for by sending `true`.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Whether it was asked for.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is asked for. Safe to drop and call again.
    pub async fn requested(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending().await
        }
    }
}

/// What a run is told beside its configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ids of events to give up (`--skip`).
    pub skip: Vec<String>,
}

/// A relay that is about to run: what others may look at while it does.
#[derive(Debug)]
pub struct Prepared {
    config: Config,
    settings: Settings,
    router: Router,
    publisher: Publisher,
    options: Options,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// Its heartbeat.
    pub liveness: Liveness,
}
