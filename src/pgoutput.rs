//! Bytes of a replication stream to messages: the plugin `pgoutput`, protocol version 1.
//!
//! ```text
//!  XLogData's payload ──▶ Message::decode ──▶ Message, whose row is a slice of those bytes
//! ```
//!
//! Everything here follows the PostgreSQL manual, "Logical Replication Message Formats" and
//! "Logical Streaming Replication Protocol". Protocol 1 sends a transaction only after its commit,
//! whole and in commit order, so there is nothing to keep between two messages.
//!
//! Nothing a server sends makes this panic or allocate by a length that was not checked.

mod decode;
mod error;
mod message;
mod reader;

pub use error::DecodeError;
pub use message::{Message, RawTuple, Relation, RelationColumn};
