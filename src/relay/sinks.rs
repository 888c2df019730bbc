//! Starts the configured sinks: the one place that knows them all.

use std::time::Duration;

use crate::config::{Config, KafkaConfig, SinkConfig, TargetConfig, TemplatePart, TemplateText};
use crate::failure::Failure;
use crate::metrics::{Metrics, SinkMetrics};
use crate::sink::kafka::{self, KafkaSink};
use crate::sink::null::NullSink;
use crate::sink::stdout::StdoutSink;
use crate::sink::{Mailbox, Sink};

/// There is nothing to wait for.
const TRIAL_GRACE: Duration = Duration::from_secs(1);

/// Starts the sink at `index` of the configuration.
pub(super) async fn start(
    config: &Config,
    index: usize,
    mailbox: &Mailbox,
    metrics: &SinkMetrics,
) -> Result<Sink, Failure> {
    let no_thread = |error| Failure::transient("cannot start a thread").cause(error);
    let Some((name, sink)) = config.sinks.get(index) else {
        return Err(Failure::configuration("there is no such sink"));
    };
    let sink = match sink {
        SinkConfig::Kafka(kafka) => {
            return start_kafka(config, index, name, kafka, mailbox, metrics).await;
        }
        SinkConfig::RabbitMq(_) => {
            return Err(Failure::configuration("a RabbitMQ sink cannot be started yet"));
        }
        SinkConfig::Stdout => StdoutSink::start(mailbox.clone()).map(Sink::Stdout),
        SinkConfig::Null => NullSink::start(mailbox.clone()).map(Sink::Null),
    };
    metrics.connected.set(1);
    sink.map_err(no_thread)
}

/// Starts every sink as `run` would, and stops it again: what each says of its broker and of the
/// destinations that are known beforehand.
///
/// # Errors
///
/// Two sinks of one name.
pub async fn try_sinks(config: &Config) -> Result<Vec<Trial>, Failure> {
    let names = config.sinks.iter().map(|(name, _)| name.as_str());
    let metrics = Metrics::new(&config.name, names).map_err(|error| {
        Failure::configuration("two sinks cannot share their metrics").cause(error)
    })?;
    let mut trials = Vec::new();
    for (index, (name, _)) in config.sinks.iter().enumerate() {
        let Some(metrics) = metrics.sink(name) else { continue };
        let outcome = match start(config, index, &Mailbox::default(), metrics).await {
            Ok(sink) => {
                sink.stop(TRIAL_GRACE).await;
                Ok(literal_topics(config, index))
            }
            Err(failure) => Err(failure),
        };
        trials.push(Trial { sink: name.clone(), outcome });
    }
    Ok(trials)
}

/// How a sink's start went.
#[derive(Debug)]
pub struct Trial {
    /// The sink's name.
    pub sink: String,
    /// The destinations that were looked up; the others are known only by their events.
    pub outcome: Result<Vec<String>, Failure>,
}

async fn start_kafka(
    config: &Config,
    index: usize,
    name: &str,
    kafka: &KafkaConfig,
    mailbox: &Mailbox,
    metrics: &SinkMetrics,
) -> Result<Sink, Failure> {
    let source = &config.source;
    let start = kafka::Start {
        config: kafka,
        name,
        client_id: &format!("pgoutbox-{}", config.name),
        window: kafka::Window { events: source.window_events, bytes: source.window_bytes },
        max_event_size: source.max_event_size,
        topics: &literal_topics(config, index),
        mailbox: mailbox.clone(),
        metrics: metrics.clone(),
    };
    KafkaSink::start(start).await.map(Sink::Kafka)
}

/// Topics that are the same for every event of a route: they can be looked up before the first one.
fn literal_topics(config: &Config, sink: usize) -> Vec<String> {
    let mut topics: Vec<String> = config
        .routes
        .iter()
        .filter(|route| route.sink == sink)
        .filter_map(|route| match &route.target {
            TargetConfig::Topic { topic, .. } => literal(topic),
            TargetConfig::Exchange { .. } => None,
        })
        .collect();
    topics.sort_unstable();
    topics.dedup();
    topics
}

/// The text of a template that has no placeholder.
fn literal(template: &TemplateText) -> Option<String> {
    let parts = template.parts.iter().map(|part| match part {
        TemplatePart::Literal(text) => Some(text.as_str()),
        TemplatePart::Placeholder(_) => None,
    });
    parts.collect()
}
