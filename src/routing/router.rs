//! The routes, compiled, and what they make of an event.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::name::Names;
use super::obstacle::Obstacle;
use super::ordering::Ordering;
use super::route::{BoundRoute, Route};
use super::row::{Row, Source};
use super::{Destination, Headers, RoutedEvent, SinkIndex};
use crate::config::{
    ColumnConfig, Config, ConfigError, Location, OnUnmatched, Problem, TableConfig, nearest,
};
use crate::failure::Failure;
use crate::outbox::{Column, OutboxEvent, Role, Shape, ShapeError, Transaction};

/// Shapes whose binding is kept: a table has a new one only when it is altered, or after a
/// reconnect.
const MAX_PLANS: usize = 64;

/// What became of an event.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is the large one")]
pub enum Routed {
    /// It goes to one sink.
    Deliver(RoutedEvent),
    /// No route matches it, and `on_unmatched: drop` says that this is right.
    Unmatched(OutboxEvent),
    /// It can never be delivered.
    Poison(Poison),
    /// Something outside must be mended before it can be routed: a column is missing.
    Fault(Poison),
}

/// An event that can never be delivered.
#[derive(Clone, Debug)]
pub struct Poison {
    /// The row's id as text; empty where that is NULL.
    pub id: String,
    /// Why, with the table's name.
    pub reason: Failure,
    /// The reason in a word, of a bounded set: for metrics.
    pub word: &'static str,
    /// What must wait behind it.
    pub place: Place,
}

/// Where an event that is not delivered stands in the order.
#[derive(Clone, Debug)]
pub enum Place {
    /// It would have gone there.
    Known(Box<RoutedEvent>),
    /// Nobody knows where it would have gone. Its ordering key, if it has one, is all that tells
    /// what must not overtake it.
    Unknown(Option<u64>),
}

/// Routes events; one a relay.
///
/// It remembers shapes and destinations that it has met, and so wants to be `mut`; what it answers is a
/// function of the event and its transaction alone.
#[derive(Debug)]
pub struct Router {
    routes: Vec<Route>,
    tables: Vec<TableConfig>,
    file: Option<PathBuf>,
    on_unmatched: OnUnmatched,
    max_event_size: usize,
    plans: Vec<Plan>,
    names: Names,
}

/// All that is known of rows of one shape.
#[derive(Debug)]
struct Plan {
    /// Held, so that no other shape can have its address.
    shape: Arc<Shape>,
    routes: Vec<BoundRoute>,
    payload: Source,
    ordering: Ordering,
}

/// What a route made of a row.
struct Made {
    id: Bytes,
    sink: SinkIndex,
    destination: Destination,
    key: Option<Bytes>,
    value: Option<Bytes>,
    headers: Headers,
    ordering_key: Option<u64>,
}

impl Router {
    /// Compiles the routes of `config`.
    ///
    /// # Errors
    ///
    /// A template that cannot be compiled, or a topic that no event could give a legal name, with
    /// its place.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let routes = config.routes.iter().map(Route::compile).collect::<Result<_, _>>();
        Ok(Self {
            routes: routes.map_err(|error| error.in_file(config.file.as_deref()))?,
            tables: config.source.tables.clone(),
            file: config.file.clone(),
            on_unmatched: config.on_unmatched,
            max_event_size: config.source.max_event_size,
            plans: Vec::new(),
            names: Names::default(),
        })
    }

    /// Routes one event.
    pub fn route(&mut self, event: OutboxEvent, transaction: &Transaction) -> Routed {
        let plan = self.take_plan(&event.shape);
        let row = Row::new(&event, transaction);
        let id = row.id();
        let made = match &id {
            Some(id) => self.make(&plan, &row, id),
            None => Err(row.omitted().unwrap_or(Obstacle::NoId)),
        };
        let too_large = row.omitted();
        let ordering_key = match &made {
            Ok(_) => None,
            Err(_) => plan.ordering.of(&row).unwrap_or_default(),
        };
        drop(row);
        self.plans.push(plan);
        match (made, too_large) {
            (Ok(Some(made)), None) => Routed::Deliver(made.into_event(event, *transaction)),
            (Ok(Some(made)), Some(too_large)) => {
                let table = table_name(&event.shape);
                let event = made.into_event(event, *transaction);
                let id = String::from_utf8_lossy(&event.id).into_owned();
                too_large.routed(id, &table, Place::Known(Box::new(event)), self.max_event_size)
            }
            (Ok(None), _) => Routed::Unmatched(event),
            (Err(obstacle), _) => {
                let id = String::from_utf8_lossy(&id.unwrap_or_default()).into_owned();
                let place = Place::Unknown(ordering_key);
                obstacle.routed(id, &table_name(&event.shape), place, self.max_event_size)
            }
        }
    }

    fn make(&mut self, plan: &Plan, row: &Row<'_>, id: &Bytes) -> Result<Option<Made>, Obstacle> {
        let Some(route) = plan.matching(row)? else {
            return match self.on_unmatched {
                OnUnmatched::Drop => Ok(None),
                OnUnmatched::Halt => Err(Obstacle::NoRoute),
            };
        };
        Ok(Some(Made {
            id: id.clone(),
            sink: route.sink,
            destination: route.target.destination(row, &mut self.names)?,
            key: route.target.key(row)?,
            // Without its payload, an event too large still has a place that others must not pass.
            value: if row.omitted().is_some() { None } else { row.share(&plan.payload)? },
            headers: route.headers(row)?,
            ordering_key: plan.ordering.of(row)?,
        }))
    }

    /// The plan for rows of `shape`, which is put back after use.
    fn take_plan(&mut self, shape: &Arc<Shape>) -> Plan {
        // The plan last put back is the likeliest.
        let known = self.plans.iter().rposition(|plan| Arc::ptr_eq(&plan.shape, shape));
        if let Some(index) = known {
            return self.plans.swap_remove(index);
        }
        if self.plans.len() >= MAX_PLANS {
            self.plans.clear();
        }
        Plan::new(&self.routes, &self.tables, shape)
    }

    /// Names of the columns that events of `table` are made from, of all its `columns`: what a
    /// publication must publish. Empty where [`Router::check_columns`] fails for a required column.
    pub fn columns_needed(&self, table: &TableConfig, columns: &[String]) -> Vec<String> {
        let Ok(shape) = shape_of(table, columns) else { return Vec::new() };
        let roles = Role::ALL.map(Role::name).into_iter();
        let named = self.names(table, &shape).map(|(name, _)| name);
        let mut needed = Vec::new();
        for name in roles.chain(named) {
            let Source::Column { index, .. } = Source::of(name, &shape) else { continue };
            if let Some(column) = columns.get(index).filter(|column| !needed.contains(*column)) {
                needed.push(column.clone());
            }
        }
        needed
    }

    /// Names of the columns that decide where events of `table` go, of all its `columns`; those that
    /// are not there are left out.
    pub fn deciding_columns(&self, table: &TableConfig, columns: &[String]) -> Vec<String> {
        let Ok(shape) = shape_of(table, columns) else { return Vec::new() };
        let routes = self.routes.iter().filter(|route| route.takes(&shape));
        let mut deciding = Vec::new();
        for name in routes.flat_map(Route::deciding_names) {
            let Source::Column { index, .. } = Source::of(name, &shape) else { continue };
            if let Some(column) = columns.get(index).filter(|column| !deciding.contains(*column)) {
                deciding.push(column.clone());
            }
        }
        deciding
    }

    /// Checks that `table`, whose columns are `columns`, has every column that the configuration
    /// refers to.
    ///
    /// # Errors
    ///
    /// The first column that is missing, with the place that refers to it and the nearest name.
    pub fn check_columns(
        &self,
        table: &TableConfig,
        columns: &[String],
    ) -> Result<(), ConfigError> {
        match self.missing_column(table, columns) {
            None => Ok(()),
            Some((column, location)) => {
                let nearest = nearest(&column, columns.iter().map(String::as_str));
                let nearest = nearest.map(str::to_owned);
                let table = format!("{}.{}", table.schema, table.table);
                let problem = Problem::NoColumn { table, column, nearest };
                Err(ConfigError::at(location, problem).in_file(self.file.as_deref()))
            }
        }
    }

    fn missing_column(
        &self,
        table: &TableConfig,
        columns: &[String],
    ) -> Option<(String, Location)> {
        for column in table.columns.values() {
            if let ColumnConfig::Name(name) = column
                && !columns.contains(name)
            {
                return Some((name.clone(), Location::default()));
            }
        }
        let shape = match shape_of(table, columns) {
            Ok(shape) => shape,
            Err(error) => return Some((error.column, Location::default())),
        };
        let is_missing = |name: &str| matches!(Source::of(name, &shape), Source::Missing(_));
        let (name, location) = self.names(table, &shape).find(|(name, _)| is_missing(name))?;
        Some((name.to_owned(), location))
    }

    /// Roles and columns that routes and ordering of `table` cannot do without.
    fn names<'a>(
        &'a self,
        table: &'a TableConfig,
        shape: &'a Shape,
    ) -> impl Iterator<Item = (&'a str, Location)> {
        let routes = self.routes.iter().filter(|route| route.takes(shape));
        let ordering = table.order_by.iter().map(|name| (name.as_str(), Location::default()));
        routes.flat_map(Route::names).chain(ordering)
    }
}

impl Made {
    fn into_event(self, event: OutboxEvent, transaction: Transaction) -> RoutedEvent {
        let Self { id, sink, destination, key, value, headers, ordering_key } = self;
        RoutedEvent { id, sink, destination, key, value, headers, event, transaction, ordering_key }
    }
}

impl Plan {
    fn new(routes: &[Route], tables: &[TableConfig], shape: &Arc<Shape>) -> Self {
        let is_table = |t: &&TableConfig| t.schema == shape.schema && t.table == shape.table;
        let order_by = tables.iter().find(is_table).map_or(&[][..], |table| &table.order_by);
        Self {
            shape: Arc::clone(shape),
            routes: routes.iter().filter_map(|route| route.bind(shape)).collect(),
            payload: Source::of(Role::Payload.name(), shape),
            ordering: Ordering::new(shape, order_by),
        }
    }

    /// The first route that takes `row`.
    fn matching(&self, row: &Row<'_>) -> Result<Option<&BoundRoute>, Obstacle> {
        for route in &self.routes {
            if route.matches(row)? {
                return Ok(Some(route));
            }
        }
        Ok(None)
    }
}

fn table_name(shape: &Shape) -> String {
    format!("{}.{}", shape.schema, shape.table)
}

/// The shape without types, which names do not need.
fn shape_of(table: &TableConfig, columns: &[String]) -> Result<Shape, ShapeError> {
    let untyped = |name: &String| Column { name: name.clone(), type_oid: 0 };
    Shape::resolve(table, columns.iter().map(untyped).collect())
}
