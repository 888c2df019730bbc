//! Indexes that were never finished: every insert keeps them up, and nobody may read them.

use postgres_protocol::escape::escape_identifier;

use super::super::{Context, Finding};
use crate::failure::Failure;
use crate::replication::quote::TableName;

// An index of a partitioned table itself is invalid while a partition lacks its own: it is not this.
const INVALID: &str = "\
SELECT index_schema.nspname::text, index.relname::text
FROM pg_class AS root
JOIN pg_namespace AS schema ON schema.oid = root.relnamespace
LEFT JOIN LATERAL pg_partition_tree(root.oid) AS part ON true
JOIN pg_index AS entry ON entry.indrelid = part.relid OR entry.indrelid = root.oid
JOIN pg_class AS index ON index.oid = entry.indexrelid
JOIN pg_namespace AS index_schema ON index_schema.oid = index.relnamespace
WHERE schema.nspname = $1::text::name
  AND root.relname = $2::text::name
  AND index.relkind = 'i'
  AND NOT entry.indisvalid
GROUP BY 1, 2
ORDER BY 1, 2";

pub(super) async fn ask(context: &Context<'_>) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for table in &context.config.source.tables {
        let name = TableName::from(table);
        let doing = format!("reading the indexes of `{name}`");
        let rows = context.session.query(&doing, INVALID, &[&table.schema, &table.table]).await?;
        for row in rows {
            let (schema, index): (&str, &str) = (row.get(0), row.get(1));
            let message = format!(
                "index `{index}` is invalid: building it failed, and every insert still keeps it up"
            );
            findings.push(Finding::warning(format!("table `{name}`"), message).fix(format!(
                "`REINDEX INDEX CONCURRENTLY {}.{}`",
                escape_identifier(schema),
                escape_identifier(index)
            )));
        }
    }
    Ok(findings)
}
