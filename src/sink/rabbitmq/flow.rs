//! One channel's publishes and their confirms.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, Error};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::error;
use super::ledger::{Ledger, Return, Sent, Verdict, Word};
use super::message::{Address, Message};
use super::unconfirmed::Unconfirmed;
use crate::sink::{DeliveryId, Outcome, Report};

/// How a publish ends.
type Confirmed = Result<Confirmation, Error>;

/// A publish under way.
type Publish = Pin<Box<dyn Future<Output = Confirmed> + Send>>;

/// What is out on one channel.
pub(super) struct Flow {
    channel: Arc<Channel>,
    unconfirmed: Unconfirmed<Sent, Publish>,
    ledger: Ledger,
    /// Failed, as everything has by now that is still unconfirmed.
    failed: Vec<Sent>,
}

impl Flow {
    /// Nothing out yet; `bell` is rung when there may be something to [settle](Flow::settle).
    pub(super) fn new(channel: &Arc<Channel>, bell: &Arc<Notify>) -> Self {
        let unconfirmed = Unconfirmed::new(Arc::clone(bell));
        let (ledger, failed) = (Ledger::default(), Vec::new());
        Self { channel: Arc::clone(channel), unconfirmed, ledger, failed }
    }

    /// Publishes one, after all those before it.
    pub(super) fn publish(&mut self, message: Message, now: Instant) {
        let (id, address) = (message.id, message.address.clone());
        let publish = Box::pin(publish(Arc::clone(&self.channel), message));
        self.unconfirmed.begin(self.ledger.send(id, address, now), publish);
    }

    /// Reports what has ended. An error ends the channel: whatever is out then comes to nothing.
    pub(super) fn settle(&mut self, reports: &mut Vec<Report>) -> Result<(), Error> {
        let (ledger, failed) = (&mut self.ledger, &mut self.failed);
        let mut first: Option<Error> = None;
        self.unconfirmed.drain(|sent, confirmed| match confirmed {
            Ok(Confirmation::Ack(carried)) => ledger.confirm(sent, Word::Ack, read(carried)),
            Ok(Confirmation::Nack(carried)) => ledger.confirm(sent, Word::Nack, read(carried)),
            // The channel confirms, so this is none of its answers.
            Ok(Confirmation::NotRequested) => failed.push(sent),
            Err(error) => {
                failed.push(sent);
                // Who publishes on a channel that is being closed is not told why.
                let is_news = |known: &Error| error::reply_code(known).is_none();
                if first.as_ref().is_none_or(is_news) {
                    first = Some(error);
                }
            }
        });
        ledger.conclude(self.unconfirmed.items_mut(), |sent, verdict| {
            reports.push(Report::Outcome(sent.id, outcome(&sent.address, &verdict)));
        });
        match first {
            Some(error) => Err(error),
            None if failed.is_empty() => Ok(()),
            None => Err(std::io::Error::other("a publish was not confirmed").into()),
        }
    }

    /// Whether nothing is out and all has been reported.
    pub(super) fn is_idle(&self) -> bool {
        self.unconfirmed.len() == 0 && self.ledger.in_doubt() == 0
    }

    /// What was out longest.
    pub(super) fn oldest(&self) -> Option<&Sent> {
        self.unconfirmed.items().min_by_key(|sent| sent.at)
    }

    /// What was out when the channel ended.
    pub(super) fn into_lost(mut self) -> Vec<(DeliveryId, Address)> {
        let out = self.unconfirmed.items().map(|sent| (sent.id, sent.address.clone()));
        let mut lost: Vec<_> = out.collect();
        lost.extend(self.failed.drain(..).map(|sent| (sent.id, sent.address)));
        lost
    }
}

/// Publishes a message: it is on its way once this has been polled, and a channel's publishes are in
/// the order of that. Takes the channel by reference count: lapin's own clone has fifteen.
pub(super) async fn publish(channel: Arc<Channel>, message: Message) -> Confirmed {
    let Message { address, properties, body, .. } = message;
    // Neither is longer than 255 bytes: such a message is not made.
    let exchange = ShortString::from(&*address.exchange);
    let routing_key = ShortString::from(&*address.routing_key);
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    channel.basic_publish(exchange, routing_key, options, &body, properties).await?.await
}

/// How a delivery ended that the broker's word is known of.
pub(super) fn outcome(address: &Address, verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Acknowledged => Outcome::Acknowledged,
        Verdict::Nacked => Outcome::Returned(error::nacked(address)),
        Verdict::Returned(code) => Outcome::Returned(error::returned(address, *code)),
    }
}

fn read(carried: Option<BasicReturnMessage>) -> Option<Return> {
    let message = carried?;
    let id = message.properties.message_id().as_ref().map_or("", ShortString::as_str);
    let address = Address {
        exchange: Arc::from(message.exchange.as_str()),
        routing_key: Arc::from(message.routing_key.as_str()),
        message_id: Bytes::copy_from_slice(id.as_bytes()),
    };
    Some(Return { address, code: message.reply_code })
}
