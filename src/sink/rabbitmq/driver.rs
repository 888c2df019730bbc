//! Owns the connection: [serves](super::serve) it, and connects again.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lapin::Error;
use tokio::time::{Instant, sleep};

use super::connect::{Connector, Link};
use super::exchanges::Exchanges;
use super::mend::Suspects;
use super::message::{Address, Message};
use super::patience::Patience;
use super::shared::Shared;
use super::told::Told;
use super::trial::Trial;
use crate::failure::{Class, Failure};
use crate::metrics::SinkMetrics;
use crate::sink::{DeliveryId, Report};

/// A lost connection is told after this, unless it is back by then.
const SOON: Duration = Duration::from_secs(1);

/// First pause before another attempt, and the longest: while the fault goes away by itself, and
/// while an operator is waited for.
const PAUSES: (Duration, Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(5), Duration::from_secs(30));

/// The driver's task.
pub(super) struct Driver {
    pub(super) name: String,
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: SinkMetrics,
    connector: Connector,
    pub(super) exchanges: Exchanges,
    pub(super) suspects: Suspects,
    pub(super) patience: Patience,
    pub(super) trial: Option<Trial>,
    pub(super) told: Told,
    /// Ends of channels and connections since the last acknowledgement.
    pub(super) fruitless: u32,
    pub(super) inbox: Vec<Message>,
    /// Wait for the trial under way.
    pub(super) waiting: VecDeque<Message>,
    /// Whether what comes later waits behind them.
    pub(super) keeps_behind: bool,
    pub(super) reports: Vec<Report>,
}

/// Why a channel is published on no longer.
pub(super) enum End {
    /// The sink was stopped.
    Stopped,
    /// Only the channel ended; what was out on it.
    Channel(Error, Vec<(DeliveryId, Address)>),
    /// The connection ended.
    Connection(Failure),
}

impl Driver {
    pub(super) fn new(
        name: &str,
        shared: Arc<Shared>,
        metrics: SinkMetrics,
        connector: Connector,
        max_unsettled_per_key: usize,
    ) -> Self {
        Self {
            name: name.to_owned(),
            told: Told::new(shared.mailbox.clone()),
            shared,
            metrics,
            connector,
            exchanges: Exchanges::default(),
            suspects: Suspects::default(),
            patience: Patience::new(Instant::now()),
            trial: None,
            fruitless: 0,
            inbox: Vec::new(),
            waiting: VecDeque::new(),
            keeps_behind: max_unsettled_per_key > 1,
            reports: Vec::new(),
        }
    }

    /// Runs until the sink is stopped.
    pub(super) async fn run(mut self, mut link: Link) {
        self.metrics.connected.set(1);
        loop {
            let end = self.serve(&mut link).await;
            self.trial = None;
            self.waiting.clear();
            let failure = match end {
                End::Stopped => break,
                End::Connection(failure) => failure,
                End::Channel(error, lost) => {
                    self.shared.close();
                    let shared = Arc::clone(&self.shared);
                    let mended = tokio::select! {
                        mended = self.mend(&mut link, &error, lost) => mended,
                        _ = shared.stopped() => break,
                    };
                    match mended {
                        Ok(reports) => {
                            self.shared.reopen(link.limits, reports);
                            continue;
                        }
                        Err(failure) => failure,
                    }
                }
            };
            drop(link);
            match self.reconnect(failure).await {
                Some(fresh) => link = fresh,
                None => return,
            }
        }
        self.metrics.connected.set(0);
        link.close().await;
    }

    /// Connects again, however long it takes. `None`: the sink was stopped.
    async fn reconnect(&mut self, failure: Failure) -> Option<Link> {
        self.shared.close();
        self.metrics.connected.set(0);
        tracing::warn!(sink = self.name, %failure, "connecting again");
        self.connector.turn();
        let (shared, mut failure) = (Arc::clone(&self.shared), failure);
        let mut stopped = pin!(shared.stopped());
        loop {
            self.fruitless = self.fruitless.saturating_add(1);
            tokio::select! {
                () = sleep(pause(self.fruitless, failure.class())) => {}
                _ = &mut stopped => return None,
            }
            let connected = tokio::select! {
                connected = self.connector.connect() => connected,
                never = self.told.trouble_after(SOON, &failure) => never,
                _ = &mut stopped => return None,
            };
            match connected {
                Ok(link) => {
                    self.reconnected(&link);
                    return Some(link);
                }
                Err(failed) => {
                    failure = failed;
                    self.told.trouble(failure.clone());
                }
            }
        }
    }

    fn reconnected(&mut self, link: &Link) {
        self.metrics.connected.set(1);
        self.metrics.reconnects.inc();
        self.told.is_well();
        self.shared.reopen(link.limits, Vec::new());
    }
}

/// How long to wait before the next of so many attempts.
pub(super) fn pause(attempts: u32, class: Class) -> Duration {
    let longest = if class == Class::Transient { PAUSES.1 } else { PAUSES.2 };
    let pause = PAUSES.0.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(longest);
    // Relays that lost one server must not all come back at one moment.
    pause.mul_f64(rand::random_range(0.5..1.0))
}
