//! A03, duplicates after a crash: `kill -9` of the relay again and again under load.

use std::collections::HashSet;
use std::time::Duration;

use rand::Rng;

use crate::checker::{Workload, judge_queues, read_queues};
use crate::support::{
    Database, Message, Rabbit, RabbitReader, RabbitVersion, Relay, SHORT, Settings,
};

on_both_rabbits!(a03_crash_dup_over_rabbitmq);

const KILLS: usize = 20;

/// Most unsettled events of the relay: what a crash may send twice. More than is written between two
/// status updates, since what was settled after the last one is sent again as well.
const WINDOW: usize = 1000;

/// 20 kills under load lose nothing and reorder nothing in a classic queue, a quorum queue and a
/// stream; what is sent again is the same to the byte and bounded by the window; and whatever was
/// confirmed by the time of a kill is there.
async fn a03_crash_dup_over_rabbitmq(version: RabbitVersion) {
    let rabbit = Rabbit::create(version, "a03");
    rabbit.create_mixed_layout();
    let database = Database::create(version.postgres(), "a03").await;
    database.create_outbox().await;
    let settings =
        Settings::rabbit(&database, &rabbit).with("source.postgres.window.events", WINDOW);
    Relay::init(&settings, &database.admin_url());
    database.create_witness().await;

    let workload = Workload {
        transactions: usize::MAX,
        rows: 1..=8,
        pace: Some(Duration::from_millis(100)),
        ..Workload::default()
    };
    let load = workload.start(&database).await;
    let mut reader = RabbitReader::new(&rabbit, Rabbit::layout()).await;
    for kill in 1..=KILLS {
        let mut relay = Relay::start(&settings);
        // Sometimes while it still starts, sometimes long after.
        let more = rand::rng().random_range(0..300);
        reader.read_count(reader.messages().len() + more, 3 * SHORT).await;
        if kill == KILLS {
            // What is left to send twice is bounded once the relay has caught up.
            let end = database.wal_end().await;
            database.wait_confirmed(end, 3 * SHORT).await;
        }
        relay.kill();
        read_what_is_confirmed(&database, &mut reader).await;
    }
    let before = reader.read_to_end().await.len();
    let history = load.stop().await;

    let _relay = Relay::streaming(&settings).await;
    let messages = read_queues(&history, &mut reader, 3 * SHORT).await;
    judge_queues(&history, messages).assert_clean();
    let again = sent_again(messages, before);
    let bound = WINDOW + 3 * workload.rows.end();
    assert!(again <= bound, "{again} messages were sent again, more than {bound}");
    assert!(before > bound, "{before} messages before the last kill are too few to tell");
}

/// How many messages from an index on are copies of earlier ones.
fn sent_again(messages: &[Message], from: usize) -> usize {
    let earlier: HashSet<_> = messages[..from].iter().map(Message::id).collect();
    messages[from..].iter().filter(|message| earlier.contains(&message.id())).count()
}

/// While no relay runs, nothing comes that was not there: all that is confirmed must be.
async fn read_what_is_confirmed(database: &Database, reader: &mut RabbitReader) {
    let confirmed = database.confirmed().await.unwrap();
    let ends = database.event_ends().await;
    let mut missing: HashSet<String> =
        ends.into_iter().filter(|(_, end)| *end <= confirmed).map(|(id, _)| id).collect();
    let what = format!("{} events up to {confirmed}, which was confirmed", missing.len());
    let mut seen = 0;
    reader
        .read_until(&what, 3 * SHORT, |messages| {
            for id in messages[seen..].iter().filter_map(Message::id) {
                missing.remove(id);
            }
            seen = messages.len();
            missing.is_empty()
        })
        .await;
}
