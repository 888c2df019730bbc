//! The slot's monitor: what it shows to whom, and whether its warnings come in time and true.

mod figures;
mod danger;
mod forecast;
mod away;

use std::time::Duration;

use serde_json::Value;

use crate::support::{Database, PrivatePostgres, Relay, SHORT, Server, Settings, wait_until};

/// A look is soon followed by the next.
const INTERVAL: &str = "200ms";

/// The report that `/status` shows, once there is one of which `is_it` holds.
async fn wait_report(relay: &Relay, what: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
    wait_until(what, SHORT, async || {
        let report = relay.status().await?["monitor"].take();
        (report["looked_at"].is_string() && is_it(&report)).then_some(report)
    })
    .await
}

/// A line of a report's list that holds all of the words.
fn has_line(report: &Value, list: &str, words: &[&str]) -> bool {
    let lines = report[list].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    lines.into_iter().any(|line| words.iter().all(|word| line.contains(word)))
}

/// A private server with an outbox, its slot, and a relay whose broker nobody has started: nothing is
/// ever read, and the slot stands still.
struct Stuck {
    relay: Relay,
    database: Database,
    postgres: PrivatePostgres,
}

impl Stuck {
    async fn start(server: Server, settings: &[(&str, &str)], interval: &str) -> Self {
        let postgres = PrivatePostgres::start(server, settings).await;
        let database = Database::create_on(&postgres.cluster(), "monitor").await;
        database.create_outbox().await;
        let name = database.name();
        database
            .sql()
            .run(&format!("GRANT pg_monitor TO {name}; CREATE TABLE other (x text)"))
            .await;
        let settings = Settings::stdout(&database)
            .with("monitor", serde_json::json!({"interval": interval}))
            .with("sinks", serde_json::json!({"events": {"kafka": {"brokers": ["127.0.0.1:1"]}}}));
        Relay::init(&settings, &database.admin_url());
        Self { relay: Relay::start(&settings), database, postgres }
    }

    /// Commits about this much WAL that is none of the outbox's.
    async fn write(&self, bytes: usize) {
        let emit = format!("SELECT pg_logical_emit_message(true, 'it', repeat('x', {bytes}))");
        self.database.sql().run(&emit).await;
    }

    async fn report(&self, what: &str, is_it: impl FnMut(&Value) -> bool) -> Value {
        wait_report(&self.relay, what, is_it).await
    }
}

/// For a slot that stands still while somebody writes elsewhere.
const MIB: usize = 1 << 20;

/// Between two commits of a steady writer.
const PACE: Duration = Duration::from_millis(100);
