//! Finds out whether an exchange takes messages, beside the channel that the others use.

use std::pin::Pin;
use std::sync::Arc;

use lapin::Confirmation;
use tokio::time::timeout;

use super::error;
use super::flow::{outcome, publish};
use super::ledger::Verdict;
use super::message::{Address, Message};
use super::session::{ANSWER, Session};
use crate::failure::{Class, Failure};
use crate::sink::{DeliveryId, Outcome};

/// A trial under way.
pub(super) type Trial = Pin<Box<dyn Future<Output = Tried> + Send>>;

/// What a trial found out.
#[derive(Debug)]
pub(super) enum Tried {
    /// The exchange is there: the message may go the usual way.
    Exists(Box<Message>),
    /// The exchange took the message, or did not refuse it; how the delivery ended.
    Takes(DeliveryId, Address, Outcome),
    /// The exchange takes no messages.
    Closed(DeliveryId, Address, Failure),
}

/// Tries the exchange of `message`: by asking for it and, where `publishes`, by publishing it.
pub(super) async fn attempt(session: Arc<Session>, message: Message, publishes: bool) -> Tried {
    let (id, address) = (message.id, message.address.clone());
    if let Err(error) = session.look(&address.exchange).await {
        let failure = session.site.exchange(&address.exchange, &error);
        return Tried::Closed(id, address, failure);
    }
    if !publishes {
        return Tried::Exists(Box::new(message));
    }
    let size = message.body.len();
    let published = async {
        let channel = Arc::new(session.confirming().await?);
        publish(channel, message).await
    };
    match timeout(ANSWER, published).await {
        Ok(Ok(confirmation)) => {
            let outcome = outcome(&address, &verdict(confirmation));
            Tried::Takes(id, address, outcome)
        }
        Ok(Err(error)) => match error::reply_code(&error) {
            // Alone on its channel: it is the message that is refused.
            Some(code @ (311 | 406)) => {
                let failure = session.site.message(&address, size, code, &error);
                Tried::Takes(id, address, Outcome::Rejected(failure))
            }
            _ => {
                let failure = session.site.exchange(&address.exchange, &error);
                Tried::Closed(id, address, failure)
            }
        },
        // A refusal would have come by now.
        Err(_) => {
            let message = format!("exchange `{}` confirms nothing", address.exchange);
            let failure = Failure::new(Class::Transient, message).code("unconfirmed");
            Tried::Takes(id, address, Outcome::Returned(failure))
        }
    }
}

/// What a confirm says that stands alone on its channel, where a return can only be its own.
fn verdict(confirmation: Confirmation) -> Verdict {
    let is_nack = confirmation.is_nack();
    match confirmation.take_message() {
        Some(message) => Verdict::Returned(message.reply_code),
        None if is_nack => Verdict::Nacked,
        None => Verdict::Acknowledged,
    }
}
