//! Names of topics and exchanges, and routing keys: checked, each allocated once.

use std::sync::Arc;

use super::obstacle::Obstacle;
use super::row::Row;
use super::template::{Bound, Part, Template};
use crate::config::ConfigError;
use crate::outbox::Shape;

/// Names of one alphabet that are kept; when there are more, all are forgotten, since a routing that
/// makes names without end gains nothing from memory of them.
const MAX_CACHED: usize = 4096;

/// Longest short string of AMQP 0-9-1, in bytes.
const MAX_SHORT: usize = 255;

/// What a name is the name of, and so what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Topic,
    Exchange,
    RoutingKey,
}

impl Kind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Exchange => "exchange",
            Self::RoutingKey => "routing key",
        }
    }

    /// Why a text with this part can never be such a name.
    fn refuses(self, part: &Part) -> Option<String> {
        if self != Self::Topic {
            return None;
        }
        match part {
            Part::Literal(text) => {
                let text = String::from_utf8_lossy(text);
                text.chars().find(|c| !is_topic_char(*c)).map(|c| format!("{c:?}"))
            }
            Part::Lsn => Some("`${@lsn}`, which has a `/`".to_owned()),
            Part::CommitTime => Some("`${@commit_time}`, which has a `:`".to_owned()),
            Part::Name(_) | Part::Xid | Part::Table => None,
        }
    }

    /// `text` as such a name.
    fn check(self, text: &[u8]) -> Result<&str, Obstacle> {
        match self {
            Self::Topic if is_topic(text) => Ok(std::str::from_utf8(text).unwrap_or_default()),
            Self::Topic => {
                // That can be of any length: what is too long is shown by its beginning.
                let shown = text.get(..300).unwrap_or(text);
                Err(Obstacle::IllegalTopic(String::from_utf8_lossy(shown).into_owned()))
            }
            Self::Exchange | Self::RoutingKey if text.len() > MAX_SHORT => {
                Err(Obstacle::TooLong(self.word(), text.len()))
            }
            Self::Exchange | Self::RoutingKey => {
                std::str::from_utf8(text).map_err(|_| Obstacle::NotText(self.word()))
            }
        }
    }
}

/// A route's topic, exchange or routing key.
#[derive(Clone, Debug)]
pub(super) enum Name {
    /// The same for every event.
    Fixed(Arc<str>),
    /// From the row. `cached` is false where each transaction has its own.
    FromRow { template: Template, cached: bool, kind: Kind },
}

impl Name {
    /// Fails where no row could give a legal name.
    pub(super) fn compile(template: Template, kind: Kind) -> Result<Self, ConfigError> {
        let word = kind.word();
        if let Some(illegal) = template.parts.iter().find_map(|part| kind.refuses(part)) {
            let message = format!("a {word}'s name cannot have {illegal}");
            return Err(ConfigError::invalid(template.location, message));
        }
        let mut fixed = Vec::new();
        for part in &template.parts {
            let Part::Literal(text) = part else {
                let own = |part: &Part| matches!(part, Part::Xid | Part::Lsn | Part::CommitTime);
                let cached = !template.parts.iter().any(own);
                return Ok(Self::FromRow { template, cached, kind });
            };
            fixed.extend_from_slice(text);
        }
        match kind.check(&fixed) {
            Ok(name) => Ok(Self::Fixed(name.into())),
            Err(Obstacle::TooLong(_, length)) => {
                let message = format!("this {word} has {length} bytes; AMQP can carry {MAX_SHORT}");
                Err(ConfigError::invalid(template.location, message))
            }
            Err(obstacle) => Err(ConfigError::invalid(template.location, obstacle.to_string())),
        }
    }

    /// The same for rows of `shape`.
    pub(super) fn bind(&self, shape: &Shape) -> BoundName {
        match self {
            Self::Fixed(name) => BoundName::Fixed(Arc::clone(name)),
            Self::FromRow { template, cached, kind } => {
                BoundName::FromRow { template: template.bind(shape), cached: *cached, kind: *kind }
            }
        }
    }

    /// What it is made from, where that is the row.
    pub(super) fn template(&self) -> Option<&Template> {
        match self {
            Self::Fixed(_) => None,
            Self::FromRow { template, .. } => Some(template),
        }
    }
}

/// A name for rows of one shape.
#[derive(Clone, Debug)]
pub(super) enum BoundName {
    Fixed(Arc<str>),
    FromRow { template: Bound, cached: bool, kind: Kind },
}

/// Names by their text. Only legal ones get in.
#[derive(Debug, Default)]
pub(super) struct Names {
    topics: Cache,
    /// Exchanges and routing keys, whose rules are the same.
    short: Cache,
    rendered: Vec<u8>,
}

type Cache = foldhash::HashSet<Arc<str>>;

impl Names {
    /// The name that `row` gives.
    pub(super) fn of(&mut self, name: &BoundName, row: &Row<'_>) -> Result<Arc<str>, Obstacle> {
        let (template, cached, kind) = match name {
            BoundName::Fixed(name) => return Ok(Arc::clone(name)),
            BoundName::FromRow { template, cached, kind } => (template, *cached, *kind),
        };
        self.rendered.clear();
        template.render(row, kind.word(), &mut self.rendered)?;
        let cache = match kind {
            Kind::Topic => &mut self.topics,
            Kind::Exchange | Kind::RoutingKey => &mut self.short,
        };
        if let Some(name) = std::str::from_utf8(&self.rendered).ok().and_then(|it| cache.get(it)) {
            return Ok(Arc::clone(name));
        }
        let name: Arc<str> = match kind.check(&self.rendered) {
            Ok(text) => text.into(),
            Err(obstacle) => {
                // The memory of what is too long is given back.
                self.rendered = Vec::new();
                return Err(obstacle);
            }
        };
        if cached {
            keep(cache, &name);
        }
        Ok(name)
    }
}

fn keep(cache: &mut Cache, name: &Arc<str>) {
    if cache.len() >= MAX_CACHED {
        cache.clear();
    }
    cache.insert(Arc::clone(name));
}

/// Kafka's own rule (`org.apache.kafka.common.internals.Topic`); librdkafka does not check it, and a
/// broker would refuse the name for ever.
fn is_topic(name: &[u8]) -> bool {
    let legal = name.iter().all(|byte| is_topic_char(char::from(*byte)));
    (1..=249).contains(&name.len()) && legal && name != b"." && name != b".."
}

fn is_topic_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}
