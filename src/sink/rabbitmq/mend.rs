//! Goes on after a channel was closed: finds out over what, and opens another.
//!
//! RabbitMQ closes a channel over one of its publishes and does not say which. The reply code tells
//! what to look for; texts are not read.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lapin::Error;
use tokio::time::{Instant, sleep, timeout};

use super::connect::Link;
use super::driver::{Driver, pause};
use super::error::{self, Site};
use super::message::Address;
use super::session::Session;
use crate::failure::{Class, Failure};
use crate::sink::{DeliveryId, Outcome, Report};

/// How long looking at exchanges may take.
const LOOKS: Duration = Duration::from_secs(10);

/// Deliveries of which one was refused, or was thought to be: each is published alone.
#[derive(Debug, Default)]
pub(super) struct Suspects(HashSet<DeliveryId, foldhash::fast::RandomState>);

impl Suspects {
    pub(super) fn has(&self, id: DeliveryId) -> bool {
        !self.0.is_empty() && self.0.contains(&id)
    }

    /// The delivery ended.
    pub(super) fn clear(&mut self, id: DeliveryId) {
        self.0.remove(&id);
    }
}

impl Driver {
    /// Finds out what closed the channel, and opens another; what of `lost` is known to come back.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub(super) async fn mend(
        &mut self,
        link: &mut Link,
        error: &Error,
        lost: Vec<(DeliveryId, Address)>,
    ) -> Result<Vec<Report>, Failure> {
        let code = error::reply_code(error);
        tracing::warn!(
            sink = self.name, code, %error, unconfirmed = lost.len(), "RabbitMQ closed the channel"
        );
        if self.fruitless > 0 {
            sleep(pause(self.fruitless, Class::Transient)).await;
        }
        self.fruitless = self.fruitless.saturating_add(1);
        match code {
            // Precondition failed, content too large: over one message.
            Some(311 | 406) => self.suspects.0.extend(lost.iter().map(|(id, _)| *id)),
            code => {
                let exchanges = exchanges(&lost);
                let found = timeout(LOOKS, self.find_missing(&link.session, &exchanges)).await;
                let is_found = found.unwrap_or(Ok(false))?;
                if !is_found && code != Some(404) {
                    self.suspect(&link.session.site, error, &exchanges);
                }
            }
        }
        link.reopen().await?;
        Ok(self.returned(&lost))
    }

    /// Closes exchanges that are missing. `true`: one is.
    async fn find_missing(
        &mut self,
        session: &Session,
        exchanges: &[Arc<str>],
    ) -> Result<bool, Failure> {
        let mut is_found = false;
        for exchange in exchanges {
            let Err(error) = session.look(exchange).await else { continue };
            if !error::is_channels(&error) {
                return Err(session.site.connection(&error));
            }
            let failure = session.site.exchange(exchange, &error);
            self.exchanges.close(exchange, failure, Instant::now());
            is_found = true;
        }
        Ok(is_found)
    }

    /// The channel was closed over one of these, which are there: each is tried alone.
    fn suspect(&mut self, site: &Site, error: &Error, exchanges: &[Arc<str>]) {
        let now = Instant::now();
        if let [exchange] = exchanges {
            return self.exchanges.close(exchange, site.exchange(exchange, error), now);
        }
        exchanges.iter().for_each(|exchange| self.exchanges.suspect(exchange));
    }

    /// What comes back, of what was out: the others may have been taken.
    fn returned(&self, lost: &[(DeliveryId, Address)]) -> Vec<Report> {
        let returned = |(id, address): &(DeliveryId, Address)| {
            let failure = self.exchanges.failure(&address.exchange)?;
            Some(Report::Outcome(*id, Outcome::Returned(failure.clone())))
        };
        lost.iter().filter_map(returned).collect()
    }
}

/// The exchanges that messages were published to, each once.
fn exchanges(lost: &[(DeliveryId, Address)]) -> Vec<Arc<str>> {
    let mut exchanges: Vec<Arc<str>> =
        lost.iter().map(|(_, address)| Arc::clone(&address.exchange)).collect();
    exchanges.sort_unstable();
    exchanges.dedup();
    exchanges
}
