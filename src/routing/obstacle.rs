//! Why an event cannot be routed, and what an operator is told.

use super::{Place, Poison, Routed};
use crate::failure::{Class, Failure};

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    /// The id is NULL.
    #[error("its id is NULL")]
    NoId,
    /// No route matches.
    #[error("no route matches it")]
    NoRoute,
    /// A NULL where the destination needs a value.
    #[error("`{column}` is NULL, and the {wants} needs it")]
    Null { column: String, wants: &'static str },
    /// A value that was read and dropped.
    #[error("`{column}` has {size} bytes, too many for `max_event_size`")]
    TooLarge { column: String, size: u32 },
    /// A topic name that no broker takes.
    #[error("`{0}` is not a legal topic name")]
    IllegalTopic(String),
    /// An exchange or a routing key that no frame can carry.
    #[error("its {0} has {1} bytes, more than the 255 that AMQP can carry")]
    TooLong(&'static str, usize),
    /// An exchange or a routing key that is not text.
    #[error("its {0} is not UTF-8")]
    NotText(&'static str),
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
    /// What becomes of an event of `table` whose id is `id`.
    pub(super) fn routed(
        self,
        id: String,
        table: &str,
        place: Place,
        max_event_size: usize,
    ) -> Routed {
        let word = self.word();
        if let Self::Missing(column) = self {
            let hint = format!(
                "add `{column}` to `{table}` and to its publication, or correct the route that \
                 refers to it (without `key`, a route refers to `aggregate_id`)"
            );
            let message = format!("table `{table}` has no column `{column}`");
            let reason = Failure::fixable(message).hint(hint);
            return Routed::Fault(Poison { id, reason, word, place });
        }
        let limit = match self {
            Self::TooLarge { .. } => format!(" ({max_event_size})"),
            _ => String::new(),
        };
        let reason = Failure::new(Class::Poison, format!("table `{table}`: {self}{limit}"));
        let reason = match self.way_out() {
            Some(way_out) => reason.hint(way_out),
            None => reason,
        };
        Routed::Poison(Poison { id, reason, word, place })
    }

    /// For metrics.
    fn word(&self) -> &'static str {
        match self {
            Self::NoId => "no_id",
            Self::NoRoute => "no_route",
            Self::Null { .. } => "null",
            Self::TooLarge { .. } => "too_large",
            Self::IllegalTopic(_) => "illegal_topic",
            Self::TooLong(..) => "too_long",
            Self::NotText(_) => "not_text",
            Self::NotHex(_) => "not_hex",
            Self::NotSent(_) => "not_sent",
            Self::Missing(_) => "missing_column",
        }
    }

    /// What would make the event deliverable, if anything does.
    fn way_out(&self) -> Option<String> {
        match self {
            Self::NoRoute => Some("add a route for it or set `on_unmatched: drop`".to_owned()),
            Self::TooLarge { .. } => Some("raise `source.postgres.max_event_size`".to_owned()),
            Self::IllegalTopic(_) => Some(
                "a topic has 1 to 249 letters, digits, `.`, `_` and `-`: route the event to \
                 another one"
                    .to_owned(),
            ),
            Self::Null { column, wants } => {
                Some(format!("route events without `{column}` to another {wants}"))
            }
            Self::TooLong(what, _) => Some(format!("route the event by a shorter {what}")),
            Self::NoId
            | Self::NotText(_)
            | Self::NotHex(_)
            | Self::NotSent(_)
            | Self::Missing(_) => None,
        }
    }
}
