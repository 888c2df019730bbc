//! How fast a slot's contents are drained.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::load::{Bench, Workload};
use crate::report::{Report, median};
use crate::run::{LIMIT, copy_slot, drop_slot, reached};
use crate::support::{Relay, Settings, Topics};
use crate::usage::{self, Meter};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Socket {
    Tcp,
    Unix,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Null,
    Kafka,
}

/// One drained copy of a slot.
struct Run {
    rows_a_second: f64,
    /// CPU seconds of the reader, of the walsender, of the broker.
    cpu: [f64; 3],
    peak_memory: f64,
}

pub(crate) async fn all(bench: &Bench, report: &mut Report) {
    for workload in &bench.workloads {
        let size = workload.size;
        let tcp = [("null", Target::Null), ("kafka", Target::Kafka)];
        compare(bench, report, workload, Socket::Tcp, &tcp).await;
        let unix = [("null-unix", Target::Null)];
        compare(bench, report, workload, Socket::Unix, &unix).await;
        report.note(&format!("{size} rows a transaction done"));
    }
}

async fn compare(
    bench: &Bench,
    report: &mut Report,
    workload: &Workload,
    socket: Socket,
    targets: &[(&str, Target)],
) {
    let name = |kind: &str| format!("{kind}/{}", workload.size);
    let targets: Vec<_> = targets.iter().filter(|(kind, _)| report.wants(&name(kind))).collect();
    if targets.is_empty() {
        return;
    }
    let mut reference = Vec::new();
    let mut runs: Vec<Vec<Run>> = targets.iter().map(|_| Vec::new()).collect();
    for _ in 0..bench.runs {
        reference.push(receive(bench, workload, socket).await);
        for (index, (_, target)) in targets.iter().enumerate() {
            runs[index].push(relay(bench, workload, socket, *target).await);
        }
    }
    let rate = |runs: &[Run]| median(runs.iter().map(|run| run.rows_a_second).collect());
    let unit = if socket == Socket::Tcp { "pg_recvlogical" } else { "pg_recvlogical-unix" };
    let received = rate(&reference);
    report.figure(&name(unit), received, "rows/s", None);
    usage_of(bench, report, &name(unit), &reference, &["reader", "walsender"]);
    for (index, (kind, target)) in targets.iter().enumerate() {
        report.figure(&name(kind), rate(&runs[index]), "rows/s", Some(received));
        let parts: &[&str] = match target {
            Target::Null => &["relay", "walsender"],
            Target::Kafka => &["relay", "walsender", "broker"],
        };
        usage_of(bench, report, &name(kind), &runs[index], parts);
        let peak = runs[index].iter().map(|run| run.peak_memory).fold(0.0, f64::max);
        report.figure(&format!("{}/peak", name(kind)), peak / (1024.0 * 1024.0), "MiB", None);
    }
}

fn usage_of(bench: &Bench, report: &mut Report, name: &str, runs: &[Run], parts: &[&str]) {
    let millions = bench.rows as f64 / 1e6;
    for (index, part) in parts.iter().enumerate() {
        let used = median(runs.iter().map(|run| run.cpu[index]).collect());
        report.figure(&format!("{name}/cpu/{part}"), used / millions, "s/million", None);
    }
}

async fn receive(bench: &Bench, workload: &Workload, socket: Socket) -> Run {
    let slot = copy_slot(bench, &workload.slot).await;
    let walsender = Meter::start("walsender".to_owned());
    let begun = Instant::now();
    let mut child = Command::new(bench.server.programs().join("pg_recvlogical"))
        .args(["-d", &url(bench, socket), "-S", &slot, "--start", "--no-loop", "-f", "/dev/null"])
        .args(["-E", &workload.end, "-o", "proto_version=1"])
        .arg("-o")
        .arg(format!("publication_names={}", workload.publication))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let reader = Meter::start(format!("-S {slot}"));
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    let took = begun.elapsed();
    assert!(status.success(), "pg_recvlogical: {status}");
    let cpu = [reader.finish(), walsender.finish(), 0.0];
    drop_slot(bench, &slot).await;
    Run { rows_a_second: bench.rows as f64 / took.as_secs_f64(), cpu, peak_memory: 0.0 }
}

async fn relay(bench: &Bench, workload: &Workload, socket: Socket, target: Target) -> Run {
    let slot = copy_slot(bench, &workload.slot).await;
    let topics = Topics::new(&bench.kafka.brokers(), "bench");
    topics.create("bench", 6, 1, &[]).await;
    let settings = settings(bench, workload, &topics, &slot, socket, target);
    Relay::init(&settings, &bench.database.admin_url());
    let walsender = Meter::start("walsender".to_owned());
    let broker = Meter::start("kafka.Kafka".to_owned());
    let mut relay = Relay::start(&settings);
    let rows = bench.rows as f64;
    // What a start costs is a figure of its own (`start`).
    let begun = reached(&relay, "pgoutbox_source_connected", 1.0).await;
    let ended = reached(&relay, "pgoutbox_events_delivered_total", rows).await;
    let took = ended - begun;
    let used = usage::cpu_seconds(relay.pid()).unwrap();
    let cpu = [used, walsender.finish(), broker.finish()];
    let peak_memory = relay.peak_memory() as f64;
    relay.terminate(LIMIT).await;
    drop_slot(bench, &slot).await;
    topics.delete("bench").await;
    Run { rows_a_second: rows / took.as_secs_f64(), cpu, peak_memory }
}

fn settings(
    bench: &Bench,
    workload: &Workload,
    topics: &Topics,
    slot: &str,
    socket: Socket,
    target: Target,
) -> Settings {
    let settings = Settings::new(&bench.database, topics)
        .with("source.postgres.url", url(bench, socket))
        .with("source.postgres.slot", slot)
        .with("source.postgres.publication", workload.publication.as_str())
        .with("source.postgres.tables", json!([{"table": format!("public.{}", workload.table)}]));
    match target {
        Target::Kafka => bench
            .properties
            .iter()
            .fold(settings, |settings, (name, value)| settings.with_kafka_property(name, value)),
        Target::Null => settings.with("sinks.events", json!({"null": {}})),
    }
}

/// As the administrator, so that nothing has to be granted.
fn url(bench: &Bench, socket: Socket) -> String {
    let url = bench.database.admin_url();
    match socket {
        Socket::Tcp => url,
        Socket::Unix => {
            let directory = bench.postgres.socket_directory().display().to_string();
            url.replace("127.0.0.1", &directory.replace('/', "%2F"))
        }
    }
}
