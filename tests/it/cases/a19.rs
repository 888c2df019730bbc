//! A19, a partitioned outbox: an insert into any leaf is one event, under the root's name.

use crate::support::{
    Database, Reader, Refusal, Relay, SHORT, Server, Settings, Topics, first_texts, kafka_brokers,
    typed,
};

on_both_servers!(
    a19_partitioned_outbox_is_published_once_from_every_leaf,
    a19_partitioned_outbox_without_the_root_option_is_refused_and_loses_nothing,
);

const OUTBOX: &str = "
    CREATE TABLE outbox (
      id uuid NOT NULL DEFAULT gen_random_uuid(),
      aggregate_type text NOT NULL, aggregate_id text NOT NULL, type text NOT NULL,
      payload jsonb, created_at timestamptz NOT NULL, PRIMARY KEY (id, created_at)
    ) PARTITION BY RANGE (created_at);
    CREATE TABLE outbox_2026_01 PARTITION OF outbox
      FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')";

/// Columns in another order, as a table has them that was made by hand and attached.
const FEBRUARY: &str = "
    CREATE TABLE outbox_2026_02 (
      payload jsonb, type text NOT NULL, created_at timestamptz NOT NULL,
      id uuid NOT NULL DEFAULT gen_random_uuid(),
      aggregate_id text NOT NULL, aggregate_type text NOT NULL, PRIMARY KEY (id, created_at));
    ALTER TABLE outbox ATTACH PARTITION outbox_2026_02
      FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')";

/// With `init`'s publication: by the root or directly, into old leaves and one that is made while the
/// relay runs.
async fn a19_partitioned_outbox_is_published_once_from_every_leaf(server: Server) {
    let scene = Scene::new(server).await;
    scene.init();
    let _relay = Relay::streaming(&scene.settings).await;
    scene.insert("outbox", "2026-01-15", 1).await;
    scene.insert("outbox_2026_01", "2026-01-16", 2).await;
    scene.reads(2);
    scene.database.sql().run(FEBRUARY).await;
    scene.insert("outbox", "2026-02-15", 3).await;
    scene.insert("outbox_2026_02", "2026-02-16", 4).await;
    scene.insert("outbox_2026_01", "2026-01-17", 5).await;
    scene.reads(5);
}

/// Without it, rows come under the leaves' names: the relay names the option, and what was written
/// before it was set is delivered too.
async fn a19_partitioned_outbox_without_the_root_option_is_refused_and_loses_nothing(
    server: Server,
) {
    let scene = Scene::new(server).await;
    scene.init();
    let name = scene.database.name();
    let option = format!("ALTER PUBLICATION {name} SET (publish_via_partition_root = false)");
    scene.database.sql().run(&option).await;
    scene.database.sql().run(FEBRUARY).await;
    scene.insert("outbox", "2026-01-15", 1).await;
    scene.insert("outbox_2026_02", "2026-02-15", 2).await;

    let words = ["outbox", "publish_via_partition_root"];
    let refusal = Refusal::of(&scene.settings, &[]).await.says(1, &words);
    scene.database.sql().run(&typed(&refusal.hint)[0]).await;
    scene.insert("outbox", "2026-02-16", 3).await;
    let _relay = Relay::streaming(&scene.settings).await;
    scene.reads(3);
}

struct Scene {
    settings: Settings,
    topics: Topics,
    database: Database,
}

impl Scene {
    async fn new(server: Server) -> Self {
        let database = Database::create(server, "a19").await;
        database.sql().run(OUTBOX).await;
        let topics = Topics::new(&kafka_brokers(), "a19");
        topics.create("order", 1, 1, &[]).await;
        let settings =
            Settings::new(&database, &topics).with("source.postgres.wal_sender_timeout", "2s");
        Self { settings, topics, database }
    }

    fn init(&self) {
        Relay::init(&self.settings, &self.database.admin_url());
    }

    async fn insert(&self, table: &str, day: &str, n: u32) {
        let sql = format!(
            "INSERT INTO {table} (aggregate_type, aggregate_id, type, payload, created_at)
             VALUES ('order', 'a', 'happened', '{{\"n\": {n}}}', '{day}')"
        );
        self.database.sql().run(&sql).await;
    }

    /// Events 1 to `last` are in the log, each once.
    fn reads(&self, last: usize) {
        let expected: Vec<String> = (1..=last).map(|n| format!("{{\"n\": {n}}}")).collect();
        let mut reader = Reader::new(&self.topics);
        reader.read_count(last, SHORT);
        assert_eq!(reader.read_to_end().len(), last);
        assert_eq!(first_texts(reader.records()), expected);
    }
}
