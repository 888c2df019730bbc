//! A relay from its configuration to its end: what is started once, and what is stopped last.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::warn;

use super::backoff::{Backoff, HALTED, RETRY};
use super::liveness::Liveness;
use super::outgoing::{self, Outgoing};
use super::poison::Poison;
use super::publisher::Publisher;
use super::rate::Rate;
use super::session::Relay;
use super::sessions::{Sessions, checked};
use super::sinks;
use super::state::{BlockedDestination, RelayStatus, SinkStatus, State};
use super::stop::Stop;
use crate::config::{Config, OnHalt};
use crate::failure::{Class, Failure};
use crate::metrics::Metrics;
use crate::postgres::Settings;
use crate::replication::preflight::Finding;
use crate::routing::Router;
use crate::window::Window;

/// For closing the sinks' connections.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// What a run is told beside its configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ids of events to give up (`--skip`).
    pub skip: Vec<String>,
    /// It takes over from a relay that ran: what would keep a first start from succeeding is a state,
    /// and tried again.
    pub is_reload: bool,
}

/// A relay that is about to run.
#[derive(Debug)]
pub struct Supervisor {
    config: Config,
    settings: Settings,
    options: Options,
    router: Router,
    publisher: Publisher,
    metrics: Arc<Metrics>,
    liveness: Liveness,
}

impl Supervisor {
    /// Checks the configuration's connection string and routes; connects to nothing.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn new(config: Config, options: Options) -> Result<Self, Failure> {
        let source = &config.source;
        let settings = Settings::parse(source.url.expose(), source.password.as_ref())?;
        let router = Router::new(&config)?;
        let names = config.sinks.iter().map(|(name, _)| name.as_str());
        let metrics = Metrics::new(&config.name, names).map_err(|error| {
            Failure::configuration("two sinks cannot share their metrics").cause(error)
        })?;
        let (metrics, liveness) = (Arc::new(metrics), Liveness::new());
        let slot = source.slot.clone();
        let publisher = Publisher::new(Arc::clone(&metrics), liveness.clone(), slot);
        Ok(Self { config, settings, options, router, publisher, metrics, liveness })
    }

    /// What the relay publishes about itself.
    pub fn status(&self) -> watch::Receiver<RelayStatus> {
        self.publisher.subscribe()
    }

    /// Where its server is.
    pub fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// Its metrics.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Its heartbeat.
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// Tries what a start needs, as `check` does: PostgreSQL, and each sink once.
    ///
    /// # Errors
    ///
    /// The first thing that would keep the relay from starting.
    pub async fn try_start(&self) -> Result<(), Failure> {
        checked(&self.config, &self.settings).await?;
        for trial in sinks::try_sinks(&self.config).await? {
            trial.outcome?;
        }
        Ok(())
    }

    /// Runs until `stop` is asked for.
    ///
    /// # Errors
    ///
    /// What kept it from starting; or, with `on_halt: exit`, what halted it.
    pub async fn run(self, mut stop: Stop) -> Result<(), Failure> {
        let bell = Arc::new(Notify::new());
        let Some(outgoing) = self.start_sinks(&bell, &mut stop).await? else { return Ok(()) };
        let Self { config, settings, options, router, publisher, metrics, liveness } = self;
        let relay = Relay {
            router,
            outgoing,
            bell,
            poison: Poison::new(options.skip.clone()),
            publisher,
            metrics,
            window: Window::new(config.source.window_bytes),
            window_events: config.source.window_events,
            grace_period: config.grace_period,
            exit_on_halt: config.on_halt == OnHalt::Exit,
            next_delivery: 0,
            setback: None,
        };
        let has_streamed = options.is_reload;
        let mut sessions = Sessions {
            config,
            settings,
            relay,
            liveness,
            resume: None,
            has_streamed,
            held_by: None,
        };
        let outcome = sessions.run(stop).await;
        for outgoing in sessions.relay.outgoing {
            // What matters has been waited for; this only closes the connections.
            outgoing.stop(CLOSE_GRACE).await;
        }
        outcome
    }

    /// Checks the source once, so that nothing is connected for a relay that cannot run, and starts
    /// every sink. `None` where a stop came first.
    async fn start_sinks(
        &self,
        bell: &Arc<Notify>,
        stop: &mut Stop,
    ) -> Result<Option<Vec<Outgoing>>, Failure> {
        let mut backoff = Backoff::default();
        loop {
            let failure = tokio::select! {
                () = stop.requested() => return Ok(None),
                started = self.liveness.while_waiting(self.try_start_sinks(bell)) => match started {
                    Ok(outgoing) => return Ok(Some(outgoing)),
                    Err(failure) => failure,
                }
            };
            let pauses = match failure.class() {
                Class::Transient => RETRY,
                _ if self.options.is_reload => HALTED,
                _ => return Err(failure),
            };
            warn!(%failure, "cannot start yet");
            self.publisher.state(match failure.class() {
                Class::Transient => State::Starting { reason: failure.to_string() },
                _ => State::halted(&failure),
            });
            self.liveness.while_waiting(backoff.pause(pauses, stop)).await;
        }
    }

    async fn try_start_sinks(&self, bell: &Arc<Notify>) -> Result<Vec<Outgoing>, Failure> {
        let report = checked(&self.config, &self.settings).await;
        // Of the brokers nothing is known then.
        let report =
            report.inspect_err(|_| self.publisher.update(|status| status.sinks.clear()))?;
        report.warnings().for_each(warn_of);
        let mut outgoing = Vec::new();
        for (index, (name, _)) in self.config.sinks.iter().enumerate() {
            let mailbox = outgoing::mailbox(bell);
            let metrics = self.metrics.sink(name).cloned();
            let metrics = metrics.ok_or_else(|| Failure::configuration("a sink has no metrics"))?;
            let sink = sinks::start(&self.config, index, &mailbox, &metrics).await;
            let sink = sink.inspect_err(|failure| self.show_away(name, failure))?;
            let rate = self.config.max_rate.map(|rate| Rate::new(rate, Instant::now()));
            outgoing.push(Outgoing::new(name.clone(), sink, mailbox, metrics, rate));
        }
        Ok(outgoing)
    }

    /// Shows a sink that does not start: the relay's state tells the reason as well, but not that it
    /// is a broker's.
    fn show_away(&self, sink: &str, failure: &Failure) {
        let blocked = BlockedDestination { destination: None, reason: failure.to_string() };
        let sink = SinkStatus {
            name: sink.to_owned(),
            connected: false,
            blocked: vec![blocked],
            delivered: 0,
        };
        self.publisher.update(|status| status.sinks = vec![sink]);
    }
}

fn warn_of(finding: &Finding) {
    let Finding { subject, message, fix, .. } = finding;
    warn!(fix = fix.as_deref().unwrap_or(""), "{subject}: {message}");
}
