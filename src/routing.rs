//! From an outbox event to what one sink needs to send it.
//!
//! Routes come from the configuration, the first match wins, and what they make is a function of the
//! row and its transaction alone.
//!
//! ```text
//!  configuration ── compile ──▶ Route ── bind, once a shape ──▶ BoundRoute
//!                                                                    │ one walk over the row
//!                                      OutboxEvent ──────────────────▼──▶ RoutedEvent
//! ```
//!
//! Names are looked up when a route is bound, never for an event: for a cached destination an event costs
//! counted references into the row and no allocation.

mod condition;
mod event;
mod name;
mod obstacle;
mod ordering;
mod route;
mod router;
mod row;
mod scatter;
mod target;
mod template;

#[cfg(test)]
mod tests;

pub use event::{Content, Destination, HeaderNames, Headers, RoutedEvent, SinkIndex};
pub use router::{Place, Poison, Routed, Router};
pub use row::commit_time_text;
pub use scatter::{Scatter, scatters};
