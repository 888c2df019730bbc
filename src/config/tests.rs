//! Whole files: what is read from right ones, and the one error that each wrong one gets.

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    let env = |name: &str| match name {
        "PASSWORD" => Some("s3cret".to_owned()),
        "BROKERS" => Some("a:9092, b:9093".to_owned()),
        _ => None,
    };
    let file = Some(PathBuf::from("pgoutbox.yaml"));
    Config::parse(text, file, &env).map_err(|error| error.to_string())
}

/// A source with `lines` below `postgres:` (indented by four), then `rest`.
fn with(lines: &str, rest: &str) -> String {
    format!("source:\n  postgres:\n    url: postgres://localhost/shop\n{lines}{rest}")
}

const SLOT: &str = "    slot: orders\n";
const KAFKA: &str = "sinks:\n  events: {kafka: {brokers: localhost:9092}}\n";

#[test]
fn an_url_alone_is_a_whole_configuration() {
    let config = parse("source: {postgres: {url: postgres://localhost/shop}}").unwrap();
    assert_eq!(config.name, "pgoutbox");
    assert_eq!(config.source.url.expose(), "postgres://localhost/shop");
    assert_eq!(config.source.slot, None);
    assert_eq!(config.source.publication, "pgoutbox");
    assert_eq!(config.source.tables, [TableConfig::default()]);
    assert_eq!(config.source.window_bytes, 16 << 20);
    assert_eq!(config.source.window_events, 15_000);
    assert_eq!(config.source.max_event_size, 16 << 20);
    assert_eq!(config.monitor.interval, Duration::from_secs(5));
    assert!(matches!(&*config.sinks, [(name, SinkConfig::Stdout)] if name == "stdout"));
    let [route] = &*config.routes else { panic!("one route") };
    assert!(route.matches.is_empty() && route.headers.is_empty());
    let TargetConfig::Topic { topic, key: None } = &route.target else { panic!("a topic") };
    assert_eq!(topic.parts.len(), 2);
    assert_eq!(config.on_unmatched, OnUnmatched::Halt);
    assert_eq!(config.on_halt, OnHalt::Stay);
    assert_eq!(config.grace_period, Duration::from_secs(25));
    assert_eq!(config.http_listen, Some("127.0.0.1:7432".parse().unwrap()));
}

const WHOLE: &str = r#"
name: orders
source:
  postgres:
    url: postgres://relay@db:5432/shop?sslmode=verify-full
    password: ${env:PASSWORD}
    slot: pgoutbox
    publication: Outbox
    tables:
      - table: public.outbox
        columns: {id: event_id, aggregate_type: {value: order}}
        order_by: [tenant, aggregate_id]
      - '"Sales Ops"."OutBox"'
    window: {bytes: 8MiB, events: 100}
    max_event_size: 1MB
    wal_sender_timeout: 30s
sinks:
  events:
    kafka:
      brokers: ${env:BROKERS}
      properties: {compression.type: lz4, linger.ms: 5}
  console: {stdout: {}}
  nowhere: {"null": {}}
routes:
  - match: {aggregate_type: payment, event_type: [taken, returned], tenant: {regex: "[a-c]"}}
    sink: console
  - sink: events
    topic: ${env:UNSET:-shop}.${event_type}
    key: ${tenant}/${aggregate_id}
    headers:
      source: shop$$
      position: ${@lsn}
on_unmatched: drop
on_halt: exit
grace_period: 5s
http: off
monitor: {interval: 1s}
"#;

#[test]
fn every_key_is_read() {
    let config = parse(WHOLE).unwrap();
    assert_eq!(config.name, "orders");
    let source = &config.source;
    assert_eq!(source.password.as_ref().unwrap().expose(), "s3cret");
    assert_eq!(source.slot.as_deref(), Some("pgoutbox"));
    assert_eq!(source.publication, "Outbox");
    assert_eq!((source.window_bytes, source.window_events), (8 << 20, 100));
    assert_eq!(source.max_event_size, 1_000_000);
    assert_eq!(source.wal_sender_timeout, Some(Duration::from_secs(30)));
    assert_eq!(config.monitor.interval, Duration::from_secs(1));
    assert_eq!(config.on_unmatched, OnUnmatched::Drop);
    assert_eq!(config.on_halt, OnHalt::Exit);
    assert_eq!(config.grace_period, Duration::from_secs(5));
    assert_eq!(config.http_listen, None);
    assert_eq!(config.file, Some(PathBuf::from("pgoutbox.yaml")));
}

#[test]
fn tables_keep_their_exact_names_and_columns() {
    let config = parse(WHOLE).unwrap();
    let [outbox, sales] = &*config.source.tables else { panic!("two tables") };
    assert_eq!(outbox.columns["id"], ColumnConfig::Name("event_id".to_owned()));
    assert_eq!(outbox.columns["aggregate_type"], ColumnConfig::Value("order".to_owned()));
    assert_eq!(outbox.order_by, ["tenant", "aggregate_id"]);
    assert_eq!((sales.schema.as_str(), sales.table.as_str()), ("Sales Ops", "OutBox"));
}

#[test]
fn sinks_keep_the_files_order() {
    let config = parse(WHOLE).unwrap();
    let names: Vec<&str> = config.sinks.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["events", "console", "nowhere"]);
    let SinkConfig::Kafka(kafka) = &config.sinks[0].1 else { panic!("kafka") };
    assert_eq!(kafka.brokers, ["a:9092", "b:9093"]);
    assert_eq!(kafka.properties["linger.ms"].expose(), "5");
    assert_eq!(format!("{:?}", kafka.properties["linger.ms"]), "Secret(…)");
}

#[test]
fn routes_refer_to_sinks_and_keep_their_templates() {
    let config = parse(WHOLE).unwrap();
    let [first, second] = &*config.routes else { panic!("two routes") };
    assert_eq!((first.sink, second.sink), (1, 0));
    let [exact, list, pattern] = &*first.matches else { panic!("three conditions") };
    assert!(matches!(&exact.accepts, MatchConfig::Value(value) if value == "payment"));
    assert!(matches!(&list.accepts, MatchConfig::List(values) if values.len() == 2));
    let MatchConfig::Regex(regex) = &pattern.accepts else { panic!("regex") };
    assert!(regex.is_match("b") && !regex.is_match("bb"), "whole match");

    let literal = |text: &str| TemplatePart::Literal(text.to_owned());
    let placeholder = |text: &str| TemplatePart::Placeholder(text.to_owned());
    let TargetConfig::Topic { topic, .. } = &second.target else { panic!("a topic") };
    assert_eq!(topic.parts, [literal("shop."), placeholder("event_type")]);
    assert_eq!(topic.location, Location { line: 28, column: 12 });
    let (name, source) = &second.headers[0];
    assert_eq!((name.as_str(), &*source.parts), ("source", &[literal("shop$")][..]));
    assert_eq!(second.headers[1].1.parts, [placeholder("@lsn")]);
}

#[test]
fn a_scalar_stays_the_text_that_was_written() {
    let config = parse(&with("    password: 0012\n", "")).unwrap();
    assert_eq!(config.source.password.unwrap().expose(), "0012");
    let config = parse(&with("    password: 1.10\n", "")).unwrap();
    assert_eq!(config.source.password.unwrap().expose(), "1.10");
}

#[test]
fn anchors_and_comments_are_yaml_as_usual() {
    let comments = "# a\n".repeat(200);
    let text = with(
        SLOT,
        "sinks:\n  a: &k {kafka: {brokers: h:1}}\n  b: *k\nroutes:\n  - match: {x: y}\n    sink: a\n  - sink: b\n",
    );
    let config = parse(&format!("{comments}{text}")).unwrap();
    assert!(matches!(&config.sinks[1].1, SinkConfig::Kafka(kafka) if kafka.brokers == ["h:1"]));
}

#[test]
fn aliases_of_aliases_end_before_memory_does() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, of) in ["b", "c", "d", "e", "f", "g", "h"].into_iter().zip("abcdefg".chars()) {
        let aliases = vec![format!("*{of}"); 10].join(", ");
        text.push_str(&format!("{name}: &{name} [{aliases}]\n"));
    }
    let error = parse(&text).unwrap_err();
    assert!(error.ends_with("the file has more than 100000 values"), "{error}");
}

#[test]
fn http_can_be_off_in_two_ways() {
    let listen = |http: &str| parse(&with("", http)).unwrap().http_listen;
    assert_eq!(listen("http: off"), None);
    assert_eq!(listen("http: {listen: off}"), None);
    assert_eq!(listen("http: {listen: '[::]:80'}"), Some("[::]:80".parse().unwrap()));
}

#[test]
fn a_wrong_file_gets_one_error_with_its_place() {
    let kafka = |properties: &str| {
        let sinks = "sinks:\n  events:\n    kafka:\n      brokers: h:1\n      properties:\n";
        with(SLOT, &format!("{sinks}        {properties}\n"))
    };
    let routes = |routes: &str| with(SLOT, &format!("{KAFKA}routes:\n{routes}\n"));
    let cases: Vec<(String, &str)> = vec![
        // Shape of the file.
        (String::new(), "1:1: `source` is missing"),
        ("- a\n".into(), "1:1: `the file` must be a map, not a list"),
        ("source: [\n".into(), "1:9: not valid YAML: unclosed bracket '['"),
        (
            "source: {}\n---\nsource: {}\n".into(),
            "3:1: the file holds a second document; one relay has one",
        ),
        ("name: !secret x\n".into(), "1:7: the tag `!secret` means nothing here"),
        ("source: {postgres: {password: x}}".into(), "1:20: `source.postgres.url` is missing"),
        (
            with("", "sinks: {a: {kafka: {brokers: [${env:BROKERS}]}}}"),
            "4:32: not valid YAML: while parsing a flow sequence, expected ',' or ']' (inside `[…]` and `{…}`, put `\"…\"` around `${…}`)",
        ),
        // Keys.
        (with("    slotname: x\n", ""), "4:5: unknown key `slotname`, did you mean `slot`?"),
        (with("", "sink: x\n"), "4:1: unknown key `sink`, did you mean `sinks`?"),
        (with("", "colour: x\n"), "4:1: unknown key `colour`"),
        (with("    slot: a\n    slot: b\n", ""), "5:5: `slot` is here twice, first in line 4"),
        (
            with(SLOT, "sinks:\n  a: {stdout: {}}\n  a: {stdout: {}}\n"),
            "7:3: `a` is here twice, first in line 6",
        ),
        (
            with(
                "    tables:\n      - table: public.outbox\n        columns: {agregate_type: x}\n",
                "",
            ),
            "6:19: unknown key `agregate_type`, did you mean `aggregate_type`?",
        ),
        // Releases to come.
        (with("", "delivery: {}\n"), "4:1: `delivery` is not supported yet"),
        (routes("  - sink: [events, tasks]"), "8:11: `sink: [a, b]` is not supported yet"),
        (routes("  - on_null_payload: halt"), "8:5: `on_null_payload` is not supported yet"),
        (
            with(SLOT, "sinks: {e: {kafka: {brokers: h:1, delivery: exactly_once}}}\n"),
            "5:35: `delivery` is not supported yet",
        ),
        // Types and ranges.
        (
            "source: {postgres: {url: [a]}}".into(),
            "1:26: `source.postgres.url` must be a single value, not a list",
        ),
        ("source: postgres://localhost".into(), "1:9: `source` must be a map, not a single value"),
        (with("    url2:\n", ""), "4:5: unknown key `url2`, did you mean `url`?"),
        (with("    slot:\n", ""), "4:9: `source.postgres.slot` must be a single value, not empty"),
        (
            with("    tables: public.outbox\n", ""),
            "4:13: `source.postgres.tables` must be a list, not a single value",
        ),
        (with("    tables: []\n", ""), "4:13: `source.postgres.tables` must list a table"),
        (
            with("    window: {bytes: 512KiB}\n", ""),
            "4:21: `source.postgres.window.bytes` must be from 1MiB to 1024GiB",
        ),
        (
            with("    window: {bytes: 8M}\n", ""),
            "4:21: `source.postgres.window.bytes` must be a size, as in `8MiB` or `16MB`",
        ),
        (
            with("    window: {events: 0}\n", ""),
            "4:22: `source.postgres.window.events` must be a whole number above 0",
        ),
        (
            with("    wal_sender_timeout: 30\n", ""),
            "4:25: `source.postgres.wal_sender_timeout` must be a duration, as in `30s`, `250ms` or `5m`",
        ),
        (
            with("    wal_sender_timeout: 10ms\n", ""),
            "4:25: `source.postgres.wal_sender_timeout` must be at least 1s",
        ),
        (
            with("    slot: Orders\n", ""),
            "4:11: `source.postgres.slot` must be 1 to 63 lower-case letters, digits and `_`",
        ),
        (with("", "name: a b\n"), "4:7: `name` must be 1 to 54 letters, digits, `_`, `-` and `.`"),
        (
            with("", "on_unmatched: dropp\n"),
            "4:15: unknown value of `on_unmatched` `dropp`, did you mean `drop`?",
        ),
        (with("", "on_halt: 7\n"), "4:10: `on_halt` must be `stay` or `exit`"),
        (
            with("", "http: {listen: localhost}\n"),
            "4:16: `http.listen` must be `off` or an address with its port, as in `127.0.0.1:7432`",
        ),
        // Tables.
        (
            with("    tables: [outbox]\n", ""),
            "4:14: `source.postgres.tables[0]` needs its schema, as in `public.outbox`",
        ),
        (
            with("    tables: [public.OutBox]\n", ""),
            "4:14: `source.postgres.tables[0]` must have double quotes around `OutBox`, as SQL would need: `\"OutBox\"`",
        ),
        (
            with("    tables: [public.a, '\"public\".\"a\"']\n", ""),
            "4:24: `source.postgres.tables[1]` is a table that is already listed",
        ),
        (
            with("    tables: [{table: a.b, columns: {id: {value: x}}}]\n", ""),
            "4:41: `source.postgres.tables[0].columns.id` must be a column: each event has its own",
        ),
        // Expansion.
        (with("    password: ${env:NOPE}\n", ""), "4:15: environment variable `NOPE` is not set"),
        (
            with("    password: ${env:}\n", ""),
            "4:15: `${env:…}` needs the name of an environment variable",
        ),
        (
            with("    password: 'x${file:/nonexistent/secret}'\n", ""),
            "4:17: file `/nonexistent/secret` cannot be read: No such file or directory (os error 2)",
        ),
        (
            with("    publication: a${b}\n", ""),
            "4:19: here `${…}` can only be `${env:NAME}`, `${env:NAME:-default}` or `${file:PATH}`; a text with `${` in it can come from one of those",
        ),
        (with("    publication: a${b\n", ""), "4:19: `${` without its `}`"),
        (routes("  - topic: a.${}"), "8:14: `${}` names no column"),
        (routes("  - topic: a.${b"), "8:14: `${` without its `}`"),
        // What must agree.
        (
            with("", KAFKA),
            "5:3: sink `events` needs `source.postgres.slot`: without a slot that stays, events written while the relay is away would be lost",
        ),
        (routes("  - sink: event"), "8:11: unknown sink `event`, did you mean `events`?"),
        (
            with(SLOT, "sinks: {a: {stdout: }, b: {stdout: }}\nroutes:\n  - topic: x\n"),
            "7:5: `routes[0].sink` is missing",
        ),
        (with(SLOT, "sinks: {a: {stdout: }, b: {stdout: }}\n"), "1:1: `routes` is missing"),
        (
            routes("  - topic: a\n  - topic: b"),
            "9:5: `routes[1]` is never reached: the route in line 8 matches every event",
        ),
        (routes("  []"), "8:3: `routes` must have a route"),
        (
            routes("  - match: {}"),
            "8:12: `routes[0].match` must name a column; without `match`, a route takes every event",
        ),
        (
            routes("  - match: {event_type: {regex: 'a)|(b'}}"),
            "8:33: `routes[0].match.event_type.regex` is no regular expression: unopened group",
        ),
        (
            routes("  - match: {event_type: {regexp: x}}"),
            "8:26: unknown key `regexp`, did you mean `regex`?",
        ),
        (
            routes("  - match: {event_type: []}"),
            "8:25: `routes[0].match.event_type` must list a value",
        ),
        // Sinks.
        (with(SLOT, "sinks: {}\n"), "5:8: `sinks` must name a sink"),
        (
            with(SLOT, "sinks: {a b: {stdout: {}}}\n"),
            "5:9: a sink's name is of letters, digits, `_`, `-` and `.`, unlike `a b`",
        ),
        (
            with(SLOT, "sinks: {a: {}}\n"),
            "5:12: `sinks.a` must be one of `kafka: …`, `rabbitmq: …` and `stdout: {}`",
        ),
        (
            with(SLOT, "sinks: {a: {kafkaa: {}}}\n"),
            "5:13: unknown key `kafkaa`, did you mean `kafka`?",
        ),
        (with(SLOT, "sinks: {a: {kafka: {}}}\n"), "5:20: `sinks.a.kafka.brokers` is missing"),
        (
            with(SLOT, "sinks: {a: {kafka: {brokers: [localhost]}}}\n"),
            "5:30: `sinks.a.kafka.brokers` must be `host:port`, not `localhost`",
        ),
        (kafka("acks: 1"), "10:9: `acks` cannot be set: the guarantees need it as it is"),
        (
            kafka("message.timeout.ms: 1"),
            "10:9: `message.timeout.ms` cannot be set: an event is never given up, so its deliveries have no timeout",
        ),
        (
            kafka("bootstrap.servers: h:1"),
            "10:9: `bootstrap.servers` cannot be set: `brokers` names them",
        ),
        (
            kafka("sasl.mechanism: GSSAPI"),
            "10:25: `sinks.events.kafka.properties.sasl.mechanism` cannot be GSSAPI: it is not built in",
        ),
        (
            kafka("security.protocol: SASL_SSL"),
            "10:9: `sinks.events.kafka.properties` needs a `sasl.mechanism` beside its `security.protocol`",
        ),
    ];
    for (text, expected) in cases {
        let error = parse(&text).expect_err(&text);
        assert_eq!(error, format!("pgoutbox.yaml:{expected}"), "\n{text}");
    }
}

#[test]
fn no_error_shows_a_secret() {
    let secrets = [
        with("    password: {hunter2: x}\n", ""),
        with("    password: [hunter2]\n", ""),
        with("    password: hunter2${x}\n", ""),
        with("    password: \"hunter2\n", ""),
        "source: {postgres: {url: 'postgres://a:hunter2@b/${c}'}}".to_owned(),
    ];
    for text in &secrets {
        let error = parse(text).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn an_unreadable_file_is_named() {
    let error = Config::load(Path::new("/nonexistent/pgoutbox.yaml")).unwrap_err();
    insta::assert_snapshot!(error, @"/nonexistent/pgoutbox.yaml: cannot be read: No such file or directory (os error 2)");
    assert_eq!(crate::failure::Failure::from(error).class(), crate::failure::Class::Configuration);
}

/// (file name, configuration) of every declared pipeline, in an environment that sets nothing.
fn connectors() -> Vec<(String, Config)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("connectors");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let yaml = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let load = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, Config::parse(&text, Some(path), &|_| None).unwrap())
    };
    yaml.map(load).collect()
}

#[test]
fn every_declared_pipeline_is_a_configuration() {
    let mut names: Vec<String> = connectors().into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["debezium-table", "orders-kafka", "payments-rabbitmq", "shop", "stdout"]);
}

#[test]
fn a_debezium_twin_reads_the_same_tables_through_the_same_slot() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("connectors/debezium");
    let mut twins = 0;
    for (name, config) in connectors() {
        let Ok(json) = std::fs::read_to_string(folder.join(format!("{name}.json"))) else {
            continue;
        };
        let twin: serde_json::Value = serde_json::from_str(&json).unwrap();
        let [table] = &*config.source.tables else { panic!("one table") };
        let table = format!("{}.{}", table.schema, table.table);
        assert_eq!(twin["name"], config.name);
        assert_eq!(twin["config"]["slot.name"], config.source.slot.unwrap());
        assert_eq!(twin["config"]["publication.name"], config.source.publication);
        assert_eq!(twin["config"]["table.include.list"], table);
        twins += 1;
    }
    assert_eq!(twins, 2);
}

const RABBITMQ: &str = r#"
source: {postgres: {url: postgres://localhost/shop, slot: orders}}
sinks:
  events: {kafka: {brokers: localhost:9092}}
  tasks:
    rabbitmq:
      url: ["amqps://relay:x@one/%2f", "amqps://two:5672/shop"]
      username: us@er
      password: ${env:PASSWORD}
      tls: {ca_file: ca.pem, cert_file: /tls/me.pem, key_file: /tls/me.key}
      sasl: external
      heartbeat: 20s
      max_unsettled_per_key: 32
      max_message_size: 16MiB
      management: {url: "https://one:15671/", username: watcher, password: hush}
routes:
  - match: {aggregate_type: payment}
    sink: tasks
    exchange: payments
    routing_key: ${event_type}.${@xid}
  - {match: {aggregate_type: refund}, sink: tasks}
  - {match: {aggregate_type: task}, sink: tasks, exchange: "", routing_key: work}
  - sink: events
"#;

#[test]
fn every_key_of_a_rabbitmq_sink_is_read() {
    let file = Some(PathBuf::from("/etc/pgoutbox.yaml"));
    let config = Config::parse(RABBITMQ, file, &|_| Some("s3cret".to_owned())).unwrap();
    let SinkConfig::RabbitMq(rabbitmq) = &config.sinks[1].1 else { panic!("rabbitmq") };
    let [one, two] = &*rabbitmq.servers else { panic!("two servers") };
    let of = |server: &AmqpUrl| (server.host.clone(), server.port, server.vhost.clone());
    assert_eq!(of(one), ("one".to_owned(), 5671, "/".to_owned()));
    assert_eq!(of(two), ("two".to_owned(), 5672, "shop".to_owned()));
    for server in [one, two] {
        assert!(server.is_tls);
        assert_eq!((&*server.username, server.password.expose()), ("us@er", "s3cret"));
    }
    assert_eq!(rabbitmq.sasl, Sasl::External);
    assert_eq!(rabbitmq.tls.ca_file.as_deref(), Some(Path::new("/etc/ca.pem")));
    let (certificate, key) = rabbitmq.tls.identity.as_ref().unwrap();
    assert_eq!((&**certificate, &**key), (Path::new("/tls/me.pem"), Path::new("/tls/me.key")));
    assert_eq!(rabbitmq.heartbeat, Duration::from_secs(20));
    assert_eq!(rabbitmq.max_unsettled_per_key, 32);
    assert_eq!(rabbitmq.max_message_size, Some(16 << 20));
    let management = rabbitmq.management.as_ref().unwrap();
    assert_eq!(management.url, "https://one:15671");
    assert_eq!((&*management.username, management.password.expose()), ("watcher", "hush"));
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn a_route_to_rabbitmq_has_an_exchange_and_a_routing_key() {
    let config = parse(RABBITMQ).unwrap();
    let literal = |text: &str| TemplatePart::Literal(text.to_owned());
    let placeholder = |text: &str| TemplatePart::Placeholder(text.to_owned());
    let parts = |index: usize| match &config.routes[index].target {
        TargetConfig::Exchange { exchange, routing_key } => {
            (exchange.parts.clone(), routing_key.parts.clone())
        }
        TargetConfig::Topic { .. } => panic!("a topic"),
    };
    let key = vec![placeholder("event_type"), literal("."), placeholder("@xid")];
    assert_eq!(parts(0), (vec![literal("payments")], key));
    let default = vec![literal("outbox.event."), placeholder("aggregate_type")];
    assert_eq!(parts(1), (default, vec![]), "as Debezium Server has it");
    assert_eq!(parts(2), (vec![], vec![literal("work")]));
    assert!(matches!(config.routes[3].target, TargetConfig::Topic { .. }));
}

#[test]
fn an_amqp_url_alone_is_a_whole_sink() {
    let config = parse(&with(SLOT, "sinks: {tasks: {rabbitmq: {url: amqp://h}}}\n")).unwrap();
    let SinkConfig::RabbitMq(rabbitmq) = &config.sinks[0].1 else { panic!("rabbitmq") };
    assert_eq!(rabbitmq.sasl, Sasl::Plain);
    assert_eq!(rabbitmq.heartbeat, Duration::from_secs(10));
    assert_eq!((rabbitmq.max_unsettled_per_key, rabbitmq.max_message_size), (1, None));
    assert!(rabbitmq.management.is_none());
    assert!(matches!(config.routes[0].target, TargetConfig::Exchange { .. }));
}

#[test]
fn a_wrong_rabbitmq_sink_or_route_is_refused_at_its_place() {
    let sink = |keys: &str| with(SLOT, &format!("sinks:\n  tasks:\n    rabbitmq: {{{keys}}}\n"));
    let url = |url: &str| sink(&format!("url: \"{url}\""));
    let tls = |keys: &str| sink(&format!("url: amqps://h, {keys}"));
    let route = |keys: &str| {
        let sinks = "sinks: {tasks: {rabbitmq: {url: amqp://h}}, events: {stdout: {}}}\n";
        with(SLOT, &format!("{sinks}routes:\n  - {{{keys}}}\n"))
    };
    for (text, expected) in [
        (
            with("", "sinks: {tasks: {rabbitmq: {url: amqp://h}}}\n"),
            "4:9: sink `tasks` needs `source.postgres.slot`: without a slot that stays, events written \
          while the relay is away would be lost",
        ),
        (sink(""), "7:15: `sinks.tasks.rabbitmq.url` is missing"),
        (
            sink("url: []"),
            "7:21: `sinks.tasks.rabbitmq.url` must name a server, as in `amqp://localhost`",
        ),
        (
            url("amqp://u:s3cret@h/a/b"),
            "7:21: `sinks.tasks.rabbitmq.url` has a `/` in its virtual \
          host, or in user or password: write it as `%2F`; the virtual host `/` itself is `/%2F`",
        ),
        (
            sink("url: [amqp://a, http://b]"),
            "7:32: `sinks.tasks.rabbitmq.url[1]` must begin with \
          `amqp://` or `amqps://`",
        ),
        (
            sink("url: amqp://h, pasword: s3cret"),
            "7:31: unknown key `pasword`, did you mean `password`?",
        ),
        (
            sink("url: amqp://h, tls: {ca_file: a}"),
            "7:36: `sinks.tasks.rabbitmq.tls` needs a `url` \
          that begins with `amqps://`",
        ),
        (
            tls("tls: {cert_file: a}"),
            "7:37: `sinks.tasks.rabbitmq.tls` needs `cert_file` and \
          `key_file`, or neither",
        ),
        (
            tls("sasl: external"),
            "7:38: `sinks.tasks.rabbitmq.sasl` is by the client certificate: it \
          needs `tls.cert_file` and `tls.key_file`",
        ),
        (
            tls("sasl: plian"),
            "7:38: unknown value of `sinks.tasks.rabbitmq.sasl` `plian`, did you \
          mean `plain`?",
        ),
        (
            tls("heartbeat: 1500ms"),
            "7:43: `sinks.tasks.rabbitmq.heartbeat` must be whole seconds, at \
          most 65535",
        ),
        (
            tls("max_unsettled_per_key: 0"),
            "7:55: `sinks.tasks.rabbitmq.max_unsettled_per_key` must be \
          a whole number above 0",
        ),
        (
            tls("max_message_size: 1GiB"),
            "7:50: `sinks.tasks.rabbitmq.max_message_size` must be from \
          1KiB to 512MiB",
        ),
        (
            tls("management: {url: \"http://u:s3cret@h\"}"),
            "7:50: \
          `sinks.tasks.rabbitmq.management.url` has an `@`: user and password are `username` and \
          `password`",
        ),
        (
            tls("management: {url: h:15672}"),
            "7:50: `sinks.tasks.rabbitmq.management.url` must be like \
          `http://localhost:15672`",
        ),
        (
            route("sink: tasks, topic: x"),
            "7:19: `topic` means nothing to the `rabbitmq` sink `tasks`: \
          it takes `exchange` and `routing_key`",
        ),
        (
            route("sink: tasks, exchange: x, key: x"),
            "7:32: `key` means nothing to the `rabbitmq` sink \
          `tasks`: it takes `exchange` and `routing_key`",
        ),
        (
            route("sink: events, exchange: x"),
            "7:20: `exchange` belongs to a `rabbitmq` sink, and \
          `events` is none: it takes `topic` and `key`",
        ),
        (
            route("sink: events, routing_key: x"),
            "7:20: `routing_key` belongs to a `rabbitmq` sink, and \
          `events` is none: it takes `topic` and `key`",
        ),
        (
            route("sink: tasks, exchnage: x"),
            "7:19: unknown key `exchnage`, did you mean `exchange`?",
        ),
        (
            route("sink: tasks, exchange: \"\""),
            "7:29: `routes[0].exchange` is the default exchange, \
          whose `routing_key` is the name of a queue: add it",
        ),
    ] {
        let error = parse(&text).unwrap_err();
        let place = error.strip_prefix("pgoutbox.yaml:").unwrap_or(&error);
        assert_eq!(place, expected, "{text}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}
