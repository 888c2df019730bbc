//! Templates: compiled once from the configuration, bound once to each shape of row.

use bytes::Bytes;

use super::obstacle::Obstacle;
use super::row::{Row, Source};
use crate::config::{ConfigError, Location, Problem, TemplatePart, TemplateText, nearest};
use crate::outbox::Shape;

/// The transaction's values, as they stand in a template.
const TRANSACTION: [&str; 4] = ["@lsn", "@commit_time", "@xid", "@table"];

/// A compiled template.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) parts: Vec<Part>,
    pub(super) location: Location,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Literal(Bytes),
    /// A role or a column.
    Name(String),
    Lsn,
    CommitTime,
    Xid,
    Table,
}

impl Template {
    /// Fails where a placeholder asks for a transaction's value that there is not.
    pub(super) fn compile(text: &TemplateText) -> Result<Self, ConfigError> {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Literal(text) => {
                Ok(Part::Literal(Bytes::copy_from_slice(text.as_bytes())))
            }
            TemplatePart::Placeholder(name) => placeholder(name, text.location),
        };
        let parts = text.parts.iter().map(part).collect::<Result<_, _>>()?;
        Ok(Self { parts, location: text.location })
    }

    /// The template that is one role's value.
    pub(super) fn role(name: &str) -> Self {
        Self { parts: vec![Part::Name(name.to_owned())], location: Location::default() }
    }

    /// Roles and columns that it names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The same for rows of `shape`.
    pub(super) fn bind(&self, shape: &Shape) -> Bound {
        let source = |part: &Part| match part {
            Part::Literal(text) => Source::Constant(text.clone()),
            Part::Name(name) => Source::of(name, shape),
            Part::Table => Source::Constant(table_name(shape).into()),
            Part::Lsn => Source::Lsn,
            Part::CommitTime => Source::CommitTime,
            Part::Xid => Source::Xid,
        };
        Bound { sources: self.parts.iter().map(source).collect() }
    }
}

fn placeholder(name: &str, location: Location) -> Result<Part, ConfigError> {
    match name {
        "@lsn" => Ok(Part::Lsn),
        "@commit_time" => Ok(Part::CommitTime),
        "@xid" => Ok(Part::Xid),
        "@table" => Ok(Part::Table),
        _ if name.starts_with('@') => {
            let (what, nearest) = ("placeholder".to_owned(), nearest(name, TRANSACTION));
            let nearest = nearest.map(str::to_owned);
            Err(ConfigError::at(
                location,
                Problem::UnknownName { what, name: name.to_owned(), nearest },
            ))
        }
        _ => Ok(Part::Name(name.to_owned())),
    }
}

/// `schema.table` as `${@table}` gives it: exact, without quotes.
pub(super) fn table_name(shape: &Shape) -> String {
    format!("{}.{}", shape.schema, shape.table)
}

/// A template for rows of one shape.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    sources: Vec<Source>,
}

impl Bound {
    /// The text for `row`, without a copy where it is one value of the row. As in SQL, a NULL in it
    /// makes it NULL.
    pub(super) fn share(&self, row: &Row<'_>) -> Result<Option<Bytes>, Obstacle> {
        if let [source] = &*self.sources {
            return row.share(source);
        }
        let mut text = Vec::new();
        match self.render(row, "", &mut text) {
            Ok(()) => Ok(Some(Bytes::from(text))),
            Err(Obstacle::Null { .. }) => Ok(None),
            Err(obstacle) => Err(obstacle),
        }
    }

    /// Appends the text for `row`; [`Obstacle::Null`], with what `wants` it, where a part is NULL.
    pub(super) fn render(
        &self,
        row: &Row<'_>,
        wants: &'static str,
        into: &mut Vec<u8>,
    ) -> Result<(), Obstacle> {
        for source in &self.sources {
            match row.content(source)? {
                Some(text) => into.extend_from_slice(&text),
                None => return Err(Obstacle::Null { column: row.name(source), wants }),
            }
        }
        Ok(())
    }

    /// Whether rows of the shape lack a column that it names.
    pub(super) fn lacks_a_column(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, Source::Missing(_)))
    }
}
