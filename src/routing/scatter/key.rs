//! A table's ordering key, as far as the configuration tells it.

use std::fmt;

use crate::config::{ColumnConfig, Location, TableConfig, TemplatePart, TemplateText};
use crate::outbox::Role;

/// What a name in a template or a condition stands for in rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The same text in every row.
    Fixed(String),
    /// What may differ from row to row: a role by its own name, or a column.
    Varying(String),
}

/// The ordering key of a table's events.
#[derive(Debug)]
pub(super) struct Key<'a> {
    pub(super) table: &'a TableConfig,
    parts: Vec<Meaning>,
}

impl<'a> Key<'a> {
    pub(super) fn new(table: &'a TableConfig) -> Self {
        let mut key = Self { table, parts: Vec::new() };
        key.parts = key.names().into_iter().map(|name| key.meaning(name)).collect();
        key
    }

    /// The roles and columns that it is made of, as the configuration names them.
    pub(super) fn names(&self) -> Vec<&'a str> {
        if self.table.order_by.is_empty() {
            return vec![Role::AggregateType.name(), Role::AggregateId.name()];
        }
        self.table.order_by.iter().map(String::as_str).collect()
    }

    /// Names are equal where they lead to one column: a role first, else the column's own name.
    pub(super) fn meaning(&self, name: &str) -> Meaning {
        if name == "@table" {
            return Meaning::Fixed(self.table_name());
        }
        let configured = |role: Role| self.table.columns.get(role.name());
        let role = Role::ALL.into_iter().find(|role| role.name() == name).or_else(|| {
            Role::ALL.into_iter().find(|role| match configured(*role) {
                Some(ColumnConfig::Name(column)) => column == name,
                Some(ColumnConfig::Value(_)) => false,
                None => role.default_columns().contains(&name),
            })
        });
        match role.map(|role| (role, configured(role))) {
            Some((_, Some(ColumnConfig::Value(value)))) => Meaning::Fixed(value.clone()),
            Some((role, _)) => Meaning::Varying(role.name().to_owned()),
            None => Meaning::Varying(name.to_owned()),
        }
    }

    /// Whether what has this meaning never differs between events of one key.
    pub(super) fn holds(&self, meaning: &Meaning) -> bool {
        matches!(meaning, Meaning::Fixed(_)) || self.parts.contains(meaning)
    }

    /// `schema.table`, as `@table` is compared with.
    pub(super) fn table_name(&self) -> String {
        format!("{}.{}", self.table.schema, self.table.table)
    }

    /// A message key that is a function of the ordering key, and has as many values as it can.
    pub(super) fn good_message_key(&self) -> String {
        if self.table.order_by.is_empty() {
            return format!("${{{}}}", Role::AggregateId.name());
        }
        let parts: Vec<String> = self.names().iter().map(|name| format!("${{{name}}}")).collect();
        parts.join("-")
    }
}

/// The message key of a route that names none.
pub(super) fn default_message_key() -> TemplateText {
    let part = TemplatePart::Placeholder(Role::AggregateId.name().to_owned());
    TemplateText { parts: vec![part], location: Location::default() }
}

/// For messages.
impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.table.order_by.is_empty() {
            return f.write_str("aggregate type and id");
        }
        write!(f, "`order_by` of `{}`: {}", self.table_name(), self.table.order_by.join(", "))
    }
}
