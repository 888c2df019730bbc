//! One process's life: a relay, and after each reload of the configuration the next one.
//!
//! A reload is prepared while the relay runs: the file is read, and what a start needs is tried, on
//! another thread than the relay's. Only then is the relay drained and the next one begun, so a
//! configuration that is wrong changes nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use super::rotation::Rotation;
use super::signals::{Ask, Asked};
use crate::alert::{Alerts, Firing};
use crate::config::Config;
use crate::failure::Failure;
use crate::http;
use crate::relay::{Options, Stop, Supervisor};
use crate::slot_monitor::SlotMonitor;
use crate::status::Status;

/// A relay that may run.
struct Ready {
    config: Config,
    supervisor: Supervisor,
    /// The address of its HTTP endpoint, where that was taken beforehand.
    bound: Option<http::Bound>,
}

/// What watches over a relay, for as long as this lives.
struct Watch {
    status: Status,
    monitor: SlotMonitor,
    alerts: Alerts,
}

/// A relay with what stays when the next takes over.
pub(super) struct Service {
    ready: Ready,
    watch: Watch,
    source: Source,
    server: Option<http::Server>,
    reloads: Reloads,
}

/// Where the next relay comes from.
#[derive(Clone, Debug)]
struct Source {
    file: PathBuf,
    /// Events that are given up stay so.
    skip: Vec<String>,
}

/// How many reloads there have been.
#[derive(Clone, Copy, Debug, Default)]
struct Reloads {
    applied: u64,
    refused: u64,
}

/// How a relay ended.
enum End {
    Stopped,
    Next(Box<Ready>),
}

impl Ready {
    fn new(config: Config, options: Options) -> Result<Self, Failure> {
        let supervisor = Supervisor::new(config.clone(), options)?;
        Ok(Self { config, supervisor, bound: None })
    }
}

impl Watch {
    /// Watches over a relay from before it runs: a halt at its start is worth to be seen too.
    fn start(ready: &Ready) -> Self {
        let Ready { config, supervisor, .. } = ready;
        let (settings, metrics) = (supervisor.settings(), supervisor.metrics());
        let monitor =
            SlotMonitor::start(config, settings, Arc::clone(&metrics), supervisor.status());
        let status = status(ready, &monitor);
        let alerts = Alerts::start(config, status.clone(), metrics, Firing::default());
        Self { status, monitor, alerts }
    }

    /// Watches over the next relay, with what was seen so far.
    fn turn_to(&mut self, ready: &Ready) {
        let Ready { config, supervisor, .. } = ready;
        let (settings, metrics) = (supervisor.settings(), supervisor.metrics());
        self.monitor.turn_to(config, settings, Arc::clone(&metrics), supervisor.status());
        self.status = status(ready, &self.monitor);
        let firing = self.alerts.firing();
        self.alerts = Alerts::start(config, self.status.clone(), metrics, firing);
    }
}

fn status(Ready { config, supervisor, .. }: &Ready, monitor: &SlotMonitor) -> Status {
    let (relay, reports) = (supervisor.status(), monitor.reports());
    let (metrics, liveness) = (supervisor.metrics(), supervisor.liveness());
    Status::new(config.name.clone(), relay, reports, metrics, liveness)
}

impl Service {
    /// The relay of `config`, which came from `file`; its HTTP endpoint answers from now on.
    pub(super) async fn start(
        config: Config,
        file: PathBuf,
        options: Options,
    ) -> Result<Self, Failure> {
        let skip = options.skip.clone();
        let mut ready = Ready::new(config, options)?;
        let watch = Watch::start(&ready);
        let server = serve(&mut ready, &watch.status).await?;
        let (source, reloads) = (Source { file, skip }, Reloads::default());
        Ok(Self { ready, watch, source, server, reloads })
    }

    /// Runs until a stop is asked for.
    pub(super) async fn run(self, mut asked: Asked) -> Result<(), Failure> {
        let Self { mut ready, mut watch, source, mut server, mut reloads } = self;
        loop {
            let listen = server.as_ref().and(ready.config.http_listen);
            let one = Box::pin(run_one(ready, listen, &source, &mut reloads, &mut asked));
            match one.await? {
                End::Stopped => return Ok(()),
                End::Next(next) => ready = *next,
            }
            watch.turn_to(&ready);
            reloads.show(&ready.supervisor);
            info!("the configuration was read again and is in force");
            match &server {
                Some(server) if ready.config.http_listen == listen => {
                    server.show(watch.status.clone());
                }
                _ => {
                    drop(server.take());
                    server = serve(&mut ready, &watch.status).await.unwrap_or_else(|failure| {
                        error!(%failure, "the relay runs on without its http endpoint");
                        None
                    });
                }
            }
        }
    }
}

async fn serve(ready: &mut Ready, status: &Status) -> Result<Option<http::Server>, Failure> {
    let bound = match (ready.bound.take(), ready.config.http_listen) {
        (Some(bound), _) => bound,
        (None, Some(listen)) => http::bind(listen).await?,
        (None, None) => return Ok(None),
    };
    Ok(Some(bound.serve(status.clone())))
}

/// Takes the address `listen` while the endpoint in force still answers; not one that is a part of
/// that endpoint's own, or the other way round, which is free only once it has gone.
async fn bind_beside(
    listen: Option<SocketAddr>,
    in_force: Option<SocketAddr>,
) -> Result<Option<http::Bound>, Failure> {
    match listen {
        Some(listen) if in_force.is_none_or(|in_force| !overlap(listen, in_force)) => {
            http::bind(listen).await.map(Some)
        }
        _ => Ok(None),
    }
}

fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (one.ip() == other.ip() || is_any)
}

/// Runs one relay until it ends, by itself, by a stop, or since the next is ready; `listen` is where its
/// HTTP endpoint answers.
async fn run_one(
    ready: Ready,
    listen: Option<SocketAddr>,
    source: &Source,
    reloads: &mut Reloads,
    asked: &mut Asked,
) -> Result<End, Failure> {
    let (name, metrics) = (ready.config.name, ready.supervisor.metrics());
    let mut rotation = Rotation::watch(ready.config.inputs);
    let (ask, stop) = Stop::new();
    let mut relay = pin!(ready.supervisor.run(stop));
    let (mut trial, mut next) = (None, None);
    loop {
        tokio::select! {
            biased;
            ended = &mut relay => {
                ended?;
                return Ok(next.map_or(End::Stopped, End::Next));
            }
            Some(ask_for) = asked.recv() => match ask_for {
                Ask::Stop => {
                    (trial, next) = (None, None);
                    ask.send_replace(true);
                }
                Ask::Reload if next.is_some() || *ask.borrow() => {}
                Ask::Reload => trial = Some(begin_trial(source.clone(), name.clone(), listen)),
            },
            () = rotation.changed(), if trial.is_none() && next.is_none() && !*ask.borrow() => {
                trial = Some(begin_trial(source.clone(), name.clone(), listen));
            }
            prepared = under_way(&mut trial) => {
                trial = None;
                match prepared {
                    Ok(ready) => {
                        reloads.applied += 1;
                        info!("the new configuration is right: draining, to begin anew with it");
                        next = Some(ready);
                        ask.send_replace(true);
                    }
                    Err(failure) => {
                        reloads.refused += 1;
                        metrics.reloads.with_label_values(&["refused"]).inc();
                        let hint = failure.way_out().unwrap_or("");
                        warn!(%failure, hint, "the configuration was not reloaded: nothing changes");
                    }
                }
            }
        }
    }
}

type Trial = JoinHandle<Result<Box<Ready>, Failure>>;

/// Reads the file and tries what it says, and takes the address of its HTTP endpoint.
fn begin_trial(source: Source, name: String, listen: Option<SocketAddr>) -> Trial {
    let Source { file, skip } = source;
    info!(file = %file.display(), "reading the configuration again");
    tokio::spawn(async move {
        let config = Config::load(&file)?;
        if config.name != name {
            let message = format!("`name` is `{name}` and cannot become `{}`", config.name);
            let hint = "the name is in every metric and on the server: start the relay again";
            return Err(Failure::configuration(message).hint(hint));
        }
        let mut ready = Ready::new(config, Options { skip, is_reload: true })?;
        ready.supervisor.try_start().await?;
        ready.bound = bind_beside(ready.config.http_listen, listen).await?;
        Ok(Box::new(ready))
    })
}

async fn under_way(trial: &mut Option<Trial>) -> Result<Box<Ready>, Failure> {
    match trial {
        Some(trial) => trial.await.unwrap_or_else(|error| {
            Err(Failure::transient("the new configuration could not be tried").cause(error))
        }),
        None => std::future::pending().await,
    }
}

impl Reloads {
    /// Counters go on where those of the relay before ended.
    fn show(self, supervisor: &Supervisor) {
        let metrics = supervisor.metrics();
        for (outcome, count) in [("applied", self.applied), ("refused", self.refused)] {
            metrics.reloads.with_label_values(&[outcome]).inc_by(count);
        }
    }
}
