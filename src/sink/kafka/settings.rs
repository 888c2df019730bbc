//! librdkafka's settings: the user's properties, and those that the guarantees need.

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};

use super::Window;
use super::error::Site;
use crate::config::{KafkaConfig, Secret};
use crate::failure::Failure;
use crate::sink::Pace;

/// `batch.size` where nothing asks for less: librdkafka's default.
const BATCH_SIZE: u32 = 1_000_000;

/// librdkafka's own ceiling of `message.max.bytes`.
const MESSAGE_MAX: usize = 1_000_000_000;

/// Bytes that the client may hold beyond the window, for keys and headers made by templates.
const SLACK: usize = 1024 * 1024;

/// Properties that belong to us, with the reason or the way out.
const OURS: &[(&str, &str)] = &[
    ("bootstrap.servers", "it is the sink's `brokers`"),
    ("metadata.broker.list", "it is the sink's `brokers`"),
    ("acks", "an event is acknowledged by all in-sync replicas"),
    ("request.required.acks", "an event is acknowledged by all in-sync replicas"),
    ("enable.idempotence", "order through retries needs it"),
    ("enable.gapless.guarantee", "order through failures needs it"),
    ("max.in.flight", "order through retries needs it"),
    ("max.in.flight.requests.per.connection", "order through retries needs it"),
    ("retries", "an event is sent until it is acknowledged"),
    ("message.send.max.retries", "an event is sent until it is acknowledged"),
    ("message.timeout.ms", "an event is sent until it is acknowledged"),
    ("delivery.timeout.ms", "an event is sent until it is acknowledged"),
    ("request.timeout.ms", "an event is sent until it is acknowledged"),
    ("topic.metadata.propagation.max.ms", "an event is sent until it is acknowledged"),
    ("partitioner", "a key's partition is Java's murmur2"),
    ("sticky.partitioning.linger.ms", "a key's partition is Java's murmur2"),
    ("queuing.strategy", "order needs fifo"),
    ("transactional.id", "transactions are not supported yet"),
    ("transaction.timeout.ms", "transactions are not supported yet"),
    ("message.max.bytes", "it follows from `max_event_size`"),
    ("queue.buffering.max.messages", "it follows from `window`"),
    ("queue.buffering.max.kbytes", "it follows from `window`"),
    ("delivery.report.only.error", "every delivery report is needed"),
    ("plugin.library.paths", "plugins are not loaded"),
    ("ssl.engine.location", "plugins are not loaded"),
    ("ssl.providers", "plugins are not loaded"),
    ("interceptors", "plugins are not loaded"),
    ("log.queue", "logs go through the relay"),
    ("enabled_events", "events go through the relay"),
    ("internal.termination.signal", "signals belong to the relay"),
];

/// Everything that a client of this sink is made with.
pub(super) struct Settings {
    common: ClientConfig,
    producer: ClientConfig,
    batch_size: u32,
    /// For hints.
    pub(super) site: Site,
}

/// Checks a Kafka sink's properties without connecting.
///
/// # Errors
///
/// [`Class::Configuration`](crate::failure::Class::Configuration), naming the property.
pub fn check(config: &KafkaConfig) -> Result<(), Failure> {
    let window = Window { events: 1, bytes: 1 };
    Settings::new(config, "pgoutbox", window, 1).map(drop)
}

impl Settings {
    /// Puts the user's properties under those that the guarantees need.
    ///
    /// # Errors
    ///
    /// A configuration failure that names the property; a secret's value is never in it.
    pub(super) fn new(
        config: &KafkaConfig,
        client_id: &str,
        window: Window,
        max_event_size: usize,
    ) -> Result<Self, Failure> {
        refuse_ours(config)?;
        refuse_what_is_not_built_in(config)?;
        let brokers = config.brokers.join(",");
        let common = common(config, &brokers, client_id);
        let producer = producer(&common, window, max_event_size);
        producer.create_native_config().map_err(|error| super::error::Site::creation(&error))?;
        let property = |name: &str| config.properties.get(name).map(Secret::expose);
        let batch_size = property("batch.size").and_then(|size| size.parse().ok());
        let principal = property("sasl.username").map(str::to_owned);
        Ok(Self {
            common,
            producer,
            batch_size: batch_size.unwrap_or(BATCH_SIZE),
            site: Site { brokers, principal },
        })
    }

    /// The same for clients by which brokers never create a topic: librdkafka says so in every
    /// metadata request, whatever kind of client it is (`rdkafka_metadata.c`; brokers from 0.11 on
    /// heed it).
    #[must_use]
    pub(super) fn creating_nothing(mut self) -> Self {
        for config in [&mut self.common, &mut self.producer] {
            config.set("allow.auto.create.topics", "false");
        }
        self
    }

    /// The largest batch where no topic asks for less.
    pub(super) fn batch_size(&self) -> u32 {
        self.batch_size
    }

    /// A producer for this pace, whose batches stay within `batch_size` bytes.
    pub(super) fn producer(&self, pace: Pace, batch_size: u32) -> ClientConfig {
        let mut config = self.producer.clone();
        config.set("batch.size", batch_size.to_string());
        if pace == Pace::OneByOne {
            // One a partition is out anyway; waiting for more would only cost time.
            config.set("batch.num.messages", "1").set("linger.ms", "0");
        }
        config
    }

    /// A client that asks about topics.
    pub(super) fn admin(&self) -> ClientConfig {
        self.common.clone()
    }
}

fn common(config: &KafkaConfig, brokers: &str, client_id: &str) -> ClientConfig {
    let mut common = ClientConfig::new();
    common
        .set("client.id", client_id)
        // Twice librdkafka's own: half the requests, which broker and relay feel, for 5 ms.
        .set("linger.ms", "10")
        .set("socket.keepalive.enable", "true")
        // After an outage events wait for this, not for the broker.
        .set("reconnect.backoff.max.ms", "2000")
        .set("enable.metrics.push", "false")
        .set("metadata.recovery.strategy", "rebootstrap");
    for (name, value) in &config.properties {
        common.set(name, value.expose());
    }
    let debug = config.properties.contains_key("debug");
    common.set_log_level(if debug { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
    common.set("bootstrap.servers", brokers);
    common
}

fn producer(common: &ClientConfig, window: Window, max_event_size: usize) -> ClientConfig {
    let most = |value: usize, limit: usize| value.clamp(1, limit).to_string();
    let int = usize::try_from(i32::MAX).unwrap_or(usize::MAX);
    let message = max_event_size.saturating_mul(2).saturating_add(SLACK);
    // The client refuses an event for ever that alone exceeds its queue.
    let queue = window.bytes.saturating_add(message).div_ceil(1024);
    let mut producer = common.clone();
    producer
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("enable.gapless.guarantee", "true")
        .set("message.timeout.ms", "0")
        // The longest that does not overflow: a failed delivery must be our decision, never the
        // client's, which fails what waits and then goes on with what comes later.
        .set("topic.metadata.propagation.max.ms", "2000000")
        .set("message.max.bytes", most(message, MESSAGE_MAX))
        .set("queue.buffering.max.messages", most(window.events, int))
        .set("queue.buffering.max.kbytes", most(queue, int));
    producer
}

fn refuse_ours(config: &KafkaConfig) -> Result<(), Failure> {
    let named = |name: &str| {
        let found = OURS.iter().find(|(ours, _)| *ours == name);
        let reason = found.map(|(_, reason)| *reason);
        let internal = name.ends_with("_cb") || name.starts_with("test.");
        reason.or(internal.then_some("it is for programs, not for configuration"))
    };
    match config.properties.keys().find_map(|name| Some((name, named(name)?))) {
        None => Ok(()),
        Some((name, reason)) => {
            Err(Failure::configuration(format!("kafka property `{name}` cannot be set: {reason}")))
        }
    }
}

fn refuse_what_is_not_built_in(config: &KafkaConfig) -> Result<(), Failure> {
    let property = |name: &str| config.properties.get(name).map(Secret::expose);
    let mechanism = property("sasl.mechanism").or_else(|| property("sasl.mechanisms"));
    let sasl = property("security.protocol")
        .is_some_and(|protocol| protocol.to_ascii_lowercase().starts_with("sasl"));
    match mechanism.map(str::to_ascii_uppercase).as_deref() {
        Some("PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512") => Ok(()),
        Some(other) => Err(Failure::configuration(format!(
            "kafka property `sasl.mechanism`: {other} is not built in; PLAIN, SCRAM-SHA-256 and \
             SCRAM-SHA-512 are"
        ))),
        // librdkafka's own default is GSSAPI.
        None if sasl => Err(Failure::configuration(
            "kafka property `sasl.mechanism` is missing: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Class;

    fn config(properties: &[(&str, &str)]) -> KafkaConfig {
        KafkaConfig {
            brokers: vec!["b:9092".to_owned()],
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
                .collect(),
        }
    }

    fn refusal(properties: &[(&str, &str)]) -> String {
        let failure = check(&config(properties)).expect_err("must be refused");
        assert_eq!(failure.class(), Class::Configuration);
        failure.to_string()
    }

    #[test]
    fn what_the_guarantees_need_cannot_be_set() {
        for (name, _) in OURS {
            assert!(refusal(&[(name, "1")]).contains(name));
        }
        assert!(refusal(&[("dr_msg_cb", "1")]).contains("dr_msg_cb"));
    }

    #[test]
    fn unknown_properties_and_bad_values_are_named() {
        assert!(refusal(&[("compresion.type", "lz4")]).contains("compresion.type"));
        assert!(refusal(&[("linger.ms", "soon")]).contains("linger.ms"));
    }

    #[test]
    fn sasl_that_is_not_built_in_is_refused_by_name() {
        assert!(refusal(&[("sasl.mechanism", "GSSAPI")]).contains("not built in"));
        assert!(refusal(&[("sasl.mechanisms", "OAUTHBEARER")]).contains("not built in"));
        assert!(refusal(&[("security.protocol", "SASL_SSL")]).contains("missing"));
    }

    #[test]
    fn usual_properties_pass() {
        let usual = [
            ("compression.type", "zstd"),
            ("linger.ms", "20"),
            ("security.protocol", "sasl_ssl"),
            ("sasl.mechanism", "SCRAM-SHA-512"),
            ("sasl.username", "app"),
            ("sasl.password", "secret"),
        ];
        assert!(check(&config(&usual)).is_ok());
    }
}
