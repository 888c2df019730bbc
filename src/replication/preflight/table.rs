//! The outbox tables and what the publication gives of them.

use super::{ColumnsNeeded, Context, Finding};
use crate::config::TableConfig;
use crate::failure::Failure;
use crate::replication::marker::qualified;
use crate::replication::publication::{self, Coverage, Gap, GapKind, Wanted};
use postgres_protocol::escape::escape_identifier;

const COLUMNS: &str = "\
SELECT attribute.attname::text
FROM pg_attribute AS attribute
JOIN pg_class AS class ON class.oid = attribute.attrelid
JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
WHERE schema.nspname = $1::text::name
  AND class.relname = $2::text::name
  AND attribute.attnum > 0
  AND NOT attribute.attisdropped
ORDER BY attribute.attnum";

/// Insufficient privilege.
const DENIED: &str = "42501";

/// Looks at every table, then at the publication. The coverage is `None` where a table's columns do
/// not fit the configuration, so that it is not known what must be covered.
pub(super) async fn ask(
    context: &Context<'_>,
    columns_needed: ColumnsNeeded<'_>,
    findings: &mut Vec<Finding>,
) -> Result<Option<(Coverage, Vec<Vec<String>>)>, Failure> {
    let tables = &context.config.source.tables;
    let mut needed = Vec::with_capacity(tables.len());
    for table in tables {
        let existing = columns(context, table).await?;
        // A table that does not exist is told by the coverage.
        if existing.is_empty() {
            needed.push(Vec::new());
            continue;
        }
        match columns_needed(table, &existing) {
            Ok(columns) => needed.push(columns),
            Err(failure) => findings.push(Finding::from_failure(subject(table), &failure)),
        }
        findings.extend(select_denied(context, table).await?);
    }
    if needed.len() < tables.len() {
        return Ok(None);
    }
    let wanted: Vec<_> =
        tables.iter().zip(&needed).map(|(table, columns)| Wanted { table, columns }).collect();
    let name = &context.config.source.publication;
    let coverage = publication::coverage(context.session, name, &wanted).await?;
    findings.extend(lines(context, &coverage));
    Ok(Some((coverage, needed)))
}

fn lines(context: &Context<'_>, coverage: &Coverage) -> Vec<Finding> {
    let publication = &context.config.source.publication;
    let mut lines: Vec<_> = coverage.gaps.iter().map(of_gap).collect();
    if lines.is_empty() {
        let tables: Vec<_> = context.config.source.tables.iter().map(subject).collect();
        let subject = format!("publication `{publication}`");
        lines.push(Finding::ok(
            subject,
            format!("publishes every insert into {}", tables.join(", ")),
        ));
    }
    lines.extend(coverage.endangered.iter().map(|table| endangered(publication, table)));
    lines
}

fn of_gap(gap: &Gap) -> Finding {
    let subject = match &gap.kind {
        GapKind::NoPublication | GapKind::NoInserts => format!("publication `{}`", gap.publication),
        GapKind::NoTable { table }
        | GapKind::Unpublishable { table, .. }
        | GapKind::NotPublished { table }
        | GapKind::UnderPartitionNames { table }
        | GapKind::RowFilter { table, .. }
        | GapKind::Columns { table, .. }
        | GapKind::Generated { table, .. } => format!("table `{table}`"),
    };
    Finding::from_failure(subject, &gap.failure())
}

/// A11: it is the application that fails, not the relay.
fn endangered(publication: &str, table: &str) -> Finding {
    Finding::warning(
        format!("table `{table}`"),
        format!(
            "has no primary key or replica identity, and publication `{publication}` publishes \
             updates or deletes: the application's own UPDATE or DELETE fails"
        ),
    )
    .fix(format!(
        "`ALTER PUBLICATION {} SET (publish = 'insert')`, where nobody else reads it",
        escape_identifier(publication)
    ))
}

async fn columns(context: &Context<'_>, table: &TableConfig) -> Result<Vec<String>, Failure> {
    let doing = format!("reading the columns of `{}`", qualified(table));
    let rows = context.session.query(&doing, COLUMNS, &[&table.schema, &table.table]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Found by trying: roles are granted things in more ways than a catalogue query knows.
async fn select_denied(
    context: &Context<'_>,
    table: &TableConfig,
) -> Result<Option<Finding>, Failure> {
    let name = qualified(table);
    let sql = format!("SELECT FROM {name} LIMIT 0");
    match context.session.batch(&format!("reading `{name}`"), &sql).await {
        Ok(()) => Ok(None),
        Err(failure) if failure.peer_code() == Some(DENIED) => {
            let role = escape_identifier(&context.settings.user);
            let schema = escape_identifier(&table.schema);
            Ok(Some(Finding::from_failure(subject(table), &failure).fix(format!(
                "`GRANT USAGE ON SCHEMA {schema} TO {role}`, `GRANT SELECT ON {name} TO {role}`"
            ))))
        }
        Err(failure) => Err(failure),
    }
}

fn subject(table: &TableConfig) -> String {
    format!("table `{}`", qualified(table))
}
