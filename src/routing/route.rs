//! One route: compiled from the configuration, bound to each shape of row.

use std::sync::Arc;

use smallvec::SmallVec;

use super::condition::{BoundCondition, Condition};
use super::obstacle::Obstacle;
use super::row::Row;
use super::target::{BoundTarget, Target};
use super::template::{Bound, Template};
use super::{HeaderNames, Headers, SinkIndex};
use crate::config::{ConfigError, Location, RouteConfig};
use crate::outbox::{Role, Shape};

/// EventRouter's header of the event's id.
const ID_HEADER: &str = "id";

/// The header of the event's type.
const TYPE_HEADER: &str = "eventType";

/// A compiled route.
#[derive(Debug)]
pub(super) struct Route {
    conditions: Vec<Condition>,
    sink: SinkIndex,
    target: Target,
    header_names: HeaderNames,
    headers: Vec<Template>,
}

impl Route {
    pub(super) fn compile(config: &RouteConfig) -> Result<Self, ConfigError> {
        let sink = u8::try_from(config.sink)
            .map_err(|_| ConfigError::invalid(Location::default(), "there are too many sinks"))?;
        let mut headers = vec![
            (ID_HEADER, Template::role(Role::Id.name())),
            (TYPE_HEADER, Template::role(Role::EventType.name())),
        ];
        for (name, text) in &config.headers {
            let template = Template::compile(text)?;
            match headers.iter_mut().find(|(known, _)| known == name) {
                Some((_, default)) => *default = template,
                None => headers.push((name, template)),
            }
        }
        let (names, headers): (Vec<Box<str>>, Vec<Template>) =
            headers.into_iter().map(|(name, template)| (name.into(), template)).unzip();
        Ok(Self {
            conditions: config.matches.iter().map(Condition::compile).collect::<Result<_, _>>()?,
            sink: SinkIndex(sink),
            target: Target::compile(&config.target)?,
            header_names: names.into(),
            headers,
        })
    }

    /// The same for rows of `shape`; `None` where it takes no event of that table.
    pub(super) fn bind(&self, shape: &Shape) -> Option<BoundRoute> {
        if !self.takes(shape) {
            return None;
        }
        let header = |(index, template): (u8, &Template)| (index, template.bind(shape));
        let headers = (0..=u8::MAX).zip(&self.headers).map(header);
        Some(BoundRoute {
            conditions: self.conditions.iter().filter_map(|c| c.bind(shape)).collect(),
            sink: self.sink,
            target: self.target.bind(shape),
            header_names: Arc::clone(&self.header_names),
            // A row can be older than a column that only a header shows.
            headers: headers.filter(|(_, header)| !header.lacks_a_column()).collect(),
        })
    }

    /// Whether it may take events of the shape's table.
    pub(super) fn takes(&self, shape: &Shape) -> bool {
        self.conditions.iter().all(|condition| condition.takes(shape))
    }

    /// Roles and columns that decide whether it takes an event, and where that goes.
    pub(super) fn deciding_names(&self) -> impl Iterator<Item = &str> {
        let conditions = self.conditions.iter().filter_map(Condition::name);
        let target = self.target.deciding().flat_map(Template::names);
        conditions.map(|(name, _)| name).chain(target)
    }

    /// Roles and columns that it cannot do without, and what refers to them.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, Location)> {
        // The default headers are left out for a table without the column.
        let written = self.headers.iter().filter(|header| header.location != Location::default());
        let templates = self.target.templates().chain(written);
        let conditions = self.conditions.iter().filter_map(Condition::name);
        conditions.chain(templates.flat_map(|t| t.names().map(|name| (name, t.location))))
    }
}

/// A route for rows of one shape.
#[derive(Debug)]
pub(super) struct BoundRoute {
    conditions: Vec<BoundCondition>,
    pub(super) sink: SinkIndex,
    pub(super) target: BoundTarget,
    header_names: HeaderNames,
    headers: Vec<(u8, Bound)>,
}

impl BoundRoute {
    /// Whether it takes `row`.
    pub(super) fn matches(&self, row: &Row<'_>) -> Result<bool, Obstacle> {
        for condition in &self.conditions {
            if !condition.holds(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn headers(&self, row: &Row<'_>) -> Result<Headers, Obstacle> {
        let mut values = SmallVec::new();
        for (index, template) in &self.headers {
            values.push((*index, template.share(row)?));
        }
        Ok(Headers { names: Arc::clone(&self.header_names), values })
    }
}
