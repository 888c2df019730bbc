//! Topics: their names checked, each allocated once.

use std::sync::Arc;

use super::obstacle::Obstacle;
use super::row::Row;
use super::template::{Bound, Part, Template};
use crate::config::ConfigError;
use crate::outbox::Shape;

/// Topics that are kept; when there are more, all are forgotten, since a routing that makes topics
/// without end gains nothing from memory of them.
const MAX_CACHED: usize = 4096;

/// A route's topic.
#[derive(Clone, Debug)]
pub(super) enum Topic {
    /// The same for every event.
    Fixed(Arc<str>),
    /// From the row. `cached` is false where each transaction has its own.
    FromRow { template: Template, cached: bool },
}

impl Topic {
    /// Fails where no row could give a legal name.
    pub(super) fn compile(template: Template) -> Result<Self, ConfigError> {
        let mut fixed = String::new();
        let mut is_fixed = true;
        for part in &template.parts {
            let illegal = match part {
                Part::Literal(text) => {
                    let text = String::from_utf8_lossy(text);
                    fixed.push_str(&text);
                    text.chars().find(|c| !is_legal_char(*c)).map(|c| format!("{c:?}"))
                }
                Part::Lsn => Some("`${@lsn}`, which has a `/`".to_owned()),
                Part::CommitTime => Some("`${@commit_time}`, which has a `:`".to_owned()),
                Part::Name(_) | Part::Xid | Part::Table => None,
            };
            if let Some(illegal) = illegal {
                let message = format!("a topic's name cannot have {illegal}");
                return Err(ConfigError::invalid(template.location, message));
            }
            is_fixed &= matches!(part, Part::Literal(_));
        }
        if !is_fixed {
            let cached = !template.parts.contains(&Part::Xid);
            return Ok(Self::FromRow { template, cached });
        }
        if is_legal(fixed.as_bytes()) {
            return Ok(Self::Fixed(fixed.into()));
        }
        let message = format!("`{fixed}` is not a legal topic name");
        Err(ConfigError::invalid(template.location, message))
    }

    /// The same for rows of `shape`.
    pub(super) fn bind(&self, shape: &Shape) -> BoundTopic {
        match self {
            Self::Fixed(name) => BoundTopic::Fixed(Arc::clone(name)),
            Self::FromRow { template, cached } => {
                BoundTopic::FromRow { template: template.bind(shape), cached: *cached }
            }
        }
    }

    /// Roles and columns that it names.
    pub(super) fn template(&self) -> Option<&Template> {
        match self {
            Self::Fixed(_) => None,
            Self::FromRow { template, .. } => Some(template),
        }
    }
}

/// A route's topic for rows of one shape.
#[derive(Clone, Debug)]
pub(super) enum BoundTopic {
    Fixed(Arc<str>),
    FromRow { template: Bound, cached: bool },
}

/// Names of topics by their text. Only legal names get in.
#[derive(Debug, Default)]
pub(super) struct Topics {
    names: foldhash::HashSet<Arc<str>>,
    rendered: Vec<u8>,
}

impl Topics {
    /// The topic of `row`.
    pub(super) fn of(&mut self, topic: &BoundTopic, row: &Row<'_>) -> Result<Arc<str>, Obstacle> {
        let (template, cached) = match topic {
            BoundTopic::Fixed(name) => return Ok(Arc::clone(name)),
            BoundTopic::FromRow { template, cached } => (template, *cached),
        };
        self.rendered.clear();
        template.render(row, &mut self.rendered)?;
        let text = std::str::from_utf8(&self.rendered).unwrap_or_default();
        if let Some(name) = self.names.get(text) {
            return Ok(Arc::clone(name));
        }
        if !is_legal(text.as_bytes()) {
            return Err(self.illegal());
        }
        let name: Arc<str> = text.into();
        if cached {
            self.keep(Arc::clone(&name));
        }
        Ok(name)
    }

    fn keep(&mut self, name: Arc<str>) {
        if self.names.len() >= MAX_CACHED {
            self.names.clear();
        }
        self.names.insert(name);
    }

    /// The error about what was rendered. That can be of any length: what is too long is shown by
    /// its beginning, and its memory given back.
    fn illegal(&mut self) -> Obstacle {
        self.rendered.truncate(300);
        let name = String::from_utf8_lossy(&self.rendered).into_owned();
        self.rendered.shrink_to_fit();
        Obstacle::IllegalTopic(name)
    }
}

/// Kafka's own rule (`org.apache.kafka.common.internals.Topic`); librdkafka does not check it, and a
/// broker would refuse the name for ever.
fn is_legal(name: &[u8]) -> bool {
    let legal = name.iter().all(|byte| is_legal_char(char::from(*byte)));
    (1..=249).contains(&name.len()) && legal && name != b"." && name != b".."
}

fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}
