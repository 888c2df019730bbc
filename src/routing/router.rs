//! The routes, compiled.

use crate::config::{Config, ConfigError, TableConfig};
use crate::failure::Failure;
use crate::outbox::{OutboxEvent, Transaction};

use super::RoutedEvent;

/// What became of an event.
#[derive(Clone, Debug)]
pub enum Routed {
    /// It goes to one sink.
    Deliver(RoutedEvent),
    /// No route matches it, and `on_unmatched: drop` says that this is right.
    Unmatched(OutboxEvent),
    /// It can never be delivered.
    Poison(Poison),
    /// Something outside must be mended before it can be routed: a column is missing. The same
    /// event may be routed again later.
    Fault(Failure, OutboxEvent),
}

/// An event that can never be delivered.
#[derive(Clone, Debug)]
pub struct Poison {
    /// The row's id as text; empty where that is NULL.
    pub id: String,
    /// Why.
    pub reason: Failure,
    /// Where it would have gone, as far as that is known: what is behind it there must wait.
    pub routed: Option<Box<RoutedEvent>>,
}

/// Routes events; one a relay. It keeps what it has computed for tables and topics, and so wants to
/// be `mut`, but what it answers depends on the event alone.
#[derive(Debug)]
pub struct Router {}

impl Router {
    /// Compiles the routes of `config`.
    ///
    /// # Errors
    ///
    /// A template that cannot be compiled, with its place.
    pub fn new(_config: &Config) -> Result<Self, ConfigError> {
        Ok(Self {})
    }

    /// Routes one event.
    pub fn route(&mut self, event: OutboxEvent, _transaction: &Transaction) -> Routed {
        Routed::Unmatched(event)
    }

    /// Names of the columns that events of `table` are made from, of all its `columns`: what a
    /// publication must publish.
    pub fn columns_needed(&self, _table: &TableConfig, _columns: &[String]) -> Vec<String> {
        Vec::new()
    }

    /// Checks that `table`, whose columns are `columns`, has every column that the configuration
    /// refers to.
    ///
    /// # Errors
    ///
    /// The first column that is missing, with the place that refers to it and the nearest name.
    pub fn check_columns(
        &self,
        _table: &TableConfig,
        _columns: &[String],
    ) -> Result<(), ConfigError> {
        Ok(())
    }
}
