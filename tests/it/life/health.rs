//! What the probes say before anything flows.

use serde_json::json;

use super::Scene;
use crate::support::{Relay, SHORT, Server, wait_until};

on_both_servers!(a_relay_that_cannot_start_yet_lives_and_says_what_it_waits_for);

/// PostgreSQL or the broker does not answer: not ready, with the cause in words, and alive; nothing
/// is restarted for it.
async fn a_relay_that_cannot_start_yet_lives_and_says_what_it_waits_for(server: Server) {
    let scene = Scene::new(server, "early").await;
    let settings = || scene.settings.clone().with_free_http_port();
    let no_server = scene.database.relay_url_at(1);
    let no_broker = json!(["127.0.0.1:1"]);
    for (settings, cause) in [
        (settings().with("source.postgres.url", no_server), "connecting to `"),
        (settings().with("sinks.events.kafka.brokers", no_broker), "127.0.0.1:1"),
    ] {
        let relay = Relay::start(&settings);
        wait_until(&format!("not ready since {cause}"), SHORT, async || {
            let (code, words) = relay.get("/readyz").await?;
            let is_told = words.starts_with("starting: ") && words.contains(cause);
            (code == 503 && is_told).then_some(())
        })
        .await;
        assert_eq!(relay.get("/livez").await.unwrap().0, 200);
        assert_eq!(relay.state().await.as_deref(), Some("starting"));
    }
}
