//! An event as an AMQP message.
//!
//! ```text
//!  id ─▶ message_id         event type ─▶ type        commit ─▶ timestamp (seconds)
//!  payload ─▶ body, its column's type ─▶ content_type           headers ─▶ headers
//! ```
//!
//! Everything comes from the row or its commit: a message that is sent again is the same.

use std::borrow::Cow;
use std::str;
use std::sync::Arc;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ByteArray, FieldTable, LongString, ShortString};

use super::limits::{self, Limits, TooLarge};
use crate::routing::{Content, Destination, RoutedEvent};
use crate::sink::DeliveryId;

/// `app_id` of every message.
const APP: &str = "pgoutbox";

/// Survives a restart of the broker, in a queue that does.
const PERSISTENT: u8 = 2;

/// A body cannot be missing, so that of a NULL payload is empty and has this header, `true`.
const NULL_PAYLOAD: &str = "pgoutbox-null";

/// An event, ready to be published.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: DeliveryId,
    pub(super) address: Address,
    pub(super) properties: BasicProperties,
    pub(super) body: Bytes,
}

/// What a returned message is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) exchange: Arc<str>,
    pub(super) routing_key: Arc<str>,
    /// The event's id, in UTF-8.
    pub(super) message_id: Bytes,
}

impl Address {
    /// The event's id, for messages.
    pub(super) fn event(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.message_id)
    }
}

/// Why an event can never be a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    /// Something exceeds a bound.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// AMQP's names are UTF-8.
    #[error("its {0} is not UTF-8")]
    NotUtf8(&'static str),
    /// It goes to something that is not an exchange.
    #[error("it has no exchange")]
    NoExchange,
}

impl Message {
    /// The message of `event`.
    ///
    /// # Errors
    ///
    /// What the broker would close the channel for, or what AMQP cannot say.
    pub(super) fn new(id: DeliveryId, event: &RoutedEvent, limits: &Limits) -> Result<Self, Unfit> {
        let Destination::Exchange { exchange, routing_key } = &event.destination else {
            return Err(Unfit::NoExchange);
        };
        limits::check_short("exchange", exchange.as_bytes())?;
        limits::check_short("routing key", routing_key.as_bytes())?;
        let mut size = 0;
        let mut counted = |text: ShortString| {
            size += 1 + text.as_str().len();
            text
        };
        let mut properties = BasicProperties::default()
            .with_message_id(counted(short("id", &event.id)?))
            .with_content_type(counted(content_type(event.content())))
            .with_app_id(counted(ShortString::from(APP)))
            .with_delivery_mode(PERSISTENT)
            .with_timestamp(seconds(event));
        if let Some(event_type) = event.event_type() {
            properties = properties.with_type(counted(short("type", event_type)?));
        }
        let (headers, headers_size) = headers(event)?;
        if headers_size > 0 {
            properties = properties.with_headers(headers);
        }
        let body = event.value.clone().unwrap_or_default();
        limits.check(size + FIXED + headers_size, body.len())?;
        let address = Address {
            exchange: Arc::clone(exchange),
            routing_key: Arc::clone(routing_key),
            message_id: event.id.clone(),
        };
        Ok(Self { id, address, properties, body })
    }
}

/// Delivery mode and timestamp.
const FIXED: usize = 1 + 8;

fn content_type(content: Content) -> ShortString {
    ShortString::from(match content {
        Content::Json => "application/json",
        Content::Binary => "application/octet-stream",
        Content::Text => "text/plain",
    })
}

fn seconds(event: &RoutedEvent) -> u64 {
    u64::try_from(event.transaction.commit_time_micros.div_euclid(1_000_000)).unwrap_or(0)
}

fn short(what: &'static str, text: &[u8]) -> Result<ShortString, Unfit> {
    limits::check_short(what, text)?;
    let text = str::from_utf8(text).map_err(|_| Unfit::NotUtf8(what))?;
    Ok(ShortString::from(text))
}

/// The headers, and the bytes they take with their length before them; 0 for none.
fn headers(event: &RoutedEvent) -> Result<(FieldTable, usize), Unfit> {
    let mut table = FieldTable::default();
    let mut size = 0;
    let mut insert = |name: &str, value: AMQPValue, value_size: usize| {
        limits::check_header_name(name)?;
        // The name with its length, the value with its type.
        size += 1 + name.len() + 1 + value_size;
        table.insert(ShortString::from(name), value);
        Ok::<_, Unfit>(())
    };
    for (name, value) in event.headers.iter() {
        let value_size = value.map_or(0, |value| 4 + value.len());
        insert(name, header(value), value_size)?;
    }
    if event.value.is_none() {
        insert(NULL_PAYLOAD, AMQPValue::Boolean(true), 1)?;
    }
    Ok((table, if size == 0 { 0 } else { 4 + size }))
}

/// Text is a long string, which clients show as text; what is not UTF-8 is a byte array.
fn header(value: Option<&Bytes>) -> AMQPValue {
    match value {
        None => AMQPValue::Void,
        Some(value) => match str::from_utf8(value) {
            Ok(text) => AMQPValue::LongString(LongString::from(text)),
            Err(_) => AMQPValue::ByteArray(ByteArray::from(&**value)),
        },
    }
}
