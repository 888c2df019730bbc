//! What lapin and RabbitMQ report, as failures.

use lapin::{Error, ErrorKind};

use super::message::Address;
use crate::failure::{Class, Failure};
use crate::tls;

/// What messages and hints name.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// `host:port`.
    pub(super) server: String,
    pub(super) vhost: String,
    pub(super) username: String,
}

/// The reply code that closed a channel or a connection, if one did.
pub(super) fn reply_code(error: &Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// Whether only the channel is closed.
pub(super) fn is_channels(error: &Error) -> bool {
    error.is_amqp_soft_error()
}

/// AMQP's name of a reply code (0-9-1, "Constants").
fn name(code: u16) -> &'static str {
    match code {
        311 => "CONTENT_TOO_LARGE",
        312 => "NO_ROUTE",
        313 => "NO_CONSUMERS",
        320 => "CONNECTION_FORCED",
        402 => "INVALID_PATH",
        403 => "ACCESS_REFUSED",
        404 => "NOT_FOUND",
        405 => "RESOURCE_LOCKED",
        406 => "PRECONDITION_FAILED",
        501 => "FRAME_ERROR",
        502 => "SYNTAX_ERROR",
        503 => "COMMAND_INVALID",
        504 => "CHANNEL_ERROR",
        505 => "UNEXPECTED_FRAME",
        506 => "RESOURCE_ERROR",
        530 => "NOT_ALLOWED",
        540 => "NOT_IMPLEMENTED",
        541 => "INTERNAL_ERROR",
        _ => "unknown",
    }
}

impl Site {
    /// A login that failed; whether the server said anything before.
    pub(super) fn login(&self, error: &Error, has_greeted: bool) -> Failure {
        let Self { server, vhost, username } = self;
        match reply_code(error) {
            None if !has_greeted && matches!(error.kind(), ErrorKind::IOError(_)) => {
                // A broker that starts does so, too.
                self.lost(error, "hangs up before it says anything")
                    .hint("is that RabbitMQ's AMQP port? 5672, or 5671 with TLS")
            }
            Some(403) => coded(
                Class::Fixable,
                format!("RabbitMQ at `{server}` refuses the login of `{username}`"),
                error,
            )
            .hint(format!("rabbitmqctl authenticate_user {username} …, or mend the password")),
            Some(530) => coded(
                Class::Fixable,
                format!("RabbitMQ at `{server}` lets `{username}` not into `{vhost}`"),
                error,
            )
            .hint(format!(
                "rabbitmqctl add_vhost {vhost}; rabbitmqctl set_permissions -p {vhost} {username} \
                 '' '.*' '.*'"
            )),
            _ => self.lost(error, "cannot be logged in to"),
        }
    }

    /// A connection that was lost.
    pub(super) fn connection(&self, error: &Error) -> Failure {
        self.lost(error, "closed the connection")
    }

    fn lost(&self, error: &Error, what: &str) -> Failure {
        let message = format!("RabbitMQ at `{}` {what}", self.server);
        if let ErrorKind::IOError(error) = error.kind()
            && let Some(refusal) = tls::refusal(&**error, message.clone())
        {
            return refusal;
        }
        match error.kind() {
            ErrorKind::ProtocolError(_) => coded(Class::Transient, message, error),
            ErrorKind::IOError(_) => {
                Failure::transient(message).code("connection").cause(error.clone())
            }
            ErrorKind::MissingHeartbeatError => {
                Failure::transient(format!("RabbitMQ at `{}` does not answer", self.server))
                    .code("heartbeat")
            }
            ErrorKind::InvalidProtocolVersion(_) | ErrorKind::ParsingError(_) => {
                Failure::fixable(format!("what answers at `{}` does not speak AMQP", self.server))
                    .code("protocol")
                    .hint("is that RabbitMQ's AMQP port? 5672, or 5671 with TLS")
            }
            _ => Failure::transient(message).code("connection").cause(error.clone()),
        }
    }

    /// A message that the broker closes the channel for.
    pub(super) fn message(
        &self,
        address: &Address,
        size: usize,
        code: u16,
        error: &Error,
    ) -> Failure {
        let exchange = &address.exchange;
        let message = format!(
            "RabbitMQ refuses a message of {size} bytes to exchange `{exchange}`: {}",
            name(code)
        );
        coded(Class::Poison, message, error)
    }

    /// An exchange that does not take messages.
    pub(super) fn exchange(&self, exchange: &str, error: &Error) -> Failure {
        let Self { vhost, username, .. } = self;
        match reply_code(error) {
            Some(404) => coded(
                Class::Fixable,
                format!("exchange `{exchange}` does not exist in virtual host `{vhost}`"),
                error,
            )
            .hint(format!(
                "rabbitmqadmin --vhost={vhost} declare exchange name={exchange} type=topic \
                 durable=true"
            )),
            Some(403) => coded(
                Class::Fixable,
                format!("`{username}` may not publish to exchange `{exchange}`"),
                error,
            )
            .hint(format!("rabbitmqctl set_permissions -p {vhost} {username} '' '{exchange}' ''")),
            Some(_) => coded(
                Class::Transient,
                format!("RabbitMQ closes the channel over exchange `{exchange}`"),
                error,
            ),
            None => Failure::transient(format!("exchange `{exchange}` cannot be asked for"))
                .code("connection")
                .cause(error.clone()),
        }
    }
}

/// A message that no queue took.
pub(super) fn returned(address: &Address, code: u16) -> Failure {
    let Address { exchange, routing_key, .. } = address;
    let (event, to) = (address.event(), place(address));
    if code != 312 {
        let message = format!("RabbitMQ returned event `{event}` to {to}: {}", name(code));
        return Failure::transient(message).code(code.to_string());
    }
    let hint = match &**exchange {
        "" => format!("declare the queue `{routing_key}`"),
        _ => format!(
            "declare the queue and bind it: rabbitmqadmin declare binding source={exchange} \
             destination=QUEUE routing_key='{routing_key}'"
        ),
    };
    Failure::fixable(format!("no queue is bound for {to}, where event `{event}` goes: NO_ROUTE"))
        .code("312")
        .hint(hint)
}

/// A message that a queue refused.
pub(super) fn nacked(address: &Address) -> Failure {
    let (event, to) = (address.event(), place(address));
    Failure::transient(format!("RabbitMQ did not take event `{event}` to {to}")).code("nack").hint(
        "a queue that it is bound to is full (`x-max-length` with `reject-publish`) or broken",
    )
}

fn place(address: &Address) -> String {
    let Address { exchange, routing_key, .. } = address;
    match &**exchange {
        "" => format!("queue `{routing_key}`"),
        _ => format!("exchange `{exchange}` with routing key `{routing_key}`"),
    }
}

fn coded(class: Class, message: String, error: &Error) -> Failure {
    let failure = Failure::new(class, message);
    match error.kind() {
        ErrorKind::ProtocolError(said) => {
            let code = said.get_id();
            failure.code(code.to_string()).cause(Said(said.get_message().to_string()))
        }
        _ => failure.cause(error.clone()),
    }
}

/// What the server itself says.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Said(String);
