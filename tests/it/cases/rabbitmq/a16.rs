//! A16, a missing exchange: the broker closes the channel over it; its event is named and waits, its
//! neighbours are sent again and arrive.

use std::time::Duration;

use serde_json::json;

use super::{Scene, first_copies};
use crate::support::{EXCHANGE, QueueKind, Rabbit, RabbitReader, RabbitVersion, Relay, SHORT};

on_both_rabbits!(a16_exchange_missing_404);

async fn a16_exchange_missing_404(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "a16");
    let scene = Scene::new(rabbit, version, QueueKind::Quorum, |settings| {
        // `order` goes to the exchange of the layout, what is `gone` to one that is not there.
        settings.with(
            "routes",
            json!([
                {"match": {"aggregate_type": "order"}, "exchange": EXCHANGE, "routing_key": "order"},
                {"exchange": "${aggregate_type}", "routing_key": "order"},
            ]),
        )
    })
    .await;
    let database = &scene.database;
    let mut relay = Relay::streaming(&scene.settings).await;
    for n in 1..=6u32 {
        let kind = if n == 4 { "gone" } else { "order" };
        database.insert(kind, &n.to_string(), n).await;
    }
    relay.wait_state("halted", Duration::from_secs(10)).await;
    let status = relay.status().await.unwrap();
    let reason = status["reason"].as_str().unwrap();
    assert!(
        reason.contains("exchange `gone` does not exist") && reason.contains("404"),
        "{reason}"
    );
    assert!(status["hint"].as_str().unwrap().contains("declare exchange name=gone"), "{status}");
    assert_eq!(relay.get("/livez").await.unwrap().0, 200);

    let mut reader = RabbitReader::new(&scene.rabbit, &["order"]).await;
    reader.read_until("its neighbours", SHORT, |read| first_copies(read).len() >= 5).await;
    let end = database.commit_ends().await[3];
    assert!(database.confirmed().await.unwrap() < end);

    scene.rabbit.create_exchange("gone", "direct", json!({}));
    scene.rabbit.bind("gone", "order", "order");
    relay.wait_state("streaming", 2 * SHORT).await;
    let end = database.wal_end().await;
    database.wait_confirmed(end, SHORT).await;
    let messages = reader.read_to_end().await;
    let mut numbers: Vec<_> = first_copies(messages).iter().map(|it| it.text()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=6).map(|n| format!("{{\"n\": {n}}}")).collect::<Vec<_>>());
}
