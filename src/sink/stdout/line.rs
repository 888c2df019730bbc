//! An event as one JSON object.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::outbox::{Role, RoleSource, Value};
use crate::routing::{Headers, RoutedEvent};
use crate::timestamp::Timestamp;

/// `pg_type.oid` of `bytea`.
const BYTEA: u32 = 17;

/// The line of one event, without its end.
///
/// A field whose bytes are not UTF-8 is there in base64, under its name with `_base64`; a payload
/// out of a `bytea` column always is, so that a reader need not guess.
pub(super) struct Line<'a>(pub(super) &'a RoutedEvent);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(event) = self;
        let mut line = serializer.serialize_map(None)?;
        text_entry(&mut line, "id", Some(&event.id))?;
        text_entry(&mut line, "aggregate_type", role(event, Role::AggregateType))?;
        text_entry(&mut line, "aggregate_id", role(event, Role::AggregateId))?;
        text_entry(&mut line, "event_type", role(event, Role::EventType))?;
        line.serialize_entry("topic", &event.destination.name())?;
        text_entry(&mut line, "key", event.key.as_deref())?;
        line.serialize_entry("headers", &HeaderLine(&event.headers))?;
        match event.value.as_deref() {
            Some(payload) if is_binary(event) => base64_entry(&mut line, "payload", payload)?,
            payload => text_entry(&mut line, "payload", payload)?,
        }
        line.serialize_entry("lsn", &format_args!("{}", event.transaction.commit_lsn))?;
        let commit_time = Timestamp::from_micros(event.transaction.commit_time_micros);
        line.serialize_entry("commit_time", &commit_time)?;
        line.end()
    }
}

struct HeaderLine<'a>(&'a Headers);

impl Serialize for HeaderLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut headers = serializer.serialize_map(None)?;
        for (name, value) in self.0.iter() {
            text_entry(&mut headers, name, value.map(|value| &**value))?;
        }
        headers.end()
    }
}

/// What the row has for `role`; a NULL and a missing column look the same here.
fn role(event: &RoutedEvent, role: Role) -> Option<&[u8]> {
    match event.event.shape.role(role) {
        RoleSource::Literal(text) => Some(text),
        RoleSource::Column(index) => match event.event.tuple.value(*index)? {
            Value::Text(text) => Some(text),
            Value::Null | Value::Unchanged | Value::Omitted(_) => None,
        },
        RoleSource::Missing => None,
    }
}

fn is_binary(event: &RoutedEvent) -> bool {
    let shape = &event.event.shape;
    let RoleSource::Column(index) = shape.role(Role::Payload) else { return false };
    shape.columns.get(*index).is_some_and(|column| column.type_oid == BYTEA)
}

fn text_entry<M: SerializeMap>(
    map: &mut M,
    name: &str,
    value: Option<&[u8]>,
) -> Result<(), M::Error> {
    let Some(bytes) = value else { return map.serialize_entry(name, &None::<&str>) };
    match std::str::from_utf8(bytes) {
        Ok(text) => map.serialize_entry(name, text),
        Err(_) => base64_entry(map, name, bytes),
    }
}

fn base64_entry<M: SerializeMap>(map: &mut M, name: &str, bytes: &[u8]) -> Result<(), M::Error> {
    let base64 = Base64Display::new(bytes, &STANDARD);
    map.serialize_entry(&format!("{name}_base64"), &format_args!("{base64}"))
}
