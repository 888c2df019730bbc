//! Writers with a known history, and a judge of what arrived.
//!
//! ```text
//!  Workload ──▶ outbox table ──▶ relay ──▶ broker ──▶ Reader
//!     │                                                 │ Delivery
//!     └───────────────── History ──────▶ judge ◀────────┘
//!                                          │
//!                                          ▼ Report
//! ```
//!
//! Neither the writers nor the reader use the relay's code. Whether the judge itself can be trusted
//! is shown twice: on made-up deliveries (`judge/tests.rs`), and on relays broken on purpose.

mod history;
mod workload;
mod judge;
mod kafka;

pub(crate) use history::{Event, History};
pub(crate) use judge::{Content, Delivery, Expected, Report, judge};
pub(crate) use kafka::{judge_topics, read_all};
pub(crate) use workload::Workload;
