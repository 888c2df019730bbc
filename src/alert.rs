//! Alerts that the relay raises itself.
//!
//! ```text
//!  status, slot report, metrics ─▶ observer ─▶ facts ─▶ engine ─▶ bulletin ─▶ one task a target
//!                                  a value and its       rules     who fires,   Alertmanager's v2 API,
//!                                  cause for each metric           who is over  a JSON webhook
//! ```
//!
//! Up to the bulletin everything is pure: no clock, no I/O. A target is told the latest of each alert,
//! so one that cannot be reached costs nothing but its own retries.

mod moment;
mod cause;
mod facts;
mod observer;
mod engine;
mod notice;
mod bulletin;
mod target;
mod run;

pub use run::{Alerts, Firing, Sent, send_test};
