//! Where the rows that an outbox table holds now would go.

use std::sync::Arc;

use postgres_protocol::escape::escape_identifier;
use tokio_postgres::Row;

use crate::config::{Config, TableConfig};
use crate::failure::Failure;
use crate::outbox::{Column, OutboxEvent, Role, RoleSource, Shape, Transaction, Tuple, Value};
use crate::postgres::Session;
use crate::replication::quote::qualified;
use crate::routing::{Destination, Routed, Router};

/// Rows that are looked at, in whatever order they lie.
const MAX_ROWS: usize = 10_000;

/// Different rows that are routed.
const MAX_DIFFERENT: usize = 1_000;

const COLUMNS: &str = "\
SELECT attname::text, atttypid
FROM pg_catalog.pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
ORDER BY attnum";

/// Where in `sink` the rows of all tables would go, as far as they are looked at.
///
/// # Errors
///
/// Where the role may not read a table, for one.
pub(super) async fn destinations(
    config: &Config,
    sink: usize,
    session: &Session,
) -> Result<Vec<Destination>, Failure> {
    let mut router = Router::new(config)?;
    let mut destinations = Vec::new();
    for table in &config.source.tables {
        let columns = columns(table, session).await?;
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let shape = Arc::new(Shape::resolve(table, columns)?);
        let deciding = router.deciding_columns(table, &names);
        for row in different(table, &deciding, session).await? {
            let event = event(&shape, &deciding, &row);
            if let Routed::Deliver(event) = router.route(event, &Transaction::default())
                && usize::from(event.sink.0) == sink
            {
                destinations.push(event.destination);
            }
        }
    }
    Ok(destinations)
}

async fn columns(table: &TableConfig, session: &Session) -> Result<Vec<Column>, Failure> {
    let doing = format!("reading the columns of `{}.{}`", table.schema, table.table);
    let rows = session.query(&doing, COLUMNS, &[&qualified(table)]).await?;
    Ok(rows.iter().map(|row| Column { name: row.get(0), type_oid: row.get(1) }).collect())
}

/// The different values of the columns that decide.
async fn different(
    table: &TableConfig,
    deciding: &[String],
    session: &Session,
) -> Result<Vec<Row>, Failure> {
    let doing = format!("reading rows of `{}.{}`", table.schema, table.table);
    let list =
        |form: &dyn Fn(&String) -> String| deciding.iter().map(form).collect::<Vec<_>>().join(", ");
    let texts = list(&|name| format!("{}::text", escape_identifier(name)));
    let names = list(&|name| escape_identifier(name));
    let table = qualified(table);
    let sql = format!(
        "SELECT DISTINCT {texts} FROM (SELECT {names} FROM {table} LIMIT {MAX_ROWS}) AS seen \
         LIMIT {MAX_DIFFERENT}"
    );
    session.query(&doing, &sql, &[]).await
}

/// An event of what decides; what does not is NULL, but for its id, without which it is none.
fn event(shape: &Arc<Shape>, deciding: &[String], row: &Row) -> OutboxEvent {
    let value = |(index, column): (usize, &Column)| match deciding
        .iter()
        .position(|name| *name == column.name)
    {
        Some(place) => row.get::<_, Option<&str>>(place).map(str::as_bytes),
        None => (shape.role(Role::Id) == &RoleSource::Column(index)).then_some(&b"check"[..]),
    };
    let values: Vec<Option<&[u8]>> = shape.columns.iter().enumerate().map(value).collect();
    let values = values.into_iter().map(|text| text.map_or(Value::Null, Value::Text));
    OutboxEvent { shape: Arc::clone(shape), tuple: Tuple::from_values(values) }
}
