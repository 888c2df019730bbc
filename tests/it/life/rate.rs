//! `max_rate`.

use serde_json::json;
use tokio::time::Instant;

use super::{Scene, payloads};
use crate::support::{Reader, Relay, SHORT, Server, first_texts, wait_until};

on_both_servers!(a_backlog_goes_out_no_faster_than_max_rate);

/// The most that a limit of so many events a second lets through at once.
const BURST: f64 = 3.0;

/// Two hundred events wait for a relay that may send forty a second: whenever it is looked at, no
/// more have gone than that; and all arrive in order.
async fn a_backlog_goes_out_no_faster_than_max_rate(server: Server) {
    let scene = Scene::new(server, "rate").await;
    scene.write(1..=200).await;
    let begun = Instant::now();
    let relay = Relay::start(&scene.settings.clone().with("max_rate", json!(40)));
    wait_until("the limit to be named", SHORT, async || {
        let status = relay.status().await?;
        status["blocked_by"]["reason"].as_str().filter(|it| it.contains("max_rate")).map(drop)
    })
    .await;
    wait_until("all events", 2 * SHORT, async || {
        let delivered = relay.metric("pgoutbox_events_delivered_total", &[]).await?;
        // Counted from before the start: a slow machine only makes this easier.
        let most = begun.elapsed().as_secs_f64() * 40.0 + BURST;
        assert!(delivered <= most, "{delivered} events of at most {most}");
        (delivered >= 200.0).then_some(())
    })
    .await;
    let mut reader = Reader::new(&scene.topics);
    reader.read_count(200, SHORT);
    assert_eq!(first_texts(reader.records()), payloads(1..=200));
}
