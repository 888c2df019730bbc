//! What a column's value becomes.

use serde_json::{Value, json};

use super::{Scene, table};
use crate::support::{Database, Reader, Relay, SHORT, Server, Settings, Topics, kafka_brokers};

on_both_servers!(
    ids_and_payloads_of_every_type_arrive_as_postgres_prints_them,
    null_is_not_empty,
    a_null_aggregate_type_halts_and_names_the_row,
    the_table_that_init_creates_works_and_so_does_one_without_xid,
);

async fn ids_and_payloads_of_every_type_arrive_as_postgres_prints_them(server: Server) {
    let types = [
        ("a", "int", "text"),
        ("b", "bigint", "json"),
        ("c", "uuid", "jsonb"),
        ("d", "text", "bytea"),
        ("e", "smallint", "varchar"),
    ];
    let tables = types.map(|(name, id, payload)| {
        format!(
            "CREATE TABLE {name} (id {id} PRIMARY KEY, aggregate_type text, aggregate_id {id},
             event_type text, payload {payload})"
        )
    });
    let scene = Scene::start(server, &tables.join(";"), |settings, _| {
        let tables: Vec<Value> = types.map(|(name, ..)| table(name)).into();
        settings.with("source.postgres.tables", tables)
    })
    .await;
    let uuid = "6f0d3c1e-1111-4222-8333-0123456789ab";
    let insert = format!(
        r#"INSERT INTO a VALUES (-7, 'a', 2147483647, 't', E' ä\t\\ ');
           INSERT INTO b VALUES (9223372036854775807, 'b', -1, 't', ' {{"n" : 1.10,"n":1E400}} ');
           INSERT INTO c VALUES ('{uuid}', 'c', upper('{uuid}')::uuid, 't', '{{"b":1.10, "a": "ä"}}');
           INSERT INTO d VALUES ('Größe 1', 'd', '', 't', '\x00ff7b');
           INSERT INTO e VALUES (1, 'e', 2, 't', 'x')"#
    );
    let records = scene.records(&insert, types.len()).await;
    let expected: [(&str, &str, &str, &[u8]); 5] = [
        ("a", "-7", "2147483647", " ä\t\\ ".as_bytes()),
        ("b", "9223372036854775807", "-1", br#" {"n" : 1.10,"n":1E400} "#),
        ("c", uuid, uuid, r#"{"a": "ä", "b": 1.10}"#.as_bytes()),
        ("d", "Größe 1", "", b"\x00\xff{"),
        ("e", "1", "2", b"x"),
    ];
    for (record, (topic, id, key, value)) in records.iter().zip(expected) {
        assert_eq!(scene.word(record), topic);
        assert_eq!(record.header("id"), Some(id));
        assert_eq!(record.header("eventType"), Some("t"));
        assert_eq!(record.key.as_deref(), Some(key.as_bytes()));
        assert_eq!(record.value.as_deref(), Some(value), "{topic}");
    }
}

async fn null_is_not_empty(server: Server) {
    let scene = Scene::start(
        server,
        "CREATE TABLE outbox (id int PRIMARY KEY, aggregate_type text, aggregate_id text,
           event_type text, payload text)",
        |settings, _| settings,
    )
    .await;
    let insert = "INSERT INTO outbox VALUES (1, 't', 'k', 'e', NULL), (2, 't', 'k', 'e', ''),
                  (3, 't', NULL, 'e', 'v'), (4, 't', '', 'e', 'v'), (5, 't', 'k', NULL, 'v')";
    let records = scene.records(insert, 5).await;
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let expected = [
        (bytes("k"), None, bytes("e")),
        (bytes("k"), bytes(""), bytes("e")),
        (None, bytes("v"), bytes("e")),
        (bytes(""), bytes("v"), bytes("e")),
        (bytes("k"), bytes("v"), None),
    ];
    for (record, (key, value, event_type)) in records.iter().zip(expected) {
        let id = record.header("id").unwrap();
        assert_eq!(record.key, key, "key of {id}");
        assert_eq!(record.value, value, "value of {id}");
        let header = record.headers.iter().find(|(name, _)| name == "eventType");
        assert_eq!(header.and_then(|(_, value)| value.clone()), event_type, "event type of {id}");
    }
}

async fn a_null_aggregate_type_halts_and_names_the_row(server: Server) {
    let mut scene = Scene::start(
        server,
        "CREATE TABLE outbox (id int PRIMARY KEY, aggregate_type text, aggregate_id text,
           event_type text, payload text)",
        |settings, _| settings,
    )
    .await;
    scene.database.create_witness().await;
    let insert = "INSERT INTO outbox VALUES (4711, NULL, 'k', 'e', 'v')";
    scene.database.sql().run(insert).await;
    scene.relay.wait_state("halted", SHORT).await;
    let (code, reason) = scene.relay.get("/readyz").await.unwrap();
    assert_eq!(code, 503);
    assert!(reason.contains("4711") && reason.contains("aggregate_type"), "{reason}");
    let end = scene.database.commit_ends().await[0];
    scene
        .database
        .over_replies(2, async |_| assert!(scene.database.confirmed().await.unwrap() < end))
        .await;
    assert!(Reader::new(&scene.topics).read_to_end().is_empty());

    // The way out that the hint names.
    assert!(reason.contains("--skip 4711"), "{reason}");
    assert!(scene.relay.terminate(SHORT).await.success());
    let arguments = ["--skip", "4711"];
    scene.relay = Relay::start_with(&scene.settings, &arguments, &[]);
    scene.relay.wait_state("streaming", SHORT).await;
    scene.database.wait_confirmed(end, SHORT).await;
    let insert = "INSERT INTO outbox VALUES (4712, 't', 'k', 'e', 'v')";
    assert_eq!(scene.records(insert, 1).await[0].header("id"), Some("4712"));
    assert_eq!(scene.relay.metric("pgoutbox_events_skipped_total", &[]).await, Some(1.0));
}

/// The cases' fixture is the one without.
async fn the_table_that_init_creates_works_and_so_does_one_without_xid(server: Server) {
    for is_created in [true, false] {
        let database = Database::create(server, "tables").await;
        let topics = Topics::new(&kafka_brokers(), "tables");
        let settings = Settings::new(&database, &topics);
        if is_created {
            let arguments = ["--url", &database.admin_url(), "--create-table"];
            let output = Relay::command(&settings, "init", &arguments);
            assert!(output.status.success(), "{output:?}");
            let columns = "SELECT count(*) FROM pg_attribute
                           WHERE attrelid = 'outbox'::regclass AND attname = 'xid'";
            assert_eq!(database.sql().value(columns).await.as_deref(), Some("1"));
        } else {
            database.create_outbox().await;
            Relay::init(&settings, &database.admin_url());
        }
        let _relay = Relay::streaming(&settings).await;
        let event_type = if is_created { "event_type" } else { "type" };
        let insert = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, {event_type}, payload)
             VALUES ('order', 'a', 'happened', {})",
            "'{\"n\": 1}'"
        );
        database.sql().run(&insert).await;
        let mut reader = Reader::new(&topics);
        let record = &reader.read_count(1, SHORT)[0];
        assert_eq!(record.text(), json!({"n": 1}).to_string().replace(':', ": "));
        assert_eq!(record.header("eventType"), Some("happened"));
        let id = database.sql().value("SELECT id FROM outbox").await;
        assert_eq!(record.header("id"), id.as_deref());
    }
}
