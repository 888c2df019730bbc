//! Puts what the relay is doing where others can read it: a watch, and the metrics.

use std::sync::Arc;

use tokio::sync::watch;

use super::liveness::Liveness;
use super::state::{LastError, RelayStatus, State};
use crate::lsn::Lsn;
use crate::metrics::Metrics;
use crate::timestamp::Timestamp;

/// The only writer of a relay's status.
#[derive(Debug)]
pub(super) struct Publisher {
    status: watch::Sender<RelayStatus>,
    metrics: Arc<Metrics>,
    liveness: Liveness,
}

impl Publisher {
    pub(super) fn new(metrics: Arc<Metrics>, liveness: Liveness, slot: Option<String>) -> Self {
        let started_at = Timestamp::now();
        let status = watch::Sender::new(RelayStatus { slot, started_at, ..RelayStatus::default() });
        let publisher = Self { status, metrics, liveness };
        publisher.show_state(&State::default());
        publisher
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<RelayStatus> {
        self.status.subscribe()
    }

    /// Changes the state and leaves the rest.
    pub(super) fn state(&self, state: State) {
        self.update(|status| status.state = state);
    }

    /// Changes the status, and says that the relay is alive.
    pub(super) fn update(&self, change: impl FnOnce(&mut RelayStatus)) {
        self.beat();
        self.change(change);
    }

    /// Says that the relay is alive.
    pub(super) fn beat(&self) {
        self.liveness.beat();
    }

    /// Changes the status.
    pub(super) fn change(&self, change: impl FnOnce(&mut RelayStatus)) {
        let mut shown = None;
        self.status.send_modify(|status| {
            let before = status.state.clone();
            change(status);
            if status.state != before {
                tracing::info!(
                    state = status.state.name(),
                    reason = status.state.reason().unwrap_or(""),
                    "state"
                );
                keep_reason(status);
            }
            shown = Some(status.clone());
        });
        if let Some(status) = shown {
            self.show(&status);
        }
    }

    fn show(&self, status: &RelayStatus) {
        self.show_state(&status.state);
        let metrics = &self.metrics;
        metrics.window_events.set(gauge(status.window_events));
        metrics.window_bytes.set(gauge(status.window_bytes));
        // Before the first position there is no lag to tell.
        if status.confirmed != Lsn::ZERO {
            metrics.slot_confirmed_lag_bytes.set(gauge(status.confirmed_lag_bytes()));
        }
    }

    fn show_state(&self, state: &State) {
        for name in State::NAMES {
            let shown = i64::from(name == state.name());
            self.metrics.state.with_label_values(&[name]).set(shown);
        }
    }
}

/// The reason of a state outlives it.
fn keep_reason(status: &mut RelayStatus) {
    use State::{Blocked, Halted, Starting};
    if let Starting { reason } | Blocked { reason } | Halted { reason, .. } = &status.state {
        let reason = reason.clone();
        status.last_error = Some(LastError { at: Timestamp::now(), reason });
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
