//! `sinks`.

use std::collections::BTreeMap;

use super::field::Field;
use super::rabbitmq::rabbitmq;
use super::{ConfigError, KafkaConfig, Secret, SinkConfig};

/// `SinkIndex` is a byte.
const MAX_SINKS: usize = 255;

/// All sinks in the file's order; one `stdout` where there are none.
pub(super) fn sinks(field: Option<&Field<'_>>) -> Result<Vec<(String, SinkConfig)>, ConfigError> {
    let mut sinks = Vec::new();
    let Some(field) = field else { return Ok(vec![("stdout".to_owned(), SinkConfig::Stdout)]) };
    for (name, sink) in field.named()? {
        sinks.push((checked_name(name, &sink)?, self::sink(&sink)?));
    }
    match sinks.len() {
        0 => Err(field.invalid("must name a sink")),
        1..=MAX_SINKS => Ok(sinks),
        _ => Err(field.invalid(&format!("can have at most {MAX_SINKS} sinks"))),
    }
}

/// Names stand in metrics and messages.
fn checked_name(name: &str, sink: &Field<'_>) -> Result<String, ConfigError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.chars().all(plain) {
        return Ok(name.to_owned());
    }
    let message = format!("a sink's name is of letters, digits, `_`, `-` and `.`, unlike `{name}`");
    Err(ConfigError::invalid(sink.key_location, message))
}

fn sink(field: &Field<'_>) -> Result<SinkConfig, ConfigError> {
    let fields = field.fields(&["kafka", "rabbitmq", "stdout", "null"])?;
    let mut kinds = fields.all();
    let (Some((kind, settings)), None) = (kinds.next(), kinds.next()) else {
        return Err(field.invalid("must be one of `kafka: …`, `rabbitmq: …` and `stdout: {}`"));
    };
    match kind {
        "kafka" => kafka(&settings).map(SinkConfig::Kafka),
        "rabbitmq" => rabbitmq(&settings).map(SinkConfig::RabbitMq),
        "stdout" => settings.fields(&[]).map(|_| SinkConfig::Stdout),
        _ => settings.fields(&[]).map(|_| SinkConfig::Null),
    }
}

fn kafka(field: &Field<'_>) -> Result<KafkaConfig, ConfigError> {
    let fields = field.fields(&["brokers", "properties"])?;
    let brokers = brokers(&fields.need("brokers")?)?;
    let properties = fields.read("properties", properties)?.unwrap_or_default();
    Ok(KafkaConfig { brokers, properties })
}

/// A list, or one text with commas, as environment variables have it.
fn brokers(field: &Field<'_>) -> Result<Vec<String>, ConfigError> {
    let texts = field.texts()?;
    let brokers = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
    let brokers: Vec<String> =
        brokers.filter(|broker| !broker.is_empty()).map(str::to_owned).collect();
    if brokers.is_empty() {
        return Err(field.invalid("must name a broker, as in `localhost:9092`"));
    }
    match brokers.iter().find(|broker| !has_port(broker)) {
        Some(broker) => Err(field.invalid(&format!("must be `host:port`, not `{broker}`"))),
        None => Ok(brokers),
    }
}

fn has_port(broker: &str) -> bool {
    broker.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn properties(field: &Field<'_>) -> Result<BTreeMap<String, Secret>, ConfigError> {
    let mut properties = BTreeMap::new();
    for (name, property) in field.named()? {
        if let Some(reason) = refused(name) {
            let message = format!("`{name}` cannot be set: {reason}");
            return Err(ConfigError::invalid(property.key_location, message));
        }
        let value = property.secret()?;
        if matches!(name, "sasl.mechanism" | "sasl.mechanisms") {
            check_mechanism(value.expose()).map_err(|must| property.invalid(must))?;
        }
        properties.insert(name.to_owned(), value);
    }
    check_sasl(field, &properties)?;
    Ok(properties)
}

/// Why librdkafka's property `name` is not the user's to set; `None` where it is.
///
/// Names are those of librdkafka's CONFIGURATION.md, with their aliases.
fn refused(name: &str) -> Option<&'static str> {
    const NEEDED: &str = "the guarantees need it as it is";
    const NO_TIMEOUT: &str = "an event is never given up, so its deliveries have no timeout";
    const WINDOW: &str = "it follows from `source.postgres.window`";
    const CALLBACK: &str = "it belongs to the program, not to its configuration";
    match name {
        "bootstrap.servers" | "metadata.broker.list" => Some("`brokers` names them"),
        "acks"
        | "request.required.acks"
        | "enable.idempotence"
        | "enable.gapless.guarantee"
        | "max.in.flight"
        | "max.in.flight.requests.per.connection"
        | "retries"
        | "message.send.max.retries"
        | "delivery.report.only.error"
        | "produce.offset.report" => Some(NEEDED),
        "message.timeout.ms" | "delivery.timeout.ms" | "request.timeout.ms" => Some(NO_TIMEOUT),
        "partitioner" => Some("keys are partitioned as Java's clients do"),
        "transactional.id" | "transaction.timeout.ms" => Some("transactions are not supported yet"),
        "queue.buffering.max.messages" | "queue.buffering.max.kbytes" => Some(WINDOW),
        "queuing.strategy" => Some(NEEDED),
        "plugin.library.paths" => Some("no code is loaded from outside"),
        "topic.metadata.propagation.max.ms" | "allow.auto.create.topics" => {
            Some("a topic that does not exist must be told at once")
        }
        "statistics.interval.ms" | "log_level" | "log.queue" | "opaque" => Some(CALLBACK),
        _ if name.ends_with("_cb") || name.ends_with("_cmp") || name == "default_topic_conf" => {
            Some(CALLBACK)
        }
        _ if name.starts_with("sasl.kerberos.") => Some("GSSAPI is not built in"),
        _ if name.starts_with("sasl.oauthbearer.") => Some("OAUTHBEARER is not built in"),
        _ => None,
    }
}

fn check_mechanism(mechanism: &str) -> Result<(), &'static str> {
    match mechanism {
        "GSSAPI" => Err("cannot be GSSAPI: it is not built in"),
        "OAUTHBEARER" => Err("cannot be OAUTHBEARER: it is not built in"),
        "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512" => Ok(()),
        _ => Err("must be `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`"),
    }
}

/// librdkafka would take GSSAPI where no mechanism is given.
fn check_sasl(field: &Field<'_>, properties: &BTreeMap<String, Secret>) -> Result<(), ConfigError> {
    let has_mechanism =
        ["sasl.mechanism", "sasl.mechanisms"].iter().any(|name| properties.contains_key(*name));
    let protocol = properties.get("security.protocol").map_or("", Secret::expose);
    if protocol.to_ascii_lowercase().starts_with("sasl_") && !has_mechanism {
        return Err(field.invalid("needs a `sasl.mechanism` beside its `security.protocol`"));
    }
    Ok(())
}
