//! Which columns a table must have and publish, as the configuration sees it.

use tracing::warn;

use crate::config::Config;
use crate::failure::Failure;
use crate::outbox::{Column, Shape};
use crate::replication::preflight::ColumnsNeeded;
use crate::routing::Router;

/// Answers for `replication::preflight`, which knows nothing of routes: what `check` wants.
///
/// # Errors
///
/// A route that cannot be compiled.
pub fn columns_needed(config: &Config) -> Result<Box<ColumnsNeeded<'static>>, Failure> {
    let router = Router::new(config)?;
    Ok(Box::new(move |table, columns| {
        let named = |name: &String| Column { name: name.clone(), type_oid: 0 };
        Shape::resolve(table, columns.iter().map(named).collect())?;
        router.check_columns(table, columns)?;
        Ok(router.columns_needed(table, columns))
    }))
}

/// The same for `run`, which may have older WAL to read than today's table: that a required column is
/// gone is told, and the first row without it halts.
///
/// # Errors
///
/// A route that cannot be compiled.
pub(super) fn columns_in_force(config: &Config) -> Result<Box<ColumnsNeeded<'static>>, Failure> {
    let router = Router::new(config)?;
    Ok(Box::new(move |table, columns| {
        let named = |name: &String| Column { name: name.clone(), type_oid: 0 };
        match Shape::resolve(table, columns.iter().map(named).collect()) {
            Ok(_) => router.check_columns(table, columns)?,
            Err(failure) => warn!(%failure, "rows written from now on cannot be read"),
        }
        let mut needed = router.columns_needed(table, columns);
        needed.retain(|needed| columns.contains(needed));
        Ok(needed)
    }))
}
