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
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, warn};

pub use report::{Decoding, HoldingTransaction, SlotFigures, SlotReport, Walsender};

use crate::config::{Config, MonitorConfig};
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::postgres::{self, Settings};
use crate::relay::Pauses;
use crate::relay::state::RelayStatus;
use look::Looker;
use notices::Notices;
use watcher::Watcher;

/// A look that takes longer has lost its connection.
const PATIENCE: Duration = Duration::from_secs(15);
/// Before the next connection.
const RECONNECT: Pauses =
    Pauses { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// The monitor of one relay; it ends when this is dropped.
#[derive(Debug)]
pub struct SlotMonitor {
    reports: Arc<watch::Sender<SlotReport>>,
    metrics: Arc<Metrics>,
    relay: watch::Receiver<RelayStatus>,
    task: JoinHandle<()>,
}

impl SlotMonitor {
    /// Begins to look at the slot of the relay that publishes `relay`. To be called in a runtime.
    pub fn start(
        config: &Config,
        settings: Settings,
        metrics: Arc<Metrics>,
        relay: watch::Receiver<RelayStatus>,
    ) -> Self {
        let reports = Arc::new(watch::Sender::new(SlotReport::default()));
        let task = spawn(config, settings, &metrics, &relay, &reports);
        Self { reports, metrics, relay, task }
    }

    /// Begins anew with another configuration; who listens to the reports goes on listening.
    pub fn restart(&mut self, config: &Config, settings: Settings) {
        self.task.abort();
        self.task = spawn(config, settings, &self.metrics, &self.relay, &self.reports);
    }

    /// What it finds: the default before the first look.
    pub fn reports(&self) -> watch::Receiver<SlotReport> {
        self.reports.subscribe()
    }
}

impl Drop for SlotMonitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn spawn(
    config: &Config,
    settings: Settings,
    metrics: &Arc<Metrics>,
    relay: &watch::Receiver<RelayStatus>,
    reports: &Arc<watch::Sender<SlotReport>>,
) -> JoinHandle<()> {
    let monitor = Monitor {
        // Not the replication connection's name: who finds the slot held compares it.
        application_name: format!("pgoutbox:{} monitor", config.name),
        watcher: Watcher::new(config.monitor.clone(), &settings.user),
        config: config.monitor.clone(),
        settings,
        metrics: Arc::clone(metrics),
        relay: relay.clone(),
        reports: Arc::clone(reports),
        notices: Notices::default(),
        began: Instant::now(),
    };
    tokio::spawn(monitor.run())
}

/// What the task owns.
struct Monitor {
    config: MonitorConfig,
    settings: Settings,
    application_name: String,
    metrics: Arc<Metrics>,
    relay: watch::Receiver<RelayStatus>,
    reports: Arc<watch::Sender<SlotReport>>,
    watcher: Watcher,
    notices: Notices,
    /// The watcher's time counts from here.
    began: Instant,
}

impl Monitor {
    async fn run(mut self) {
        let mut failures = 0;
        loop {
            let failure = match self.connect().await {
                Ok(looker) => self.look_until_it_fails(&looker, &mut failures).await,
                Err(failure) => failure,
            };
            self.failed(&failure, failures == 0);
            sleep(RECONNECT.after(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    async fn connect(&self) -> Result<Looker, Failure> {
        let session = postgres::connect(&self.settings, &self.application_name).await?;
        Looker::new(session).await
    }

    /// Looks every interval; a look that succeeds ends the row of `failures`.
    async fn look_until_it_fails(&mut self, looker: &Looker, failures: &mut u32) -> Failure {
        let mut ticks = interval(self.config.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let looked = timeout(PATIENCE, self.look(looker)).await;
            match looked {
                Ok(Ok(report)) => self.publish(report),
                Ok(Err(failure)) => return failure,
                Err(_) => return Failure::transient("looking at the slot: no answer"),
            }
            *failures = 0;
        }
    }

    async fn look(&mut self, looker: &Looker) -> Result<SlotReport, Failure> {
        let relay = self.relay.borrow().clone();
        let look = looker.look(relay.slot.as_deref(), self.config.all_slots).await?;
        let now = self.began.elapsed();
        let files = match self.watcher.wants_files(now, &look, &relay) {
            Some(position) => Some(looker.wal_files(position).await?),
            None => None,
        };
        let free = volume::free_bytes(self.config.wal_volume.as_ref(), files.as_ref()).await;
        Ok(self.watcher.report(now, look, files, free, &relay))
    }

    fn publish(&mut self, report: SlotReport) {
        debug!(
            wal_position = %report.wal_position,
            lag_seconds = report.lag_seconds,
            seconds_to_exhaustion = report.seconds_to_exhaustion,
            "looked at the slot"
        );
        let before = self.reports.send_replace(report);
        let report = self.reports.borrow();
        show::show(&self.metrics, &report, &before);
        self.notices.tell(&report, Instant::now());
    }

    /// The figures stay; that they are old is told by their time.
    fn failed(&self, failure: &Failure, is_news: bool) {
        if is_news {
            warn!(%failure, "the slot cannot be watched");
        } else {
            debug!(%failure, "the slot still cannot be watched");
        }
        self.metrics.slot.monitor_up.set(0);
        self.reports.send_modify(|report| report.failure = Some(failure.to_string()));
    }
}
