//! A03, duplicates after a crash: `kill -9` of the relay again and again under load.

use std::collections::HashSet;
use std::time::Duration;

use rand::Rng;

use crate::checker::{Workload, judge_topics, read_all};
use crate::support::{
    Database, Reader, Record, Relay, SHORT, Server, Settings, Topics, kafka_brokers,
};

on_both_servers!(a03_crash_dup);

const KILLS: usize = 20;

/// Most unsettled events of the relay: what a crash may send twice. More than is written between two
/// status updates, since what was settled after the last one is sent again as well.
const WINDOW: usize = 1000;

/// 20 kills under load lose nothing, reorder nothing, and what is sent again is the same to the
/// byte and bounded by the window.
async fn a03_crash_dup(server: Server) {
    let database = Database::create(server, "a03").await;
    database.create_outbox().await;
    let topics = Topics::new(&kafka_brokers(), "a03");
    let settings = Settings::new(&database, &topics).with("source.postgres.window.events", WINDOW);
    Relay::init(&settings, &database.admin_url());

    let workload = Workload {
        transactions: usize::MAX,
        pace: Some(Duration::from_millis(100)),
        ..Workload::default()
    };
    let load = workload.start(&database).await;
    let mut reader = Reader::new(&topics);
    for kill in 1..=KILLS {
        let mut relay = Relay::start(&settings);
        // Sometimes while it still starts, sometimes long after.
        let more = rand::rng().random_range(0..300);
        reader.read_count(reader.records().len() + more, SHORT);
        if kill == KILLS {
            // What is left to send twice is bounded once the relay has caught up.
            let end = database.wal_end().await;
            database.wait_confirmed(end, SHORT).await;
        }
        relay.kill();
    }
    let history = load.stop().await;

    let before = reader.read_to_end().len();
    let _relay = Relay::streaming(&settings).await;
    let records = read_all(&history, &mut reader, SHORT);
    judge_topics(&history, records, &topics).assert_clean();
    let again = sent_again(records, before);
    let bound = WINDOW + 3 * workload.rows.end();
    assert!(again <= bound, "{again} records were sent again, more than {bound}");
}

/// How many records from an index on are copies of earlier ones.
fn sent_again(records: &[Record], from: usize) -> usize {
    let earlier: HashSet<_> = records[..from].iter().map(|record| record.header("id")).collect();
    records[from..].iter().filter(|record| earlier.contains(&record.header("id"))).count()
}
