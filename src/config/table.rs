//! `source.postgres.tables`.

use std::collections::BTreeMap;

use super::field::Field;
use super::{ColumnConfig, ConfigError, TableConfig};

/// The roles of columns, as `outbox::Role::name` gives them.
const ROLES: [&str; 5] = ["id", "aggregate_type", "aggregate_id", "event_type", "payload"];

impl Default for TableConfig {
    fn default() -> Self {
        Self {
            schema: "public".to_owned(),
            table: "outbox".to_owned(),
            columns: BTreeMap::new(),
            order_by: Vec::new(),
        }
    }
}

/// All tables; none twice.
pub(super) fn tables(field: &Field<'_>) -> Result<Vec<TableConfig>, ConfigError> {
    let mut tables: Vec<TableConfig> = Vec::new();
    for item in field.list()? {
        let table = table(&item)?;
        if tables.iter().any(|other| (&other.schema, &other.table) == (&table.schema, &table.table))
        {
            return Err(item.invalid("is a table that is already listed"));
        }
        tables.push(table);
    }
    if tables.is_empty() { Err(field.invalid("must list a table")) } else { Ok(tables) }
}

/// A name alone, or a map.
fn table(item: &Field<'_>) -> Result<TableConfig, ConfigError> {
    if !item.is_map() {
        let (schema, table) = qualified(item)?;
        return Ok(TableConfig { schema, table, ..TableConfig::default() });
    }
    let fields = item.fields(&["table", "columns", "order_by"])?;
    let (schema, table) = qualified(&fields.need("table")?)?;
    let columns = fields.read("columns", columns)?.unwrap_or_default();
    let order_by = fields.read("order_by", Field::texts)?.unwrap_or_default();
    Ok(TableConfig { schema, table, columns, order_by })
}

fn columns(field: &Field<'_>) -> Result<BTreeMap<String, ColumnConfig>, ConfigError> {
    let mut columns = BTreeMap::new();
    for (role, column) in field.fields(&ROLES)?.all() {
        let source = if column.is_map() {
            if matches!(role, "id" | "payload") {
                return Err(column.invalid("must be a column: each event has its own"));
            }
            ColumnConfig::Value(column.fields(&["value"])?.need("value")?.text()?)
        } else {
            ColumnConfig::Name(column.filled_text()?)
        };
        columns.insert(role.to_owned(), source);
    }
    Ok(columns)
}

/// `schema.table`, each as SQL writes a name.
fn qualified(field: &Field<'_>) -> Result<(String, String), ConfigError> {
    let text = field.text()?;
    match parse_names(&text).map_err(|must| field.invalid(&must))?.as_slice() {
        [schema, table] => Ok((schema.clone(), table.clone())),
        [table] => Err(field.invalid(&format!("needs its schema, as in `public.{table}`"))),
        _ => Err(field.invalid("must be `schema.table`")),
    }
}

/// Names joined by dots. A name that is not in double quotes must be one that SQL would not change,
/// so that nobody has to guess whether `Outbox` means `outbox`.
fn parse_names(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let (name, tail) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_name(quoted)?,
            None => bare_name(rest)?,
        };
        if name.is_empty() || name.len() > 63 {
            return Err("must be names of 1 to 63 bytes".to_owned());
        }
        names.push(name);
        rest = match tail.strip_prefix('.') {
            Some(tail) => tail,
            None if tail.is_empty() => return Ok(names),
            None => return Err("must be `schema.table`".to_owned()),
        };
    }
}

/// Up to the closing quote; `""` is a quote.
fn quoted_name(quoted: &str) -> Result<(String, &str), String> {
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let Some((part, tail)) = rest.split_once('"') else {
            return Err("has a `\"` without its pair".to_owned());
        };
        name.push_str(part);
        match tail.strip_prefix('"') {
            Some(tail) => {
                name.push('"');
                rest = tail;
            }
            None => return Ok((name, tail)),
        }
    }
}

fn bare_name(rest: &str) -> Result<(String, &str), String> {
    let (name, tail) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let keeps = |c: char| (c.is_alphanumeric() && !c.is_uppercase()) || c == '_' || c == '$';
    if name.chars().all(keeps) {
        return Ok((name.to_owned(), tail));
    }
    Err(format!("must have double quotes around `{name}`, as SQL would need: `\"{name}\"`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_sql_reads_them() {
        let names = |text| parse_names(text).unwrap();
        assert_eq!(names("public.outbox"), ["public", "outbox"]);
        assert_eq!(names(r#""Sales Ops"."OutBox""#), ["Sales Ops", "OutBox"]);
        assert_eq!(names(r#"a."b.""c""#), ["a", r#"b."c"#]);
    }

    #[test]
    fn a_name_that_sql_would_change_needs_quotes() {
        let error = parse_names("public.OutBox").unwrap_err();
        assert_eq!(
            error,
            "must have double quotes around `OutBox`, as SQL would need: `\"OutBox\"`"
        );
        for wrong in ["", "a.", ".a", "\"a", "\"a\"b", "a b.c", "a\"b\""] {
            assert!(parse_names(wrong).is_err(), "{wrong}");
        }
    }
}
