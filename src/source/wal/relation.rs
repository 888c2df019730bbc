//! What is known of a relation, by the Relation message in force.
//!
//! A row is read by the message that came before it in the stream, never by today's catalogue: old
//! WAL has old columns.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::debug;

use crate::config::TableConfig;
use crate::failure::Failure;
use crate::outbox::{Column, Shape};
use crate::pgoutput::Relation;

/// What rows of a relation are.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Events of a configured table.
    Outbox(Arc<Shape>),
    /// Of a configured table, but no events can be made of them.
    Unusable(Failure),
    /// Of a table that is published and not configured.
    Other,
}

/// The relations of one stream.
#[derive(Debug)]
pub(super) struct Relations {
    tables: Vec<TableConfig>,
    known: HashMap<u32, Known>,
}

impl Relations {
    pub(super) fn new(tables: Vec<TableConfig>) -> Self {
        Self { tables, known: HashMap::new() }
    }

    /// What the rows of this relation are; `None` if no Relation message came before them.
    pub(super) fn get(&self, id: u32) -> Option<&Known> {
        self.known.get(&id)
    }

    /// From here on, rows of this relation have this form.
    pub(super) fn set(&mut self, relation: Relation) {
        debug!(schema = relation.schema, table = relation.name, "relation");
        let is_this =
            |table: &&TableConfig| table.schema == relation.schema && table.table == relation.name;
        let known = match self.tables.iter().find(is_this) {
            None => Known::Other,
            Some(table) => {
                let columns = relation
                    .columns
                    .into_iter()
                    .map(|column| Column { name: column.name, type_oid: column.type_oid });
                match Shape::resolve(table, columns.collect()) {
                    Ok(shape) => Known::Outbox(Arc::new(shape)),
                    Err(error) => Known::Unusable(error.into()),
                }
            }
        };
        self.known.insert(relation.id, known);
    }
}
