//! A20, the table changes between two rows: each row is read by the columns that it was written with.

use crate::support::{
    Database, Reader, Record, Relay, SHORT, Server, Settings, Topics, kafka_brokers,
};

on_both_servers!(a20_ddl_midstream_is_read_by_the_relation_in_force);

/// Seven states of one table in WAL that was written while the relay was away; the last has no
/// payload column any more.
async fn a20_ddl_midstream_is_read_by_the_relation_in_force(server: Server) {
    let database = Database::create(server, "a20").await;
    database.create_outbox().await;
    let topics = Topics::new(&kafka_brokers(), "a20");
    topics.create("order", 1, 1, &[]).await;
    let settings = Settings::new(&database, &topics)
        .with("routes.0.headers", serde_json::json!({"tenant": "${tenant}"}))
        .with("source.postgres.wal_sender_timeout", "2s");
    // The table has no `tenant` yet: what `init` makes does not depend on the header.
    Relay::init(&Settings::new(&database, &topics), &database.admin_url());

    database.create_witness().await;
    let sql = database.sql();
    database.insert("order", "a", 1).await;
    sql.run("ALTER TABLE outbox ADD COLUMN tenant text DEFAULT 't0'").await;
    database.insert("order", "a", 2).await;
    sql.run("BEGIN").await;
    database.insert("order", "a", 3).await;
    sql.run("ALTER TABLE outbox ADD COLUMN extra int DEFAULT 7").await;
    database.insert("order", "a", 4).await;
    sql.run("COMMIT").await;
    sql.run("ALTER TABLE outbox DROP COLUMN type, ADD COLUMN type text").await;
    database.insert("order", "a", 5).await;
    sql.run("ALTER TABLE outbox RENAME COLUMN payload TO body").await;
    let sixth = "INSERT INTO outbox (aggregate_type, aggregate_id, type, body)
                 VALUES ('order', 'a', 'happened', '{\"n\": 6}')";
    sql.run(sixth).await;
    let [_, _, _, readable, end] = database.commit_ends().await[..] else { panic!("five commits") };

    let mut relay = Relay::start(&settings);
    relay.wait_state("halted", SHORT).await;
    let mut reader = Reader::new(&topics);
    check(reader.read_count(5, SHORT));
    let status = relay.status().await.unwrap();
    for part in ["outbox", "`payload`"] {
        assert!(status["reason"].as_str().unwrap().contains(part), "{status}");
    }
    assert!(status["hint"].as_str().unwrap().contains("`columns: {payload: …}`"), "{status}");
    let told = relay.log().matches("halted: what comes next").count();
    assert_eq!(told, 1, "{}", relay.log());
    // The connection is kept, and nothing past the fifth is confirmed over it.
    database.wait_confirmed(readable, SHORT).await;
    database.over_replies(4, async |_| assert!(database.confirmed().await.unwrap() < end)).await;
    check(reader.read_to_end());
    assert!(relay.terminate(SHORT).await.success());

    let columns = serde_json::json!({"payload": "body"});
    let settings = settings.with("source.postgres.tables.0.columns", columns);
    let _relay = Relay::streaming(&settings).await;
    let records = reader.read_count(6, SHORT);
    assert_eq!((records.len(), records[5].text()), (6, "{\"n\": 6}"));
    assert_eq!(records[5].header("tenant"), Some("t0"));
    database.wait_confirmed(end, SHORT).await;
}

fn check(records: &[Record]) {
    let seen: Vec<_> = records
        .iter()
        .map(|record| (record.text(), record.header("eventType"), record.header("tenant")))
        .collect();
    let expected = [
        ("{\"n\": 1}", Some("happened"), None),
        ("{\"n\": 2}", Some("happened"), Some("t0")),
        ("{\"n\": 3}", Some("happened"), Some("t0")),
        ("{\"n\": 4}", Some("happened"), Some("t0")),
        ("{\"n\": 5}", Some("happened"), Some("t0")),
    ];
    assert_eq!(seen, expected);
    assert!(records[0].headers.iter().all(|(name, _)| name != "tenant"));
}
