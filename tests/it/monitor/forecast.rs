//! How long is left, against how long it was.

use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval};

use super::{MIB, PACE, Stuck};
use crate::support::Server;

on_both_servers!(
    the_end_comes_when_it_was_foretold,
    the_forecast_is_sane_when_growth_stops_and_the_slot_catches_up,
);

const INTERVAL: &str = "500ms";

/// One look: when, what was foretold in seconds, and the room that was left.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    foretold: Option<f64>,
    room: i64,
}

/// Room for some twenty seconds of the writer.
async fn the_end_comes_when_it_was_foretold(server: Server) {
    let scene = Stuck::start(server, &[("max_slot_wal_keep_size", "192MB")], INTERVAL).await;
    let writer = scene.write_steadily().await;
    let mut looks = Vec::new();
    while looks.last().is_none_or(|look: &Look| look.room > 0) {
        looks.push(scene.next_look().await);
    }
    writer.abort();

    let [.., before, end] = looks[..] else { panic!("{looks:?}") };
    assert_eq!(end.foretold, Some(0.0));
    let passed = before.room as f64 / (before.room - end.room) as f64;
    let truth = before.at + (end.at - before.at).mul_f64(passed);
    let foretold: Vec<(f64, f64)> = looks
        .iter()
        .filter(|look| truth.saturating_duration_since(look.at) >= Duration::from_secs(2))
        .filter_map(|look| Some((look.foretold?, (truth - look.at).as_secs_f64())))
        .collect();
    eprintln!("foretold and true seconds: {foretold:.1?}");
    assert!(foretold.len() >= 10, "{looks:?}");
    for (foretold, true_seconds) in &foretold {
        let error = (foretold / true_seconds - 1.0).abs();
        assert!(error < 0.2, "{foretold} s, but it took {true_seconds} s");
    }
}

/// It moves away while nothing is written, checkpoints do not disturb it, and it is gone with the WAL
/// that was kept.
async fn the_forecast_is_sane_when_growth_stops_and_the_slot_catches_up(server: Server) {
    let scene = Stuck::start(server, &[("max_slot_wal_keep_size", "1GB")], INTERVAL).await;
    let writer = scene.write_steadily().await;
    let mut told = None;
    while told.is_none() {
        told = scene.next_look().await.foretold;
    }
    writer.abort();
    // The commit that was under way.
    scene.next_look().await;

    let mut last = scene.next_look().await.foretold.unwrap();
    for look in 0..6 {
        if look == 3 {
            scene.database.sql().run("CHECKPOINT").await;
        }
        let told = scene.next_look().await.foretold.unwrap();
        assert!(told > last, "{told} after {last} though nothing is written");
        last = told;
    }

    let name = scene.database.name();
    let advance = format!("SELECT pg_replication_slot_advance('{name}', pg_current_wal_lsn())");
    scene.database.sql().run(&advance).await;
    // `restart_lsn` follows at the next record of the running transactions.
    scene.database.sql().run("CHECKPOINT").await;
    scene.database.sql().run(&advance).await;
    scene.report("no forecast", |report| report["seconds_to_exhaustion"].is_null()).await;
}

impl Stuck {
    /// Ten commits of a MiB a second.
    async fn write_steadily(&self) -> JoinHandle<()> {
        let sql = self.database.connect().await;
        tokio::spawn(async move {
            let mut ticks = interval(PACE);
            loop {
                ticks.tick().await;
                sql.run(&format!("SELECT pg_logical_emit_message(true, 'it', repeat('x', {MIB}))"))
                    .await;
            }
        })
    }

    /// Waits for a look that is not the last one.
    async fn next_look(&self) -> Look {
        let shown = |report: &Value| report["looked_at"].clone();
        let last = self.report("a look", |_| true).await;
        let next = self.report("the next look", |report| shown(report) != shown(&last)).await;
        Look {
            at: Instant::now(),
            foretold: next["seconds_to_exhaustion"].as_f64(),
            room: next["slot"]["safe_wal_size"].as_i64().unwrap(),
        }
    }
}
