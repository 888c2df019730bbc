//! Kafka's error codes sorted by what follows from them, and the failures they become.

use std::borrow::Cow;

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::failure::{Class, Failure};

/// What a failed delivery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Our own purge took it back: nothing is known about it.
    Purged,
    /// The broker will never take the batch as it is: some event in it is a poison event.
    Message,
    /// The topic takes nothing at the moment, from anybody or from us.
    Topic,
    /// Perhaps written, perhaps not, and no event or topic is to blame.
    Doubt,
}

/// Sorts a delivery report's code.
pub(super) fn kind(code: Code) -> Kind {
    match code {
        // A record that was in one batch with a bad one is innocent: KIP-467.
        Code::PurgeQueue | Code::PurgeInflight | Code::InvalidDifferentRecord => Kind::Purged,
        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidMessage
        | Code::InvalidMessageSize
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::UnsupportedForMessageFormat => Kind::Message,
        Code::TopicAuthorizationFailed
        | Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownTopicId
        | Code::UnknownPartition
        | Code::InvalidTopic
        | Code::PolicyViolation => Kind::Topic,
        _ => Kind::Doubt,
    }
}

/// Whether a refusal was for size.
pub(super) fn is_size(code: Code) -> bool {
    matches!(code, Code::MessageSizeTooLarge | Code::MessageBatchTooLarge)
}

/// Whether the code says that a topic does not exist.
pub(super) fn is_missing(code: Code) -> bool {
    matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownTopicId)
}

/// The code's name as Kafka and librdkafka write it (`MSG_SIZE_TOO_LARGE`, `_ALL_BROKERS_DOWN`).
pub(super) fn name(code: Code) -> Cow<'static, str> {
    // The crate's names are longhand; these are the ones an operator will search for.
    Cow::Borrowed(match code {
        Code::MessageSizeTooLarge => "MSG_SIZE_TOO_LARGE",
        Code::MessageBatchTooLarge => "RECORD_LIST_TOO_LARGE",
        Code::InvalidMessage => "INVALID_MSG",
        Code::InvalidMessageSize => "INVALID_MSG_SIZE",
        Code::UnknownTopicOrPartition => "UNKNOWN_TOPIC_OR_PART",
        Code::InvalidTopic => "TOPIC_EXCEPTION",
        Code::BrokerTransportFailure => "_TRANSPORT",
        Code::OperationTimedOut => "_TIMED_OUT",
        Code::MessageTimedOut => "_MSG_TIMED_OUT",
        Code::SSL => "_SSL",
        Code::ISRInsufficient => "_ISR_INSUFF",
        _ => return Cow::Owned(longhand(code)),
    })
}

/// `NotEnoughReplicas` as `NOT_ENOUGH_REPLICAS`; codes of the client itself begin with `_`.
fn longhand(code: Code) -> String {
    let mut name = String::from(if (code as i32) < -1 { "_" } else { "" });
    for (index, letter) in format!("{code:?}").chars().enumerate() {
        if letter.is_ascii_uppercase() && index > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Where commands in hints connect to, and as whom we do.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The bootstrap servers, comma-separated.
    pub(super) brokers: String,
    /// The principal that we are to the broker, if it is known from the settings.
    pub(super) principal: Option<String>,
}

impl Site {
    /// An event that is too large for its topic.
    pub(super) fn too_large(&self, topic: &str, size: usize, limit: Option<u32>) -> Failure {
        let brokers = &self.brokers;
        let limit = limit.map_or_else(String::new, |limit| format!(" of {limit} bytes"));
        // What a record adds to its key, value and headers is a fraction of this.
        let wanted = size + size / 8 + 1024;
        Failure::new(
            Class::Poison,
            format!("an event of {size} bytes exceeds the limit{limit} of topic `{topic}`"),
        )
        .code("MSG_SIZE_TOO_LARGE")
        .hint(format!(
            "kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
             --entity-name {topic} --add-config max.message.bytes={wanted}"
        ))
    }

    /// An event that the broker refuses for something else in it.
    pub(super) fn refused(topic: &str, code: Code) -> Failure {
        Failure::new(Class::Poison, format!("topic `{topic}` refuses the event: {code}"))
            .code(name(code))
    }

    /// A topic that takes nothing.
    pub(super) fn topic(&self, topic: &str, code: Code) -> Failure {
        let brokers = &self.brokers;
        match code {
            Code::TopicAuthorizationFailed => {
                let user = self.principal.as_deref().unwrap_or("<principal>");
                Failure::fixable(format!("writing to topic `{topic}` is not allowed")).hint(format!(
                    "kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:{user} \
                     --operation Write --operation Describe --topic {topic}"
                ))
            }
            Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownTopicId => {
                Failure::fixable(format!("topic `{topic}` does not exist")).hint(format!(
                    "kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic}"
                ))
            }
            _ => Failure::fixable(format!("topic `{topic}` takes nothing: {code}")),
        }
        .code(match code {
            Code::UnknownTopic | Code::UnknownTopicId => name(Code::UnknownTopicOrPartition),
            _ => name(code),
        })
    }

    /// Something that the client noticed about its connections; `reason` is librdkafka's text.
    pub(super) fn client(&self, code: Code, reason: &str) -> Failure {
        let brokers = &self.brokers;
        match code {
            Code::Authentication | Code::SaslAuthenticationFailed => {
                Failure::fixable(format!("brokers `{brokers}` refuse to authenticate us: {reason}"))
                    .hint("check `sasl.mechanism`, `sasl.username` and `sasl.password`")
            }
            Code::SSL => Failure::fixable(format!("TLS with brokers `{brokers}` fails: {reason}"))
                .hint("check `security.protocol` and `ssl.ca.location`"),
            Code::BrokerTransportFailure if asks_for_certificate(reason) => Failure::fixable(
                format!("brokers `{brokers}` refuse our certificate, or the lack of one: {reason}"),
            )
            .hint("check `ssl.certificate.location` and `ssl.key.location`"),
            Code::UnsupportedSASLMechanism => Failure::fixable(format!(
                "brokers `{brokers}` do not offer our SASL mechanism: {reason}"
            ))
            .hint("check `sasl.mechanism`"),
            Code::ClusterAuthorizationFailed => {
                let user = self.principal.as_deref().unwrap_or("<principal>");
                Failure::fixable("idempotent writing is not allowed").hint(format!(
                    "kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:{user} \
                     --operation IdempotentWrite --cluster"
                ))
            }
            Code::AllBrokersDown => {
                Failure::transient(format!("no broker of `{brokers}` can be reached"))
            }
            // A broker that restarts ends connections in these states too.
            Code::BrokerTransportFailure if speaks_otherwise(reason) => {
                Failure::transient(format!("brokers `{brokers}` fail: {reason}"))
                    .hint("if it goes on, check the port and `security.protocol`")
            }
            _ => Failure::transient(format!("brokers `{brokers}` fail: {reason}")),
        }
        .code(name(code))
    }

    /// A client that could not be made: a certificate that cannot be read, for one.
    pub(super) fn creation(error: &KafkaError) -> Failure {
        match error {
            KafkaError::ClientConfig(_, reason, key, _) => {
                Failure::configuration(format!("kafka property `{key}`: {reason}"))
            }
            KafkaError::ClientCreation(reason) => {
                Failure::fixable(format!("the Kafka client cannot be made: {reason}"))
            }
            other => Failure::transient(format!("the Kafka client cannot be made: {other}")),
        }
    }
}

/// TLS alerts 42 (bad certificate) and 116 (certificate required) come as a transport failure
/// with nothing but OpenSSL's text to tell them by.
fn asks_for_certificate(reason: &str) -> bool {
    ["alert number 42", "alert number 116", "alert bad certificate", "certificate required"]
        .iter()
        .any(|text| reason.contains(text))
}

/// TLS on a listener without it, or nothing of it on one with it, ends before anything else is said.
fn speaks_otherwise(reason: &str) -> bool {
    ["listener?", "in state SSL_HANDSHAKE", "in state APIVERSION_QUERY"]
        .iter()
        .any(|text| reason.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kafka() {
        assert_eq!(name(Code::NotEnoughReplicas), "NOT_ENOUGH_REPLICAS");
        assert_eq!(name(Code::TopicAuthorizationFailed), "TOPIC_AUTHORIZATION_FAILED");
        assert_eq!(name(Code::AllBrokersDown), "_ALL_BROKERS_DOWN");
        assert_eq!(name(Code::Authentication), "_AUTHENTICATION");
        assert_eq!(name(Code::OutOfOrderSequenceNumber), "OUT_OF_ORDER_SEQUENCE_NUMBER");
    }

    #[test]
    fn a_missing_client_certificate_is_for_the_operator() {
        let site = Site { brokers: "b:9093".to_owned(), principal: None };
        let reason = "ssl://b:9093: SSL alert number 42 (after 5ms in state APIVERSION_QUERY)";
        let failure = site.client(Code::BrokerTransportFailure, reason);
        assert_eq!(failure.class(), Class::Fixable);
        let reason = "ssl://b:9093: Disconnected";
        let failure = site.client(Code::BrokerTransportFailure, reason);
        assert_eq!(failure.class(), Class::Transient);
    }
}
