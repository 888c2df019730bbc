//! Watches the relay's slot on an ordinary connection of its own, and tells how long is left.
//!
//! ```text
//!  look (one statement) ─▶ watcher ─▶ report ─▶ watch (status, alerts), metrics, warnings in the log
//!                          ├── age: since when the WAL is past a position
//!                          └── forecast: how fast the slot's room is used up
//! ```
//!
//! It lives as long as the process, whatever the relay does, and needs nothing of it but the slot's
//! name: who stands by, is halted or cannot start is told all the same.

mod report;
mod look;
mod age;
mod forecast;
mod advice;
mod volume;
mod watcher;
mod show;
mod notices;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tracing::{debug, warn};

pub use report::{Decoding, HoldingTransaction, SlotFigures, SlotReport, Walsender};

use crate::config::{Config, MonitorConfig};
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::postgres::{self, Settings};
use crate::relay::Pauses;
use crate::relay::state::RelayStatus;
use crate::source::wal::guard::renew_after;
use look::Looker;
use notices::Notices;
use watcher::Watcher;

/// Between a look and one that a change of the relay's state asks for.
const SETTLED: Duration = Duration::from_millis(300);

/// A look that takes longer has lost its connection.
const PATIENCE: Duration = Duration::from_secs(15);
/// Before the next connection.
const RECONNECT: Pauses =
    Pauses { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// The monitor of one relay; it ends when this is dropped.
#[derive(Debug)]
pub struct SlotMonitor {
    reports: watch::Receiver<SlotReport>,
    jobs: watch::Sender<Job>,
}

/// What is looked at, and for whom.
#[derive(Clone, Debug)]
struct Job {
    config: MonitorConfig,
    settings: Settings,
    application_name: String,
    /// How long one connection is kept.
    renew_after: Duration,
    metrics: Arc<Metrics>,
    relay: watch::Receiver<RelayStatus>,
}

impl SlotMonitor {
    /// Begins to look at the slot of the relay that publishes `relay`. To be called in a runtime.
    pub fn start(
        config: &Config,
        settings: Settings,
        metrics: Arc<Metrics>,
        relay: watch::Receiver<RelayStatus>,
    ) -> Self {
        let (jobs, job) = watch::channel(Job::new(config, settings, metrics, relay));
        let (reports, receiver) = watch::channel(SlotReport::default());
        tokio::spawn(Monitor::new(reports, &job.borrow()).run(job.clone()));
        Self { reports: receiver, jobs }
    }

    /// Turns to the relay that takes over in this process, with another configuration of the same
    /// name. What was seen so far is remembered, so no lag and no forecast begins anew; who listens to
    /// the reports goes on listening.
    pub fn turn_to(
        &self,
        config: &Config,
        settings: Settings,
        metrics: Arc<Metrics>,
        relay: watch::Receiver<RelayStatus>,
    ) {
        self.jobs.send_replace(Job::new(config, settings, metrics, relay));
    }

    /// What it finds: the default before the first look.
    pub fn reports(&self) -> watch::Receiver<SlotReport> {
        self.reports.clone()
    }
}

impl Job {
    fn new(
        config: &Config,
        settings: Settings,
        metrics: Arc<Metrics>,
        relay: watch::Receiver<RelayStatus>,
    ) -> Self {
        // Not the replication connection's name: who finds the slot held compares it.
        let application_name = format!("pgoutbox:{} monitor", config.name);
        let renew_after = renew_after(config.source.wal_sender_timeout);
        let config = config.monitor.clone();
        Self { config, settings, application_name, renew_after, metrics, relay }
    }

    /// Whether positions and looks of the job `before` can be compared with this one's.
    fn continues(&self, before: &Self) -> bool {
        let server = |job: &Self| (job.settings.host.clone(), job.settings.port);
        server(self) == server(before) && self.config.interval == before.config.interval
    }

    async fn connect(&self) -> Result<Looker, Failure> {
        let session = postgres::connect(&self.settings, &self.application_name).await?;
        Looker::new(session).await
    }
}

/// Waits for another state of the relay than `state`, though not for a moment only: what was seen in
/// the old one, a slot without a reader, say, would contradict it until the next look.
async fn changed(relay: &mut watch::Receiver<RelayStatus>, state: &str) {
    sleep(SETTLED).await;
    if relay.wait_for(|status| status.state.name() != state).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Why a connection was left.
enum Left {
    Failed(Failure),
    /// A server in smart shutdown may be waiting for it.
    Old,
}

/// What the task owns.
struct Monitor {
    reports: watch::Sender<SlotReport>,
    watcher: Watcher,
    notices: Notices,
    /// The watcher's time counts from here.
    began: Instant,
}

impl Monitor {
    fn new(reports: watch::Sender<SlotReport>, job: &Job) -> Self {
        let watcher = Watcher::new(job.config.clone(), &job.settings.user);
        Self { reports, watcher, notices: Notices::default(), began: Instant::now() }
    }

    /// Works until nobody has a job for it.
    async fn run(mut self, mut jobs: watch::Receiver<Job>) {
        let mut job = jobs.borrow_and_update().clone();
        loop {
            tokio::select! {
                () = self.work(&job) => {}
                changed = jobs.changed() => if changed.is_err() {
                    return;
                }
            }
            let next = jobs.borrow_and_update().clone();
            if next.continues(&job) {
                self.watcher.configure(next.config.clone(), &next.settings.user);
            } else {
                self.watcher = Watcher::new(next.config.clone(), &next.settings.user);
            }
            job = next;
        }
    }

    /// Connects, looks, and connects again, for ever.
    async fn work(&mut self, job: &Job) {
        let mut failures = 0;
        loop {
            let left = match job.connect().await {
                Ok(looker) => self.look_until_it_fails(job, &looker, &mut failures).await,
                Err(failure) => Left::Failed(failure),
            };
            // Closed by now: a server in smart shutdown lets nobody in again.
            let Left::Failed(failure) = left else { continue };
            self.failed(job, &failure, failures == 0);
            sleep(RECONNECT.after(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Looks every interval; a look that succeeds ends the row of `failures`.
    async fn look_until_it_fails(
        &mut self,
        job: &Job,
        looker: &Looker,
        failures: &mut u32,
    ) -> Left {
        let renew_at = Instant::now() + job.renew_after;
        let mut relay = job.relay.clone();
        let mut ticks = interval(job.config.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let state = relay.borrow().state.name();
            tokio::select! {
                _ = ticks.tick() => {}
                () = changed(&mut relay, state) => ticks.reset(),
                () = sleep_until(renew_at) => return Left::Old,
            }
            match timeout(PATIENCE, self.look(job, looker)).await {
                Ok(Ok(report)) => self.publish(job, report),
                Ok(Err(failure)) => return Left::Failed(failure),
                Err(_) => {
                    let failure = Failure::transient("looking at the slot: no answer");
                    return Left::Failed(failure);
                }
            }
            *failures = 0;
        }
    }

    async fn look(&mut self, job: &Job, looker: &Looker) -> Result<SlotReport, Failure> {
        let relay = job.relay.borrow().clone();
        let look = looker.look(relay.slot.as_deref(), job.config.all_slots).await?;
        let now = self.began.elapsed();
        let files = match self.watcher.wants_files(now, &look, &relay) {
            Some(position) => Some(looker.wal_files(position).await?),
            None => None,
        };
        let room = volume::room(job.config.wal_volume.as_ref(), files.as_ref()).await;
        Ok(self.watcher.report(now, look, files, room, &relay))
    }

    fn publish(&mut self, job: &Job, report: SlotReport) {
        debug!(
            wal_position = %report.wal_position,
            lag_seconds = report.lag_seconds,
            seconds_to_exhaustion = report.seconds_to_exhaustion,
            "looked at the slot"
        );
        self.notices.tell(&report, Instant::now());
        show::show(&job.metrics, &report, &self.reports.borrow());
        self.reports.send_replace(report);
    }

    /// The figures stay; that they are old is told by their time.
    fn failed(&self, job: &Job, failure: &Failure, is_news: bool) {
        if is_news {
            warn!(%failure, "the slot cannot be watched");
        } else {
            debug!(%failure, "the slot still cannot be watched");
        }
        job.metrics.slot.monitor_up.set(0);
        self.reports.send_modify(|report| report.failure = Some(failure.to_string()));
    }
}
