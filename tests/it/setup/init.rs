//! What `init` makes, and how it waits.

use super::*;

on_both_servers!(
    init_makes_all_that_check_asks_for,
    a_second_init_changes_nothing,
    the_printed_sql_does_what_init_does,
    a_role_that_owns_nothing_is_told_of_the_two_ways,
    a_slot_made_by_somebody_else_is_adopted,
    a28_init_names_the_transaction_it_waits_for_and_leaves_no_slot,
    a28_init_names_a_prepared_transaction_of_another_database,
);

/// The parts of the catalogue that `init` makes, without names that differ.
async fn made(database: &Database) -> Vec<Vec<Option<String>>> {
    let name = database.name();
    let query = format!(
        "SELECT attrelid::regclass::text, attname, format_type(atttypid, NULL), attnotnull,
                pg_get_expr(adbin, adrelid)
         FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE attrelid IN ('outbox'::regclass, 'pgoutbox.relay'::regclass) AND attnum > 0
         UNION ALL
         SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM (
           SELECT 'publication', concat(pubinsert, pubupdate, pubdelete, pubtruncate), tablename,
                  pubviaroot, NULL
           FROM pg_publication JOIN pg_publication_tables USING (pubname) WHERE pubname = '{name}'
         ) AS publication (pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot)
         UNION ALL
         SELECT 'marker', (created_lsn IS NULL)::text, (created_at IS NULL)::text, NULL, NULL
         FROM pgoutbox.relay WHERE slot = '{name}'
         UNION ALL
         SELECT 'slot', plugin, to_jsonb(slot) ->> 'failover', NULL, NULL
         FROM pg_replication_slots AS slot WHERE slot_name = '{name}'
         UNION ALL
         SELECT 'role', privilege,
                has_table_privilege('{name}', 'pgoutbox.relay', privilege)::text,
                has_table_privilege('{name}', 'outbox', privilege), NULL
         FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege"
    );
    let mut rows = database.sql().rows(&query).await;
    rows.sort();
    rows
}

async fn init_makes_all_that_check_asks_for(server: Server) {
    let database = Database::create(server, "init").await;
    let settings = settings(&database);
    let before = check(&settings).await;
    before.fix("error", &["table `public.outbox`", "does not exist"]);
    before.fix("error", &["publication `", "does not exist"]);
    assert!(before.fix("error", &["pgoutbox.relay"]).contains("`pgoutbox init`"));

    let said = init(&database, &settings, &["--create-table"]).await;
    for part in [
        "created  table public.outbox",
        "created  publication",
        "created  slot",
        "granted  GRANT SELECT",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(check(&settings).await.of("error"), [""; 0]);
    let failover = "SELECT to_jsonb(s) ->> 'failover' FROM pg_replication_slots AS s
                    WHERE slot_name = current_database()";
    let expected = (server == Server::Newest).then(|| "true".to_owned());
    assert_eq!(database.sql().value(failover).await, expected);
    let marked = "SELECT count(*) FROM pgoutbox.relay JOIN pg_replication_slots AS s
                  ON s.slot_name = slot AND s.confirmed_flush_lsn = created_lsn";
    assert_eq!(database.sql().value(marked).await.as_deref(), Some("1"));
}

async fn a_second_init_changes_nothing(server: Server) {
    let database = Database::create(server, "twice").await;
    let settings = settings(&database);
    init(&database, &settings, &["--create-table"]).await;
    let everything = "SELECT to_jsonb(r), s.confirmed_flush_lsn FROM pgoutbox.relay AS r
                      JOIN pg_replication_slots AS s ON s.slot_name = slot";
    let first = (made(&database).await, database.sql().rows(everything).await);
    let said = init(&database, &settings, &["--create-table"]).await;
    assert!(said.lines().all(|line| line.starts_with("exists")), "{said}");
    assert_eq!((made(&database).await, database.sql().rows(everything).await), first);
    // And the relay's own role finds nothing to do either.
    let ended = command(&settings, "init", &[]).await;
    assert!(ended.success, "{ended:?}");
}

async fn the_printed_sql_does_what_init_does(server: Server) {
    let by_init = Database::create(server, "byinit").await;
    init(&by_init, &settings(&by_init), &["--create-table"]).await;
    let by_hand = Database::create(server, "byhand").await;
    let printed = command(&settings(&by_hand), "init", &["--print", "--create-table"]).await;
    assert!(printed.success, "{printed:?}");
    by_hand.sql().run(&printed.stdout).await;
    assert_eq!(made(&by_hand).await, made(&by_init).await);
    assert_eq!(check(&settings(&by_hand)).await.of("error"), [""; 0]);
    by_hand.sql().run(&printed.stdout).await;
    assert_eq!(made(&by_hand).await, made(&by_init).await);
}

async fn a_role_that_owns_nothing_is_told_of_the_two_ways(server: Server) {
    let database = Database::create(server, "denied").await;
    let ended = command(&settings(&database), "init", &["--create-table"]).await;
    assert!(!ended.success);
    for part in ["42501", "pgoutbox init --url ADMIN", "pgoutbox init --print"] {
        assert!(ended.stderr.contains(part), "{ended:?}");
    }
    assert_eq!(slots(&database).await.as_deref(), Some("0"));
}

async fn a_slot_made_by_somebody_else_is_adopted(server: Server) {
    let database = Database::create(server, "adopt").await;
    database.create_outbox().await;
    let name = database.name();
    let create = format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')");
    database.sql().value(&create).await;
    let settings = settings(&database);
    let said = init(&database, &settings, &[]).await;
    assert!(said.contains(&format!("adopted  slot {name}")), "{said}");
    let marker = "SELECT created_at FROM pgoutbox.relay";
    assert_eq!(database.sql().rows(marker).await, [[None]]);
    assert_eq!(check(&settings).await.of("error"), [""; 0]);
    database.sql().run("DELETE FROM pgoutbox.relay").await;
    check(&settings).await.fix("warning", &["adopts it"]);
}

async fn a28_init_names_the_transaction_it_waits_for_and_leaves_no_slot(server: Server) {
    // A server of its own: elsewhere somebody else's transaction might be waited for first.
    let postgres = PrivatePostgres::start(server, &[]).await;
    let database = Database::create_on(&postgres.cluster(), "a28").await;
    database.create_outbox().await;
    let settings = settings(&database);
    let writer = database.connect().await;
    writer.run("BEGIN").await;
    let xid = writer.value("SELECT pg_current_xact_id()").await.unwrap();
    let pid = writer.value("SELECT pg_backend_pid()").await.unwrap();

    let url = database.admin_url();
    let ended = command(&settings, "init", &["--url", &url, "--timeout", "7s"]).await;
    assert!(!ended.success);
    let (waiting, gave_up) = ended.stderr.split_once("gave up").expect(&ended.stderr);
    for said in [waiting, gave_up] {
        for part in [&format!("xid {xid}"), &format!("pid {pid}"), database.name()] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
    assert_eq!(slots(&database).await.as_deref(), Some("0"));

    let again = tokio::spawn({
        let settings = settings.clone();
        async move { command(&settings, "init", &["--url", &url]).await }
    });
    wait_until("the slot's creation to wait", SHORT, async || {
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted
                     AND transactionid::text = ";
        let waits = database.sql().value(&format!("{waits}'{xid}'")).await;
        (waits.as_deref() != Some("0")).then_some(())
    })
    .await;
    writer.run("COMMIT").await;
    let ended = again.await.unwrap();
    assert!(ended.success, "{ended:?}");
    assert_eq!(slots(&database).await.as_deref(), Some("1"));
}

async fn a28_init_names_a_prepared_transaction_of_another_database(server: Server) {
    let postgres = PrivatePostgres::start(server, &[("max_prepared_transactions", "2")]).await;
    let cluster = postgres.cluster();
    let database = Database::create_on(&cluster, "a28").await;
    database.create_outbox().await;
    let elsewhere = cluster.connect("postgres").await;
    elsewhere.run("BEGIN; CREATE TABLE t (x int); PREPARE TRANSACTION 'orphan'").await;
    let settings = settings(&database);
    let url = database.admin_url();
    let ended = command(&settings, "init", &["--url", &url, "--timeout", "7s"]).await;
    assert!(!ended.success);
    for part in ["gid `orphan`", "database `postgres`", "ROLLBACK PREPARED 'orphan'"] {
        assert!(ended.stderr.contains(part), "{part} in {ended:?}");
    }
    assert_eq!(slots(&database).await.as_deref(), Some("0"));
    elsewhere.run("ROLLBACK PREPARED 'orphan'").await;
    init(&database, &settings, &[]).await;
}
