//! A stop that is asked for.

use std::time::Duration;

use tokio::time::Instant;

use super::{Scene, assert_state, payloads};
use crate::checker::{Workload, judge_topics, read_all};
use crate::support::{
    Database, KafkaOptions, PrivateKafka, Reader, Relay, SHORT, Server, Topics, first_texts,
};

on_both_servers!(a_stop_under_load_leaves_nothing_to_send_twice);

/// SIGTERM and SIGINT wait for acknowledgements and confirm them: a restart repeats nothing.
async fn a_stop_under_load_leaves_nothing_to_send_twice(server: Server) {
    let scene = Scene::new(server, "stop").await;
    let workload = Workload {
        transactions: usize::MAX,
        pace: Some(Duration::from_millis(5)),
        ..Workload::default()
    };
    let load = workload.start(&scene.database).await;
    let mut reader = Reader::new(&scene.topics);
    for signal in ["TERM", "INT", "TERM"] {
        let mut relay = Relay::streaming(&scene.settings).await;
        reader.read_count(reader.records().len() + 200, SHORT);
        relay.signal(signal);
        assert_eq!(relay.wait_exit(SHORT).await.code(), Some(0));
    }
    let history = load.stop().await;
    let _relay = Relay::streaming(&scene.settings).await;
    let report = judge_topics(&history, read_all(&history, &mut reader, SHORT), &scene.topics);
    report.assert_clean();
    assert_eq!(report.duplicates, 0);
}

/// A broker that acknowledges nothing: the stop ends with the grace period and says how many events
/// will be sent again; a second signal does not even wait for that; and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_without_a_broker_ends_in_time_and_says_what_is_sent_again() {
    let kafka = PrivateKafka::start(&KafkaOptions::default()).await;
    for server in Server::both() {
        let topics = Topics::new(&kafka.brokers(), "grace");
        let scene = Scene::with(Database::create(server, "grace").await, topics).await;

        let patient = scene.settings.clone().with("grace_period", "2s");
        let mut relay = Relay::streaming(&patient).await;
        kafka.signal(0, "STOP");
        scene.write(1..=3).await;
        received(&relay, 3.0).await;
        let begin = Instant::now();
        relay.signal("TERM");
        relay.wait_state("stopping", SHORT).await;
        assert_state(&relay, "stopping", 503).await;
        assert_eq!(relay.wait_exit(SHORT).await.code(), Some(0));
        let took = begin.elapsed();
        assert!(took >= Duration::from_secs(2), "gave up after {took:?}");
        assert!(took < SHORT, "took {took:?}");
        let log = relay.log();
        assert!(log.contains("\"again\":3"), "{log}");

        // The broker must be there for
        // the start alone.
        kafka.signal(0, "CONT");
        let mut relay = Relay::streaming(&scene.settings).await;
        kafka.signal(0, "STOP");
        scene.write(4..=4).await;
        relay.signal("TERM");
        relay.wait_state("stopping", SHORT).await;
        let begin = Instant::now();
        relay.signal("INT");
        assert_eq!(relay.wait_exit(SHORT).await.code(), Some(1));
        // Not even the default grace period is waited for.
        assert!(begin.elapsed() < Duration::from_secs(20), "took {:?}", begin.elapsed());

        kafka.signal(0, "CONT");
        let _relay = Relay::streaming(&scene.settings).await;
        let mut reader = Reader::new(&scene.topics);
        reader.read_until("all events", SHORT, |all| first_texts(all).len() == 4);
        assert_eq!(first_texts(reader.records()), payloads(1..=4));
    }
}

async fn received(relay: &Relay, events: f64) {
    super::wait_metric(relay, "pgoutbox_events_received_total", &[], events).await;
}
