//! Placeholder of the WAL source.
