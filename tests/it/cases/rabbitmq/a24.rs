//! A24, a broker short of memory blocks its publishers: told within seconds, waited for with the
//! replication connection alive, and nothing sent twice.

use std::time::Duration;

use super::{Scene, first_copies};
use crate::support::{PrivateRabbit, QueueKind, Rabbit, RabbitReader, RabbitVersion, Relay, SHORT};

on_both_rabbits!(a24_connection_blocked, a24_connection_blocked_stops_in_time);

/// How many status updates stand for "six timeouts": four go out in one.
const REPLIES: usize = 24;

async fn a24_connection_blocked(version: RabbitVersion) {
    let (broker, scene) = start(version).await;
    let database = &scene.database;
    let mut relay = Relay::streaming(&scene.settings).await;
    let before = database.walsender().await.unwrap().pid;
    tokio::task::block_in_place(|| broker.node().set_memory_alarm(true));
    scene.write(1..=100, 10).await;
    let end = database.commit_ends().await[0];
    relay.wait_state("blocked", Duration::from_secs(5)).await;
    let status = relay.status().await.unwrap();
    assert!(status["reason"].as_str().unwrap().contains("low on memory"), "{status}");
    assert_eq!(relay.get("/readyz").await.unwrap().0, 503);
    let blocked = relay.metric("pgoutbox_sink_blocked", &[r#"sink="tasks""#]).await;
    assert_eq!(blocked, Some(1.0));
    database
        .over_replies(REPLIES, async |walsender| {
            assert_eq!(walsender.pid, before, "the replication connection was lost");
            assert!(database.confirmed().await.unwrap() < end);
        })
        .await;

    tokio::task::block_in_place(|| broker.node().set_memory_alarm(false));
    relay.wait_state("streaming", SHORT).await;
    database.wait_confirmed(end, SHORT).await;
    let mut reader = RabbitReader::new(&scene.rabbit, &["order"]).await;
    let messages = reader.read_to_end().await;
    assert_eq!((messages.len(), first_copies(messages).len()), (100, 100));
    let reconnects = relay.metric("pgoutbox_reconnects_total", &[]).await.unwrap_or(0.0);
    assert_eq!(reconnects, 0.0, "a connection was lost");
}

/// A stop while the broker blocks keeps to its time, and what was not sent is sent by the next relay.
async fn a24_connection_blocked_stops_in_time(version: RabbitVersion) {
    let (broker, scene) = start(version).await;
    let mut relay = Relay::streaming(&scene.settings).await;
    tokio::task::block_in_place(|| broker.node().set_memory_alarm(true));
    scene.write(1..=100, 10).await;
    relay.wait_state("blocked", Duration::from_secs(5)).await;
    assert!(relay.terminate(SHORT).await.success());
    let end = scene.database.commit_ends().await[0];
    assert!(scene.database.confirmed().await.unwrap() < end);

    tokio::task::block_in_place(|| broker.node().set_memory_alarm(false));
    let _relay = Relay::streaming(&scene.settings).await;
    scene.database.wait_confirmed(end, SHORT).await;
    let mut reader = RabbitReader::new(&scene.rabbit, &["order"]).await;
    assert_eq!(first_copies(reader.read_to_end().await).len(), 100);
}

async fn start(version: RabbitVersion) -> (PrivateRabbit, Scene) {
    let broker = PrivateRabbit::start(version, &[]).await;
    let rabbit = Rabbit::create_on(broker.node(), "a24");
    let scene = Scene::new(rabbit, version, QueueKind::Classic, |settings| {
        settings
            .with("source.postgres.wal_sender_timeout", "2s")
            .with("sinks.tasks.rabbitmq.heartbeat", "2s")
            .with("grace_period", "2s")
    })
    .await;
    (broker, scene)
}
