//! One thing that a publication leaves out, and the statement that mends it.

use std::fmt;

use postgres_protocol::escape::escape_identifier;

use crate::failure::Failure;
use crate::replication::quote::TableName;

/// Something a publication does not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The publication.
    pub publication: String,
    /// What is missing.
    pub kind: GapKind,
}

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// There is no such publication.
    NoPublication,
    /// It does not publish inserts.
    NoInserts,
    /// The configured table does not exist.
    NoTable {
        /// The table.
        table: TableName,
    },
    /// It cannot be published, ever: a view, a foreign table, an unlogged one.
    Unpublishable {
        /// The table.
        table: TableName,
        /// What it is.
        what: &'static str,
    },
    /// The table is not in the publication.
    NotPublished {
        /// The table.
        table: TableName,
    },
    /// A partitioned table whose rows arrive under the names of its partitions. A partition that is
    /// dropped before its rows are read would take the way back to the table with it.
    UnderPartitionNames {
        /// The table.
        table: TableName,
    },
    /// Only some rows are published.
    RowFilter {
        /// The table.
        table: TableName,
        /// The condition.
        filter: String,
    },
    /// The column list leaves out columns that events are made from.
    Columns {
        /// The table.
        table: TableName,
        /// The columns left out.
        columns: Vec<String>,
    },
    /// A column that events are made from is generated, and such columns are not replicated.
    Generated {
        /// The table.
        table: TableName,
        /// The generated columns.
        columns: Vec<String>,
    },
}

impl Gap {
    /// What to type.
    pub fn fix(&self) -> String {
        let publication = escape_identifier(&self.publication);
        let alter = |what: &str| format!("`ALTER PUBLICATION {publication} {what}`");
        match &self.kind {
            GapKind::NoPublication => "`pgoutbox init`".to_owned(),
            GapKind::NoInserts => alter("SET (publish = 'insert')"),
            GapKind::NoTable { .. } => {
                "`pgoutbox init --create-table`, or name the right table in `tables`".to_owned()
            }
            GapKind::Unpublishable { table, .. } => {
                format!("use an ordinary table in place of `{table}`")
            }
            GapKind::NotPublished { table } => alter(&format!("ADD TABLE {}", table.sql())),
            GapKind::UnderPartitionNames { .. } => alter("SET (publish_via_partition_root = true)"),
            GapKind::RowFilter { table, .. } | GapKind::Columns { table, .. } => format!(
                "`BEGIN; ALTER PUBLICATION {publication} DROP TABLE {table}; \
                 ALTER PUBLICATION {publication} ADD TABLE {table}; COMMIT`",
                table = table.sql()
            ),
            GapKind::Generated { .. } => format!(
                "make them ordinary columns, or from PostgreSQL 18 on {}",
                alter("SET (publish_generated_columns = stored)")
            ),
        }
    }

    /// The gap as a failure. A publication that is gone does not come back by itself; all else may be
    /// mended under a relay that waits.
    pub fn failure(&self) -> Failure {
        let failure = match self.kind {
            GapKind::NoPublication => Failure::definite(self.to_string()),
            _ => Failure::fixable(self.to_string()),
        };
        failure.hint(self.fix())
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let publication = &self.publication;
        match &self.kind {
            GapKind::NoPublication => write!(f, "publication `{publication}` does not exist"),
            GapKind::NoInserts => write!(f, "publication `{publication}` does not publish inserts"),
            GapKind::NoTable { table } => write!(f, "table `{table}` does not exist"),
            GapKind::Unpublishable { table, what } => {
                write!(f, "table `{table}` is {what}, which PostgreSQL does not replicate")
            }
            GapKind::NotPublished { table } => {
                write!(f, "table `{table}` is not in publication `{publication}`")
            }
            GapKind::UnderPartitionNames { table } => write!(
                f,
                "table `{table}` is partitioned and publication `{publication}` has \
                 `publish_via_partition_root` off, so its rows would come under its partitions' names"
            ),
            GapKind::RowFilter { table, filter } => {
                write!(f, "table `{table}` is published by `{publication}` only where {filter}")
            }
            GapKind::Columns { table, columns } => write!(
                f,
                "table `{table}` is published by `{publication}` without {}",
                backticked(columns)
            ),
            GapKind::Generated { table, columns } => {
                write!(
                    f,
                    "table `{table}` has generated columns, which are not replicated: {}",
                    backticked(columns)
                )
            }
        }
    }
}

fn backticked(columns: &[String]) -> String {
    let quoted: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
    quoted.join(", ")
}
