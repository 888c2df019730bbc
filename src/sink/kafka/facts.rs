//! What brokers say of topics and their settings, for `check`: read once, on a client of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::error::KafkaError;
use rdkafka::metadata::{Metadata, MetadataTopic};

use super::Window;
use super::admin::{self, Quiet};
use super::error::{self, Site};
use super::settings::Settings;
use crate::config::KafkaConfig;
use crate::failure::Failure;

/// How long each of the two questions may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A cluster, as far as it concerns some topics.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Bootstrap servers, for commands.
    pub brokers: String,
    /// Who we are to the brokers, where the settings tell it.
    pub principal: Option<String>,
    /// How many brokers there are.
    pub size: usize,
    /// The topics that exist, in the order asked.
    pub topics: Vec<Topic>,
    /// Those that do not, or that we may not see.
    pub missing: Vec<String>,
    /// Whether the brokers say that they would create them.
    pub creates_topics: bool,
}

/// A topic that exists.
#[derive(Clone, Debug, Default)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Copies of its partition with the fewest.
    pub copies: usize,
    /// The partition with the fewest copies in sync, and how many.
    pub in_sync: (i32, usize),
    /// Settings in force, by Kafka's names; empty where they may not be read.
    pub settings: BTreeMap<String, String>,
}

/// Asks about `topics`; none is created by that.
///
/// # Errors
///
/// Where a property cannot be, or no broker answers.
pub async fn facts(
    config: &KafkaConfig,
    client_id: &str,
    topics: &[String],
) -> Result<Facts, Failure> {
    let settings = Settings::new(config, client_id, Window { events: 1, bytes: 1 }, 1)?;
    let client = Arc::new(client(&settings.admin())?);
    let mut facts = Facts {
        brokers: settings.site.brokers.clone(),
        principal: settings.site.principal.clone(),
        ..Facts::default()
    };
    // All at once: to ask for one by its name may create it.
    let asking = Arc::clone(&client);
    let metadata =
        tokio::task::spawn_blocking(move || asking.inner().fetch_metadata(None, PATIENCE))
            .await
            .map_err(|_| Failure::transient("asking the brokers was interrupted"))?
            .map_err(|error| failed(&settings.site, &error))?;
    facts.learn_topics(&metadata, topics);
    if !facts.missing.is_empty() {
        facts.creates_topics = admin::creates_topics(&client, &metadata).await;
    }
    let mut described = describe(&client, &facts.topics, &settings.site).await?;
    for topic in &mut facts.topics {
        topic.settings = described.remove(&topic.name).unwrap_or_default();
    }
    // Closing waits for connections.
    tokio::task::spawn_blocking(move || drop(client)).await.ok();
    Ok(facts)
}

fn client(config: &ClientConfig) -> Result<AdminClient<Quiet>, Failure> {
    AdminClient::from_config_and_context(config, Quiet).map_err(|error| Site::creation(&error))
}

fn failed(site: &Site, error: &KafkaError) -> Failure {
    match error.rdkafka_error_code() {
        Some(code) => {
            Failure::transient(format!("brokers `{}` do not answer: {code}", site.brokers))
                .code(error::name(code))
        }
        None => Failure::transient(format!("brokers `{}` do not answer: {error}", site.brokers)),
    }
}

impl Facts {
    fn learn_topics(&mut self, metadata: &Metadata, topics: &[String]) {
        self.size = metadata.brokers().len();
        for name in topics {
            let found = metadata.topics().iter().find(|found| found.name() == name);
            match found.filter(|found| found.error().is_none() && !found.partitions().is_empty()) {
                Some(found) => self.topics.push(Topic::of(name, found)),
                None => self.missing.push(name.clone()),
            }
        }
    }
}

impl Topic {
    fn of(name: &str, found: &MetadataTopic) -> Self {
        let partitions = found.partitions();
        let in_sync = partitions.iter().map(|it| (it.id(), it.isr().len()));
        Self {
            name: name.to_owned(),
            copies: partitions.iter().map(|it| it.replicas().len()).min().unwrap_or_default(),
            in_sync: in_sync.min_by_key(|(_, count)| *count).unwrap_or_default(),
            settings: BTreeMap::new(),
        }
    }
}

/// Settings of each topic, by its name. A topic whose settings may not be read has none: the client
/// does not pass the refusal on.
async fn describe(
    client: &AdminClient<Quiet>,
    topics: &[Topic],
    site: &Site,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, Failure> {
    if topics.is_empty() {
        return Ok(BTreeMap::new());
    }
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let resources: Vec<ResourceSpecifier<'_>> =
        topics.iter().map(|topic| ResourceSpecifier::Topic(&topic.name)).collect();
    let answer = client.describe_configs(&resources, &options).await;
    let answer = answer.map_err(|error| failed(site, &error))?;
    // In the order of the question.
    let named = topics.iter().map(|topic| topic.name.clone());
    Ok(named.zip(answer.into_iter().map(|found| found.map(settings).unwrap_or_default())).collect())
}

fn settings(resource: ConfigResource) -> BTreeMap<String, String> {
    resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect()
}
