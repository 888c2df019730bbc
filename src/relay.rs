//! The loop between a source and its sinks.

pub mod liveness;
pub mod state;
