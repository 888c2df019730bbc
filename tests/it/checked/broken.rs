//! Relays broken on purpose: a checker that never fails proves nothing.

use crate::checker::{Report, Workload, judge_topics};
use crate::support::{
    Database, KafkaOptions, PrivateKafka, Reader, Relay, SHORT, Server, Settings, Topics,
    kafka_brokers,
};

/// Confirms before the broker has acknowledged, and dies before it does.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_confirms_early_loses_events() {
    let kafka = PrivateKafka::start(&KafkaOptions::default()).await;
    let scene = Scene::new(&kafka.brokers(), "early").await;
    scene.topics.create("order", 3, 1, &[]).await;
    let mut relay = scene.broken("confirm_early").await;
    kafka.signal(0, "STOP");
    let history = Workload { types: &["order"], ..small() }.run(&scene.database).await;
    let end = scene.database.wal_end().await;
    scene.database.wait_confirmed(end, SHORT).await;
    relay.kill();
    kafka.signal(0, "CONT");

    let _relay = Relay::streaming(&scene.settings).await;
    scene.database.insert("order", "last", 1).await;
    let mut reader = Reader::new(&scene.topics);
    reader.read_until("the last event", SHORT, |records| {
        records.iter().any(|record| record.key.as_deref() == Some(b"last"))
    });
    let report = judge_topics(&history, reader.records(), &scene.topics);
    assert!(!report.missing.is_empty(), "{report}");
}

/// Takes what a broker has refused for acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_skips_a_resend_loses_events() {
    let scene = Scene::new(&kafka_brokers(), "skip").await;
    scene.topics.create("order", 3, 1, &[]).await;
    let _relay = scene.broken("skip_resend").await;
    scene.database.insert("order", "first", 1).await;
    Reader::new(&scene.topics).read_count(1, SHORT);
    // Each event is smaller than the new limit, a batch of them is not: it is to be sent again.
    scene.topics.configure("order", &[("max.message.bytes", "2000")]).await;
    let workload = Workload { types: &["order"], big: 500, ..small() };
    let history = workload.run(&scene.database).await;
    let report = scene.report_once_confirmed(history).await;
    assert!(!report.missing.is_empty(), "{report}");
}

/// Swaps two events of one key.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_reorders_is_found_out() {
    let report = report_of("reorder").await;
    assert!(!report.reordered.is_empty(), "{report}");
}

/// Sends an event again, and not as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_changes_a_copy_is_found_out() {
    let report = report_of("change_copy").await;
    assert!(!report.changed_duplicates.is_empty(), "{report}");
}

/// Delivers what nobody committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_invents_an_event_is_found_out() {
    let report = report_of("invent_event").await;
    assert!(!report.unexpected.is_empty(), "{report}");
}

async fn report_of(fault: &str) -> Report {
    let scene = Scene::new(&kafka_brokers(), fault).await;
    let _relay = scene.broken(fault).await;
    let history = small().run(&scene.database).await;
    scene.report_once_confirmed(history).await
}

fn small() -> Workload {
    Workload { transactions: 20, ..Workload::default() }
}

struct Scene {
    settings: Settings,
    topics: Topics,
    database: Database,
}

impl Scene {
    async fn new(brokers: &str, hint: &str) -> Self {
        let database = Database::create(Server::Newest, hint).await;
        database.create_outbox().await;
        let topics = Topics::new(brokers, hint);
        let settings = Settings::new(&database, &topics);
        Relay::init(&settings, &database.admin_url());
        Self { settings, topics, database }
    }

    /// A relay that commits one fault.
    async fn broken(&self, fault: &str) -> Relay {
        let environment = [("PGOUTBOX_SABOTAGE", fault)];
        let mut relay = Relay::start_with(&self.settings, &[], &environment);
        relay.wait_state("streaming", SHORT).await;
        relay
    }

    async fn report_once_confirmed(&self, history: crate::checker::History) -> Report {
        let end = self.database.wal_end().await;
        self.database.wait_confirmed(end, 3 * SHORT).await;
        judge_topics(&history, Reader::new(&self.topics).read_to_end(), &self.topics)
    }
}
