//! One row of an outbox table, neutral of where it was read.
//!
//! A row stays the one slice of the socket's buffer that it arrived in: its columns are found by
//! walking that slice, so a row costs no allocation and no copy. The form is pgoutput's `TupleData`
//! (PostgreSQL manual, "Logical Replication Message Formats"), with one kind more for a value that
//! was too large to be kept.

mod created;
mod shape;
mod tuple;

use std::sync::Arc;

use bytes::Bytes;

pub use shape::ShapeError;
pub use tuple::{Tuple, TupleError, Value};

/// What an outbox column is for. Names are pgoutbox's; Debezium's are defaults of the same roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The event's own id; required.
    Id,
    /// What the event is about; chooses the topic by default.
    AggregateType,
    /// Which one it is about; the key by default.
    AggregateId,
    /// What happened.
    EventType,
    /// The content, opaque; required.
    Payload,
}

impl Role {
    /// All roles, in the order of their declaration; `role as usize` is the index here.
    pub const ALL: [Self; 5] =
        [Self::Id, Self::AggregateType, Self::AggregateId, Self::EventType, Self::Payload];

    /// The role's name in configuration and templates.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::AggregateType => "aggregate_type",
            Self::AggregateId => "aggregate_id",
            Self::EventType => "event_type",
            Self::Payload => "payload",
        }
    }
}

/// Where a role's value comes from in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleSource {
    /// The column at this index of the shape.
    Column(usize),
    /// A value from the configuration that stands in for a missing column.
    Literal(Bytes),
    /// The table has no such column.
    Missing,
}

/// One column of a table as a Relation message described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The exact name.
    pub name: String,
    /// The type's OID.
    pub type_oid: u32,
}

/// The form of an outbox table while one Relation message is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Schema of the *configured* table (of the root, for a partition).
    pub schema: String,
    /// Name of the configured table.
    pub table: String,
    /// Columns in the order of the row's values.
    pub columns: Vec<Column>,
    /// Where each role is, indexed by `Role as usize`.
    pub roles: [RoleSource; 5],
    /// The column that tells when a row was written.
    pub created_at: Option<usize>,
}

impl Shape {
    /// Where `role` comes from.
    pub fn role(&self, role: Role) -> &RoleSource {
        match role {
            Role::Id => &self.roles[0],
            Role::AggregateType => &self.roles[1],
            Role::AggregateId => &self.roles[2],
            Role::EventType => &self.roles[3],
            Role::Payload => &self.roles[4],
        }
    }

    /// Index of the column with exactly this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// One inserted row of an outbox table.
#[derive(Clone, Debug)]
pub struct OutboxEvent {
    /// The form in force when the row was read.
    pub shape: Arc<Shape>,
    /// The row's values, in the shape's order.
    pub tuple: Tuple,
}

impl OutboxEvent {
    /// The value of a role as text, for messages; `None` where it is NULL or missing.
    pub fn role_text(&self, role: Role) -> Option<String> {
        let text = match self.shape.role(role) {
            RoleSource::Literal(text) => text.as_ref(),
            RoleSource::Missing => return None,
            RoleSource::Column(index) => match self.tuple.value(*index)? {
                Value::Text(text) => text,
                Value::Null | Value::Unchanged | Value::Omitted(_) => return None,
            },
        };
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// The transaction that an event was committed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The transaction's id as pgoutput gives it: 32 bits, without the epoch.
    pub xid: u32,
    /// LSN of the commit record (Begin's "final LSN").
    pub commit_lsn: crate::lsn::Lsn,
    /// Commit time in microseconds since 1970-01-01T00:00:00Z.
    pub commit_time_micros: i64,
}
