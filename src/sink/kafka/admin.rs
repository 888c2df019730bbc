//! What brokers know about topics: metadata and configuration.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::producer::Producer as _;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::context::Producer;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the connections for questions are kept.
const KEEP: Duration = Duration::from_secs(10);

/// A topic in the brokers' metadata.
#[derive(Debug)]
pub(super) enum Seen {
    /// It exists.
    There(Vec<Partition>),
    /// It is being created.
    Pending,
    /// There is none for us.
    Refused(Code),
}

/// A partition in the brokers' metadata.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partition {
    /// The partition.
    pub(super) id: u32,
    /// Whether it has a leader.
    pub(super) has_leader: bool,
    /// Replicas in sync.
    pub(super) in_sync: usize,
}

/// What a topic's configuration says; `None` where it may not be read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TopicConfig {
    /// `max.message.bytes`
    pub(super) max_message_bytes: Option<u32>,
    /// `min.insync.replicas`
    pub(super) min_insync_replicas: Option<usize>,
}

/// Looks `topic` up on the producer's own connections. Where the brokers create topics by
/// themselves, this makes them do it, as a first write would; not where the settings are
/// [`creating_nothing`](super::settings::Settings::creating_nothing).
///
/// # Errors
///
/// The client's code where no broker answers.
pub(super) fn look(producer: &Producer, topic: &str) -> Result<Seen, Code> {
    let metadata = producer.client().fetch_metadata(Some(topic), PATIENCE);
    let metadata = metadata.map_err(|error| error.rdkafka_error_code().unwrap_or(Code::Unknown))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    Ok(found.map_or(Seen::Pending, seen))
}

fn seen(topic: &MetadataTopic) -> Seen {
    match topic.error().map(Code::from) {
        None => {}
        Some(Code::LeaderNotAvailable) => return Seen::Pending,
        Some(code) => return Seen::Refused(code),
    }
    let partition = |found: &rdkafka::metadata::MetadataPartition| {
        let id = u32::try_from(found.id()).ok()?;
        Some(Partition { id, has_leader: found.leader() >= 0, in_sync: found.isr().len() })
    };
    let partitions: Vec<Partition> = topic.partitions().iter().filter_map(partition).collect();
    if partitions.is_empty() { Seen::Pending } else { Seen::There(partitions) }
}

/// Reads topics' configuration, on connections of its own that are made when they are needed.
pub(super) struct Admin {
    config: ClientConfig,
    runtime: Handle,
    client: Mutex<Option<Client>>,
}

struct Client {
    native: AdminClient<Quiet>,
    used: Instant,
}

impl Admin {
    pub(super) fn new(config: ClientConfig, runtime: Handle) -> Self {
        Self { config, runtime, client: Mutex::default() }
    }

    /// The topic's configuration; empty where it cannot or may not be read. Blocks for at most a
    /// few seconds.
    pub(super) fn describe(&self, topic: &str) -> TopicConfig {
        match self.ask(topic) {
            Ok(config) => config,
            Err(error) => {
                tracing::debug!(topic, %error, "topic configuration cannot be read");
                TopicConfig::default()
            }
        }
    }

    /// Whether the brokers create topics by themselves, as [`creates_topics`] says. Blocks for at most
    /// a few seconds.
    pub(super) fn creates_topics(&self, producer: &Producer) -> bool {
        let asked = self.with_client(|native| {
            let metadata = producer.client().fetch_metadata(None, PATIENCE)?;
            Ok(self.runtime.block_on(creates_topics(native, &metadata)))
        });
        asked.unwrap_or_default()
    }

    /// Closes the connections once nobody has asked for a while.
    pub(super) fn rest(&self, now: Instant) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if client.as_ref().is_some_and(|client| now.saturating_duration_since(client.used) > KEEP) {
            *client = None;
        }
    }

    fn ask(&self, topic: &str) -> Result<TopicConfig, KafkaError> {
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let resource = [ResourceSpecifier::Topic(topic)];
        let answer = self.with_client(|native| {
            self.runtime.block_on(native.describe_configs(&resource, &options))
        });
        match answer?.into_iter().next() {
            Some(found) => found.map(|found| read(&found)).map_err(KafkaError::AdminOp),
            None => Ok(TopicConfig::default()),
        }
    }

    /// Asks something on the connections that there are, or on new ones.
    fn with_client<T>(
        &self,
        question: impl FnOnce(&AdminClient<Quiet>) -> Result<T, KafkaError>,
    ) -> Result<T, KafkaError> {
        let mut slot = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let native = match slot.take() {
            Some(client) => client.native,
            None => AdminClient::from_config_and_context(&self.config, Quiet)?,
        };
        let answer = question(&native);
        *slot = Some(Client { native, used: Instant::now() });
        answer
    }
}

/// Whether a broker of `metadata` says that it creates topics at their first use. `false` too where it
/// does not answer, or where its settings may not be read (`DescribeConfigs` on the cluster).
pub(super) async fn creates_topics(client: &AdminClient<Quiet>, metadata: &Metadata) -> bool {
    let Some(broker) = metadata.brokers().first() else { return false };
    let asked = [ResourceSpecifier::Broker(broker.id())];
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let answer = client.describe_configs(&asked, &options).await;
    let settings = answer.ok().and_then(|found| found.into_iter().next()?.ok());
    let value = settings.and_then(|it| it.get("auto.create.topics.enable")?.value.clone());
    value.as_deref() == Some("true")
}

fn read(resource: &ConfigResource) -> TopicConfig {
    let value = |name: &str| resource.get(name)?.value.as_deref();
    TopicConfig {
        max_message_bytes: value("max.message.bytes").and_then(|value| value.parse().ok()),
        min_insync_replicas: value("min.insync.replicas").and_then(|value| value.parse().ok()),
    }
}

/// The producer's callbacks tell of connections already.
pub(super) struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(target: "rdkafka", facility, "{text}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "rdkafka", %error, "{reason}");
    }
}
