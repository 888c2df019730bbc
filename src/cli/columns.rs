//! Which columns a table must have and publish, as the configuration sees it.

use crate::config::Config;
use crate::failure::Failure;
use crate::outbox::{Column, Shape};
use crate::replication::preflight::ColumnsNeeded;
use crate::routing::Router;

/// Answers for `replication::preflight`, which knows nothing of routes.
///
/// # Errors
///
/// A route that cannot be compiled.
pub(crate) fn columns_needed(config: &Config) -> Result<Box<ColumnsNeeded<'static>>, Failure> {
    let router = Router::new(config)?;
    Ok(Box::new(move |table, columns| {
        let named = |name: &String| Column { name: name.clone(), type_oid: 0 };
        Shape::resolve(table, columns.iter().map(named).collect())?;
        router.check_columns(table, columns)?;
        Ok(router.columns_needed(table, columns))
    }))
}
