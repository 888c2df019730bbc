//! The checker over a real relay and a real Kafka: its verdicts are good for a good relay, and each
//! is bad for a relay that breaks a guarantee on purpose (feature `sabotage`).

#[cfg(feature = "sabotage")]
mod broken;
mod leaders;
mod rabbit;

use crate::checker::{Workload, judge_topics, read_all};
use crate::support::{Database, Reader, Relay, SHORT, Server, Settings, Topics, kafka_brokers};

on_both_servers!(a_good_relay_passes_under_load);

/// Commits, rollbacks, savepoints, aggregates that several writers share, and a big transaction.
async fn a_good_relay_passes_under_load(server: Server) {
    let database = Database::create(server, "checked").await;
    database.create_outbox().await;
    let topics = Topics::new(&kafka_brokers(), "checked");
    let settings = Settings::new(&database, &topics);
    Relay::init(&settings, &database.admin_url());
    let mut relay = Relay::streaming(&settings).await;

    let workload = Workload { transactions: 100, big: 5000, ..Workload::default() };
    let history = workload.run(&database).await;
    let mut reader = Reader::new(&topics);
    let report = judge_topics(&history, read_all(&history, &mut reader, SHORT), &topics);
    report.assert_clean();
    // Nothing has failed, so nothing was sent twice.
    assert_eq!(report.duplicates, 0);

    let end = database.wal_end().await;
    database.wait_confirmed(end, SHORT).await;
    assert!(relay.terminate(SHORT).await.success());
}
