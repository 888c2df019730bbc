//! A relay's configuration file, made in the test.
//!
//! JSON is YAML, and a JSON value is easy to change at one place.

use serde_json::{Value, json};

use super::port::free_port;
use super::{Database, EXCHANGE, Rabbit, Topics};

/// One configuration.
#[derive(Clone, Debug)]
pub(crate) struct Settings(Value);

impl Settings {
    /// From the table `public.outbox` of a database, as the role that owns nothing, to a topic for
    /// each aggregate type, named by [`Topics::name`]; the slot and the publication have the name of
    /// the database.
    pub(crate) fn new(database: &Database, topics: &Topics) -> Self {
        let brokers: Vec<&str> = topics.brokers().split(',').collect();
        Self(json!({
            "name": "orders",
            "source": {"postgres": {
                "url": database.relay_url(),
                "slot": database.name(),
                "publication": database.name(),
                "tables": [{"table": "public.outbox"}],
            }},
            "sinks": {"events": {"kafka": {"brokers": brokers, "properties": {}}}},
            "routes": [{"sink": "events", "topic": topics.name("${aggregate_type}")}],
            "http": {"listen": format!("127.0.0.1:{}", free_port())},
        }))
    }

    /// The same table, slot and publication, to the layout of [`Rabbit::create_layout`].
    pub(crate) fn rabbit(database: &Database, rabbit: &Rabbit) -> Self {
        Self(json!({
            "name": "orders",
            "source": {"postgres": {
                "url": database.relay_url(),
                "slot": database.name(),
                "publication": database.name(),
                "tables": [{"table": "public.outbox"}],
            }},
            "sinks": {"tasks": {"rabbitmq": {"url": rabbit.relay_url()}}},
            "routes": [
                {"sink": "tasks", "exchange": EXCHANGE, "routing_key": "${aggregate_type}"},
            ],
            "http": {"listen": format!("127.0.0.1:{}", free_port())},
        }))
    }

    /// The same table, slot and publication, to standard output.
    pub(crate) fn stdout(database: &Database) -> Self {
        Self(json!({
            "name": "orders",
            "source": {"postgres": {
                "url": database.relay_url(),
                "slot": database.name(),
                "publication": database.name(),
            }},
            "sinks": {"out": {"stdout": {}}},
            "http": {"listen": format!("127.0.0.1:{}", free_port())},
        }))
    }

    /// Only where the server is, and a free port: everything else by default.
    pub(crate) fn bare(database: &Database) -> Self {
        Self(json!({
            "source": {"postgres": {"url": database.relay_url()}},
            "http": {"listen": format!("127.0.0.1:{}", free_port())},
        }))
    }

    /// Sets one key, named by its path with dots: `source.postgres.window`.
    #[must_use]
    pub(crate) fn with(mut self, path: &str, value: impl Into<Value>) -> Self {
        let place = path.split('.').fold(&mut self.0, |place, key| match key.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[key],
        });
        *place = value.into();
        self
    }

    /// One of librdkafka's properties of the sink `events`; their names have dots themselves.
    #[must_use]
    pub(crate) fn with_kafka_property(mut self, name: &str, value: &str) -> Self {
        self.0["sinks"]["events"]["kafka"]["properties"][name] = value.into();
        self
    }

    /// The same for a second relay beside the first.
    #[must_use]
    pub(crate) fn with_free_http_port(self) -> Self {
        self.with("http.listen", format!("127.0.0.1:{}", free_port()))
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap()
    }

    /// The port of the HTTP endpoint.
    pub(crate) fn http_port(&self) -> u16 {
        let address = self.0["http"]["listen"].as_str().unwrap();
        address.rsplit(':').next().unwrap().parse().unwrap()
    }
}
