//! The replication connection, and what it stands on.
//!
//! *On an ordinary connection*: slot, marker, publication, and the checks before a start.
//!
//! *The connection itself*: its own client, since no published PostgreSQL crate speaks CopyBoth. It
//! is blocking and lives on one OS thread, which is the only writer of its socket: tokio's timer is
//! too coarse for letting bytes gather while the relay is behind, and nothing else must ever delay a
//! status update.
//!
//! ```text
//!  socket (TCP, unix; pacing) ─▶ TLS ─▶ connection (startup, SCRAM, queries) ─▶ stream (CopyBoth)
//! ```

pub mod quote;
pub mod slot;
pub mod marker;
pub mod publication;
pub mod preflight;
mod socket;
pub mod protocol;
mod connection;
mod stream;

pub use connection::{Connection, Identity};
pub use stream::{Filled, Frame, Skimmed, Stream};
