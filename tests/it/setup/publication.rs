//! What publications do and leave out.

use super::*;

on_both_servers!(
    a11_the_publication_lets_the_application_update_and_delete,
    a11_a_publication_that_endangers_the_application_is_a_warning,
    a19_a_publication_without_the_root_option_is_refused,
    what_a_publication_leaves_out_has_a_statement_that_mends_it,
);

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
