//! Exchanges with routing keys that events go to.

use std::collections::BTreeSet;

use crate::config::{Config, TargetConfig};
use crate::relay::sinks::literal as text_of;
use crate::routing::Destination;

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

/// Those of `destinations` that are exchanges.
pub(super) fn of_rows(destinations: &[Destination]) -> BTreeSet<Address> {
    let address = |destination: &Destination| match destination {
        Destination::Topic(_) => None,
        Destination::Exchange { exchange, routing_key } => {
            Some(Address { exchange: exchange.to_string(), routing_key: routing_key.to_string() })
        }
    };
    destinations.iter().filter_map(address).collect()
}
