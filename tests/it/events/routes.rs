//! Where an event goes, and what goes with it.

use serde_json::json;

use super::Scene;
use crate::support::{Reader, SHORT, Server, Settings, Topics};

on_both_servers!(
    the_first_route_that_matches_gives_topic_key_and_headers,
    what_no_route_matches_halts,
    what_no_route_matches_is_dropped_and_counted_where_that_is_asked_for,
);

const TABLE: &str = "
    CREATE TABLE outbox (id int PRIMARY KEY, aggregate_type text, aggregate_id text,
      event_type text, payload text, tenant text, region text)";

async fn the_first_route_that_matches_gives_topic_key_and_headers(server: Server) {
    let change = |settings: Settings, topics: &Topics| {
        let topic = |word| topics.name(word);
        let routes = json!([
            {"match": {"aggregate_type": "payment", "region": ["eu", "ch"]}, "sink": "events",
             "topic": topic("payments-eu"), "key": "${tenant}",
             "headers": {"tenant": "${tenant}", "what": "${aggregate_type}/${event_type}",
                         "price": "$$1", "lsn": "${@lsn}", "table": "${@table}"}},
            {"match": {"event_type": {"regex": "order_.*"}}, "sink": "events",
             "topic": topic("${region}.orders")},
            {"sink": "events", "topic": topic("rest")},
        ]);
        settings.with("routes", routes)
    };
    let scene = Scene::start(server, TABLE, change).await;
    let insert = "INSERT INTO outbox VALUES
        (1, 'payment', 'k', 'paid', 'v', 'acme', 'eu'), (2, 'payment', 'k', 'paid', 'v', NULL, 'ch'),
        (3, 'payment', 'k', 'order_paid', 'v', 't', 'us'), (4, 'x', 'k', 'order_made', 'v', 't', 'eu'),
        (5, 'x', 'k', 'reorder_made', 'v', 't', 'eu'), (6, 'payment', 'k', 'paid', 'v', 't', NULL)";
    let records = scene.records(insert, 6).await;
    let placed: Vec<_> = records
        .iter()
        .map(|record| {
            let key = record.key.as_deref().map(|key| std::str::from_utf8(key).unwrap());
            (scene.word(record), record.header("id").unwrap(), key)
        })
        .collect();
    assert_eq!(
        placed,
        [
            ("eu.orders", "4", Some("k")),
            ("payments-eu", "1", Some("acme")),
            ("payments-eu", "2", None),
            ("rest", "5", Some("k")),
            ("rest", "6", Some("k")),
            ("us.orders", "3", Some("k")),
        ]
    );
    let [paid, without_tenant] = [&records[1], &records[2]];
    for (name, value) in [
        ("id", Some("1")),
        ("eventType", Some("paid")),
        ("tenant", Some("acme")),
        ("what", Some("payment/paid")),
        ("price", Some("$1")),
        ("table", Some("public.outbox")),
    ] {
        assert_eq!(paid.header(name), value, "{name}");
    }
    assert!(paid.header("lsn").unwrap().contains('/'));
    let tenant = without_tenant.headers.iter().find(|(name, _)| name == "tenant").unwrap();
    assert_eq!(tenant.1, None, "a NULL column is a null header");
    assert_eq!(records[3].headers.len(), 2, "{:?}", records[3]);
}

/// Only orders have a route.
fn orders_only(settings: Settings, topics: &Topics) -> Settings {
    let topic = topics.name("order");
    let route = json!({"match": {"aggregate_type": "order"}, "sink": "events", "topic": topic});
    settings.with("routes", json!([route]))
}

const INSERT: &str = "INSERT INTO outbox VALUES (1, 'order', 'k', 'e', 'v'),
                      (2, 'payment', 'k', 'e', 'v'), (3, 'order', 'k', 'e', 'v')";

async fn what_no_route_matches_halts(server: Server) {
    let mut scene = Scene::start(server, TABLE, orders_only).await;
    scene.database.create_witness().await;
    scene.database.sql().run(INSERT).await;
    scene.relay.wait_state("halted", SHORT).await;
    let (_, reason) = scene.relay.get("/readyz").await.unwrap();
    assert!(reason.contains("`2`") && reason.contains("route"), "{reason}");
    let end = scene.database.commit_ends().await[0];
    scene
        .database
        .over_replies(2, async |_| assert!(scene.database.confirmed().await.unwrap() < end))
        .await;
    let mut reader = Reader::new(&scene.topics);
    assert!(reader.read_to_end().iter().all(|record| record.header("id") != Some("2")));
}

async fn what_no_route_matches_is_dropped_and_counted_where_that_is_asked_for(server: Server) {
    let change =
        |settings, topics: &Topics| orders_only(settings, topics).with("on_unmatched", "drop");
    let scene = Scene::start(server, TABLE, change).await;
    let records = scene.records(INSERT, 2).await;
    let ids: Vec<_> = records.iter().map(|record| record.header("id").unwrap()).collect();
    assert_eq!(ids, ["1", "3"]);
    let end = scene.database.wal_end().await;
    scene.database.wait_confirmed(end, SHORT).await;
    assert_eq!(scene.relay.metric("pgoutbox_events_dropped_total", &[]).await, Some(1.0));
    assert_eq!(scene.relay.state().await.as_deref(), Some("streaming"));
}
