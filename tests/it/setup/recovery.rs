//! Slots that are gone, and the way back.

use super::*;

on_both_servers!(
    a08_a_slot_that_is_gone_stops_and_its_recovery_sends_the_rows_again,
    a_marker_of_another_system_stops,
    a_lost_slot_is_named_with_its_recovery,
);

async fn a08_a_slot_that_is_gone_stops_and_its_recovery_sends_the_rows_again(server: Server) {
    let database = Database::create(server, "a08").await;
    let name = database.name();
    let settings = settings(&database);
    init(&database, &settings, &["--create-table"]).await;
    let insert = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
                  SELECT 'order', n, 'placed', to_jsonb(n) FROM generate_series(1, 5) AS n";
    database.sql().run(insert).await;
    let rows = "SELECT * FROM outbox ORDER BY id";
    let before = database.sql().rows(rows).await;
    database.sql().value(&format!("SELECT pg_drop_replication_slot('{name}')")).await;

    let url = database.admin_url();
    let refused = command(&settings, "init", &["--url", &url]).await;
    assert!(!refused.success && refused.stderr.contains("is gone"), "{refused:?}");
    assert_eq!(slots(&database).await.as_deref(), Some("0"));

    let fix = check(&settings).await.fix("error", &[&format!("slot `{name}`"), "is gone"]);
    for step in typed(&fix).into_iter().filter(|step| *step != "created_at") {
        match step {
            "pgoutbox init" => drop(init(&database, &settings, &[]).await),
            sql => database.sql().run(sql).await,
        }
    }
    assert_eq!(database.sql().rows(rows).await, before);
    let sent = format!(
        "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('{name}', NULL, NULL,
           'proto_version', '1', 'publication_names', '{name}')
         WHERE get_byte(data, 0) = ascii('I')"
    );
    assert_eq!(database.sql().value(&sent).await.as_deref(), Some("5"));
}

async fn a_marker_of_another_system_stops(server: Server) {
    let database = Database::create(server, "system").await;
    let settings = settings(&database);
    init(&database, &settings, &["--create-table"]).await;
    database.sql().run("UPDATE pgoutbox.relay SET system_identifier = '42'").await;
    check(&settings).await.fix("error", &["was made in system 42"]);
    let ended = command(&settings, "init", &[]).await;
    assert!(!ended.success && ended.stderr.contains("system 42"), "{ended:?}");
}

async fn a_lost_slot_is_named_with_its_recovery(server: Server) {
    let settings_of_server = [("max_slot_wal_keep_size", "1MB"), ("max_wal_size", "32MB")];
    let postgres = PrivatePostgres::start(server, &settings_of_server).await;
    let database = Database::create_on(&postgres.cluster(), "lost").await;
    let name = database.name();
    let settings = settings(&database);
    init(&database, &settings, &["--create-table"]).await;
    let lose = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000))
                FROM generate_series(1, 40)";
    database.sql().value(lose).await;
    database.sql().run("CHECKPOINT").await;
    let fix = check(&settings).await.fix("error", &[&format!("slot `{name}`"), "is lost"]);
    assert_eq!(typed(&fix)[0], format!("SELECT pg_drop_replication_slot('{name}')"));
    for step in typed(&fix).into_iter().filter(|step| *step != "created_at") {
        match step {
            "pgoutbox init" => drop(init(&database, &settings, &[]).await),
            sql => database.sql().run(sql).await,
        }
    }
    assert_eq!(check(&settings).await.of("error"), [""; 0]);
}
