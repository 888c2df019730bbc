//! The sessions of one relay, one after the other.
//!
//! Before the first session every refusal that an operator must mend ends the process; afterwards it
//! is a state, and the relay tries again with jittered backoff, so that it flows again by itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::backoff::{Backoff, HALTED, Pauses, RETRY, STANDBY};
use super::columns::columns_in_force;
use super::liveness::Liveness;
use super::session::{End, Relay, Session};
use super::state::State;
use super::stop::Stop;
use crate::config::{Config, TableConfig};
use crate::failure::{Class, Failure};
use crate::lsn::Lsn;
use crate::postgres::{self, Settings};
use crate::replication::marker::{self, Decision};
use crate::replication::preflight::{Report, preflight};
use crate::replication::slot::{self, Holder};
use crate::replication::{Identity, publication};
use crate::source::Position;
use crate::source::wal::guard::{Guard, GuardConfig};
use crate::source::wal::{WalConfig, WalSource};

/// A session of this length did not fail at once: the pauses begin anew.
const STABLE: Duration = Duration::from_secs(10);
/// SQLSTATE of a slot that somebody else holds.
const SLOT_ACTIVE: &str = "55006";

/// Everything that `run` needs of PostgreSQL, or the first thing that is missing.
pub(super) async fn checked(config: &Config, settings: &Settings) -> Result<Report, Failure> {
    let report = preflight(config, settings, &columns_in_force(config)?).await;
    match report.first_error() {
        Some(failure) => Err(failure),
        None => Ok(report),
    }
}

/// The sessions of one relay, one after the other.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) config: Config,
    pub(super) settings: Settings,
    pub(super) relay: Relay,
    pub(super) liveness: Liveness,
    /// Where this process knows everything to be settled, and on which server.
    pub(super) resume: Option<(Identity, Position)>,
    pub(super) has_streamed: bool,
    /// Who was last seen to hold the slot.
    pub(super) held_by: Option<String>,
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
    /// Runs until `stop` is asked for, or something ends the relay.
    pub(super) async fn run(&mut self, mut stop: Stop) -> Result<(), Failure> {
        let mut backoff = Backoff::default();
        loop {
            let started = tokio::select! {
                () = stop.requested() => return Ok(()),
                started = self.liveness.while_waiting(self.start()) => started,
            };
            let pauses = match started {
                Ok(started) => {
                    self.has_streamed = true;
                    self.held_by = None;
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
            interval: config.monitor.interval,
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
    fn stand_by(&mut self, holder: Option<Holder>) -> Pauses {
        let slot = self.config.source.slot.as_deref().unwrap_or_default();
        let text = holder.as_ref().map_or_else(
            || "somebody who has just let go".to_owned(),
            |holder| {
                let name = holder.application_name.as_deref().unwrap_or("");
                format!("pid {} (`{name}`)", holder.pid)
            },
        );
        let ours = format!("pgoutbox:{}", self.config.name);
        let pid = holder.as_ref().map(|holder| holder.pid);
        let is_relay = holder.is_some_and(|holder| holder.application_name == Some(ours));
        if self.held_by.as_ref() != Some(&text) {
            let holder = text.as_str();
            warn!(slot, holder, sqlstate = SLOT_ACTIVE, "the slot is held; waiting for it");
        }
        self.relay.publisher.state(match (pid, is_relay) {
            (_, true) => State::Standby { holder: text.clone() },
            (None, _) => State::Blocked { reason: format!("slot `{slot}` is held by {text}") },
            (Some(pid), _) => State::Blocked {
                reason: format!(
                    "slot `{slot}` is held by {text}, no relay of this name: wait for its end, or \
                     end it: `SELECT pg_terminate_backend({pid})`"
                ),
            },
        });
        self.held_by = Some(text);
        STANDBY
    }

    /// There is no source: an error before the first stream, a state afterwards. Gives the pauses
    /// before the next try.
    fn failed(&self, failure: Failure) -> Result<Pauses, Failure> {
        if failure.class() == Class::Transient {
            warn!(%failure, "no source yet; trying again");
            if self.relay.setback.is_none() {
                let reason = failure.to_string();
                self.relay.publisher.state(State::Starting { reason });
            }
            return Ok(RETRY);
        }
        if !self.has_streamed || self.relay.exit_on_halt {
            return Err(failure);
        }
        error!(%failure, hint = failure.way_out().unwrap_or(""), "halted");
        self.relay.publisher.state(State::halted(&failure));
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
