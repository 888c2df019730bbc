//! A11, replica identity: a publication must not break the application that owns the table.

use crate::support::{
    Database, Reader, Relay, SHORT, Server, Settings, Topics, first_texts, kafka_brokers, typed,
};

on_both_servers!(
    a11_replica_identity_is_not_needed_while_the_relay_runs,
    a11_replica_identity_that_a_foreign_publication_demands_is_warned_of,
);

const KEYLESS: &str = "
    CREATE TABLE outbox (
      id uuid NOT NULL DEFAULT gen_random_uuid(),
      aggregate_type text NOT NULL, aggregate_id text NOT NULL, type text NOT NULL,
      payload jsonb, created_at timestamptz NOT NULL DEFAULT now())";

const CLEAN_UP: &str = "
    UPDATE outbox SET created_at = now() - interval '8 days';
    DELETE FROM outbox WHERE created_at < now() - interval '7 days'";

/// With `init`'s publication the application updates and deletes as before, whatever the table's
/// identity is.
async fn a11_replica_identity_is_not_needed_while_the_relay_runs(server: Server) {
    let database = Database::create(server, "a11").await;
    database.sql().run(KEYLESS).await;
    let topics = Topics::new(&kafka_brokers(), "a11");
    topics.create("order", 1, 1, &[]).await;
    let settings =
        Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", "2s");
    Relay::init(&settings, &database.admin_url());
    let _relay = Relay::streaming(&settings).await;

    database.insert("order", "a", 1).await;
    database.sql().run(CLEAN_UP).await;
    database.sql().run("ALTER TABLE outbox REPLICA IDENTITY NOTHING").await;
    database.insert("order", "a", 2).await;
    database.sql().run(CLEAN_UP).await;
    let mut reader = Reader::new(&topics);
    reader.read_count(2, SHORT);
    database.wait_confirmed(database.wal_end().await, SHORT).await;
    assert_eq!(first_texts(reader.read_to_end()), ["{\"n\": 1}", "{\"n\": 2}"]);
}

/// A publication with PostgreSQL's defaults is not the relay's to change: it says what it does to the
/// application, and what to type.
async fn a11_replica_identity_that_a_foreign_publication_demands_is_warned_of(server: Server) {
    let database = Database::create(server, "a11").await;
    database.sql().run(KEYLESS).await;
    database.sql().run(&format!("CREATE PUBLICATION {} FOR TABLE outbox", database.name())).await;
    let settings = Settings::stdout(&database);
    Relay::init(&settings, &database.admin_url());
    let mut relay = Relay::streaming(&settings).await;
    database.insert("order", "a", 1).await;
    let refused = database.sql().try_run(CLEAN_UP).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "55000");

    let words = ["WARN", "outbox", "no primary key or replica identity"];
    let line: serde_json::Value =
        serde_json::from_str(&relay.wait_for_log(&words, SHORT).await).unwrap();
    database.sql().run(&typed(line["fix"].as_str().unwrap())[0]).await;
    database.sql().run(CLEAN_UP).await;
    relay.wait_printed(1, SHORT).await;
}
