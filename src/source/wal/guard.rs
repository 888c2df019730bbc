//! Watches, on an ordinary connection, what the replication connection cannot tell.
//!
//! *Coverage*: a keepalive says that nothing was published, not that nothing was written. An idle
//! position is confirmed only after a look at the catalogue, later than the position, has shown that
//! the publication covers every configured table (guarantee 2).
//!
//! *Shutdown*: a server in fast shutdown waits for its walsenders to be confirmed up to the end, and a
//! relay that is full reads nothing and so cannot see it. An ordinary connection is told (57P01), and
//! a new one is refused (57P03). A smart shutdown waits for ordinary connections too and tells them
//! nothing, so this one is made anew, every minute at the least.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, error, info, warn};

use super::Coverage;
use crate::config::TableConfig;
use crate::failure::Failure;
use crate::postgres::{Session, Settings, connect};
use crate::replication::publication::{self, Wanted};

/// Between two looks at the catalogue, however much the reader wants one.
const MIN_INTERVAL: Duration = Duration::from_millis(300);
/// A smart shutdown is noticed this late at the most.
const RENEW: Duration = Duration::from_secs(60);
/// Between two tries to connect, and after a look that failed.
const RETRY: Duration = Duration::from_millis(500);

/// What the guard needs to know.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// Where the server is.
    pub settings: Settings,
    /// For the ordinary connection.
    pub application_name: String,
    /// The publication.
    pub publication: String,
    /// Each configured table, and the columns of it that must be published.
    pub tables: Vec<(TableConfig, Vec<String>)>,
    /// How often the catalogue is looked at while nobody asks.
    pub interval: Duration,
    /// `wal_sender_timeout` of our session, where it was set: who wants a dead peer noticed sooner
    /// wants a shutdown noticed sooner too.
    pub wal_sender_timeout: Option<Duration>,
}

/// How long an ordinary connection is kept at the most: a server in smart shutdown waits for it and
/// tells it nothing. `wal_sender_timeout` is that of our session, where it was set.
pub fn renew_after(wal_sender_timeout: Option<Duration>) -> Duration {
    wal_sender_timeout.unwrap_or(RENEW).min(RENEW)
}

/// What the guard has found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The publication leaves something out.
    pub coverage_lost: Option<Failure>,
    /// The server is shutting down since then.
    pub server_stops: Option<Instant>,
}

/// A running guard; it ends when this is dropped.
#[derive(Debug)]
pub struct Guard {
    report: watch::Receiver<Report>,
    task: JoinHandle<()>,
}

impl Guard {
    /// Starts it on `session`.
    pub fn start(config: GuardConfig, session: Session, coverage: Arc<Coverage>) -> Self {
        let (sender, report) = watch::channel(Report::default());
        let watcher = Watcher { config, coverage, report: sender };
        Self { report, task: tokio::spawn(watcher.run(session)) }
    }

    /// What the publication leaves out, if anything.
    pub fn coverage_lost(&self) -> Option<Failure> {
        self.report.borrow().coverage_lost.clone()
    }

    /// Waits until the server has been shutting down for `grace`. Safe to drop and call again.
    pub async fn server_stops(&mut self, grace: Duration) {
        loop {
            let since = self.report.borrow_and_update().server_stops;
            let news = self.report.changed();
            match since {
                None => {
                    if news.await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                // It may turn out that only this connection was ended.
                Some(since) => match timeout_at(since + grace, news).await {
                    Err(_) => return,
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => std::future::pending().await,
                },
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Watcher {
    config: GuardConfig,
    coverage: Arc<Coverage>,
    report: watch::Sender<Report>,
}

/// Why the watcher left a connection.
enum Left {
    Old,
    Closed(Failure),
}

impl Watcher {
    async fn run(self, session: Session) {
        let mut session = Some(session);
        loop {
            let left = match session.take() {
                Some(session) => self.watch(&session).await,
                None => Left::Old,
            };
            if let Left::Closed(failure) = &left {
                debug!(%failure, "the guard's connection ended");
            }
            session = self.connect_again().await;
        }
    }

    /// Looks at the catalogue for as long as `session` lives and is not old.
    async fn watch(&self, session: &Session) -> Left {
        let renew_at = Instant::now() + renew_after(self.config.wal_sender_timeout);
        loop {
            tokio::select! {
                failure = session.closed() => return Left::Closed(failure),
                looked = self.look(session) => if let Err(failure) = looked {
                    // What fails on this connection will fail on the next one too.
                    sleep(RETRY).await;
                    return Left::Closed(failure);
                },
            }
            let next = Instant::now() + self.config.interval;
            tokio::select! {
                failure = session.closed() => return Left::Closed(failure),
                () = tokio::time::sleep_until(next.min(renew_at)) => {}
                () = self.wanted() => {}
            }
            if Instant::now() >= renew_at {
                return Left::Old;
            }
        }
    }

    /// The reader wants a look, and the last one is not too recent.
    async fn wanted(&self) {
        self.coverage.wanted.notified().await;
        sleep(MIN_INTERVAL).await;
    }

    async fn look(&self, session: &Session) -> Result<(), Failure> {
        // In this order: what was heard before the look is covered by what the look finds.
        let idle = self.coverage.idle();
        let config = &self.config;
        let wanted: Vec<Wanted<'_>> =
            config.tables.iter().map(|(table, columns)| Wanted { table, columns }).collect();
        let found = publication::coverage(session, &config.publication, &wanted).await?;
        let Some(gap) = found.gaps.into_iter().next() else {
            self.coverage.covered.fetch_max(idle.as_u64(), Ordering::AcqRel);
            self.coverage_found(None);
            return Ok(());
        };
        self.coverage_found(Some(gap.failure()));
        Ok(())
    }

    fn coverage_found(&self, lost: Option<Failure>) {
        self.report.send_if_modified(|report| {
            let known = report.coverage_lost.as_ref().map(ToString::to_string);
            if known == lost.as_ref().map(ToString::to_string) {
                return false;
            }
            match &lost {
                Some(failure) => {
                    let hint = failure.way_out().unwrap_or("");
                    error!(%failure, hint, "the publication does not cover what is configured");
                }
                None => info!("the publication covers what is configured again"),
            }
            report.coverage_lost = lost;
            true
        });
    }

    /// Connects until it succeeds; a server that refuses since it shuts down is reported.
    async fn connect_again(&self) -> Option<Session> {
        match connect(&self.config.settings, &self.config.application_name).await {
            Ok(session) => {
                self.server_stops(false);
                Some(session)
            }
            Err(failure) => {
                debug!(%failure, "the guard cannot connect");
                // 57P03: starting up or shutting down. The replication connection stands, so it is
                // the latter.
                if failure.peer_code() == Some("57P03") {
                    self.server_stops(true);
                }
                sleep(RETRY).await;
                None
            }
        }
    }

    fn server_stops(&self, stops: bool) {
        self.report.send_if_modified(|report| {
            if report.server_stops.is_some() == stops {
                return false;
            }
            if stops {
                warn!("the server is shutting down");
            }
            report.server_stops = stops.then(Instant::now);
            true
        });
    }
}
