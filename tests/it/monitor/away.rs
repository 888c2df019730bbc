//! A server that is away for a while.

use serde_json::json;

use super::{INTERVAL, Stuck, wait_report};
use crate::support::{SHORT, Server};

on_both_servers!(a_server_that_is_away_is_told_and_looked_at_again);

/// The last figures stay, with their time and why there are no newer ones; nothing is tried without a
/// pause.
async fn a_server_that_is_away_is_told_and_looked_at_again(server: Server) {
    let mut scene = Stuck::start(server, &[], INTERVAL).await;
    let before = scene.report("a look", |_| true).await;
    assert_eq!(before["failure"], json!(null));
    assert!(scene.postgres.stop("immediate").done);

    let away = scene.report("a failure", |report| report["failure"].is_string()).await;
    assert_eq!(away["slot"]["name"], before["slot"]["name"]);
    assert_eq!(scene.relay.metric("pgoutbox_monitor_up", &[]).await, Some(0.0));
    scene.relay.wait_for_log(&["\"level\":\"WARN\"", "cannot be watched"], SHORT).await;

    scene.postgres.start_again().await;
    let again = wait_report(&scene.relay, "a look at the server that is back", |report| {
        report["failure"].is_null()
    })
    .await;
    assert!(again["looked_at"].as_str() > away["looked_at"].as_str());
    assert_eq!(scene.relay.metric("pgoutbox_monitor_up", &[]).await, Some(1.0));
    let told = scene.relay.log().matches("cannot be watched").count();
    assert_eq!(told, 1, "once for one outage");
}
