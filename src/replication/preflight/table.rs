//! The outbox tables and what the publication gives of them.

use postgres_protocol::escape::escape_identifier;

use super::{ColumnsNeeded, Context, Finding, Report};
use crate::config::{SourceConfig, TableConfig};
use crate::failure::Failure;
use crate::postgres::Session;
use crate::replication::publication::{self, Coverage, Gap, GapKind, Wanted};
use crate::replication::quote::{TableName, qualified};

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

const INSUFFICIENT_PRIVILEGE: &str = "42501";
const UNDEFINED_TABLE: &str = "42P01";
const INVALID_SCHEMA: &str = "3F000";

/// Looks at every table, then at the publication. The coverage is not asked where a table's columns
/// do not fit the configuration, so that it is not known what must be covered.
pub(super) async fn ask(
    context: &Context<'_>,
    columns_needed: &ColumnsNeeded<'_>,
    report: &mut Report,
) -> Result<(), Failure> {
    let source = &context.config.source;
    for table in &source.tables {
        match needed(context.session, table, columns_needed).await? {
            Ok(columns) => report.needed.push(columns),
            Err(failure) => report.findings.push(Finding::from_failure(subject(table), &failure)),
        }
        report.findings.extend(select_denied(context, table).await?);
    }
    if report.needed.len() == source.tables.len() {
        let coverage = covered(context.session, source, &report.needed).await?;
        report.findings.extend(lines(context, &coverage));
        report.coverage = Some(coverage);
    }
    Ok(())
}

/// What the configured publication gives of what the configured tables need.
///
/// # Errors
///
/// A table that does not have the columns that the configuration refers to, or a server that cannot
/// be asked.
pub async fn coverage(
    session: &Session,
    source: &SourceConfig,
    columns_needed: &ColumnsNeeded<'_>,
) -> Result<Coverage, Failure> {
    let mut columns = Vec::with_capacity(source.tables.len());
    for table in &source.tables {
        columns.push(needed(session, table, columns_needed).await??);
    }
    covered(session, source, &columns).await
}

async fn covered(
    session: &Session,
    source: &SourceConfig,
    needed: &[Vec<String>],
) -> Result<Coverage, Failure> {
    let pairs = source.tables.iter().zip(needed);
    let wanted: Vec<_> = pairs.map(|(table, columns)| Wanted { table, columns }).collect();
    publication::coverage(session, &source.publication, &wanted).await
}

/// The columns that must be published; none of a table that does not exist, which the coverage tells.
async fn needed(
    session: &Session,
    table: &TableConfig,
    columns_needed: &ColumnsNeeded<'_>,
) -> Result<Result<Vec<String>, Failure>, Failure> {
    let doing = format!("reading the columns of `{}`", TableName::from(table));
    let rows = session.query(&doing, COLUMNS, &[&table.schema, &table.table]).await?;
    let existing: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    Ok(if existing.is_empty() { Ok(existing) } else { columns_needed(table, &existing) })
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

/// A table whose application fails, not the relay, since the publication publishes more than inserts.
pub fn endangered(publication: &str, table: &TableName) -> Finding {
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

/// Found by trying: roles are granted things in more ways than a catalogue query knows.
async fn select_denied(
    context: &Context<'_>,
    table: &TableConfig,
) -> Result<Option<Finding>, Failure> {
    let name = qualified(table);
    let sql = format!("SELECT FROM {name} LIMIT 0");
    let Err(failure) = context.session.batch("reading it", &sql).await else {
        return Ok(None);
    };
    match failure.peer_code() {
        // The coverage tells that.
        Some(UNDEFINED_TABLE | INVALID_SCHEMA) => Ok(None),
        Some(INSUFFICIENT_PRIVILEGE) => {
            let role = escape_identifier(&context.settings.user);
            let schema = escape_identifier(&table.schema);
            Ok(Some(Finding::from_failure(subject(table), &failure).fix(format!(
                "`GRANT USAGE ON SCHEMA {schema} TO {role}`, `GRANT SELECT ON {name} TO {role}`"
            ))))
        }
        _ => Err(failure),
    }
}

fn subject(table: &TableConfig) -> String {
    format!("table `{}`", TableName::from(table))
}
