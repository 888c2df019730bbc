//! Names and texts inside SQL.

use std::fmt;

use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::config::TableConfig;

/// A table's name: `Display` gives `schema.table` for people, [`qualified`] quotes it for SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// Schema, exact.
    pub schema: String,
    /// Name, exact.
    pub table: String,
}

impl From<&TableConfig> for TableName {
    fn from(config: &TableConfig) -> Self {
        Self { schema: config.schema.clone(), table: config.table.clone() }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

impl TableName {
    /// `"schema"."table"`.
    pub fn sql(&self) -> String {
        format!("{}.{}", escape_identifier(&self.schema), escape_identifier(&self.table))
    }
}

/// `"schema"."table"`, quoted for SQL.
pub fn qualified(table: &TableConfig) -> String {
    TableName::from(table).sql()
}

/// A text as an SQL literal; the escaping adds a blank in front where it needs `E''`.
pub(crate) fn literal(text: &str) -> String {
    escape_literal(text).trim_start().to_owned()
}
