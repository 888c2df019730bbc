//! Who is told, one task each: nobody waits for another, and the relay for none.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

use super::bulletin::{Bulletin, Told};
use super::notice::{self, Alert};
use crate::config::{Config, HttpTarget};
use crate::http_client::{HttpError, Peer};
use crate::metrics::Metrics;
use crate::timestamp::Timestamp;

/// Where Alertmanager takes alerts.
const PATH: &str = "/api/v2/alerts";

/// A firing alert that is not sent again for so many times `repeat` is over.
const LIFETIMES: u32 = 4;

/// After a try that failed; doubled each time up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// From one line about failures to the next.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// Why a notification was not taken. Of the address only what may be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("no answer")]
    NoAnswer(#[from] HttpError),
    #[error("it answered {0}")]
    Refused(u16),
    #[error("the alerts have no JSON form")]
    Form(#[from] serde_json::Error),
}

/// What a target understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Alertmanager,
    Webhook,
}

/// One of those who are told.
#[derive(Clone, Debug)]
pub(super) struct Target {
    kind: Kind,
    http: HttpTarget,
    relay: String,
    generator_url: Option<String>,
    repeat: Duration,
}

impl Target {
    /// All of a configuration.
    pub(super) fn all(config: &Config) -> Vec<Self> {
        let of = |kind: Kind| {
            move |http: &HttpTarget| Self {
                kind,
                http: http.clone(),
                relay: config.name.clone(),
                generator_url: config.http_listen.map(|listen| format!("http://{listen}/alerts")),
                repeat: config.alerts.repeat,
            }
        };
        let alertmanagers = config.alerts.alertmanagers.iter().map(of(Kind::Alertmanager));
        alertmanagers.chain(config.alerts.webhook.iter().map(of(Kind::Webhook))).collect()
    }

    /// Its kind, as the metrics name it.
    pub(super) const fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Alertmanager => "alertmanager",
            Kind::Webhook => "webhook",
        }
    }

    /// Scheme, host and port: the rest may be a secret.
    pub(super) fn shown(&self) -> &str {
        &self.http.shown
    }

    /// Sends them in one request.
    pub(super) async fn send(&self, alerts: &[&Alert]) -> Result<(), SendError> {
        let HttpTarget { url, shown, login, tls } = &self.http;
        let now = Timestamp::now();
        let (url, path, body) = match self.kind {
            Kind::Alertmanager => {
                let lifetime = self.repeat.saturating_mul(LIFETIMES);
                let generator = self.generator_url.as_deref();
                let body = notice::alertmanager(alerts, generator, lifetime, now)?;
                (url.expose().trim_end_matches('/'), PATH, body)
            }
            Kind::Webhook => {
                (url.expose(), "", notice::webhook(alerts, &self.relay, self.repeat, now)?)
            }
        };
        let peer = Peer { url, name: self.kind(), login: login.as_ref(), tls };
        let status = peer.post_json(path, body.into()).await?.status;
        debug!(target = self.kind(), address = shown, alerts = alerts.len(), %status, "notified");
        if status.is_success() { Ok(()) } else { Err(SendError::Refused(status.as_u16())) }
    }

    /// Tells it of every change, and each `repeat` of all that fires, for as long as the process
    /// runs. A failure costs a pause; meanwhile news gather.
    pub(super) async fn serve(
        self,
        mut bulletin: watch::Receiver<Bulletin>,
        metrics: Arc<Metrics>,
    ) {
        let mut told = Told::new();
        let mut next_round = Instant::now() + self.repeat;
        let mut trouble = Trouble::default();
        loop {
            let again = Instant::now() >= next_round;
            let (alerts, all): (Vec<Alert>, Told) = {
                let bulletin = bulletin.borrow_and_update();
                (bulletin.news(&told, again).into_iter().cloned().collect(), bulletin.told())
            };
            if !alerts.is_empty() {
                let sent = self.send(&alerts.iter().collect::<Vec<_>>()).await;
                let labels = [self.kind()];
                match sent {
                    Ok(()) => {
                        metrics.alerts.sent.with_label_values(&labels).inc();
                        trouble.is_over(&self);
                        told = all;
                    }
                    Err(error) => {
                        metrics.alerts.failed.with_label_values(&labels).inc();
                        trouble.tell(&self, &error);
                        sleep(trouble.pause()).await;
                        continue;
                    }
                }
            }
            if again {
                next_round = Instant::now() + self.repeat;
            }
            tokio::select! {
                changed = bulletin.changed() => if changed.is_err() {
                    return;
                },
                () = sleep_until(next_round) => {}
            }
        }
    }
}

/// Tries in a row that failed, and when that was last said.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    said: Option<Instant>,
}

impl Trouble {
    fn tell(&mut self, target: &Target, error: &SendError) {
        self.failures = self.failures.saturating_add(1);
        if self.said.is_some_and(|said| said.elapsed() < LOG_PAUSE) {
            return;
        }
        self.said = Some(Instant::now());
        let (kind, address, tries) = (target.kind(), target.shown(), self.failures);
        let error = chain(error);
        warn!(target = kind, address, tries, error, "alerts are not taken; trying again");
    }

    fn is_over(&mut self, target: &Target) {
        if self.failures > 0 {
            info!(target = target.kind(), address = target.shown(), "alerts are taken again");
            *self = Self::default();
        }
    }

    /// Jittered, since what failed together must not come back at one moment.
    fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
        pause.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

/// The error with its causes.
pub(super) fn chain(error: &SendError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
