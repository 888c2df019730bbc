//! The loop between a source and its sinks.
//!
//! ```text
//!  supervisor: checks, starts the sinks once, begins a session, begins the next when the source is lost
//!     └── session: one select over sink reports, the source's batches, the guard and a stop
//!            ├── ledger (ack): what may be confirmed
//!            ├── held: the events themselves, and the memory they hold
//!            └── outgoing, one a sink: order, blocked destinations
//! ```
//!
//! Only here are a source and a sink seen together.

pub mod liveness;
pub mod state;
mod columns;
mod held;
mod outgoing;
mod poison;
mod publisher;
mod saboteur;
mod session;
mod sinks;
pub mod supervisor;

pub use columns::columns_needed;
pub use sinks::{Trial, try_sinks};
pub use supervisor::{Options, Stop, Supervisor};
