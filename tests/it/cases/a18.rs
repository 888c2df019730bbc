//! A18, the partitioner: a key goes where Java's clients send it, so that a service that reads both
//! finds it in one partition.

use crate::support::{Database, Reader, Relay, SHORT, Server, Settings, Topics, kafka_brokers};

on_both_servers!(a18_partitioner_is_javas);

/// Partitions of topics of 4, 6 and 12, as Java's murmur2 says.
const EXPECTED: [(&str, [i32; 3]); 7] = [
    ("ord-1001", [2, 0, 6]),
    ("ord-1002", [0, 2, 8]),
    ("ord-1003", [2, 0, 6]),
    ("cust-7", [1, 1, 1]),
    ("42", [0, 4, 4]),
    ("客-1", [3, 1, 7]),
    ("", [1, 3, 9]),
];

const TOPICS: [(&str, i32); 3] = [("four", 4), ("six", 6), ("twelve", 12)];

async fn a18_partitioner_is_javas(server: Server) {
    let database = Database::create(server, "a18").await;
    database.create_outbox().await;
    let topics = Topics::new(&kafka_brokers(), "a18");
    for (word, partitions) in TOPICS {
        topics.create(word, partitions, 1, &[]).await;
    }
    let settings = Settings::new(&database, &topics);
    Relay::init(&settings, &database.admin_url());
    let _relay = Relay::streaming(&settings).await;
    for (word, _) in TOPICS {
        for (key, _) in EXPECTED {
            database.insert(word, key, 1).await;
        }
    }

    let mut reader = Reader::new(&topics);
    let records = reader.read_count(EXPECTED.len() * TOPICS.len(), SHORT);
    for (key, partitions) in EXPECTED {
        for ((word, _), partition) in TOPICS.into_iter().zip(partitions) {
            let topic = topics.name(word);
            let found: Vec<i32> = records
                .iter()
                // The empty key is one, not null.
                .filter(|record| {
                    record.topic == topic && record.key.as_deref() == Some(key.as_bytes())
                })
                .map(|record| record.partition)
                .collect();
            assert_eq!(found, [partition], "`{key}` in {topic}");
        }
    }
}
