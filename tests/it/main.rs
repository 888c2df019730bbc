//! Tests on real servers: one binary, so that the servers and what is built for them are shared.
//!
//! `support` starts and reaches servers and relays, `checker` writes a known history and judges what
//! arrived, the rest are tests. `make test` provides the servers.

// A test that meets the unexpected shall end there, with a backtrace.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::large_futures,
    clippy::unused_async,
    reason = "tests panic and print on purpose"
)]

#[macro_use]
mod support;
mod checker;
mod harness;
mod checked;
mod cases;
mod connection;
mod life;
mod monitor;
mod events;
mod kafka_sink;
mod rabbitmq_sink;
mod mixed;
mod setup;
mod doctor;
mod start;
mod alerts;
mod status;
mod deploy;
mod layering;
