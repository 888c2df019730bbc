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
mod rabbit;

pub(crate) use history::{Event, History};
pub(crate) use judge::{Content, Delivery, Expected, Report, judge};
pub(crate) use kafka::{in_topic, judge_topics, read_all, record_deliveries};
pub(crate) use rabbit::{
    by_key, in_queue, judge_queues, message_deliveries, read_queues, read_queues_of,
};
pub(crate) use workload::Workload;
