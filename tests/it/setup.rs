//! `init` and `check` on real servers: what they make, find, refuse and advise.

use std::process::Output;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::support::{
    Database, PrivatePostgres, Relay, SHORT, Server, Settings, Topics, kafka_brokers, wait_until,
};

on_both_servers!(
    init_makes_all_that_check_asks_for,
    a_second_init_changes_nothing,
    the_printed_sql_does_what_init_does,
    a_role_that_owns_nothing_is_told_of_the_two_ways,
    a11_the_publication_lets_the_application_update_and_delete,
    a11_a_publication_that_endangers_the_application_is_a_warning,
    a19_a_publication_without_the_root_option_is_refused,
    a28_init_names_the_transaction_it_waits_for_and_leaves_no_slot,
    a28_init_names_a_prepared_transaction_of_another_database,
    a34_each_cause_has_its_line_and_no_slot_is_made,
    a34_a_server_that_keeps_too_little_wal_is_refused,
    a34_used_up_slots_leave_none_behind,
    what_a_publication_leaves_out_has_a_statement_that_mends_it,
    a_slot_made_by_somebody_else_is_adopted,
    a08_a_slot_that_is_gone_stops_and_its_recovery_sends_the_rows_again,
    a_marker_of_another_system_stops,
    a_lost_slot_is_named_with_its_recovery,
    a_wrong_password_is_never_shown,
);

/// A relay without a broker, so that `check` is about the database alone.
fn settings(database: &Database) -> Settings {
    Settings::new(database, &Topics::new(&kafka_brokers(), "setup"))
        .with("sinks", json!({"out": {"stdout": {}}}))
        .with("routes", json!([{"sink": "out"}]))
}

/// One ended command.
#[derive(Debug)]
struct Ended {
    success: bool,
    stdout: String,
    stderr: String,
}

async fn command(settings: &Settings, name: &'static str, arguments: &[&str]) -> Ended {
    let settings = settings.clone();
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let run = move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Relay::command(&settings, name, &arguments)
    };
    let Output { status, stdout, stderr } = spawn_blocking(run).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { success: status.success(), stdout: text(stdout), stderr: text(stderr) }
}

/// `init` as the administrator, which must work.
async fn init(database: &Database, settings: &Settings, arguments: &[&str]) -> String {
    let url = database.admin_url();
    let mut all = vec!["--url", &url];
    all.extend(arguments);
    let ended = command(settings, "init", &all).await;
    assert!(ended.success, "{ended:?}");
    ended.stdout
}

/// The lines of `check`.
#[derive(Debug)]
struct Checked(Vec<Value>);

async fn check(settings: &Settings) -> Checked {
    let ended = command(settings, "check", &["--json"]).await;
    let findings: Vec<Value> = serde_json::from_str(&ended.stdout).expect(&ended.stderr);
    let checked = Checked(findings);
    assert_eq!(ended.success, checked.of("error").is_empty(), "{checked:?}");
    checked
}

impl Checked {
    /// Subject and message of each line of a severity.
    fn of(&self, severity: &str) -> Vec<String> {
        let of = |finding: &&Value| finding["severity"] == severity;
        let text = |finding: &Value| {
            format!(
                "{} {}",
                finding["subject"].as_str().unwrap(),
                finding["message"].as_str().unwrap()
            )
        };
        self.0.iter().filter(of).map(text).collect()
    }

    /// The fix of the one line of a severity that holds all of these words.
    #[track_caller]
    fn fix(&self, severity: &str, words: &[&str]) -> String {
        let matches = |finding: &&Value| {
            let text = finding.to_string();
            finding["severity"] == severity && words.iter().all(|word| text.contains(word))
        };
        match self.0.iter().filter(matches).collect::<Vec<_>>()[..] {
            [finding] => finding["fix"].as_str().unwrap_or_default().to_owned(),
            _ => panic!("not one {severity} with {words:?} in {self:#?}"),
        }
    }
}

/// What stands between backticks: what an operator copies.
fn typed(fix: &str) -> Vec<&str> {
    fix.split('`').skip(1).step_by(2).collect()
}

async fn slots(database: &Database) -> Option<String> {
    let name = database.name();
    let query = format!("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{name}'");
    database.sql().value(&query).await
}

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
    database.sql().rows(&query).await
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

const KEYLESS: &str = "
    CREATE TABLE outbox (id uuid, aggregate_type text, aggregate_id text, type text, payload jsonb);
    INSERT INTO outbox (id) VALUES (gen_random_uuid())";

async fn a11_the_publication_lets_the_application_update_and_delete(server: Server) {
    let database = Database::create(server, "a11").await;
    database.sql().run(KEYLESS).await;
    let settings = settings(&database);
    init(&database, &settings, &[]).await;
    database.sql().run("UPDATE outbox SET type = 'x'; DELETE FROM outbox").await;
    database.sql().run("ALTER TABLE outbox REPLICA IDENTITY NOTHING").await;
    database
        .sql()
        .run("INSERT INTO outbox (id) VALUES (gen_random_uuid()); DELETE FROM outbox")
        .await;
    let checked = check(&settings).await;
    assert_eq!(checked.of("error"), [""; 0]);
    assert!(!checked.of("warning").iter().any(|line| line.contains("replica identity")));
}

async fn a11_a_publication_that_endangers_the_application_is_a_warning(server: Server) {
    let database = Database::create(server, "a11").await;
    database.sql().run(KEYLESS).await;
    database.sql().run(&format!("CREATE PUBLICATION {} FOR TABLE outbox", database.name())).await;
    assert!(database.sql().try_run("DELETE FROM outbox").await.is_err());
    let settings = settings(&database);
    init(&database, &settings, &[]).await;
    let checked = check(&settings).await;
    assert_eq!(checked.of("error"), [""; 0]);
    let fix = checked.fix("warning", &["`public.outbox`", "no primary key or replica identity"]);
    database.sql().run(typed(&fix)[0]).await;
    database.sql().run("DELETE FROM outbox").await;
    assert!(!check(&settings).await.of("warning").iter().any(|line| line.contains("identity")));
}

async fn a19_a_publication_without_the_root_option_is_refused(server: Server) {
    let database = Database::create(server, "a19").await;
    database
        .sql()
        .run(
            "CREATE TABLE outbox (id uuid, payload jsonb, aggregate_type text, aggregate_id text,
                event_type text, created_at timestamptz NOT NULL) PARTITION BY RANGE (created_at);
              CREATE TABLE outbox_2026 PARTITION OF outbox
                FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
        )
        .await;
    let publication = format!(
        "CREATE PUBLICATION {} FOR TABLE outbox WITH (publish = 'insert')",
        database.name()
    );
    database.sql().run(&publication).await;
    let settings = settings(&database);
    let url = database.admin_url();
    let ended = command(&settings, "init", &["--url", &url]).await;
    assert!(!ended.success && ended.stderr.contains("publish_via_partition_root"), "{ended:?}");
    let checked = check(&settings).await;
    let fix = checked.fix("error", &["`public.outbox`", "under its partitions' names"]);
    database.sql().run(typed(&fix)[0]).await;
    init(&database, &settings, &[]).await;
    assert_eq!(check(&settings).await.of("error"), [""; 0]);
}

async fn a28_init_names_the_transaction_it_waits_for_and_leaves_no_slot(server: Server) {
    let database = Database::create(server, "a28").await;
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

async fn a34_each_cause_has_its_line_and_no_slot_is_made(server: Server) {
    let database = Database::create(server, "a34").await;
    let other = Database::create(server, "a34other").await;
    database.create_outbox().await;
    let name = database.name();
    let settings = settings(&database);
    init(&database, &settings, &[]).await;

    let count = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()";
    let before = database.sql().value(count).await;

    database.sql().run(&format!("ALTER PUBLICATION {name} DROP TABLE outbox")).await;
    let fix =
        check(&settings).await.fix("error", &["table `public.outbox`", "is not in publication"]);
    database.sql().run(typed(&fix)[0]).await;

    database.sql().run(&format!("ALTER ROLE {name} NOREPLICATION")).await;
    let fix = check(&settings).await.fix("error", &["replication connection", "42501"]);
    database.sql().run(typed(&fix)[0]).await;

    database.sql().run(&format!("REVOKE SELECT ON outbox FROM {name}")).await;
    let fix = check(&settings).await.fix("error", &["table `public.outbox`", "42501"]);
    for grant in typed(&fix) {
        database.sql().run(grant).await;
    }

    database.sql().run(&format!("REVOKE INSERT ON pgoutbox.relay FROM {name}")).await;
    let fix = check(&settings).await.fix("error", &["table `pgoutbox.relay`", "42501"]);
    for grant in typed(&fix) {
        database.sql().run(grant).await;
    }
    assert_eq!(check(&settings).await.of("error"), [""; 0]);

    let theirs =
        format!("SELECT pg_create_logical_replication_slot('{}', 'pgoutput')", other.name());
    other.sql().value(&theirs).await;
    let settings = settings.with("source.postgres.slot", other.name());
    check(&settings).await.fix("error", &["belongs to the database", other.name()]);
    let ended = command(&settings, "init", &[]).await;
    assert!(!ended.success && ended.stderr.contains(other.name()), "{ended:?}");

    let physical = format!("{name}_physical");
    database
        .sql()
        .value(&format!("SELECT pg_create_physical_replication_slot('{physical}')"))
        .await;
    let settings = settings.with("source.postgres.slot", physical.as_str());
    check(&settings).await.fix("error", &["is a physical slot"]);
    database.sql().value(&format!("SELECT pg_drop_replication_slot('{physical}')")).await;

    assert_eq!(database.sql().value(count).await, before);
}

async fn a34_a_server_that_keeps_too_little_wal_is_refused(server: Server) {
    let postgres = PrivatePostgres::start(server, &[("wal_level", "replica")]).await;
    let database = Database::create_on(&postgres.cluster(), "a34").await;
    database.create_outbox().await;
    let settings = settings(&database);
    let fix = check(&settings).await.fix("error", &["`wal_level` is `replica`"]);
    let ended = command(&settings, "init", &[]).await;
    assert!(!ended.success && ended.stderr.contains("`wal_level`"), "{ended:?}");
    database.sql().run(typed(&fix)[0]).await;
}

async fn a34_used_up_slots_leave_none_behind(server: Server) {
    let postgres = PrivatePostgres::start(server, &[("max_replication_slots", "1")]).await;
    let database = Database::create_on(&postgres.cluster(), "a34").await;
    database.create_outbox().await;
    database.sql().value("SELECT pg_create_physical_replication_slot('other')").await;
    let settings = settings(&database);
    let url = database.admin_url();
    let ended = command(&settings, "init", &["--url", &url]).await;
    assert!(!ended.success && ended.stderr.contains("53400"), "{ended:?}");
    check(&settings).await.fix("error", &["`max_replication_slots`", "all 1 are in use"]);
    assert_eq!(slots(&database).await.as_deref(), Some("0"));
}

async fn what_a_publication_leaves_out_has_a_statement_that_mends_it(server: Server) {
    let database = Database::create(server, "gaps").await;
    database.create_outbox().await;
    let name = database.name();
    let settings = settings(&database);
    init(&database, &settings, &[]).await;
    let replaced = |how: &str| {
        format!(
            "ALTER PUBLICATION {name} DROP TABLE outbox; ALTER PUBLICATION {name} ADD TABLE outbox{how}"
        )
    };
    for (break_it, words) in [
        (
            replaced(" WHERE (aggregate_type = 'order')"),
            vec!["table `public.outbox`", "only where"],
        ),
        (replaced(" (id, aggregate_type)"), vec!["table `public.outbox`", "without", "`payload`"]),
        (
            format!("ALTER PUBLICATION {name} SET (publish = 'update')"),
            vec!["does not publish inserts"],
        ),
    ] {
        database.sql().run(&break_it).await;
        let fix = check(&settings).await.fix("error", &words);
        database.sql().run(typed(&fix)[0]).await;
        assert_eq!(check(&settings).await.of("error"), [""; 0], "{break_it}");
    }

    let generated = "ALTER TABLE outbox DROP COLUMN aggregate_type;
                     ALTER TABLE outbox ADD COLUMN aggregate_type text
                       GENERATED ALWAYS AS ('order') STORED";
    database.sql().run(generated).await;
    let fix =
        check(&settings).await.fix("error", &["`public.outbox`", "generated", "`aggregate_type`"]);
    if server == Server::Newest {
        database.sql().run(typed(&fix)[0]).await;
        assert_eq!(check(&settings).await.of("error"), [""; 0]);
    }
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

async fn a_wrong_password_is_never_shown(server: Server) {
    let database = Database::create(server, "secret").await;
    let url = database.relay_url().replace(":relay@", ":hush%20hush@");
    let settings = settings(&database).with("source.postgres.url", url);
    let ended = command(&settings, "check", &[]).await;
    assert!(!ended.success && ended.stdout.contains("28P01"), "{ended:?}");
    let ended_init = command(&settings, "init", &[]).await;
    for text in [ended.stdout, ended.stderr, ended_init.stdout, ended_init.stderr] {
        assert!(!text.contains("hush"), "{text}");
    }
}
