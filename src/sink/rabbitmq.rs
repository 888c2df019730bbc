//! RabbitMQ, through lapin.
//!
//! ```text
//!  relay ── enqueue, seal ─▶ RabbitMqSink ── inbox ─▶ driver ── publish ─▶ lapin ─▶ broker
//!    ▲                                                  │ ▲                 │
//!    └──────────── Mailbox ◀── outcomes ────────────────┘ └──── confirms ◀──┘
//! ```
//!
//! The driver is a task that owns the connection. It publishes in the order of the hand-over, with
//! up to [`WINDOW`](shared::WINDOW) messages unconfirmed, and tells how each ended: see [`ledger`]
//! for what a confirm means, and [`unconfirmed`] for what that rests on. An event that comes back
//! comes back alone. What ends a channel or a connection ends what was out on it: everything
//! unsettled is then handed over again, in order. lapin never reconnects by itself.

mod connect;
mod driver;
mod error;
mod exchanges;
mod flow;
mod frames;
mod greeting;
mod kit;
mod ledger;
mod limits;
pub mod management;
mod mend;
mod message;
mod patience;
mod serve;
mod session;
mod shared;
mod told;
pub mod topology;
mod transport;
mod trial;
mod unconfirmed;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::connect::Connector;
use self::driver::Driver;
use self::message::Message;
use self::shared::Shared;
use super::{DeliveryId, Lane, Mailbox, Outcome};
use crate::config::RabbitMqConfig;
use crate::failure::{Class, Failure};
use crate::metrics::SinkMetrics;
use crate::routing::RoutedEvent;

/// How many events change hands at once.
const BATCH: usize = 64;

/// A running RabbitMQ sink.
pub struct RabbitMqSink {
    name: String,
    shared: Arc<Shared>,
    gathered: Vec<Message>,
    max_unsettled_per_key: usize,
    driver: Option<JoinHandle<()>>,
}

/// Everything that a RabbitMQ sink is started with.
#[derive(Debug)]
pub struct Start<'a> {
    /// `rabbitmq: …`
    pub config: &'a RabbitMqConfig,
    /// The sink's name in the configuration.
    pub name: &'a str,
    /// What the broker shows the connection as.
    pub connection_name: &'a str,
    /// Exchanges that are named literally in routes.
    pub exchanges: &'a [String],
    /// Where reports go.
    pub mailbox: Mailbox,
    /// The sink's metrics.
    pub metrics: SinkMetrics,
}

impl RabbitMqSink {
    /// Connects to the first server that lets us, and looks the named exchanges up. Takes at most
    /// 10 s a server, and 5 s an exchange.
    ///
    /// # Errors
    ///
    /// Fixable: login, virtual host or TLS refused, a named exchange missing. Transient: no server
    /// answers.
    pub async fn start(start: Start<'_>) -> Result<Self, Failure> {
        let Start { config, name, connection_name, exchanges, mailbox, metrics } = start;
        let mut connector = Connector::new(config, connection_name);
        let link = connector.connect().await?;
        for exchange in exchanges {
            let session = &link.session;
            let looked = session.look(exchange).await;
            looked.map_err(|error| session.site.exchange(exchange, &error))?;
        }
        let shared = Arc::new(Shared::new(mailbox, link.limits));
        let limit = config.max_unsettled_per_key;
        let driver = Driver::new(name, Arc::clone(&shared), metrics, connector, limit);
        Ok(Self {
            name: name.to_owned(),
            shared,
            gathered: Vec::with_capacity(BATCH),
            max_unsettled_per_key: config.max_unsettled_per_key,
            driver: Some(tokio::spawn(driver.run(link))),
        })
    }

    /// Most bytes of a body that the broker takes, as far as its greeting or the configuration tells.
    pub fn largest_body(&self) -> usize {
        self.shared.limits().body
    }

    /// Events of one ordering key wait for each other; one without waits for nobody.
    pub fn lane(&self, event: &RoutedEvent) -> Lane {
        let own = || foldhash::fast::FixedState::default().hash_one(&event.id);
        Lane(event.ordering_key.unwrap_or_else(own))
    }

    /// Most events of one ordering key that may be with the broker at once.
    pub fn max_unsettled_per_key(&self) -> usize {
        self.max_unsettled_per_key
    }

    /// Takes one event, unless it never waits for room. What can never be a message is reported
    /// as rejected.
    pub fn enqueue(&mut self, id: DeliveryId, event: &RoutedEvent) -> bool {
        if !self.shared.is_open() || !self.shared.has_room(self.gathered.len()) {
            return false;
        }
        match Message::new(id, event, &self.shared.limits()) {
            Ok(message) => {
                self.gathered.push(message);
                if self.gathered.len() >= BATCH {
                    self.seal();
                }
            }
            Err(unfit) => {
                let destination = event.destination.name();
                let id_text = String::from_utf8_lossy(&event.id);
                let message = format!("event `{id_text}` cannot go to `{destination}`: {unfit}");
                let failure = Failure::new(Class::Poison, message).code("limit");
                self.shared.mailbox.outcome(id, Outcome::Rejected(failure));
            }
        }
        true
    }

    /// Lets the driver have what was taken.
    pub fn seal(&mut self) {
        if !self.gathered.is_empty() {
            self.shared.fill(&mut self.gathered);
        }
    }

    /// Gives what was handed over `grace` to be confirmed, and closes.
    pub async fn stop(mut self, grace: Duration) {
        self.seal();
        self.shared.stop(Instant::now() + grace);
        let Some(mut driver) = self.driver.take() else { return };
        // The driver keeps to its time; a runtime that is too busy may not.
        let patience = grace + Duration::from_secs(2);
        match tokio::time::timeout(patience, &mut driver).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(sink = self.name, %error, "the driver failed"),
            Err(_) => driver.abort(),
        }
    }
}

impl Drop for RabbitMqSink {
    fn drop(&mut self) {
        if self.shared.stops_at().is_none() {
            self.shared.stop(Instant::now());
        }
    }
}

impl fmt::Debug for RabbitMqSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMqSink").field("name", &self.name).finish_non_exhaustive()
    }
}
