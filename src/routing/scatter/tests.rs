use super::*;

/// What is found in the routes of one Kafka sink `k` beside one RabbitMQ sink `r`.
#[track_caller]
fn found(table: &str, routes: &str) -> Vec<String> {
    let text = format!(
        "source: {{postgres: {{url: x, slot: s, tables: [{{table: public.outbox{table}}}]}}}}\n\
         sinks: {{k: {{kafka: {{brokers: [b:9092]}}}}, r: {{rabbitmq: {{url: amqp://h}}}}}}\n\
         routes: [{routes}]"
    );
    let config = Config::parse(&text, None, &|_| None).unwrap();
    let line = |it: Scatter| format!("{:?} {} | {}", it.routes, it.message, it.fix);
    scatters(&config).into_iter().map(line).collect()
}

#[track_caller]
fn is_silent(table: &str, routes: &str) {
    assert_eq!(found(table, routes), [""; 0]);
}

/// The routes of each finding, and nothing else of it.
#[track_caller]
fn check(routes: &str, expected: &[&str]) {
    let numbers = |line: String| line.split_once(']').unwrap().0[1..].to_owned();
    assert_eq!(found("", routes).into_iter().map(numbers).collect::<Vec<_>>(), expected);
}

#[test]
fn the_default_route_keeps_everything_together() {
    is_silent("", "{sink: k}");
    is_silent("", "{sink: k, topic: t, key: '${aggregate_type}/${aggregate_id}'}");
    is_silent("", "{sink: k, topic: t, key: one}");
    is_silent("", "{sink: r, exchange: e, routing_key: '${event_type}'}");
}

#[test]
fn a_topic_by_what_changes_within_a_key_is_named() {
    insta::assert_snapshot!(found("", "{sink: k, topic: 't.${event_type}'}").join("\n"), @"[1] topic `t.${event_type}` depends on `event_type`, which is not of the ordering key (aggregate type and id): events of one key may go to several topics, and there is no order between them | take `${event_type}` out of `topic`; or, where it never changes within a key, say so: `order_by: [aggregate_type, aggregate_id, event_type]`");
    is_silent(
        ", order_by: [aggregate_type, aggregate_id, region]",
        "{sink: k, topic: 't.${region}'}",
    );
    is_silent("", "{match: {region: eu}, sink: k, topic: 't.${region}'}");
    is_silent(", columns: {aggregate_type: kind}", "{sink: k, topic: 't.${kind}'}");
    is_silent(", columns: {event_type: {value: done}}", "{sink: k, topic: 't.${event_type}'}");
    is_silent("", "{sink: k, topic: 't.${@table}'}");
}

#[test]
fn a_key_by_what_changes_within_a_key_is_named() {
    insta::assert_snapshot!(found("", "{sink: k, topic: t, key: '${id}'}").join("\n"), @"[1] the message key `${id}` depends on `id`, which is not of the ordering key (aggregate type and id): events of one ordering key spread over the topic's partitions, and there is no order between them | `key: ${aggregate_id}`");
    insta::assert_snapshot!(found(", order_by: [tenant, account]", "{sink: k, topic: t}").join("\n"), @"[1] the message key `${aggregate_id}` depends on `aggregate_id`, which is not of the ordering key (`order_by` of `public.outbox`: tenant, account): events of one ordering key spread over the topic's partitions, and there is no order between them | `key: ${tenant}-${account}`");
    is_silent(", order_by: [tenant, account]", "{sink: k, topic: t, key: '${tenant}'}");
    is_silent(", columns: {aggregate_id: order_id}", "{sink: k, topic: t, key: '${order_id}'}");
    is_silent("", "{sink: k, topic: t, key: '${aggregateid}'}");
    check("{sink: k, topic: t, key: '${@lsn}'}", &["1"]);
}

#[test]
fn routes_that_part_a_key_are_named() {
    insta::assert_snapshot!(found("", "{match: {event_type: Paid}, sink: k, topic: paid}, {sink: k, topic: orders}").join("\n"), @"[1, 2] route 1 (topic `paid`) takes some events of an ordering key (aggregate type and id) by `event_type`, and route 2 (topic `orders`) the others: there is no order between them | send all of a key to one place, where its readers choose (an event's type is its header `eventType`), or `match` by `aggregate_type` and `aggregate_id` only");
    check("{match: {event_type: Paid}, sink: r, exchange: e}, {sink: k, topic: t}", &["1, 2"]);
    check(
        "{match: {event_type: A}, sink: k, topic: a}, {match: {event_type: B}, sink: k, topic: b}, {sink: k}",
        &["1, 2, 3", "2, 3"],
    );
}

#[test]
fn routes_with_keys_of_their_own_are_silent() {
    for routes in [
        "{match: {aggregate_type: order}, sink: k, topic: o}, {sink: k, topic: rest}",
        "{match: {aggregate_type: order}, sink: r, exchange: o}, {sink: k, topic: rest}",
        // Whatever `event_type` leaves of orders, the second route takes.
        "{match: {aggregate_type: order, event_type: A}, sink: k, topic: o}, \
         {match: {aggregate_type: [order, task]}, sink: k, topic: o}, {sink: k, topic: rest}",
        "{match: {aggregate_type: a, event_type: X}, sink: k, topic: a}, \
         {match: {aggregate_type: b}, sink: k, topic: b}",
        "{match: {aggregate_type: {regex: 'a.*'}, event_type: X}, sink: k, topic: a}, \
         {match: {aggregate_type: b}, sink: k, topic: b}",
        "{match: {'@table': public.other, event_type: X}, sink: k, topic: a}, {sink: k, topic: b}",
        // One destination, in two ways of writing it.
        "{match: {event_type: X}, sink: k, topic: t, headers: {a: b}}, {sink: k, topic: t}",
        "{match: {event_type: X}, sink: r, exchange: a}, {sink: r, exchange: b}",
        "{match: {aggregate_type: o, event_type: X}, sink: k, topic: o}, \
         {match: {aggregate_type: o}, sink: k, topic: '${aggregate_type}'}",
    ] {
        is_silent("", routes);
    }
}

#[test]
fn a_later_route_for_the_same_keys_is_found_behind_others() {
    check(
        "{match: {aggregate_type: [a, b], event_type: X}, sink: k, topic: x}, \
         {match: {aggregate_type: a}, sink: k, topic: x}, \
         {sink: k, topic: rest}",
        &["1, 3"],
    );
    check(
        "{match: {aggregate_type: {regex: 'a.*'}, event_type: X}, sink: k, topic: x}, \
         {match: {aggregate_type: {regex: 'a.*'}}, sink: k, topic: x}, \
         {sink: k, topic: rest}",
        &[],
    );
}
