//! A04, confirmed before it was acknowledged: a queue refuses everything, since it is full.

use std::time::Duration;

use serde_json::json;

use super::{Scene, first_copies};
use crate::support::{
    EXCHANGE, Message, QueueKind, Rabbit, RabbitReader, RabbitVersion, Relay, SHORT,
};

on_both_rabbits!(a04_confirm_before_ack_over_rabbitmq);

const ROWS: u32 = 20;

/// Within so long an operator is told, says the case.
const TOLD: Duration = Duration::from_secs(30);

/// While the queue is full nothing is confirmed and the reason is told; once it is not, everything
/// flows in order.
async fn a04_confirm_before_ack_over_rabbitmq(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "a04");
    let scene = Scene::new(rabbit, version, QueueKind::Classic, |settings| {
        // So that status updates come often.
        settings.with("source.postgres.wal_sender_timeout", "2s")
    })
    .await;
    let Scene { database, rabbit, .. } = &scene;
    let full = json!({"max-length": 0, "overflow": "reject-publish"});
    rabbit.set_policy("full", "order", full);
    let mut relay = Relay::streaming(&scene.settings).await;
    for n in 0..ROWS {
        database.insert("order", "a", n).await;
    }
    let ends = database.commit_ends().await;
    relay.wait_for_log(&["refused", EXCHANGE, "routing key order"], SHORT).await;
    relay.wait_state("blocked", TOLD).await;
    let (ready, reason) = relay.get("/readyz").await.unwrap();
    assert_eq!(ready, 503);
    let status = relay.status().await.unwrap();
    for text in [&reason, status["reason"].as_str().unwrap()] {
        for word in [&format!("exchange `{EXCHANGE}`"), "routing key `order`", "nack"] {
            assert!(text.contains(word), "{word} is not in: {text}");
        }
    }
    database
        .over_replies(3, async |_| {
            let (confirmed, end) = (database.confirmed().await.unwrap(), ends[0]);
            assert!(confirmed < end, "{confirmed} was confirmed, the first event ends at {end}");
        })
        .await;
    assert_eq!(rabbit.depth("order"), 0);

    rabbit.delete_policy("full");
    database.wait_confirmed(ends[ends.len() - 1], 2 * SHORT).await;
    relay.wait_state("streaming", SHORT).await;
    let mut reader = RabbitReader::new(rabbit, &["order"]).await;
    let messages = reader.read_to_end().await;
    let texts: Vec<&str> = first_copies(messages).into_iter().map(Message::text).collect();
    let expected: Vec<String> = (0..ROWS).map(|n| format!("{{\"n\": {n}}}")).collect();
    assert_eq!(texts, expected);
}
