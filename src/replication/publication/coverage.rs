//! Asks the catalogue what a publication publishes of the configured tables.

use tokio_postgres::Row;

use super::gap::{Gap, GapKind};
use crate::config::TableConfig;
use crate::failure::Failure;
use crate::postgres::Session;
use crate::replication::quote::TableName;

const PUBLICATION: &str = "\
SELECT pubinsert, pubupdate, pubdelete
FROM pg_publication
WHERE pubname = $1::text::name";

// `pg_publication_tables` has the names under which rows arrive: a partitioned table's own only with
// `publish_via_partition_root`. Its columns `attnames` and `rowfilter` came with PostgreSQL 15, so
// they are asked for by way of JSON. Generated columns are never replicated up to
// PostgreSQL 17, whatever `attnames` says; from 18 on it tells.
const TABLE: &str = "\
SELECT class.relkind::text,
       class.relpersistence::text,
       published.row IS NOT NULL,
       published.row ->> 'rowfilter',
       ARRAY(SELECT jsonb_array_elements_text(CASE jsonb_typeof(published.row -> 'attnames')
                 WHEN 'array' THEN published.row -> 'attnames' END)),
       ARRAY(SELECT attname::text FROM pg_attribute
             WHERE attrelid = class.oid AND attnum > 0 AND attgenerated <> '' AND NOT attisdropped
               AND (current_setting('server_version_num')::integer < 180000
                    OR NOT coalesce(published.row -> 'attnames' ? attname::text, false))),
       EXISTS (
           SELECT FROM pg_partition_tree(class.oid) AS leaf
           JOIN pg_class AS leaf_class ON leaf_class.oid = leaf.relid
           JOIN pg_namespace AS leaf_schema ON leaf_schema.oid = leaf_class.relnamespace
           JOIN pg_publication_tables AS leaf_published
             ON leaf_published.pubname = $3::text::name
            AND leaf_published.schemaname = leaf_schema.nspname
            AND leaf_published.tablename = leaf_class.relname
           WHERE leaf.isleaf AND leaf.relid <> class.oid),
       EXISTS (
           SELECT FROM pg_class AS member
           WHERE (member.oid = class.oid
                  OR member.oid IN (SELECT relid FROM pg_partition_tree(class.oid)))
             AND member.relkind = 'r'
             AND CASE member.relreplident
                     WHEN 'f' THEN false
                     WHEN 'n' THEN true
                     WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index
                                               WHERE indrelid = member.oid AND indisprimary)
                     ELSE NOT EXISTS (SELECT FROM pg_index
                                      WHERE indrelid = member.oid AND indisreplident)
                 END)
FROM pg_class AS class
JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
LEFT JOIN LATERAL (
    SELECT to_jsonb(published_table) AS row
    FROM pg_publication_tables AS published_table
    WHERE published_table.pubname = $3::text::name
      AND published_table.schemaname = schema.nspname
      AND published_table.tablename = class.relname
    LIMIT 1) AS published ON true
WHERE schema.nspname = $1::text::name
  AND class.relname = $2::text::name";

const PARTITIONS: &str = "\
SELECT schema.nspname::text, class.relname::text
FROM pg_class AS root
JOIN pg_namespace AS root_schema ON root_schema.oid = root.relnamespace
CROSS JOIN LATERAL pg_partition_tree(root.oid) AS tree
JOIN pg_class AS class ON class.oid = tree.relid
JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
WHERE root_schema.nspname = $1::text::name
  AND root.relname = $2::text::name
  AND root.relkind = 'p'
  AND tree.relid <> root.oid";

/// A configured table and the columns that its events are made from.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The table.
    pub table: &'a TableConfig,
    /// Names of columns that must be published.
    pub columns: &'a [String],
}

/// What a publication gives and what it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// What is left out; the publication covers everything when there is nothing.
    pub gaps: Vec<Gap>,
    /// Every partition, at any depth, of a configured table: WAL from before
    /// `publish_via_partition_root` was set still comes under these names.
    pub partitions: Vec<Partition>,
    /// Tables whose updates or deletes fail for the application, because the publication
    /// publishes them and the table has no replica identity.
    pub endangered: Vec<TableName>,
}

/// A partition of a configured table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// Index of its root in the tables that were asked about.
    pub root: usize,
}

impl Coverage {
    /// Whether every insert into every table arrives with all it needs.
    pub fn is_complete(&self) -> bool {
        self.gaps.is_empty()
    }
}

/// Compares `publication` with what is wanted.
///
/// # Errors
///
/// Where the catalogue cannot be read; what it shows is in the [`Coverage`].
pub async fn coverage(
    session: &Session,
    publication: &str,
    wanted: &[Wanted<'_>],
) -> Result<Coverage, Failure> {
    let doing = format!("reading publication `{publication}`");
    let mut coverage = Coverage::default();
    let gap = |kind| Gap { publication: publication.to_owned(), kind };
    let row = session.query_opt(&doing, PUBLICATION, &[&publication]).await?;
    let row_changes_published = match &row {
        Some(row) => {
            if !row.get::<_, bool>(0) {
                coverage.gaps.push(gap(GapKind::NoInserts));
            }
            row.get(1) || row.get(2)
        }
        None => {
            coverage.gaps.push(gap(GapKind::NoPublication));
            false
        }
    };
    for (index, wanted) in wanted.iter().enumerate() {
        let TableConfig { schema, table, .. } = wanted.table;
        let name = TableName::from(wanted.table);
        let Some(found) = session.query_opt(&doing, TABLE, &[schema, table, &publication]).await?
        else {
            coverage.gaps.push(gap(GapKind::NoTable { table: name }));
            continue;
        };
        let found = Found::from(&found);
        if row.is_some() {
            coverage.gaps.extend(found.gap(&name, wanted.columns).map(gap));
        }
        if row_changes_published && found.is_published && found.lacks_identity {
            coverage.endangered.push(name);
        }
        for row in session.query(&doing, PARTITIONS, &[schema, table]).await? {
            coverage.partitions.push(Partition {
                schema: row.get(0),
                table: row.get(1),
                root: index,
            });
        }
    }
    Ok(coverage)
}

/// One row of [`TABLE`].
struct Found {
    kind: String,
    persistence: String,
    is_published: bool,
    row_filter: Option<String>,
    /// Empty where the server does not say (PostgreSQL 14, which has no column lists).
    published_columns: Vec<String>,
    /// Generated ones that are not published.
    generated_columns: Vec<String>,
    publishes_partitions: bool,
    lacks_identity: bool,
}

impl From<&Row> for Found {
    fn from(row: &Row) -> Self {
        Self {
            kind: row.get(0),
            persistence: row.get(1),
            is_published: row.get(2),
            row_filter: row.get(3),
            published_columns: row.get(4),
            generated_columns: row.get(5),
            publishes_partitions: row.get(6),
            lacks_identity: row.get(7),
        }
    }
}

impl Found {
    /// The first thing that is missing, where something is.
    fn gap(&self, table: &TableName, columns: &[String]) -> Option<GapKind> {
        let table = table.clone();
        if let Some(what) = self.why_unpublishable() {
            return Some(GapKind::Unpublishable { table, what });
        }
        if !self.is_published {
            return Some(if self.publishes_partitions {
                GapKind::UnderPartitionNames { table }
            } else {
                GapKind::NotPublished { table }
            });
        }
        if let Some(filter) = &self.row_filter {
            return Some(GapKind::RowFilter { table, filter: filter.clone() });
        }
        self.missing_columns(table, columns)
    }

    fn missing_columns(&self, table: TableName, columns: &[String]) -> Option<GapKind> {
        let (generated, plain): (Vec<_>, Vec<_>) =
            columns.iter().cloned().partition(|column| self.generated_columns.contains(column));
        let is_unlisted = |column: &String| !self.published_columns.contains(column);
        let mut unlisted = plain;
        unlisted.retain(|column| !self.published_columns.is_empty() && is_unlisted(column));
        if !unlisted.is_empty() {
            return Some(GapKind::Columns { table, columns: unlisted });
        }
        if !generated.is_empty() {
            return Some(GapKind::Generated { table, columns: generated });
        }
        None
    }

    fn why_unpublishable(&self) -> Option<&'static str> {
        match (&*self.kind, &*self.persistence) {
            ("r" | "p", "p") => None,
            ("r" | "p", "u") => Some("an unlogged table"),
            ("r" | "p", _) => Some("a temporary table"),
            ("v" | "m", _) => Some("a view"),
            ("f", _) => Some("a foreign table"),
            _ => Some("no table"),
        }
    }
}
