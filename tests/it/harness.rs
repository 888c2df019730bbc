//! The tools themselves, where no case would show that they are broken.

mod rabbit;

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::checker::Workload;
use crate::support::{
    Database, PrivatePostgres, Proxy, Reader, SHORT, Server, Topics, kafka_brokers,
};

on_both_servers!(
    the_history_of_a_workload_is_what_is_in_the_table,
    the_witness_knows_where_transactions_end,
    a_private_postgres_stops_dies_and_is_replaced_by_its_standby,
);

async fn the_history_of_a_workload_is_what_is_in_the_table(server: Server) {
    let database = Database::create(server, "history").await;
    database.create_outbox().await;
    let workload = Workload { transactions: 20, big: 500, ..Workload::default() };
    let mut history = workload.run(&database).await;
    history.merge(Workload { seed: workload.seed + 100, ..workload }.run(&database).await);

    let query = "SELECT id, aggregate_type, aggregate_id, type, payload FROM outbox";
    let rows = database.sql().rows(query).await;
    assert_eq!(rows.len(), history.len());
    for row in rows {
        let [id, aggregate_type, aggregate_id, event_type, payload] =
            row.try_into().map(|row: [Option<String>; 5]| row.map(Option::unwrap)).unwrap();
        let event = history.get(&id.parse().unwrap()).expect("a committed event");
        assert_eq!(event.payload, payload);
        assert_eq!(
            (&event.aggregate_type, &event.aggregate_id, &event.event_type),
            (&aggregate_type, &aggregate_id, &event_type)
        );
    }
    assert!(history.rolled_back() > 0);
    // Numbers of an aggregate have no gaps: rolled-back ones were given again.
    let counters = "SELECT sum(n) FROM checker_counter";
    assert_eq!(database.sql().value(counters).await.unwrap(), history.len().to_string());
}

async fn the_witness_knows_where_transactions_end(server: Server) {
    let database = Database::create(server, "witness").await;
    database.create_outbox().await;
    database.create_witness().await;
    let before = database.wal_end().await;
    database.insert("order", "a", 1).await;
    let between = database.wal_end().await;
    database.insert("order", "a", 2).await;
    let ends = database.commit_ends().await;
    assert_eq!(ends.len(), 2);
    assert!(before < ends[0] && ends[0] <= between && between < ends[1], "{ends:?}");
    assert!(ends[1] <= database.wal_end().await);
}

async fn a_private_postgres_stops_dies_and_is_replaced_by_its_standby(server: Server) {
    let mut primary = PrivatePostgres::start(server, &[("wal_sender_timeout", "2s")]).await;
    let mut database = Database::create_on(&primary.cluster(), "private").await;
    database.create_outbox().await;
    let timeout = database.sql().value("SHOW wal_sender_timeout").await;
    assert_eq!(timeout.as_deref(), Some("2s"));

    assert!(primary.stop("fast").done);
    primary.start_again().await;
    database.reconnect().await;
    database.insert("order", "a", 1).await;
    primary.kill();
    primary.start_again().await;
    database.reconnect().await;
    let count = database.sql().value("SELECT count(*) FROM outbox").await;
    assert_eq!(count.as_deref(), Some("1"));

    let standby = primary.start_standby(&[]).await;
    primary.kill();
    standby.promote().await;
    let promoted = standby.cluster().connect(database.name()).await;
    promoted.run("DELETE FROM outbox").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reader_tells_null_from_empty() {
    let topics = Topics::new(&kafka_brokers(), "reader");
    topics.create("order", 2, 1, &[]).await;
    let mut reader = Reader::new(&topics);
    assert!(reader.read_to_end().is_empty());

    produce(&topics, "order", 0, &[(None, Some("a")), (Some(""), None), (Some("k"), Some(""))]);
    // A topic that did not exist when the reader began.
    topics.create("payment", 1, 1, &[]).await;
    produce(&topics, "payment", 0, &[(Some("k"), Some("b"))]);
    let records = reader.read_count(4, SHORT);
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let mut seen: Vec<_> =
        records.iter().map(|record| (record.key.clone(), record.value.clone())).collect();
    seen.sort();
    let expected =
        [(None, bytes("a")), (bytes(""), None), (bytes("k"), bytes("")), (bytes("k"), bytes("b"))];
    assert_eq!(seen, expected);
    assert_eq!(reader.read_to_end().len(), 4);
    topics.delete("order").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_proxy_holds_bytes_and_a_cut_one_closes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap().port()).await;
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();

    client.write_all(b"a").await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'a');
    proxy.freeze();
    client.write_all(b"b").await.unwrap();
    assert!(timeout(Duration::from_millis(200), server.read_u8()).await.is_err());
    proxy.resume();
    assert_eq!(server.read_u8().await.unwrap(), b'b');
    proxy.cut();
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
    assert_eq!(server.read(&mut [0]).await.unwrap_or(0), 0);
}

/// A key and a value of a message.
type Pair<'a> = (Option<&'a str>, Option<&'a str>);

fn produce(topics: &Topics, word: &str, partition: i32, pairs: &[Pair<'_>]) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", topics.brokers()).create().unwrap();
    let topic = topics.name(word);
    for (key, value) in pairs {
        let mut record = BaseRecord::<str, str>::to(&topic).partition(partition);
        record.key = *key;
        record.payload = *value;
        producer.send(record).unwrap();
    }
    producer.flush(SHORT).unwrap();
}
