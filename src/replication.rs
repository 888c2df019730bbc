//! The replication connection, and what it stands on.

pub mod slot;
pub mod marker;
pub mod publication;
pub mod preflight;
