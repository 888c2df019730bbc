//! `make bench`: the relay against what the walsender can give, in ratios of one run.
//!
//! A million rows of about 400 bytes of jsonb, in transactions of 1, 10 and 1000, stand in a slot; each
//! run drains a copy of it. The reference is `pg_recvlogical` to /dev/null over the same kind of
//! socket, in turn with the relay, since a shared machine's speed drifts. Every figure is printed, and
//! written as a line of JSON to `target/bench.jsonl`.
//!
//! `BENCH_ROWS`, `BENCH_RUNS` and `BENCH_ONLY` (a comma-separated list of name prefixes) make it
//! shorter; `BENCH_SERVER=oldest` takes the oldest supported PostgreSQL; `BENCH_PROPERTIES` sets
//! librdkafka's properties (`linger.ms=20,compression.type=lz4`).

#![allow(
    missing_docs,
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and ends where something unexpected happens"
)]

// The servers and relays of the tests.
#[path = "../tests/it/support"]
mod support {
    mod certificates;
    mod cluster;
    mod database;
    mod http;
    mod management;
    mod port;
    mod private_kafka;
    mod private_postgres;
    mod private_rabbit;
    mod process;
    mod rabbit;
    mod rabbit_node;
    mod relay;
    mod services;
    mod settings;
    mod topic;
    mod wait;

    pub(crate) use certificates::Certificates;
    pub(crate) use cluster::{Cluster, Sql};
    pub(crate) use database::Database;
    pub(crate) use private_kafka::{KafkaOptions, PrivateKafka};
    pub(crate) use private_postgres::PrivatePostgres;
    pub(crate) use private_rabbit::PrivateRabbit;
    pub(crate) use rabbit::{EXCHANGE, QueueKind, Rabbit};
    pub(crate) use relay::Relay;
    pub(crate) use services::{RabbitVersion, Server};
    pub(crate) use settings::Settings;
    pub(crate) use topic::Topics;
    pub(crate) use wait::{SHORT, wait_until};
}

#[path = "relay/drain.rs"]
mod drain;
#[path = "relay/latency.rs"]
mod latency;
#[path = "relay/load.rs"]
mod load;
#[path = "relay/memory.rs"]
mod memory;
#[path = "relay/rabbitmq.rs"]
mod rabbitmq;
#[path = "relay/report.rs"]
mod report;
#[path = "relay/run.rs"]
mod run;
#[path = "relay/usage.rs"]
mod usage;

use report::Report;

fn main() {
    // `cargo test --benches` runs this too; it is not a test.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut report = Report::new();
        let bench = load::Bench::start().await;
        report.note(&format!("rows: {}, {}", bench.rows, bench.version));
        report.note(&format!("tcp congestion control: {}", usage::congestion_control()));
        drain::all(&bench, &mut report).await;
        latency::all(&bench, &mut report).await;
        memory::all(&bench, &mut report).await;
        rabbitmq::all(&bench, &mut report).await;
        report.finish();
    });
}
