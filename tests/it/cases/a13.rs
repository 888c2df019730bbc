//! A13, changes other than inserts: none of them is an event, none of them stops the stream.

use crate::support::{
    Database, Reader, Relay, SHORT, Server, Settings, Topics, first_texts, kafka_brokers,
};

on_both_servers!(a13_update_delete_truncate_are_no_events);

/// A publication of everything: an event that is deleted in its own transaction is one all the same,
/// and CONF passes every transaction.
async fn a13_update_delete_truncate_are_no_events(server: Server) {
    let database = Database::create(server, "a13").await;
    database.create_outbox().await;
    let everything = "SET (publish = 'insert, update, delete, truncate')";
    database.sql().run(&format!("ALTER PUBLICATION {} {everything}", database.name())).await;
    let topics = Topics::new(&kafka_brokers(), "a13");
    topics.create("order", 1, 1, &[]).await;
    let settings =
        Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", "2s");
    Relay::init(&settings, &database.admin_url());
    let mut relay = Relay::streaming(&settings).await;

    let sql = database.sql();
    sql.run("BEGIN").await;
    database.insert("order", "a", 1).await;
    sql.run("DELETE FROM outbox; COMMIT").await;
    database.insert("order", "a", 2).await;
    // Each in a transaction of its own.
    for change in [
        "UPDATE outbox SET type = 'X'",
        "UPDATE outbox SET type = 'Y'",
        "DELETE FROM outbox",
        "TRUNCATE outbox",
    ] {
        sql.run(change).await;
        database.wait_confirmed(database.wal_end().await, SHORT).await;
    }
    database.insert("order", "a", 3).await;

    let mut reader = Reader::new(&topics);
    reader.read_count(3, SHORT);
    database.wait_confirmed(database.wal_end().await, SHORT).await;
    let records = reader.read_to_end();
    assert_eq!(records.len(), 3);
    assert_eq!(first_texts(records), ["{\"n\": 1}", "{\"n\": 2}", "{\"n\": 3}"]);
    assert!(records.iter().all(|record| record.header("eventType") == Some("happened")));

    relay.wait_for_log(&["WARN", "updated"], SHORT).await;
    assert_eq!(relay.log().matches("updates are ignored").count(), 1, "{}", relay.log());
    for (operation, count) in [("update", 2.0), ("delete", 2.0), ("truncate", 1.0)] {
        let label = format!("operation=\"{operation}\"");
        let ignored = relay.metric("pgoutbox_changes_ignored_total", &[&label]).await;
        assert_eq!(ignored, Some(count), "{operation}");
    }
}
