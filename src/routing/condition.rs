//! What a route's `match` asks of one column.

use std::sync::Arc;

use regex::Regex;

use super::obstacle::Obstacle;
use super::row::{Row, Source};
use super::template::table_name;
use crate::config::{self, ConfigError, Location, MatchConfig, Problem};
use crate::outbox::Shape;

/// The name that stands for the event's table.
const TABLE: &str = "@table";

/// A compiled condition.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    column: String,
    location: Location,
    accepts: Arc<Accepts>,
}

#[derive(Debug)]
enum Accepts {
    Value(Vec<u8>),
    Values(foldhash::HashSet<Vec<u8>>),
    Regex(Regex),
}

impl Condition {
    pub(super) fn compile(config: &config::Condition) -> Result<Self, ConfigError> {
        let config::Condition { column, accepts, location } = config;
        if column.starts_with('@') && column != TABLE {
            let (what, nearest) = ("column".to_owned(), Some(TABLE.to_owned()));
            let problem = Problem::UnknownName { what, name: column.clone(), nearest };
            return Err(ConfigError::at(*location, problem));
        }
        let bytes = |text: &String| text.clone().into_bytes();
        let accepts = match accepts {
            MatchConfig::Value(value) => Accepts::Value(bytes(value)),
            MatchConfig::List(values) => Accepts::Values(values.iter().map(bytes).collect()),
            MatchConfig::Regex(regex) => Accepts::Regex(regex.clone()),
        };
        Ok(Self { column: column.clone(), location: *location, accepts: Arc::new(accepts) })
    }

    /// The role or column that it looks at.
    pub(super) fn name(&self) -> Option<(&str, Location)> {
        (self.column != TABLE).then_some((self.column.as_str(), self.location))
    }

    /// Whether it can hold for events of the shape's table.
    pub(super) fn takes(&self, shape: &Shape) -> bool {
        self.column != TABLE || self.accepts.accept(table_name(shape).as_bytes())
    }

    /// The same for rows of `shape`; `None` where only the table mattered.
    pub(super) fn bind(&self, shape: &Shape) -> Option<BoundCondition> {
        let (name, _) = self.name()?;
        Some(BoundCondition { source: Source::of(name, shape), accepts: Arc::clone(&self.accepts) })
    }
}

/// A condition for rows of one shape.
#[derive(Clone, Debug)]
pub(super) struct BoundCondition {
    source: Source,
    accepts: Arc<Accepts>,
}

impl BoundCondition {
    /// Whether it holds for `row`; never for NULL.
    pub(super) fn holds(&self, row: &Row<'_>) -> Result<bool, Obstacle> {
        Ok(row.text(&self.source)?.is_some_and(|value| self.accepts.accept(&value)))
    }
}

impl Accepts {
    fn accept(&self, value: &[u8]) -> bool {
        match self {
            Self::Value(accepted) => accepted == value,
            Self::Values(accepted) => accepted.contains(value),
            // Already anchored at both ends by the configuration.
            Self::Regex(regex) => std::str::from_utf8(value).is_ok_and(|text| regex.is_match(text)),
        }
    }
}
