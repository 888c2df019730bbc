//! Events in, routed events out.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::config::{Config, TableConfig};
use crate::failure::Class;
use crate::lsn::Lsn;
use crate::outbox::{Column, OutboxEvent, Shape, Transaction, Tuple, Value};

const TEXT: u32 = 25;
const BYTEA: u32 = 17;

/// A configuration of `public.outbox` with these routes.
fn config(routes: &str) -> Config {
    let text = format!("source: {{postgres: {{url: x}}}}\n{routes}");
    Config::parse(&text, Some("pgoutbox.yaml".into()), &|_| None).unwrap()
}

fn router(routes: &str) -> Router {
    Router::new(&config(routes)).unwrap()
}

fn shape(columns: &[(&str, u32)]) -> Arc<Shape> {
    let columns =
        columns.iter().map(|(name, oid)| Column { name: (*name).to_owned(), type_oid: *oid });
    Arc::new(Shape::resolve(&TableConfig::default(), columns.collect()).unwrap())
}

/// id, aggregate_type, aggregate_id, event_type, payload, tenant.
fn usual() -> Arc<Shape> {
    let names = ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "tenant"];
    shape(&names.map(|name| (name, TEXT)))
}

fn event<const N: usize>(shape: &Arc<Shape>, values: [Option<&str>; N]) -> OutboxEvent {
    let values = values.map(|text| text.map_or(Value::Null, |text| Value::Text(text.as_bytes())));
    OutboxEvent { shape: Arc::clone(shape), tuple: Tuple::from_values(values) }
}

/// A row of the usual shape, all columns filled but those given.
fn order<'v>(change: impl FnOnce(&mut [Option<&'v str>; 6])) -> OutboxEvent {
    let mut values =
        [Some("e1"), Some("order"), Some("o-7"), Some("created"), Some("{}"), Some("t1")];
    change(&mut values);
    event(&usual(), values)
}

fn transaction() -> Transaction {
    Transaction {
        xid: 741,
        commit_lsn: Lsn::new(0x16_B374_D848),
        commit_time_micros: 1_796_029_500_000_250,
    }
}

fn deliver(router: &mut Router, event: OutboxEvent) -> RoutedEvent {
    match router.route(event, &transaction()) {
        Routed::Deliver(routed) => routed,
        other => panic!("{other:?}"),
    }
}

fn poison(router: &mut Router, event: OutboxEvent) -> Poison {
    match router.route(event, &transaction()) {
        Routed::Poison(poison) => poison,
        other => panic!("{other:?}"),
    }
}

fn text(bytes: Option<&bytes::Bytes>) -> Option<&str> {
    bytes.map(|bytes| std::str::from_utf8(bytes).unwrap())
}

fn headers(routed: &RoutedEvent) -> Vec<(&str, Option<&str>)> {
    routed.headers.iter().map(|(name, value)| (name, text(value))).collect()
}

#[test]
fn without_routes_events_go_where_event_router_sends_them() {
    let routed = deliver(&mut router(""), order(|_| {}));
    assert_eq!(routed.id, "e1");
    assert_eq!(routed.sink, SinkIndex(0));
    assert_eq!(routed.destination.name(), "outbox.event.order");
    assert_eq!(text(routed.key.as_ref()), Some("o-7"));
    assert_eq!(text(routed.value.as_ref()), Some("{}"));
    assert_eq!(headers(&routed), [("id", Some("e1")), ("eventType", Some("created"))]);
    assert_eq!(routed.timestamp_millis(), 1_796_029_500_000);
}

#[test]
fn null_and_empty_are_two_things() {
    let mut router = router("");
    let null = deliver(&mut router, order(|values| (values[2], values[4]) = (None, None)));
    assert_eq!((null.key, null.value, null.ordering_key), (None, None, None));
    let empty = order(|values| (values[2], values[4]) = (Some(""), Some("")));
    let empty = deliver(&mut router, empty);
    assert_eq!((text(empty.key.as_ref()), text(empty.value.as_ref())), (Some(""), Some("")));
    assert!(empty.ordering_key.is_some());
}

#[test]
fn an_event_type_that_is_null_is_a_header_without_value() {
    let routed = deliver(&mut router(""), order(|values| values[3] = None));
    assert_eq!(headers(&routed), [("id", Some("e1")), ("eventType", None)]);
}

#[test]
fn a_table_without_event_type_has_no_such_header() {
    let names = ["id", "aggregatetype", "aggregateid", "payload"].map(|name| (name, TEXT));
    let row = event(&shape(&names), [Some("e1"), Some("order"), Some("o-7"), Some("{}")]);
    let routed = deliver(&mut router(""), row);
    assert_eq!(headers(&routed), [("id", Some("e1"))]);
    assert_eq!(text(routed.key.as_ref()), Some("o-7"));
}

#[test]
fn a_null_in_the_topic_is_poison_that_names_the_column() {
    let poison = poison(&mut router(""), order(|values| values[1] = None));
    assert_eq!(poison.id, "e1");
    assert_eq!(poison.reason.class(), Class::Poison);
    insta::assert_snapshot!(poison.reason, @"table `public.outbox`: `aggregate_type` is NULL, and the topic needs it");
    insta::assert_snapshot!(poison.reason.way_out().unwrap(), @"route events without `aggregate_type` to another topic");
}

#[test]
fn a_topic_name_that_no_broker_takes_is_poison() {
    let mut router = router("");
    let long = "x".repeat(240);
    for kind in ["Dont care", "order/line", "Größe", "a\nb", &long] {
        let poison = poison(&mut router, order(|values| values[1] = Some(kind)));
        let reason = poison.reason.to_string();
        assert!(reason.starts_with("table `public.outbox`: "), "{reason}");
        assert!(reason.contains(&format!("`outbox.event.{kind}` is not a legal topic name")));
    }
    let mut bare = self::router("routes: [{topic: '${aggregate_type}'}]");
    for kind in ["", ".", ".."] {
        poison(&mut bare, order(|values| values[1] = Some(kind)));
    }
}

#[test]
fn the_case_of_a_topic_is_kept() {
    let mut router = router("");
    for kind in ["Order", "order", "a.b", "a_b", "..."] {
        let routed = deliver(&mut router, order(|values| values[1] = Some(kind)));
        assert_eq!(routed.destination.name(), format!("outbox.event.{kind}"));
    }
}

#[test]
fn a_bytea_is_its_bytes_everywhere() {
    let texts = ["id", "aggregate_type"].map(|name| (name, TEXT));
    let byteas = ["aggregate_id", "payload", "trace"].map(|name| (name, BYTEA));
    let shape = shape(&[&texts[..], &byteas[..]].concat());
    let mut router = router("routes: [{headers: {trace: '${trace}', both: '<${trace}>'}}]");
    let row =
        event(&shape, [Some("e1"), Some("order"), Some("\\x6f37"), Some("\\x00fF41"), Some("\\x")]);
    let routed = deliver(&mut router, row);
    assert_eq!(routed.value.as_deref(), Some(&[0, 0xff, 0x41][..]));
    assert_eq!(routed.key.as_deref(), Some(&b"o7"[..]));
    assert_eq!(headers(&routed), [("id", Some("e1")), ("trace", Some("")), ("both", Some("<>"))]);

    for broken in ["00ff", "\\x0", "\\xgg"] {
        let row = event(&shape, [Some("e1"), Some("order"), None, Some(broken), None]);
        let reason = poison(&mut router, row).reason.to_string();
        assert!(reason.ends_with("`payload` is a bytea that is not in hex form"), "{reason}");
    }
}

#[test]
fn a_value_that_was_too_large_to_read_is_poison_with_its_size() {
    let shape = usual();
    let text = |text: &'static str| Value::Text(text.as_bytes());
    let values = [
        text("e1"),
        text("order"),
        text("o-7"),
        text("x"),
        Value::Omitted(100_000_000),
        Value::Null,
    ];
    let row = OutboxEvent { shape, tuple: Tuple::from_values(values) };
    let poison = poison(&mut router(""), row.clone());
    assert_eq!(poison.id, "e1");
    insta::assert_snapshot!(poison.reason, @"table `public.outbox`: `payload` has 100000000 bytes, too many for `max_event_size` (16777216)");
    insta::assert_snapshot!(poison.reason.way_out().unwrap(), @"raise `source.postgres.max_event_size`");

    let mut drops = router("on_unmatched: drop\nroutes: [{match: {tenant: t9}}]");
    assert!(matches!(drops.route(row, &transaction()), Routed::Unmatched(_)));
}

#[test]
fn what_has_no_destination_still_has_its_ordering_key() {
    let mut router = router("routes: [{topic: '${event_type}'}]");
    let illegal = poison(&mut router, order(|values| values[3] = Some("not legal")));
    let next = deliver(&mut router, order(|_| {}));
    let Place::Unknown(Some(key)) = illegal.place else { panic!("{illegal:?}") };
    assert_eq!(Some(key), next.ordering_key);
}

#[test]
fn an_event_without_id_is_poison() {
    let poison = poison(&mut router(""), order(|values| values[0] = None));
    assert_eq!(poison.id, "");
    insta::assert_snapshot!(poison.reason, @"table `public.outbox`: its id is NULL");
}

const MATCHES: &str = r#"
routes:
  - match: {aggregate_type: payment, tenant: {regex: "t[0-9]"}}
    topic: both
  - match: {aggregate_type: [payment, refund]}
    topic: list
  - match: {tenant: {regex: "t[0-9]"}}
    topic: regex
"#;

#[test]
fn the_first_route_whose_columns_all_match_wins() {
    let mut router = router(MATCHES);
    let mut topic = |kind, tenant| {
        let row = order(|values| (values[1], values[5]) = (Some(kind), Some(tenant)));
        deliver(&mut router, row).destination.name().into_owned()
    };
    assert_eq!(topic("payment", "t1"), "both");
    assert_eq!(topic("payment", "t10"), "list", "a regular expression matches the whole value");
    assert_eq!(topic("refund", "t1"), "list");
    assert_eq!(topic("order", "t1"), "regex");
}

#[test]
fn what_no_route_matches_halts_or_is_dropped() {
    let unmatched = || order(|values| (values[1], values[5]) = (Some("order"), None));
    let poison = poison(&mut router(MATCHES), unmatched());
    insta::assert_snapshot!(poison.reason, @"table `public.outbox`: no route matches it");
    insta::assert_snapshot!(poison.reason.way_out().unwrap(), @"add a route for it or set `on_unmatched: drop`");
    let mut drops = router(&format!("{MATCHES}on_unmatched: drop\n"));
    assert!(matches!(drops.route(unmatched(), &transaction()), Routed::Unmatched(_)));
}

#[test]
fn null_matches_nothing_and_empty_matches_empty() {
    let mut router = router("routes: [{match: {tenant: ''}, topic: empty}, {topic: other}]");
    let mut topic = |tenant| {
        deliver(&mut router, order(|values| values[5] = tenant)).destination.name().into_owned()
    };
    assert_eq!(topic(Some("")), "empty");
    assert_eq!(topic(None), "other");
}

#[test]
fn a_route_can_ask_for_the_table() {
    let routes = "routes: [{match: {'@table': other.outbox, nothing: x}}, {topic: '${@table}'}]";
    let routed = deliver(&mut router(routes), order(|_| {}));
    assert_eq!(routed.destination.name(), "public.outbox");
}

#[test]
fn templates_take_columns_roles_and_the_transactions_values() {
    let mut router = router(
        r#"
routes:
  - topic: ${tenant}.${event_type}.${@xid}
    key: ${tenant}/${aggregate_id}
    headers:
      position: ${@lsn}
      committed: ${@commit_time}
      constant: pgoutbox$$
      id: ${tenant}:${id}
      missing: ${tenant}${not_there}
"#,
    );
    let routed = deliver(&mut router, order(|_| {}));
    assert_eq!(routed.destination.name(), "t1.created.741");
    assert_eq!(text(routed.key.as_ref()), Some("t1/o-7"));
    assert_eq!(
        headers(&routed),
        [
            ("id", Some("t1:e1")),
            ("eventType", Some("created")),
            ("position", Some("16/B374D848")),
            ("committed", Some("2026-11-30T09:05:00.000250Z")),
            ("constant", Some("pgoutbox$")),
        ],
        "a header whose column the row does not have is left out"
    );
    assert_eq!(routed.id, "e1", "the header is another thing than the id");
}

#[test]
fn a_null_makes_a_key_or_header_null_as_in_sql() {
    let routes = "routes: [{key: '${tenant}/${aggregate_id}', headers: {t: 'x${tenant}'}}]";
    let routed = deliver(&mut router(routes), order(|values| values[5] = None));
    assert_eq!(routed.key, None);
    assert_eq!(headers(&routed).last(), Some(&("t", None)));
}

#[test]
fn a_missing_column_is_a_fault_until_it_is_there() {
    let mut router = router("routes: [{topic: 'a.${region}'}]");
    let fault = router.route(order(|_| {}), &transaction());
    let Routed::Fault(Poison { reason, .. }) = fault else { panic!("{fault:?}") };
    assert_eq!(reason.class(), Class::Fixable);
    insta::assert_snapshot!(reason, @"table `public.outbox` has no column `region`");

    let names = ["id", "aggregate_id", "payload", "region"].map(|name| (name, TEXT));
    let row = event(&shape(&names), [Some("e2"), Some("o-7"), Some("{}"), Some("eu")]);
    assert_eq!(deliver(&mut router, row).destination.name(), "a.eu");
}

#[test]
fn without_an_aggregate_id_the_route_must_say_what_the_key_is() {
    let row = || {
        let names = ["id", "payload"].map(|name| (name, TEXT));
        event(&shape(&names), [Some("e1"), Some("{}")])
    };
    let silent = router("routes: [{topic: a}]").route(row(), &transaction());
    assert!(matches!(silent, Routed::Fault(..)), "no order would be kept, unnoticed");
    let routed = deliver(&mut router("routes: [{topic: a, key: '${id}'}]"), row());
    assert_eq!((text(routed.key.as_ref()), routed.ordering_key), (Some("e1"), None));
}

#[test]
fn a_value_from_the_configuration_stands_in_for_a_column() {
    let text = "source: {postgres: {url: x, tables: [{table: public.outbox, columns: {aggregate_type: {value: order}}}]}}";
    let config = Config::parse(text, None, &|_| None).unwrap();
    let columns = ["id", "aggregate_id", "payload"];
    let columns = columns.map(|name| Column { name: name.to_owned(), type_oid: TEXT }).to_vec();
    let shape = Arc::new(Shape::resolve(&config.source.tables[0], columns).unwrap());
    let row = event(&shape, [Some("e1"), Some("o-7"), Some("{}")]);
    let routed = deliver(&mut Router::new(&config).unwrap(), row);
    assert_eq!(routed.destination.name(), "outbox.event.order");
    assert!(routed.ordering_key.is_some());
}

#[test]
fn the_ordering_key_is_table_type_and_id() {
    let mut router = router("routes: [{topic: a}]");
    let mut key = |kind, id, payload| {
        let row = order(|v| (v[1], v[2], v[4]) = (Some(kind), Some(id), Some(payload)));
        deliver(&mut router, row).ordering_key
    };
    let first = key("order", "7", "a");
    assert_eq!(first, key("order", "7", "b"));
    assert_ne!(first, key("order", "8", "a"));
    assert_ne!(first, key("payment", "7", "a"));
    assert_ne!(key("a", "bc", ""), key("ab", "c", ""));
    let again = order(|v| (v[1], v[2]) = (Some("order"), Some("7")));
    assert_eq!(first, deliver(&mut self::router(""), again).ordering_key, "in every process");
}

#[test]
fn two_tables_have_no_ordering_key_in_common() {
    let key = |table: &str| {
        let config = TableConfig { table: table.to_owned(), ..TableConfig::default() };
        let columns = usual().columns.clone();
        let shape = Arc::new(Shape::resolve(&config, columns).unwrap());
        let row = OutboxEvent { shape, tuple: order(|_| {}).tuple };
        deliver(&mut router(""), row).ordering_key
    };
    assert_ne!(key("orders"), key("payments"));
}

#[test]
fn order_by_makes_the_ordering_key() {
    let text = "source: {postgres: {url: x, tables: [{table: public.outbox, order_by: [tenant, event_type]}]}}";
    let config = Config::parse(text, None, &|_| None).unwrap();
    let mut router = Router::new(&config).unwrap();
    let mut key = |tenant, kind, id| {
        let row = order(|v| (v[5], v[3], v[2]) = (tenant, kind, Some(id)));
        deliver(&mut router, row).ordering_key
    };
    assert_eq!(key(Some("t1"), Some("x"), "1"), key(Some("t1"), Some("x"), "2"));
    assert_ne!(key(Some("t1"), Some("x"), "1"), key(Some("t2"), Some("x"), "1"));
    assert_ne!(key(Some("t1"), None, "1"), key(Some("t1"), Some(""), "1"));
    assert_eq!(key(None, None, "1"), None);
}

#[test]
fn nothing_of_the_row_is_copied_and_no_topic_allocated_twice() {
    let mut router = router("");
    let row = order(|_| {});
    let Some(Value::Text(payload)) = row.tuple.value(4) else { panic!("a payload") };
    let payload = payload.as_ptr();
    let first = deliver(&mut router, row);
    assert_eq!(first.value.as_ref().unwrap().as_ptr(), payload);
    let second = deliver(&mut router, order(|_| {}));
    let (Destination::Topic(first), Destination::Topic(second)) =
        (&first.destination, &second.destination)
    else {
        panic!("topics")
    };
    assert!(Arc::ptr_eq(first, second));
}

#[test]
fn more_topics_and_shapes_than_are_kept_are_no_harm() {
    let mut router = router("");
    for number in 0..10_000 {
        let kind = number.to_string();
        let row = order(|values| values[1] = Some(&kind));
        let routed = deliver(&mut router, row);
        assert_eq!(routed.destination.name(), format!("outbox.event.{kind}"));
    }
}

#[test]
fn a_template_that_cannot_work_is_an_error_with_its_place() {
    let cases = [
        ("topic: 'a b'", "2:18: a topic's name cannot have ' '"),
        ("topic: 'a/${id}'", "2:18: a topic's name cannot have '/'"),
        ("topic: '..'", "2:18: `..` is not a legal topic name"),
        ("topic: ''", "2:18: `` is not a legal topic name"),
        ("topic: 'a${@lsn}'", "2:18: a topic's name cannot have `${@lsn}`, which has a `/`"),
        (
            "topic: 'a${@commit_time}'",
            "2:18: a topic's name cannot have `${@commit_time}`, which has a `:`",
        ),
        (
            "key: '${@commitime}'",
            "2:16: unknown placeholder `@commitime`, did you mean `@commit_time`?",
        ),
        ("headers: {x: '${@nope}'}", "2:24: unknown placeholder `@nope`"),
        ("match: {'@tabel': x}", "2:19: unknown column `@tabel`, did you mean `@table`?"),
    ];
    for (route, expected) in cases {
        let error = Router::new(&config(&format!("routes: [{{{route}}}]"))).unwrap_err();
        assert_eq!(error.to_string(), format!("pgoutbox.yaml:{expected}"));
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_column_that_the_table_lacks_is_named_with_its_place_and_the_nearest() {
    let columns = names(&["id", "aggregate_type", "aggregate_id", "payload", "tenant"]);
    let check = |routes: &str| {
        let error = router(routes).check_columns(&TableConfig::default(), &columns);
        error.map_err(|error| error.to_string())
    };
    let error = check("routes: [{key: '${tenantt}'}]").unwrap_err();
    insta::assert_snapshot!(error, @"pgoutbox.yaml:2:16: table `public.outbox` has no column `tenantt`, did you mean `tenant`?");
    let error = check("routes: [{match: {tennant: x}}]").unwrap_err();
    insta::assert_snapshot!(error, @"pgoutbox.yaml:2:19: table `public.outbox` has no column `tennant`, did you mean `tenant`?");
    let error = check("routes: [{headers: {x: 'a${Tenant}'}}]").unwrap_err();
    insta::assert_snapshot!(error, @"pgoutbox.yaml:2:24: table `public.outbox` has no column `Tenant`, did you mean `tenant`?");
    assert_eq!(check(""), Ok(()), "an event type that nobody asked for may be missing");
    assert_eq!(check("routes: [{match: {'@table': a.b, nope: x}}, {topic: a}]"), Ok(()));
}

#[test]
fn a_role_that_the_defaults_need_must_have_its_column() {
    let check = |columns: &[&str]| {
        let error = router("").check_columns(&TableConfig::default(), &names(columns));
        error.unwrap_err().to_string()
    };
    let error = check(&["id", "payload", "aggregate_id"]);
    insta::assert_snapshot!(error, @"pgoutbox.yaml: table `public.outbox` has no column `aggregate_type`");
    let error = check(&["id", "body", "aggregate_id"]);
    insta::assert_snapshot!(error, @"pgoutbox.yaml: table `public.outbox` has no column `payload`");
}

#[test]
fn a_publication_must_have_what_events_are_made_from() {
    let router = router("routes: [{topic: a, headers: {tenant: '${tenant}'}}]");
    let columns =
        names(&["created_at", "id", "aggregatetype", "aggregateid", "type", "payload", "tenant"]);
    let needed = router.columns_needed(&TableConfig::default(), &columns);
    assert_eq!(needed, ["id", "aggregatetype", "aggregateid", "type", "payload", "tenant"]);
}

/// Values of every kind, text of any bytes.
fn any_value() -> impl Strategy<Value = Option<Vec<u8>>> {
    let hex = "\\\\x[0-9a-f]{0,9}".prop_map(|text| Some(text.into_bytes()));
    let name = "[a-z._-]{0,5}".prop_map(|text| Some(text.into_bytes()));
    let bytes = proptest::collection::vec(any::<u8>(), 0..9).prop_map(Some);
    prop_oneof![Just(None), hex, name, bytes]
}

proptest! {
    #[test]
    fn any_row_is_routed_without_panic_and_always_the_same(
        values in proptest::collection::vec((any_value(), any::<bool>()), 0..9),
        xid: u32,
        micros: i64,
        bytea in any::<[bool; 6]>(),
    ) {
        let names = ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "tenant"];
        let oid = |(name, bytea)| (name, if bytea { BYTEA } else { TEXT });
        let columns: Vec<_> = names.into_iter().zip(bytea).map(oid).collect();
        // More and fewer values than columns, too.
        let values = values.iter().map(|(value, omit)| match value {
            Some(_) if *omit => Value::Omitted(7),
            Some(text) => Value::Text(text),
            None if *omit => Value::Unchanged,
            None => Value::Null,
        });
        let row = OutboxEvent { shape: shape(&columns), tuple: Tuple::from_values(values) };
        let transaction =
            Transaction { xid, commit_lsn: Lsn::new(u64::from(xid)), commit_time_micros: micros };
        let routes = "
routes:
  - match: {aggregate_type: {regex: '[a-m]+'}}
    topic: ${tenant}.${@xid}
    key: ${tenant}${payload}
    headers: {at: '${@commit_time}', what: '${missing}'}
  - {}
";
        let mut router = router(routes);
        let first = format!("{:?}", router.route(row.clone(), &transaction));
        prop_assert_eq!(first, format!("{:?}", router.route(row, &transaction)));
    }
}

/// A configuration of one RabbitMQ sink with this route.
fn to_exchange(route: &str) -> Result<Router, crate::config::ConfigError> {
    let text = format!(
        "source: {{postgres: {{url: x, slot: x}}}}\nsinks: {{tasks: {{rabbitmq: {{url: amqp://h}}}}}}\n\
         routes: [{{{route}}}]"
    );
    Router::new(&Config::parse(&text, Some("pgoutbox.yaml".into()), &|_| None).unwrap())
}

fn exchange(routed: &RoutedEvent) -> (&Arc<str>, &Arc<str>) {
    match &routed.destination {
        Destination::Exchange { exchange, routing_key } => (exchange, routing_key),
        Destination::Topic(_) => panic!("a topic"),
    }
}

#[test]
fn an_exchange_and_its_routing_key_come_from_the_row() {
    let mut router =
        to_exchange(r#"exchange: "${tenant}.events", routing_key: "${event_type}.${@xid}""#)
            .unwrap();
    let routed = deliver(&mut router, order(|_| {}));
    let (exchange, routing_key) = exchange(&routed);
    assert_eq!((&**exchange, &**routing_key), ("t1.events", "created.741"));
    assert_eq!(routed.destination.name(), "exchange t1.events, routing key created.741");
    assert_eq!(routed.key, None, "what Kafka calls a key is none of AMQP's");
    assert_eq!(headers(&routed), [("id", Some("e1")), ("eventType", Some("created"))]);
}

#[test]
fn a_rabbitmq_route_without_a_word_is_debezium_servers() {
    let mut router = to_exchange("sink: tasks").unwrap();
    let routed = deliver(&mut router, order(|_| {}));
    let (exchange, routing_key) = exchange(&routed);
    assert_eq!((&**exchange, &**routing_key), ("outbox.event.order", ""));
}

#[test]
fn a_known_exchange_and_routing_key_are_not_allocated_again() {
    let mut router =
        to_exchange(r#"exchange: "${aggregate_type}", routing_key: "${event_type}""#).unwrap();
    let first = deliver(&mut router, order(|_| {}));
    let second = deliver(&mut router, order(|_| {}));
    let ((exchange_one, key_one), (exchange_two, key_two)) = (exchange(&first), exchange(&second));
    assert!(Arc::ptr_eq(exchange_one, exchange_two) && Arc::ptr_eq(key_one, key_two));
}

#[test]
fn a_name_that_amqp_cannot_carry_is_poison() {
    let mut router = to_exchange(r#"exchange: x, routing_key: "${tenant}.${event_type}""#).unwrap();
    let long = "a".repeat(300);
    let long = poison(&mut router, order(|values| values[5] = Some(&long)));
    assert_eq!(long.word, "too_long");
    insta::assert_snapshot!(long.reason, @"table `public.outbox`: its routing key has 308 bytes, more than the 255 that AMQP can carry");
    let null = poison(&mut router, order(|values| values[5] = None));
    insta::assert_snapshot!(null.reason, @"table `public.outbox`: `tenant` is NULL, and the routing key needs it");
    let just = "a".repeat(247);
    deliver(&mut router, order(|values| values[5] = Some(&just)));
    // A topic's rules are not an exchange's.
    let odd = deliver(&mut router, order(|values| values[5] = Some("a/b c:d")));
    assert_eq!(&**exchange(&odd).1, "a/b c:d.created");
}

#[test]
fn bytes_that_are_no_text_make_no_routing_key() {
    let mut router = to_exchange("exchange: x, routing_key: \"${tenant}\"").unwrap();
    let shape = shape(&[("id", TEXT), ("payload", TEXT), ("tenant", BYTEA)]);
    let row = event(&shape, [Some("e1"), Some("{}"), Some("\\xff")]);
    let poison = poison(&mut router, row);
    insta::assert_snapshot!(poison.reason, @"table `public.outbox`: its routing key is not UTF-8");
}

#[test]
fn an_exchange_that_is_too_long_is_a_configuration_error() {
    let error = to_exchange(&format!("exchange: {}", "x".repeat(256))).unwrap_err();
    insta::assert_snapshot!(error, @"pgoutbox.yaml:3:21: this exchange has 256 bytes; AMQP can carry 255");
}

#[test]
fn a_column_that_only_a_routing_key_names_is_needed() {
    let router = to_exchange("exchange: x, routing_key: \"${tenant}\"").unwrap();
    let columns = ["id", "payload", "tenant", "other"].map(str::to_owned);
    let table = TableConfig::default();
    assert_eq!(router.columns_needed(&table, &columns), ["id", "payload", "tenant"]);
    let error = router.check_columns(&table, &columns[..2]).unwrap_err();
    insta::assert_snapshot!(error, @"pgoutbox.yaml:3:37: table `public.outbox` has no column `tenant`");
}

#[test]
fn a_destination_is_decided_by_few_columns() {
    let router = to_exchange(
        r#"match: {event_type: paid}, exchange: "${aggregate_type}", routing_key: "${region}.${gone}",
           headers: {x: "${tenant}"}"#,
    );
    let columns =
        ["id", "aggregate_type", "type", "payload", "tenant", "region"].map(str::to_owned);
    let deciding = router.unwrap().deciding_columns(&TableConfig::default(), &columns);
    assert_eq!(deciding, ["type", "aggregate_type", "region"]);
}

#[test]
fn the_payloads_column_tells_what_it_is() {
    let mut router = to_exchange("exchange: x").unwrap();
    let content = |router: &mut Router, oid, text| {
        let shape = shape(&[("id", TEXT), ("payload", oid)]);
        deliver(router, event(&shape, [Some("e1"), Some(text)])).content()
    };
    for json in [114, 3802] {
        assert_eq!(content(&mut router, json, "{}"), Content::Json);
    }
    assert_eq!(content(&mut router, BYTEA, "\\x00"), Content::Binary);
    assert_eq!(content(&mut router, TEXT, "{}"), Content::Text);
}

#[test]
fn the_event_type_is_the_rows_whatever_its_header_says() {
    let mut router = to_exchange("exchange: x, headers: {eventType: other}").unwrap();
    let routed = deliver(&mut router, order(|_| {}));
    assert_eq!(routed.event_type(), Some(&b"created"[..]));
    assert_eq!(headers(&routed)[1], ("eventType", Some("other")));
    let routed = deliver(&mut router, order(|values| values[3] = None));
    assert_eq!(routed.event_type(), None);
}
