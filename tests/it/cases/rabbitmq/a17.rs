//! A17, a huge transaction to RabbitMQ: read as it comes, never held as a whole, and confirmed when
//! the last of its rows is; a relay killed in the middle of it begins it again.
//!
//! 40,000 rows here, more than twice the window; with `PGOUTBOX_SOAK` set, a million.

use super::{Scene, assert_in_order};
use crate::support::{QueueKind, Rabbit, RabbitReader, RabbitVersion, Relay, SHORT};

on_both_rabbits!(a17_million_row_tx_over_rabbitmq);

async fn a17_million_row_tx_over_rabbitmq(version: RabbitVersion) {
    let soak = std::env::var_os("PGOUTBOX_SOAK").is_some();
    let rows = if soak { 1_000_000 } else { 40_000 };
    let rabbit = Rabbit::create(version, "a17");
    let scene = Scene::new(rabbit, version, QueueKind::Quorum, |settings| {
        settings.with("source.postgres.wal_sender_timeout", "2s")
    })
    .await;
    let database = &scene.database;
    scene.write(1..=rows, 480).await;
    let end = database.commit_ends().await[0];
    let mut relay = Relay::start(&scene.settings);
    let mut reader = RabbitReader::new(&scene.rabbit, &["order"]).await;
    reader.read_count(rows / 2, 20 * SHORT).await;
    relay.kill();
    assert!(database.confirmed().await.unwrap() < end, "confirmed in the middle");
    let mut relay = Relay::start(&scene.settings);
    database.wait_confirmed(end, 20 * SHORT).await;
    Scene::within_bounds(&relay);
    assert_in_order(reader.read_to_end().await, rows);
    assert!(relay.terminate(SHORT).await.success());
}
