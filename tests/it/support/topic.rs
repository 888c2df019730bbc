//! Topics of a test's own, by Kafka's admin interface.

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::types::RDKafkaErrorCode;
use uuid::Uuid;

use super::{SHORT, wait_until};

/// The topics whose names begin with a prefix that no other test has; the ones created here are
/// deleted at the end by nobody: brokers are thrown away as a whole.
pub(crate) struct Topics {
    brokers: String,
    prefix: String,
}

impl Topics {
    /// A fresh prefix on a cluster.
    pub(crate) fn new(brokers: &str, hint: &str) -> Self {
        let suffix = Uuid::new_v4().simple().to_string();
        Self { brokers: brokers.to_owned(), prefix: format!("it.{hint}.{}.", &suffix[..8]) }
    }

    /// The one topic of this name, whose word is empty.
    pub(crate) fn named(brokers: &str, topic: &str) -> Self {
        Self { brokers: brokers.to_owned(), prefix: topic.to_owned() }
    }

    pub(crate) fn brokers(&self) -> &str {
        &self.brokers
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The whole name of a topic: the prefix and a word.
    pub(crate) fn name(&self, word: &str) -> String {
        format!("{}{word}", self.prefix)
    }

    /// A fresh client: an old one may still ask a broker that was killed.
    fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", &self.brokers).create().unwrap()
    }

    /// Creates a topic, on as many brokers as `copies` says.
    pub(crate) async fn create(
        &self,
        word: &str,
        partitions: i32,
        copies: i32,
        config: &[(&str, &str)],
    ) {
        let name = self.name(word);
        let mut topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(copies));
        for (key, value) in config {
            topic = topic.set(key, value);
        }
        let results = self.admin().create_topics([&topic], &options()).await.unwrap();
        for result in results {
            // The shared broker creates topics at their first use, which may have been just now.
            let is_there = matches!(&result, Err((_, RDKafkaErrorCode::TopicAlreadyExists)));
            assert!(is_there || result.is_ok(), "{result:?}");
        }
    }

    /// Replaces all settings of a topic that are not defaults.
    pub(crate) async fn configure(&self, word: &str, config: &[(&str, &str)]) {
        let name = self.name(word);
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(&name));
        for (key, value) in config {
            change = change.set(key, value);
        }
        let results = self.admin().alter_configs([&change], &options()).await.unwrap();
        results.into_iter().for_each(|result| drop(result.unwrap()));
    }

    /// Whether a topic is there; all are asked for, since to ask for one by its name may create it.
    pub(crate) fn exists(&self, word: &str) -> bool {
        let name = self.name(word);
        let metadata = self.admin().inner().fetch_metadata(None, SHORT).unwrap();
        metadata.topics().iter().any(|topic| topic.name() == name)
    }

    /// Deletes a topic and waits until the broker knows it no more.
    pub(crate) async fn delete(&self, word: &str) {
        let name = self.name(word);
        wait_until(&format!("{name} to go"), SHORT, async || {
            match self.admin().delete_topics(&[&name], &options()).await.unwrap().remove(0) {
                Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => Some(()),
                _ => None,
            }
        })
        .await;
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(SHORT)).operation_timeout(Some(SHORT))
}
