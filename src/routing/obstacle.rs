//! Why an event cannot be routed, and what an operator is told.

use std::borrow::Cow;

use super::router::Routed;
use super::{Poison, RoutedEvent};
use crate::failure::{Class, Failure};
use crate::outbox::OutboxEvent;

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    /// The id is NULL.
    #[error("its id is NULL")]
    NoId,
    /// No route matches.
    #[error("no route matches it")]
    NoRoute,
    /// A NULL where the topic needs a value.
    #[error("`{0}` is NULL, and the topic needs it")]
    Null(String),
    /// A value that was read and dropped.
    #[error("`{column}` has {size} bytes, too many for `max_event_size`")]
    TooLarge { column: String, size: u32 },
    /// A topic name that no broker takes.
    #[error("`{0}` is not a legal topic name")]
    IllegalTopic(String),
    /// A bytea in another form than the one asked for.
    #[error("`{0}` is a bytea that is not in hex form")]
    NotHex(String),
    /// A value that the server did not send.
    #[error("`{0}` was not sent by the server")]
    NotSent(String),
    /// A column that rows of this shape do not have.
    #[error("there is no column `{0}`")]
    Missing(String),
}

impl Obstacle {
    /// What becomes of `event`, whose id is `id`.
    pub(super) fn routed(self, id: String, event: OutboxEvent, max_event_size: usize) -> Routed {
        let table = format!("{}.{}", event.shape.schema, event.shape.table);
        if let Self::Missing(column) = self {
            let hint = format!(
                "add `{column}` to `{table}` and to its publication, or correct the route that \
                 refers to it (without `key`, a route refers to `aggregate_id`)"
            );
            let message = format!("table `{table}` has no column `{column}`");
            return Routed::Fault(Failure::fixable(message).hint(hint), event);
        }
        let limit = match self {
            Self::TooLarge { .. } => format!(" ({max_event_size})"),
            _ => String::new(),
        };
        let message = format!("event `{id}` of `{table}` cannot be delivered: {self}{limit}");
        let reason = Failure::new(Class::Poison, message).hint(self.way_out(&id));
        Routed::Poison(Poison { id, reason, routed: None })
    }

    /// What becomes of an event whose place is known and that cannot be delivered for this.
    pub(super) fn poisons(self, id: String, routed: RoutedEvent, max_event_size: usize) -> Routed {
        let event = routed.event.clone();
        match self.routed(id, event, max_event_size) {
            Routed::Poison(poison) => {
                Routed::Poison(Poison { routed: Some(Box::new(routed)), ..poison })
            }
            other => other,
        }
    }

    fn way_out(&self, id: &str) -> String {
        let skip = format!("skip the event: `pgoutbox run --skip {}`", shell_word(id));
        match self {
            Self::NoRoute => {
                format!("add a route for it, set `on_unmatched: drop`, or {skip}")
            }
            Self::TooLarge { .. } => {
                format!("raise `source.postgres.max_event_size`, or {skip}")
            }
            Self::IllegalTopic(_) => format!(
                "a topic has 1 to 249 letters, digits, `.`, `_` and `-`: route the event to \
                 another one, or {skip}"
            ),
            Self::Null(column) => {
                format!("route events without `{column}` to another topic, or {skip}")
            }
            Self::NoId | Self::NotHex(_) | Self::NotSent(_) | Self::Missing(_) => skip,
        }
    }
}

/// `text` as one word of a POSIX shell.
fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}
