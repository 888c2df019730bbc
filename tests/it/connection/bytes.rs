//! What a server's own settings must not change: the bytes of an event, and that they flow.

use serde_json::json;

use crate::support::{
    Database, Reader, Relay, SHORT, Server, Settings, Topics, kafka_brokers, wait_until,
};

on_both_servers!(
    settings_of_role_and_database_do_not_change_an_event,
    a_byte_that_is_not_utf_8_arrives_from_a_sql_ascii_database,
);

/// Values whose text depends on settings, each as a header.
const TABLE: &str = "
    CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
      aggregate_type text, aggregate_id text, type text, payload bytea,
      name text, day date, at timestamptz, span interval, ratio float8, flag bytea);
    CREATE PUBLICATION it FOR TABLE outbox WITH (publish = 'insert')";

/// Each differs from what the relay needs.
const SETTINGS: [(&str, &str); 12] = [
    ("datestyle", "'SQL, DMY'"),
    ("intervalstyle", "sql_standard"),
    ("timezone", "'Asia/Tokyo'"),
    ("bytea_output", "escape"),
    ("extra_float_digits", "-15"),
    ("client_encoding", "latin1"),
    ("client_min_messages", "error"),
    ("search_path", "nowhere"),
    ("default_transaction_read_only", "on"),
    ("statement_timeout", "'1s'"),
    ("idle_session_timeout", "'1s'"),
    ("idle_in_transaction_session_timeout", "'1s'"),
];

async fn settings_of_role_and_database_do_not_change_an_event(server: Server) {
    let database = Database::create(server, "pinned").await;
    database.sql().run(TABLE).await;
    let name = database.name();
    for (setting, value) in SETTINGS {
        for owner in ["ROLE", "DATABASE"] {
            let alter = format!("ALTER {owner} {name} SET {setting} = {value}");
            database.sql().run(&alter).await;
        }
    }
    let topics = Topics::new(&kafka_brokers(), "pinned");
    let header = |column: &str| (column.to_owned(), json!(format!("${{{column}}}")));
    let headers = ["name", "day", "at", "span", "ratio", "flag"].map(header);
    let settings = Settings::new(&database, &topics)
        .with("source.postgres.publication", "it")
        .with("routes.0.headers", serde_json::Map::from_iter(headers));
    Relay::init(&settings, &database.admin_url());
    let relay = Relay::streaming(&settings).await;
    let walsender = database.walsender().await.unwrap().pid;
    let insert = r"
        INSERT INTO outbox (aggregate_type, aggregate_id, type, payload,
                            name, day, at, span, ratio, flag)
        VALUES ('order', 'a', 'happened', '\x00ff5c27', U&'Gr\00f6\00dfe', '2026-02-03',
                '2026-02-03T04:05:06.789Z', '1 day 2 hours', 0.1::float8 + 0.2, '\x0080')";
    database.sql().run(&format!("SET default_transaction_read_only = off; {insert}")).await;

    let mut reader = Reader::new(&topics);
    let record = &reader.read_count(1, SHORT)[0];
    assert_eq!(record.value.as_deref(), Some(b"\x00\xff\x5c\x27".as_slice()));
    let header = |name| record.headers.iter().find(|(header, _)| header == name).unwrap().clone().1;
    for (name, value) in [
        ("name", "Größe".as_bytes()),
        ("day", b"2026-02-03"),
        ("at", b"2026-02-03 04:05:06.789+00"),
        ("span", b"1 day 02:00:00"),
        ("ratio", b"0.30000000000000004"),
        ("flag", b"\x00\x80"),
    ] {
        let found = header(name);
        assert_eq!(found.as_deref(), Some(value), "{name}");
    }

    // None of the timeouts ends a connection of the relay.
    let guard = guard(&database).await;
    let idle = format!(
        "SELECT 1 FROM pg_stat_activity WHERE pid = {guard}
                        AND clock_timestamp() > backend_start + interval '3s'"
    );
    wait_until("an old connection", SHORT, async || database.sql().value(&idle).await).await;
    assert_eq!(database.walsender().await.unwrap().pid, walsender);
    assert_eq!(relay.metric("pgoutbox_reconnects_total", &[]).await.unwrap_or(0.0), 0.0);
}

async fn guard(database: &Database) -> String {
    let query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                 AND application_name = 'pgoutbox:orders guard'";
    wait_until("the guard", SHORT, async || database.sql().value(query).await).await
}

async fn a_byte_that_is_not_utf_8_arrives_from_a_sql_ascii_database(server: Server) {
    let options = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'";
    let database = Database::create_with(server, "ascii", options).await;
    let table = "
        CREATE TABLE outbox (id int PRIMARY KEY, aggregate_type text, aggregate_id text,
          type text, payload text);
        CREATE PUBLICATION it FOR TABLE outbox WITH (publish = 'insert')";
    database.sql().run(table).await;
    let topics = Topics::new(&kafka_brokers(), "ascii");
    let settings = Settings::new(&database, &topics).with("source.postgres.publication", "it");
    Relay::init(&settings, &database.admin_url());
    let _relay = Relay::streaming(&settings).await;
    let insert = r"INSERT INTO outbox VALUES (1, 'order', E'k\xe9', 'happened', E'a\xff\xc3(b')";
    database.sql().run(insert).await;

    let mut reader = Reader::new(&topics);
    let record = &reader.read_count(1, SHORT)[0];
    assert_eq!(record.value.as_deref(), Some(b"a\xff\xc3(b".as_slice()));
    assert_eq!(record.key.as_deref(), Some(b"k\xe9".as_slice()));
}

/// PostgreSQL 17 ends a transaction that takes too long, and decoding a large one is a transaction
/// of the walsender: a slow broker must not cost the stream.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_timeout_does_not_end_the_stream() {
    let database = Database::create(Server::Newest, "timeout").await;
    database.create_outbox().await;
    let alter = format!("ALTER ROLE {} SET transaction_timeout = '1s'", database.name());
    database.sql().run(&alter).await;
    let topics = Topics::new(&kafka_brokers(), "timeout");
    topics.create("order", 1, 1, &[]).await;
    let settings = Settings::new(&database, &topics);
    Relay::init(&settings, &database.admin_url());
    let relay = Relay::streaming(&settings).await;
    let walsender = database.walsender().await.unwrap().pid;

    relay.signal("STOP");
    let insert = "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
                  SELECT 'order', 'a', 'happened', jsonb_build_object('x', repeat('x', 10000))
                  FROM generate_series(1, 2000)";
    database.sql().run(insert).await;
    let begin = database.sql().value("SELECT clock_timestamp()").await.unwrap();
    // Where the server has given up, it is writing that.
    let stuck = format!(
        "SELECT 1 FROM pg_stat_activity WHERE pid = {walsender}
         AND wait_event IN ('WalSenderWriteData', 'ClientWrite')
         AND clock_timestamp() > '{begin}'::timestamptz + interval '2s'"
    );
    wait_until("a long transaction", SHORT, async || database.sql().value(&stuck).await).await;
    relay.signal("CONT");
    Reader::new(&topics).read_count(2000, SHORT);
    assert_eq!(database.walsender().await.unwrap().pid, walsender);
}
