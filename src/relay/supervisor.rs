//! Begins sessions, and begins them again.
//!
//! Before the first session every refusal that an operator must mend ends the process; afterwards it
//! is a state, and the relay tries again with jittered backoff, so that it flows again by itself.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng as _;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::columns::columns_in_force;
use super::liveness::Liveness;
use super::outgoing::{self, Outgoing};
use super::poison::Poison;
use super::publisher::Publisher;
use super::session::{End, Relay, Session};
use super::sinks;
use super::state::{RelayStatus, State};
use crate::config::{Config, OnHalt, TableConfig};
use crate::failure::{Class, Failure};
use crate::lsn::Lsn;
use crate::metrics::Metrics;
use crate::postgres::{self, Settings};
use crate::replication::marker::{self, Decision};
use crate::replication::preflight::{Finding, Report, preflight};
use crate::replication::slot::{self, Holder};
use crate::replication::{Identity, publication};
use crate::routing::Router;
use crate::source::Position;
use crate::source::wal::guard::{Guard, GuardConfig};
use crate::source::wal::{WalConfig, WalSource};
use crate::window::Window;

/// Pauses where the fault goes away by itself.
const RETRY: Pauses =
    Pauses { first: Duration::from_millis(250), longest: Duration::from_secs(10) };
/// Pauses while an operator is waited for: with jitter, a second at least.
const HALTED: Pauses = Pauses { first: Duration::from_secs(2), longest: Duration::from_secs(30) };
/// Pauses while another holds the slot.
const STANDBY: Pauses =
    Pauses { first: Duration::from_millis(250), longest: Duration::from_secs(2) };
/// A session of this length did not fail at once: the pauses begin anew.
const STABLE: Duration = Duration::from_secs(10);
/// For closing the sinks' connections.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
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
            std::future::pending::<()>().await;
        }
    }
}

/// What a run is told beside its configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ids of events to give up (`--skip`).
    pub skip: Vec<String>,
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

    /// Its metrics.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Its heartbeat.
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
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
            poison: Poison::new(options.skip),
            publisher,
            metrics,
            window: Window::new(config.source.window_bytes),
            window_events: config.source.window_events,
            grace_period: config.grace_period,
            exit_on_halt: config.on_halt == OnHalt::Exit,
            next_delivery: 0,
            setback: None,
        };
        let mut sessions =
            Sessions { config, settings, relay, liveness, resume: None, has_streamed: false };
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
            if failure.class() != Class::Transient {
                return Err(failure);
            }
            warn!(%failure, "cannot start yet");
            self.liveness.while_waiting(backoff.pause(RETRY, stop)).await;
        }
    }

    async fn try_start_sinks(&self, bell: &Arc<Notify>) -> Result<Vec<Outgoing>, Failure> {
        let report = checked(&self.config, &self.settings).await?;
        report.warnings().for_each(warn_of);
        let mut outgoing = Vec::new();
        for (index, (name, _)) in self.config.sinks.iter().enumerate() {
            let mailbox = outgoing::mailbox(bell);
            let metrics = self.metrics.sink(name).cloned();
            let metrics = metrics.ok_or_else(|| Failure::configuration("a sink has no metrics"))?;
            let sink = sinks::start(&self.config, index, &mailbox, &metrics).await?;
            outgoing.push(Outgoing::new(name.clone(), sink, mailbox, metrics));
        }
        Ok(outgoing)
    }
}

/// Everything that `run` needs of PostgreSQL, or the first thing that is missing.
async fn checked(config: &Config, settings: &Settings) -> Result<Report, Failure> {
    let report = preflight(config, settings, &columns_in_force(config)?).await;
    match report.first_error() {
        Some(failure) => Err(failure),
        None => Ok(report),
    }
}

fn warn_of(finding: &Finding) {
    let Finding { subject, message, fix, .. } = finding;
    warn!(fix = fix.as_deref().unwrap_or(""), "{subject}: {message}");
}

/// The sessions of one relay, one after the other.
#[derive(Debug)]
struct Sessions {
    config: Config,
    settings: Settings,
    relay: Relay,
    liveness: Liveness,
    /// Where this process knows everything to be settled, and on which server.
    resume: Option<(Identity, Position)>,
    has_streamed: bool,
}

/// A source that streams, with all that a session needs.
struct Started {
    source: WalSource,
    guard: Guard,
    confirmed: Position,
}

/// Why there is no source.
enum NotStarted {
    Failed(Failure),
    /// Somebody else holds the slot.
    Held(Option<Holder>),
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Sessions {
    async fn run(&mut self, mut stop: Stop) -> Result<(), Failure> {
        let mut backoff = Backoff::default();
        loop {
            let started = tokio::select! {
                () = stop.requested() => return Ok(()),
                started = self.liveness.while_waiting(self.start()) => started,
            };
            let pauses = match started {
                Ok(started) => {
                    self.has_streamed = true;
                    let identity = started.source.identity.clone();
                    let Started { source, guard, confirmed } = started;
                    let session = Session::new(&mut self.relay, source, guard, confirmed);
                    let began = Instant::now();
                    match session.run(stop.clone()).await {
                        End::Stopped => return Ok(()),
                        End::Halted(failure) => return Err(failure),
                        End::SourceLost(failure, position) => {
                            self.resume = Some((identity, position));
                            if began.elapsed() >= STABLE {
                                backoff = Backoff::default();
                            }
                            self.relay.metrics.reconnects.with_label_values(&["source"]).inc();
                            self.relay.publisher.update(|status| status.reconnects += 1);
                            let failure = self.explain(failure, position).await;
                            if failure.class() != Class::Transient {
                                self.relay.setback = Some(failure.clone());
                            }
                            self.failed(failure)?
                        }
                    }
                }
                Err(NotStarted::Held(holder)) => self.stand_by(holder),
                Err(NotStarted::Failed(failure)) => self.failed(failure)?,
            };
            self.liveness.while_waiting(backoff.pause(pauses, &mut stop)).await;
        }
    }

    async fn start(&self) -> Result<Started, NotStarted> {
        let config = &self.config;
        let report = checked(config, &self.settings).await?;
        let name = format!("pgoutbox:{}", config.name);
        let session = postgres::connect(&self.settings, &format!("{name} guard")).await?;
        let source = WalSource::start(
            self.wal_config(name.clone(), &report),
            self.resume.clone(),
            self.relay.window.clone(),
            Arc::clone(&self.relay.metrics),
        );
        let source = match source.await {
            Ok(source) => source,
            Err(failure) if failure.peer_code() == Some(SLOT_ACTIVE) => {
                let slot = config.source.slot.as_deref().unwrap_or_default();
                let holder = slot::describe(&session, slot).await?.and_then(|slot| slot.holder);
                return Err(NotStarted::Held(holder));
            }
            Err(failure) => return Err(failure.into()),
        };
        let confirmed = report.slot.as_ref().and_then(|slot| slot.confirmed_flush_lsn);
        self.keep_marker(&report, &session, confirmed.unwrap_or_default()).await?;
        let guard_config = GuardConfig {
            settings: self.settings.clone(),
            application_name: format!("{name} guard"),
            publication: config.source.publication.clone(),
            tables: self.tables(&report),
            interval: config.source.monitor_interval,
            wal_sender_timeout: config.source.wal_sender_timeout,
        };
        let guard = Guard::start(guard_config, session, Arc::clone(&source.coverage));
        Ok(Started { source, guard, confirmed: Position(confirmed.unwrap_or_default()) })
    }

    /// Writes the marker of a slot that had none, or whose cluster was promoted.
    async fn keep_marker(
        &self,
        report: &Report,
        session: &postgres::Session,
        position: Lsn,
    ) -> Result<(), Failure> {
        let Some(slot) = &self.config.source.slot else { return Ok(()) };
        let origin = match report.decision {
            Some(Decision::Adopt) => {
                info!(%slot, %position, "adopting a slot that somebody else made");
                marker::Origin::Adopted
            }
            Some(Decision::RunOnNewTimeline) => {
                info!(%slot, "the cluster was promoted and the slot came along");
                marker::Origin::Adopted
            }
            Some(Decision::Run | Decision::Stop(_)) | None => return Ok(()),
        };
        let server = marker::server(session).await?;
        marker::write(session, slot, &server, position, origin).await
    }

    fn wal_config(&self, application_name: String, report: &Report) -> WalConfig {
        let source = &self.config.source;
        WalConfig {
            settings: self.settings.clone(),
            application_name,
            slot: source.slot.clone(),
            publication: source.publication.clone(),
            tables: source.tables.clone(),
            partitions: report.coverage.as_ref().map_or(Vec::new(), |it| it.partitions.clone()),
            max_event_size: source.max_event_size,
            wal_sender_timeout: source.wal_sender_timeout,
        }
    }

    /// Each table with the columns that must stay published.
    fn tables(&self, report: &Report) -> Vec<(TableConfig, Vec<String>)> {
        self.config.source.tables.iter().cloned().zip(report.needed.iter().cloned()).collect()
    }

    /// Somebody else holds the slot: ready where it is another relay of this name, which would be
    /// followed at once.
    fn stand_by(&self, holder: Option<Holder>) -> Pauses {
        let slot = self.config.source.slot.as_deref().unwrap_or_default();
        let text = holder.as_ref().map_or_else(
            || "somebody who has just let go".to_owned(),
            |holder| {
                let name = holder.application_name.as_deref().unwrap_or("");
                format!("pid {} (`{name}`)", holder.pid)
            },
        );
        let ours = format!("pgoutbox:{}", self.config.name);
        let is_relay = holder.is_some_and(|holder| holder.application_name == Some(ours));
        let pid = text.as_str();
        warn!(slot, holder = pid, sqlstate = SLOT_ACTIVE, "the slot is held; waiting for it");
        self.relay.publisher.state(if is_relay {
            State::Standby { holder: text }
        } else {
            State::Blocked { reason: format!("slot `{slot}` is held by {text}") }
        });
        STANDBY
    }

    /// There is no source: an error before the first stream, a state afterwards. Gives the pauses
    /// before the next try.
    fn failed(&self, failure: Failure) -> Result<Pauses, Failure> {
        if failure.class() == Class::Transient {
            warn!(%failure, "no source yet; trying again");
            if self.relay.setback.is_none() {
                self.relay.publisher.state(State::Starting);
            }
            return Ok(RETRY);
        }
        if !self.has_streamed || self.relay.exit_on_halt {
            return Err(failure);
        }
        let hint = failure.way_out().map(str::to_owned);
        error!(%failure, hint = hint.as_deref().unwrap_or(""), "halted");
        self.relay.publisher.state(State::Halted { reason: failure.to_string(), hint });
        Ok(HALTED)
    }

    /// What the end of a stream means, where the server's own words say less than the catalogue.
    async fn explain(&self, failure: Failure, position: Position) -> Failure {
        let source = &self.config.source;
        let (Some(slot), Some(publication::UNKNOWN | publication::SKIPPED)) =
            (&source.slot, failure.peer_code())
        else {
            return failure;
        };
        match checked(&self.config, &self.settings).await {
            // The publication is gone, for one.
            Err(found) => found,
            Ok(_) => {
                publication::made_after_slot(&source.publication, slot, position.0, &source.tables)
                    .cause(failure)
            }
        }
    }
}

/// How long pauses are.
#[derive(Clone, Copy, Debug)]
struct Pauses {
    first: Duration,
    longest: Duration,
}

/// Pauses that grow, with jitter.
#[derive(Debug, Default)]
struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Waits for as long as it is time for, or until a stop is asked for.
    async fn pause(&mut self, pauses: Pauses, stop: &mut Stop) {
        let pause = pauses.first.saturating_mul(1 << self.tries.min(16)).min(pauses.longest);
        self.tries += 1;
        // Relays that lost one server must not all come back at one moment.
        let pause = pause.mul_f64(rand::rng().random_range(0.5..1.0));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.requested() => {}
        }
    }
}
