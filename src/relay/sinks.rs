//! Starts the configured sinks: the one place that knows them all.

use std::time::Duration;

use crate::config::{
    Config, KafkaConfig, RabbitMqConfig, SinkConfig, TargetConfig, TemplatePart, TemplateText,
};
use crate::failure::Failure;
use crate::metrics::{Metrics, SinkMetrics};
use crate::sink::kafka::{self, KafkaSink};
use crate::sink::null::NullSink;
use crate::sink::rabbitmq::{self, RabbitMqSink};
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
    begin(config, index, mailbox, metrics, false).await
}

/// Starts it to run, or only to see whether it would: then it creates nothing.
async fn begin(
    config: &Config,
    index: usize,
    mailbox: &Mailbox,
    metrics: &SinkMetrics,
    is_trial: bool,
) -> Result<Sink, Failure> {
    let no_thread = |error| Failure::transient("cannot start a thread").cause(error);
    let Some((name, sink)) = config.sinks.get(index) else {
        return Err(Failure::configuration("there is no such sink"));
    };
    let sink = match sink {
        SinkConfig::Kafka(kafka) => {
            return start_kafka(config, index, name, kafka, mailbox, metrics, is_trial).await;
        }
        SinkConfig::RabbitMq(rabbitmq) => {
            return start_rabbitmq(config, index, name, rabbitmq, mailbox, metrics).await;
        }
        SinkConfig::Stdout => StdoutSink::start(mailbox.clone()).map(Sink::Stdout),
        SinkConfig::Null => NullSink::start(mailbox.clone()).map(Sink::Null),
    };
    metrics.connected.set(1);
    sink.map_err(no_thread)
}

/// Starts every sink as `run` would, but creating nothing, and stops it again: what each says of its
/// broker and of the destinations that are known beforehand.
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
        let outcome = match begin(config, index, &Mailbox::default(), metrics, true).await {
            Ok(sink) => {
                let known = Known::of(config, index, &sink);
                sink.stop(TRIAL_GRACE).await;
                Ok(known)
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
    /// The destinations that were looked up.
    pub outcome: Result<Known, Failure>,
}

/// Destinations that are the same for every event of a route, and so are known beforehand.
#[derive(Debug)]
pub struct Known {
    /// What they are: `topics` or `exchanges`.
    pub kind: &'static str,
    /// Their names; the others are known only by their events.
    pub names: Vec<String>,
    /// Most bytes of a message's body that the broker takes, where it is the same for all.
    pub largest: Option<usize>,
}

impl Known {
    fn of(config: &Config, index: usize, sink: &Sink) -> Self {
        match sink {
            Sink::RabbitMq(sink) => Self {
                kind: "exchanges",
                names: literal_exchanges(config, index),
                largest: Some(sink.largest_body()),
            },
            _ => Self { kind: "topics", names: literal_topics(config, index), largest: None },
        }
    }
}

async fn start_kafka(
    config: &Config,
    index: usize,
    name: &str,
    kafka: &KafkaConfig,
    mailbox: &Mailbox,
    metrics: &SinkMetrics,
    is_trial: bool,
) -> Result<Sink, Failure> {
    let source = &config.source;
    let start = kafka::Start {
        config: kafka,
        name,
        client_id: &format!("pgoutbox-{}", config.name),
        window: kafka::Window { events: source.window_events, bytes: source.window_bytes },
        max_event_size: source.max_event_size,
        topics: &literal_topics(config, index),
        is_trial,
        mailbox: mailbox.clone(),
        metrics: metrics.clone(),
    };
    KafkaSink::start(start).await.map(Sink::Kafka)
}

async fn start_rabbitmq(
    config: &Config,
    index: usize,
    name: &str,
    rabbitmq: &RabbitMqConfig,
    mailbox: &Mailbox,
    metrics: &SinkMetrics,
) -> Result<Sink, Failure> {
    let start = rabbitmq::Start {
        config: rabbitmq,
        name,
        connection_name: &format!("pgoutbox:{}", config.name),
        exchanges: &literal_exchanges(config, index),
        mailbox: mailbox.clone(),
        metrics: metrics.clone(),
    };
    RabbitMqSink::start(start).await.map(Sink::RabbitMq)
}

/// Topics that are the same for every event of a route: they can be looked up before the first one.
pub(super) fn literal_topics(config: &Config, sink: usize) -> Vec<String> {
    literals(config, sink, |target| match target {
        TargetConfig::Topic { topic, .. } => Some(topic),
        TargetConfig::Exchange { .. } => None,
    })
}

/// The same for exchanges; the default exchange is always there.
fn literal_exchanges(config: &Config, sink: usize) -> Vec<String> {
    let mut exchanges = literals(config, sink, |target| match target {
        TargetConfig::Topic { .. } => None,
        TargetConfig::Exchange { exchange, .. } => Some(exchange),
    });
    exchanges.retain(|exchange| !exchange.is_empty());
    exchanges
}

/// The different names that routes to `sink` have without a placeholder.
fn literals<'c>(
    config: &'c Config,
    sink: usize,
    name: impl Fn(&'c TargetConfig) -> Option<&'c TemplateText>,
) -> Vec<String> {
    let routes = config.routes.iter().filter(|route| route.sink == sink);
    let mut names: Vec<String> =
        routes.filter_map(|route| name(&route.target)).filter_map(literal).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The text of a template that has no placeholder.
pub(super) fn literal(template: &TemplateText) -> Option<String> {
    let parts = template.parts.iter().map(|part| match part {
        TemplatePart::Literal(text) => Some(text.as_str()),
        TemplatePart::Placeholder(_) => None,
    });
    parts.collect()
}
