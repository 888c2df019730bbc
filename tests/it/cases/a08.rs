//! A08, failover to a standby that has no slot: a halt, not a new beginning.

use std::collections::HashSet;

use crate::support::{
    Database, PrivatePostgres, Reader, Refusal, Relay, SHORT, Server, Settings, Sql, Topics,
    first_texts, kafka_brokers, typed, wait_until,
};

on_both_servers!(a08_failover_without_the_slot_halts_until_it_is_recovered);

/// Ten rows delivered, five committed while the relay is away, five after the promotion: the relay does
/// not begin anew among them, and what its operator types brings all twenty.
async fn a08_failover_without_the_slot_halts_until_it_is_recovered(server: Server) {
    let mut primary = PrivatePostgres::start(server, &[]).await;
    let standby = primary.start_standby(&[]).await;
    let database = Database::create_on(&primary.cluster(), "a08").await;
    database.create_outbox().await;
    let topics = Topics::new(&kafka_brokers(), "a08");
    topics.create("order", 1, 1, &[]).await;
    let settings = Settings::new(&database, &topics);
    Relay::init(&settings, &database.admin_url());
    let old = database.sql().value("SELECT system_identifier FROM pg_control_system()").await;
    let marked = database.sql().value("SELECT created_lsn FROM pgoutbox.relay").await;

    let mut relay = Relay::streaming(&settings).await;
    insert(database.sql(), 1..=10).await;
    let mut reader = Reader::new(&topics);
    reader.read_count(10, SHORT);
    assert!(relay.terminate(SHORT).await.success());
    insert(database.sql(), 11..=15).await;
    let end = database.wal_end().await;
    let on_standby = standby.cluster().connect("postgres").await;
    wait_until("the standby to catch up", SHORT, async || {
        (on_standby.lsn("SELECT pg_last_wal_replay_lsn()").await >= end).then_some(())
    })
    .await;
    let replayed = standby.cluster().connect(database.name()).await;
    primary.kill();
    standby.promote().await;
    insert(&replayed, 16..=20).await;

    let url = database.relay_url_at(standby.cluster().port());
    let settings = settings.with("source.postgres.url", url);
    let (old, marked) = (old.unwrap(), marked.unwrap());
    let words = [database.name(), "is gone", &old, "timeline 1 of", "timeline 2 now", &marked];
    let refusal = Refusal::of(&settings, &[]).await.says(1, &words);
    // Not even `--init` begins anew.
    Refusal::of(&settings, &["--init"]).await.says(1, &["is gone"]);
    let slots = "SELECT count(*) FROM pg_replication_slots";
    assert_eq!(replayed.value(slots).await.as_deref(), Some("0"));

    for step in typed(&refusal.hint).into_iter().filter(|step| step != "created_at") {
        match &*step {
            "pgoutbox init" => {
                let output = Relay::command(&settings, "init", &[]);
                assert!(output.status.success(), "{output:?}");
            }
            sql => replayed.run(sql).await,
        }
    }
    let _relay = Relay::streaming(&settings).await;
    let everything: Vec<String> = (1..=20).map(|n| format!("{{\"n\": {n}}}")).collect();
    let all = reader.read_until("all twenty", SHORT, |all| first_texts(all).len() >= 20);
    let texts: HashSet<&str> = first_texts(all).into_iter().collect();
    assert_eq!(texts, everything.iter().map(String::as_str).collect());
    // The ten that came twice are copies that readers can tell.
    for copy in &all[10..] {
        let first = all.iter().find(|it| it.header("id") == copy.header("id")).unwrap();
        assert_eq!((&first.key, &first.value), (&copy.key, &copy.value));
        assert_eq!(first.headers, copy.headers);
    }
}

async fn insert(sql: &Sql, numbers: impl Iterator<Item = u32>) {
    for n in numbers {
        sql.run(&format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
             VALUES ('order', 'a', 'happened', '{{\"n\": {n}}}')"
        ))
        .await;
    }
}
