//! What of the sink does not move, as the relay was told.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::message::Address;
use crate::failure::Failure;
use crate::routing::Destination;
use crate::sink::{Mailbox, Report};

/// What the relay was told last.
#[derive(Debug)]
pub(super) struct Told {
    mailbox: Mailbox,
    /// Why the whole sink does not move.
    trouble: Option<Failure>,
    /// The destination that is not confirmed for long.
    slow: Option<String>,
}

impl Told {
    pub(super) fn new(mailbox: Mailbox) -> Self {
        Self { mailbox, trouble: None, slow: None }
    }

    /// Tells why the whole sink does not move.
    pub(super) fn trouble(&mut self, failure: Failure) {
        let known = self.trouble.as_ref().map(ToString::to_string);
        if known.as_deref() != Some(failure.to_string().as_str()) {
            self.mailbox.put(Report::Blocked { destination: None, failure: failure.clone() });
            self.trouble = Some(failure);
        }
    }

    /// The same after a while, unless this is dropped before; never ends.
    pub(super) async fn trouble_after<T>(&mut self, pause: Duration, failure: &Failure) -> T {
        sleep(pause).await;
        if self.trouble.is_none() {
            self.trouble(failure.clone());
        }
        std::future::pending().await
    }

    /// Tells that the sink moves.
    pub(super) fn no_trouble(&mut self) {
        if self.trouble.take().is_some() {
            self.mailbox.put(Report::Unblocked { destination: None });
        }
    }

    /// Tells which destination is not confirmed for long, or that none is. `true`: that is news.
    pub(super) fn slow(&mut self, address: Option<&Address>) -> bool {
        let slow = address.map(name);
        if slow == self.slow {
            return false;
        }
        if let Some(destination) = self.slow.take() {
            self.mailbox.put(Report::Unblocked { destination: Some(destination) });
        }
        if let Some(destination) = &slow {
            let failure = Failure::transient("RabbitMQ does not confirm for a long time")
                .code("unconfirmed")
                .hint("has the queue's leader, or a majority of its members, gone?");
            let destination = Some(destination.clone());
            self.mailbox.put(Report::Blocked { destination, failure });
        }
        self.slow = slow;
        true
    }

    /// Tells that all moves.
    pub(super) fn is_well(&mut self) {
        self.no_trouble();
        self.slow(None);
    }
}

/// What an operator knows an address by.
fn name(address: &Address) -> String {
    let Address { exchange, routing_key, .. } = address;
    let (exchange, routing_key) = (Arc::clone(exchange), Arc::clone(routing_key));
    Destination::Exchange { exchange, routing_key }.name().into_owned()
}
