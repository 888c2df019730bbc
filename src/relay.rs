//! The loop between a source and its sinks.

pub mod state;
