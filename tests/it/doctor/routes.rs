//! Routes and keys that end the order of an aggregate: told before there is an event.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn routes_that_part_an_aggregate_are_found() {
    let healthy = Healthy::new(Server::Newest).await;
    let topic = healthy.topics.name("order");
    let other = healthy.topics.name("other");
    healthy.topics.create("other", 1, 1, &[]).await;
    let with = |routes| healthy.settings.clone().with("routes", routes);

    let parted = with(json!([
        {"match": {"event_type": "happened"}, "topic": other},
        {"topic": topic},
    ]));
    let fix = finds(&parted, &["routes 1, 2", "by `event_type`", &other, &topic]).await;
    assert!(fix.contains("`match` by `aggregate_type`"), "{fix}");
    let mended =
        with(json!([{"match": {"aggregate_type": "x"}, "topic": other}, {"topic": topic}]));
    is_silent(&mended).await;

    let by_type = healthy.topics.name("${event_type}");
    healthy.topics.create("happened", 1, 1, &[]).await;
    let fix =
        finds(&with(json!([{"topic": by_type}])), &["route 1", "depends on `event_type`"]).await;
    assert!(fix.contains("order_by: [aggregate_type, aggregate_id, event_type]"), "{fix}");

    let spread = with(json!([{"topic": topic, "key": "${id}"}]));
    let fix = finds(&spread, &["route 1", "message key `${id}`", "partitions"]).await;
    let key = typed(&fix)[0].strip_prefix("key: ").unwrap().to_owned();
    is_silent(&with(json!([{"topic": topic, "key": key}]))).await;
}
