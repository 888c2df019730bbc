//! From an outbox event to what one sink needs to send it.
//!
//! Routes come from the configuration, the first match wins, and what they make is a function of the
//! row and its transaction alone.

mod event;
mod router;

pub use event::{Destination, HeaderNames, Headers, RoutedEvent, SinkIndex};
pub use router::{Poison, Routed, Router};
