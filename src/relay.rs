//! The loop between a source and its sinks.
//!
//! ```text
//!  supervisor: starts the sinks once
//!  └── sessions: checks the source, begins a session, begins the next when the source is lost
//!      └── session: one select over sink reports, the source's batches, the guard and a stop
//!          ├── books: ledger (ack), held events and the memory they hold, always changed together
//!          └── outgoing, one a sink: order, what came back (stuck), what does not move (blocked)
//! ```
//!
//! Only here are a source and a sink seen together.

pub mod liveness;
pub mod state;
mod backoff;
mod blocked;
mod books;
mod columns;
mod held;
mod holds;
mod outgoing;
mod poison;
mod publisher;
mod rate;
mod refusals;
mod saboteur;
mod session;
mod sessions;
mod sinks;
mod stop;
mod stuck;
mod supervisor;
mod survey;

pub(crate) use backoff::Pauses;
pub use columns::columns_needed;
pub use sinks::{Known, Trial, try_sinks};
pub use stop::Stop;
pub use supervisor::{Options, Supervisor};
pub use survey::survey;
