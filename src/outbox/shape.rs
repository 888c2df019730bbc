//! Which of a table's columns plays which role.

use bytes::Bytes;

use super::{Column, Role, RoleSource, Shape};
use crate::config::{ColumnConfig, TableConfig, did_you_mean, nearest};
use crate::failure::Failure;

impl Shape {
    /// The form of the configured table `config` whose rows have these `columns`, in this order.
    ///
    /// A role's column is the one that `config` names, else the one with the role's default name or
    /// Debezium's. A role other than `id` and `payload` may be missing: who refers to it decides
    /// what that means, since a row may be older than its table's newest column.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] where the column of `id` or `payload` is missing.
    pub fn resolve(config: &TableConfig, columns: Vec<Column>) -> Result<Self, ShapeError> {
        let source = |role: Role| match config.columns.get(role.name()) {
            Some(ColumnConfig::Value(value)) => {
                RoleSource::Literal(Bytes::copy_from_slice(value.as_bytes()))
            }
            Some(ColumnConfig::Name(name)) => position(&columns, &[name]),
            None => position(&columns, role.default_columns()),
        };
        let roles = Role::ALL.map(source);
        for (role, source) in Role::ALL.into_iter().zip(&roles) {
            if role.is_required() && *source == RoleSource::Missing {
                return Err(ShapeError::new(config, role, &columns));
            }
        }
        let created_at = super::created::column(&columns);
        let (schema, table) = (config.schema.clone(), config.table.clone());
        Ok(Self { schema, table, columns, roles, created_at })
    }
}

impl Role {
    /// Names of columns that have this role without being configured: ours, then Debezium's.
    pub const fn default_columns(self) -> &'static [&'static str] {
        match self {
            Self::Id => &["id"],
            Self::AggregateType => &["aggregate_type", "aggregatetype"],
            Self::AggregateId => &["aggregate_id", "aggregateid"],
            Self::EventType => &["event_type", "type"],
            Self::Payload => &["payload"],
        }
    }

    /// Whether no event can do without it.
    pub const fn is_required(self) -> bool {
        matches!(self, Self::Id | Self::Payload)
    }
}

/// The first of `names` that is a column.
fn position(columns: &[Column], names: &[impl AsRef<str>]) -> RoleSource {
    names
        .iter()
        .find_map(|name| columns.iter().position(|column| column.name == name.as_ref()))
        .map_or(RoleSource::Missing, RoleSource::Column)
}

/// A column without which no event can be made of a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("table `{schema}.{table}` has no column `{column}` for the role `{role}`{}", did_you_mean(.nearest.as_deref()))]
pub struct ShapeError {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub table: String,
    /// The role that has no column.
    pub role: &'static str,
    /// The column that was looked for.
    pub column: String,
    /// The column most like it.
    pub nearest: Option<String>,
}

impl ShapeError {
    fn new(config: &TableConfig, role: Role, columns: &[Column]) -> Self {
        let column = match config.columns.get(role.name()) {
            Some(ColumnConfig::Name(name)) => name,
            _ => role.name(),
        };
        let names = columns.iter().map(|column| column.name.as_str());
        Self {
            schema: config.schema.clone(),
            table: config.table.clone(),
            role: role.name(),
            column: column.to_owned(),
            nearest: nearest(column, names).map(str::to_owned),
        }
    }
}

impl From<ShapeError> for Failure {
    fn from(error: ShapeError) -> Self {
        let ShapeError { schema, table, role, .. } = &error;
        let hint = format!(
            "add the column, or name the right one: `columns: {{{role}: …}}` of `{schema}.{table}`"
        );
        Self::fixable(error.to_string()).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::failure::Class;

    fn table(columns: &[(&str, ColumnConfig)]) -> TableConfig {
        TableConfig {
            schema: "public".to_owned(),
            table: "outbox".to_owned(),
            columns: columns.iter().map(|(role, c)| ((*role).to_owned(), c.clone())).collect(),
            order_by: Vec::new(),
        }
    }

    fn columns(names: &[&str]) -> Vec<Column> {
        names.iter().map(|name| Column { name: (*name).to_owned(), type_oid: 25 }).collect()
    }

    #[test]
    fn both_spellings_are_found_without_configuration() {
        let ours = ["payload", "event_type", "aggregate_id", "aggregate_type", "id"];
        let debezium = ["payload", "type", "aggregateid", "aggregatetype", "id"];
        for names in [ours, debezium] {
            let shape = Shape::resolve(&table(&[]), columns(&names)).unwrap();
            assert_eq!(shape.roles, [4, 3, 2, 1, 0].map(RoleSource::Column));
        }
    }

    #[test]
    fn configured_names_and_values_come_first() {
        let config = table(&[
            ("id", ColumnConfig::Name("event_id".to_owned())),
            ("aggregate_type", ColumnConfig::Value("order".to_owned())),
        ]);
        let names = ["id", "event_id", "aggregate_type", "payload"];
        let shape = Shape::resolve(&config, columns(&names)).unwrap();
        assert_eq!(shape.role(Role::Id), &RoleSource::Column(1));
        let order = RoleSource::Literal(Bytes::from_static(b"order"));
        assert_eq!(shape.role(Role::AggregateType), &order);
        assert_eq!(shape.role(Role::AggregateId), &RoleSource::Missing);
    }

    #[test]
    fn a_missing_required_column_is_named_with_the_nearest() {
        let error = Shape::resolve(&table(&[]), columns(&["id", "pay_load"])).unwrap_err();
        insta::assert_snapshot!(error, @"table `public.outbox` has no column `payload` for the role `payload`, did you mean `pay_load`?");
        let failure = Failure::from(error);
        assert_eq!(failure.class(), Class::Fixable);
        insta::assert_snapshot!(failure.way_out().unwrap(), @"add the column, or name the right one: `columns: {payload: …}` of `public.outbox`");
    }

    #[test]
    fn the_configuration_knows_every_role_by_its_name() {
        for role in Role::ALL {
            let columns = format!("columns: {{{}: x}}", role.name());
            let tables = format!("[{{table: public.outbox, {columns}}}]");
            let text = format!("source: {{postgres: {{url: x, tables: {tables}}}}}");
            let config = Config::parse(&text, None, &|_| None).unwrap();
            let column = config.source.tables[0].columns.get(role.name());
            assert_eq!(column, Some(&ColumnConfig::Name("x".to_owned())));
        }
    }

    #[test]
    fn names_are_exact() {
        let config = table(&[("id", ColumnConfig::Name("Id".to_owned()))]);
        let error = Shape::resolve(&config, columns(&["id", "payload"])).unwrap_err();
        assert_eq!((error.column.as_str(), error.nearest.as_deref()), ("Id", Some("id")));
    }
}
