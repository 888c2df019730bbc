//! Exchanges with routing keys that events go to.

use std::collections::BTreeSet;

use crate::config::{Config, TargetConfig};
use crate::relay::sinks::literal as text_of;

/// An exchange and a routing key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) exchange: String,
    pub(super) routing_key: String,
}

/// The addresses that routes to `sink` say literally.
pub(super) fn literal(config: &Config, sink: usize) -> BTreeSet<Address> {
    let whole = |target: &TargetConfig| match target {
        TargetConfig::Topic { .. } => None,
        TargetConfig::Exchange { exchange, routing_key } => {
            Some(Address { exchange: text_of(exchange)?, routing_key: text_of(routing_key)? })
        }
    };
    let routes = config.routes.iter().filter(|route| route.sink == sink);
    routes.filter_map(|route| whole(&route.target)).collect()
}

/// Whether a route to `sink` leaves its address to the row.
pub(super) fn depends_on_rows(config: &Config, sink: usize) -> bool {
    config.routes.iter().filter(|route| route.sink == sink).any(|route| match &route.target {
        TargetConfig::Topic { .. } => false,
        TargetConfig::Exchange { exchange, routing_key } => {
            text_of(exchange).is_none() || text_of(routing_key).is_none()
        }
    })
}
