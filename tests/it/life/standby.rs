//! Two relays for one slot.

use super::{Scene, assert_state, payloads, wait_metric};
use crate::support::{Reader, Relay, SHORT, Server, first_texts};

on_both_servers!(a_relay_in_standby_takes_over_from_one_that_stops);

/// The second one is ready and does nothing, until the first one goes; then the first, started
/// again, stands by in its turn.
async fn a_relay_in_standby_takes_over_from_one_that_stops(server: Server) {
    let scene = Scene::new(server, "standby").await;
    let mut first = Relay::streaming(&scene.settings).await;
    assert_state(&first, "streaming", 200).await;
    wait_metric(&first, "pgoutbox_active", &[], 1.0).await;
    wait_metric(&first, "pgoutbox_source_connected", &[], 1.0).await;

    let mut second = Relay::start(&scene.settings.clone().with_free_http_port());
    stands_by(&mut second, &scene).await;
    scene.write(1..=3).await;
    scene.confirmed().await;
    stands_by(&mut second, &scene).await;

    assert!(first.terminate(SHORT).await.success());
    second.wait_state("streaming", SHORT).await;
    assert_state(&second, "streaming", 200).await;
    wait_metric(&second, "pgoutbox_active", &[], 1.0).await;
    wait_metric(&second, "pgoutbox_source_connected", &[], 1.0).await;
    let mut first = Relay::start(&scene.settings);
    stands_by(&mut first, &scene).await;
    scene.write(4..=6).await;
    scene.confirmed().await;

    // A handover that was asked for sends nothing twice.
    let mut reader = Reader::new(&scene.topics);
    assert_eq!(reader.read_to_end().len(), 6);
    assert_eq!(first_texts(reader.records()), payloads(1..=6));
}

async fn stands_by(relay: &mut Relay, scene: &Scene) {
    relay.wait_state("standby", SHORT).await;
    assert_state(relay, "standby", 200).await;
    let holder = scene.database.walsender().await.unwrap().pid.to_string();
    let status = relay.status().await.unwrap();
    assert!(status["holder"].as_str().unwrap().contains(&holder), "{status}");
    assert_eq!(relay.metric("pgoutbox_active", &[]).await, Some(0.0));
    assert_eq!(relay.metric("pgoutbox_source_connected", &[]).await, Some(0.0));
}
