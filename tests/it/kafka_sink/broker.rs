//! Where the sink sends to: the shared broker, or a private one.

use std::collections::BTreeMap;
use std::sync::Arc;

use pgoutbox::config::{KafkaConfig, Secret};

use crate::support::{
    Certificates, KafkaListener, KafkaOptions, PrivateKafka, Reader, Record, Topics, kafka_brokers,
};

/// A topic's name.
pub(crate) type Topic = Arc<str>;

pub(crate) struct Broker {
    address: String,
    /// How many copies a topic has: one on each broker.
    copies: i32,
    private: Option<PrivateKafka>,
}

impl Broker {
    /// The development broker, which creates topics at their first use.
    pub(crate) fn shared() -> Self {
        Self { address: kafka_brokers(), copies: 1, private: None }
    }

    /// A broker where topics are created by hand, and where the user `relay` may do only what it is
    /// granted.
    pub(crate) async fn private() -> Self {
        Self::start(KafkaOptions { acls: true, ..KafkaOptions::default() }).await
    }

    /// Two brokers, of which the first is the controller too.
    pub(crate) async fn pair() -> Self {
        Self::start(KafkaOptions { two_brokers: true, ..KafkaOptions::default() }).await
    }

    /// A broker that has listeners with TLS too.
    pub(crate) async fn with_tls(certificates: &Certificates) -> Self {
        let tls = Some(certificates.into());
        Self::start(KafkaOptions { tls, ..KafkaOptions::default() }).await
    }

    async fn start(mut options: KafkaOptions) -> Self {
        // The sink's events are of 1970.
        options.properties.push(("log.retention.ms", "-1".to_owned()));
        let kafka = PrivateKafka::start(&options).await;
        let copies = if options.two_brokers { 2 } else { 1 };
        Self { address: kafka.brokers(), copies, private: Some(kafka) }
    }

    fn private_one(&self) -> &PrivateKafka {
        self.private.as_ref().expect("a private broker")
    }

    fn private_mut(&mut self) -> &mut PrivateKafka {
        self.private.as_mut().expect("a private broker")
    }

    /// Starts a process that was killed.
    pub(crate) async fn start_process(&mut self, node: usize) {
        self.private_mut().start_again(node).await;
    }

    pub(crate) fn kill_process(&mut self, node: usize) {
        self.private_mut().kill(node);
    }

    /// Lets the user `relay` do `operation` with `topic`.
    pub(crate) fn grant(&self, operation: &str, topic: &str) {
        let who = ["--add", "--allow-principal", "User:relay"];
        let what = ["--operation", operation, "--topic", topic];
        self.private_one().acl(&[&who[..], &what[..]].concat());
    }

    /// How the user `relay` connects.
    pub(crate) fn login(&self, password: &str) -> KafkaConfig {
        let properties = [
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "relay"),
            ("sasl.password", password),
        ];
        self.config_of(KafkaListener::Sasl, &properties)
    }

    /// The configuration of a sink that connects to one listener of a private broker.
    pub(crate) fn config_of(
        &self,
        listener: KafkaListener,
        properties: &[(&str, &str)],
    ) -> KafkaConfig {
        let property = |(name, value): &(&str, &str)| ((*name).to_owned(), Secret::new(*value));
        KafkaConfig {
            brokers: vec![self.private_one().brokers_of(listener)],
            properties: properties.iter().map(property).collect(),
        }
    }

    pub(crate) fn config(&self) -> KafkaConfig {
        let brokers = self.address.split(',').map(str::to_owned).collect();
        KafkaConfig { brokers, properties: BTreeMap::new() }
    }

    /// A name that no topic has.
    pub(crate) fn name(&self) -> Topic {
        Arc::from(format!("sink-{}", uuid::Uuid::new_v4()))
    }

    pub(crate) async fn create(&self, partitions: i32, config: &[(&str, &str)]) -> Topic {
        let name = self.name();
        self.create_named(&name, partitions, config).await;
        name
    }

    pub(crate) async fn create_named(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        Topics::named(&self.address, name).create("", partitions, self.copies, config).await;
    }

    pub(crate) async fn delete(&self, topic: &str) {
        Topics::named(&self.address, topic).delete("").await;
    }

    /// (partition, value) of everything in the topic, by partition.
    pub(crate) fn read(&self, topic: &str) -> Vec<(i32, Vec<u8>)> {
        self.records(topic, |record| (record.partition, record.value.unwrap_or_default()))
    }

    /// (key, value) of everything in the topic, in order within a partition.
    pub(crate) fn read_keyed(&self, topic: &str) -> Vec<(String, Vec<u8>)> {
        self.records(topic, |record| {
            let key = String::from_utf8(record.key.unwrap_or_default()).expect("text");
            (key, record.value.unwrap_or_default())
        })
    }

    fn records<T>(&self, topic: &str, of: impl FnMut(Record) -> T) -> Vec<T> {
        let mut reader = Reader::new(&Topics::named(&self.address, topic));
        let mut records = reader.read_to_end().to_vec();
        records.sort_by_key(|record| (record.partition, record.offset));
        records.into_iter().map(of).collect()
    }
}
