//! Names and texts inside SQL.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::config::TableConfig;

/// `"schema"."table"`, quoted for SQL.
pub fn qualified(table: &TableConfig) -> String {
    format!("{}.{}", escape_identifier(&table.schema), escape_identifier(&table.table))
}

/// A text as an SQL literal; the escaping adds a blank in front where it needs `E''`.
pub(crate) fn literal(text: &str) -> String {
    escape_literal(text).trim_start().to_owned()
}
