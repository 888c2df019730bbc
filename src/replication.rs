//! The replication connection: everything between a socket and pgoutput's bytes.
//!
//! Its own client, since no published PostgreSQL crate speaks CopyBoth. It is blocking and lives on
//! one OS thread, which is the only writer of its socket: tokio's timer is too coarse for letting
//! bytes gather while the relay is behind, and nothing else must ever delay a status update.
//!
//! ```text
//!  socket (TCP, unix; pacing) ─▶ TLS ─▶ connection (startup, SCRAM, queries) ─▶ stream (CopyBoth)
//! ```

mod socket;
pub mod protocol;
mod connection;
mod stream;

pub use connection::{Connection, Identity};
pub use stream::{Filled, Frame, Skimmed, Stream};
