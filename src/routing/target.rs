//! Where a route leads: a topic with a message key, or an exchange with a routing key.

use bytes::Bytes;

use super::Destination;
use super::name::{BoundName, Kind, Name, Names};
use super::obstacle::Obstacle;
use super::row::Row;
use super::template::{Bound, Template};
use crate::config::{ConfigError, TargetConfig};
use crate::outbox::{Role, Shape};

/// A route's target.
#[derive(Debug)]
pub(super) enum Target {
    Topic { topic: Name, key: Template },
    Exchange { exchange: Name, routing_key: Name },
}

impl Target {
    /// Fails where no row could give a legal name.
    pub(super) fn compile(config: &TargetConfig) -> Result<Self, ConfigError> {
        match config {
            TargetConfig::Topic { topic, key } => Ok(Self::Topic {
                topic: Name::compile(Template::compile(topic)?, Kind::Topic)?,
                key: match key {
                    Some(text) => Template::compile(text)?,
                    None => Template::role(Role::AggregateId.name()),
                },
            }),
            TargetConfig::Exchange { exchange, routing_key } => Ok(Self::Exchange {
                exchange: Name::compile(Template::compile(exchange)?, Kind::Exchange)?,
                routing_key: Name::compile(Template::compile(routing_key)?, Kind::RoutingKey)?,
            }),
        }
    }

    /// The same for rows of `shape`.
    pub(super) fn bind(&self, shape: &Shape) -> BoundTarget {
        match self {
            Self::Topic { topic, key } => {
                BoundTarget::Topic { topic: topic.bind(shape), key: key.bind(shape) }
            }
            Self::Exchange { exchange, routing_key } => BoundTarget::Exchange {
                exchange: exchange.bind(shape),
                routing_key: routing_key.bind(shape),
            },
        }
    }

    /// What is made from the row.
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        let key = match self {
            Self::Topic { key, .. } => Some(key),
            Self::Exchange { .. } => None,
        };
        self.deciding().chain(key)
    }

    /// What the destination is made from.
    pub(super) fn deciding(&self) -> impl Iterator<Item = &Template> {
        let templates = match self {
            Self::Topic { topic, .. } => [topic.template(), None],
            Self::Exchange { exchange, routing_key } => {
                [exchange.template(), routing_key.template()]
            }
        };
        templates.into_iter().flatten()
    }
}

/// A route's target for rows of one shape.
#[derive(Debug)]
pub(super) enum BoundTarget {
    Topic { topic: BoundName, key: Bound },
    Exchange { exchange: BoundName, routing_key: BoundName },
}

impl BoundTarget {
    /// Where `row` goes.
    pub(super) fn destination(
        &self,
        row: &Row<'_>,
        names: &mut Names,
    ) -> Result<Destination, Obstacle> {
        match self {
            Self::Topic { topic, .. } => Ok(Destination::Topic(names.of(topic, row)?)),
            Self::Exchange { exchange, routing_key } => Ok(Destination::Exchange {
                exchange: names.of(exchange, row)?,
                routing_key: names.of(routing_key, row)?,
            }),
        }
    }

    /// The message key; an exchange's messages have none.
    pub(super) fn key(&self, row: &Row<'_>) -> Result<Option<Bytes>, Obstacle> {
        match self {
            Self::Topic { key, .. } => key.share(row),
            Self::Exchange { .. } => Ok(None),
        }
    }
}
