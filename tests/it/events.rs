//! From a row to a record: types, nulls, and where an event goes.

mod routes;
mod values;

use serde_json::{Value, json};

use crate::support::{
    Database, Reader, Record, Relay, SHORT, Server, Settings, Topics, kafka_brokers,
};

/// A relay over tables of a test's own.
struct Scene {
    relay: Relay,
    settings: Settings,
    topics: Topics,
    database: Database,
}

impl Scene {
    /// Creates `tables` (statements), publishes all of them, and starts a relay with `change`d
    /// settings.
    async fn start(
        server: Server,
        tables: &str,
        change: impl FnOnce(Settings, &Topics) -> Settings,
    ) -> Self {
        let database = Database::create(server, "events").await;
        let publish = format!("CREATE PUBLICATION {} FOR ALL TABLES", database.name());
        database.sql().run(&format!("{tables}; {publish} WITH (publish = 'insert')")).await;
        let topics = Topics::new(&kafka_brokers(), "events");
        let settings = change(Settings::new(&database, &topics), &topics);
        Relay::init(&settings, &database.admin_url());
        Self { relay: Relay::streaming(&settings).await, settings, topics, database }
    }

    /// Runs an insert and reads as many records as that gives, one partition each.
    async fn records(&self, insert: &str, count: usize) -> Vec<Record> {
        self.database.sql().run(insert).await;
        let mut reader = Reader::new(&self.topics);
        reader.read_count(count, SHORT);
        let mut records = reader.read_to_end().to_vec();
        assert_eq!(records.len(), count, "{records:?}");
        records
            .sort_by_key(|record| (record.topic.clone(), record.header("id").map(str::to_owned)));
        records
    }

    /// The topic's name without the test's prefix.
    fn word<'a>(&self, record: &'a Record) -> &'a str {
        record.topic.strip_prefix(self.topics.prefix()).unwrap()
    }
}

/// A configured table with nothing but its name.
fn table(name: &str) -> Value {
    json!({"table": format!("public.{name}")})
}
