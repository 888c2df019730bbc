//! A transactional outbox relay for PostgreSQL.
//!
//! ```text
//!  PostgreSQL                                                              Kafka / stdout
//!      │ XLogData                                                               ▲
//!      ▼                                                                        │ enqueue
//!  replication ─▶ pgoutput ─▶ outbox ─▶ source ═════▶ relay ─▶ routing ─▶ sink ─┘
//!      ▲            Message   OutboxEvent  Change       │   RoutedEvent    │
//!      │                              (bounded channel) ▼                  ▼ outcomes
//!      └── StandbyStatusUpdate ◀══════ watch ◀═════ order, ack ◀── acknowledged / rejected / …
//! ```
//!
//! A module uses only modules above it in the list below; `tests/it/layering.rs` holds that.

pub mod lsn;
pub mod timestamp;
pub mod failure;
pub mod window;
pub mod config;
pub mod metrics;
pub mod tls;
pub mod http_client;
pub mod sabotage;
pub mod postgres;
pub mod pgoutput;
pub mod outbox;
pub mod replication;
pub mod source;
pub mod routing;
pub mod sink;
pub mod order;
pub mod ack;
pub mod relay;
pub mod slot_monitor;
pub mod status;
pub mod alert;
pub mod http;
pub mod cli;
