//! A07, backpressure against `wal_sender_timeout`: a RabbitMQ that hangs for many timeouts costs
//! neither the replication connection nor memory; and neither does silence, with RabbitMQ there or
//! not.

use super::{Scene, assert_in_order};
use crate::support::{
    Database, PrivateRabbit, QueueKind, Rabbit, RabbitReader, RabbitVersion, Relay, SHORT,
};

on_both_rabbits!(a07_backpressure_timeout_over_rabbitmq);

const TIMEOUT: &str = "2s";

/// How many status updates stand for "six timeouts": four go out in one.
const REPLIES: usize = 24;

/// The same for two of them.
const IDLE: usize = 8;

/// Rows of 2 kB: well above the window of 16 MiB.
const ROWS: usize = 30_000;

async fn a07_backpressure_timeout_over_rabbitmq(version: RabbitVersion) {
    let broker = PrivateRabbit::start(version, &[]).await;
    let rabbit = Rabbit::create_on(broker.node(), "a07");
    let scene = Scene::new(rabbit, version, QueueKind::Classic, |settings| {
        settings
            .with("source.postgres.wal_sender_timeout", TIMEOUT)
            .with("sinks.tasks.rabbitmq.heartbeat", "2s")
    })
    .await;
    let mut relay = Relay::streaming(&scene.settings).await;
    let database = &scene.database;
    let before = database.walsender().await.unwrap().pid;
    idle(database, before).await;
    assert_eq!(reconnects(&relay, &[]).await, 0.0, "a healthy silence");
    broker.signal("STOP");
    scene.write(1..=ROWS / 10, 2000).await;
    let end = database.commit_ends().await[0];
    scene.write(ROWS / 10 + 1..=ROWS, 2000).await;
    database
        .over_replies(REPLIES, async |walsender| {
            assert_eq!(walsender.pid, before, "the connection was lost");
            let confirmed = database.confirmed().await.unwrap();
            assert!(confirmed < end, "{confirmed} was confirmed, the first rows end at {end}");
        })
        .await;
    relay.wait_state("blocked", SHORT).await;
    broker.signal("CONT");
    let end = database.wal_end().await;
    database.wait_confirmed(end, 4 * SHORT).await;
    broker.signal("STOP");
    idle(database, before).await;
    broker.signal("CONT");
    assert_eq!(reconnects(&relay, &[r#"peer="source""#]).await, 0.0);
    Scene::within_bounds(&relay);
    let mut reader = RabbitReader::new(&scene.rabbit, &["order"]).await;
    assert_in_order(reader.read_to_end().await, ROWS);
}

/// Two timeouts without a row.
async fn idle(database: &Database, connection: u32) {
    database
        .over_replies(IDLE, async |walsender| {
            assert_eq!(walsender.pid, connection, "silence cost the connection");
        })
        .await;
}

async fn reconnects(relay: &Relay, labels: &[&str]) -> f64 {
    relay.metric("pgoutbox_reconnects_total", labels).await.unwrap_or(0.0)
}
