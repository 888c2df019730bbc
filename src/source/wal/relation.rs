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
use crate::replication::publication::Partition;

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
    partitions: Vec<Partition>,
    known: HashMap<u32, Known>,
}

impl Relations {
    pub(super) fn new(tables: Vec<TableConfig>, partitions: Vec<Partition>) -> Self {
        Self { tables, partitions, known: HashMap::new() }
    }

    /// What the rows of this relation are; `None` if no Relation message came before them.
    pub(super) fn get(&self, id: u32) -> Option<&Known> {
        self.known.get(&id)
    }

    /// From here on, rows of this relation have this form.
    pub(super) fn set(&mut self, relation: Relation) {
        debug!(schema = relation.schema, table = relation.name, "relation");
        let known = match self.configured(&relation) {
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

    /// The configured table whose rows these are. Those of a partition come under its own name where
    /// they were written before the publication got `publish_via_partition_root`.
    fn configured(&self, relation: &Relation) -> Option<&TableConfig> {
        let is = |schema: &str, table: &str| schema == relation.schema && table == relation.name;
        let by_name = self.tables.iter().find(|it| is(&it.schema, &it.table));
        let root = || {
            let partition = self.partitions.iter().find(|it| is(&it.schema, &it.table))?;
            self.tables.get(partition.root)
        };
        by_name.or_else(root)
    }
}
