//! What a producer's callbacks do: they run in the driver's thread while it polls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, ProducerContext};
use tokio::time::Instant;

use super::shared::Shared;
use super::verdict::Failed;
use crate::sink::{DeliveryId, Outcome};

/// A producer of this sink.
pub(super) type Producer = BaseProducer<Context>;

/// What belongs to one producer.
pub(super) struct Context {
    shared: Arc<Shared>,
    /// Something failed: nothing may be handed to this producer any more.
    failing: AtomicBool,
    failures: Mutex<Vec<Failed>>,
    logs: LogLimit,
}

impl Context {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            failing: AtomicBool::new(false),
            failures: Mutex::default(),
            logs: LogLimit::default(),
        }
    }

    /// Whether something failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Acquire)
    }

    /// Notes a delivery that failed, or could not even be handed to the client.
    pub(super) fn fail(&self, failed: Failed) {
        // Before anything else: from here on nothing more is handed over.
        self.failing.store(true, Ordering::Release);
        self.failures().push(failed);
    }

    /// The failures noted so far.
    pub(super) fn take_failures(&self) -> Vec<Failed> {
        std::mem::take(&mut *self.failures())
    }

    fn failures(&self) -> MutexGuard<'_, Vec<Failed>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let id = DeliveryId(opaque as u64);
        let message = match result {
            Ok(message) | Err((_, message)) => message,
        };
        let topic = self.shared.topics.find(message.topic());
        let partition = u32::try_from(message.partition()).unwrap_or(u32::MAX);
        match result {
            Ok(_) => {
                if let Some(topic) = topic {
                    topic.acked(partition);
                }
                self.shared.acknowledged(id);
                self.shared.mailbox.outcome(id, Outcome::Acknowledged);
                self.shared.made_room();
            }
            Err((error, message)) => self.fail(Failed {
                id,
                topic: topic.map_or(u32::MAX, |topic| topic.index),
                partition,
                code: error.rdkafka_error_code().unwrap_or(Code::Unknown),
                size: message.payload_len() + message.key_len(),
            }),
        }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        if matches!(level, RDKafkaLogLevel::Debug) || is_expected(facility, text) {
            // Asked for by `debug`: all of it.
            tracing::debug!(target: "rdkafka", facility, "{text}");
            return;
        }
        if let Some(reason) = ended_unheard(facility, text) {
            self.shared.client_error(Code::BrokerTransportFailure, reason);
        }
        let Some(suppressed) = self.logs.admit(facility) else { return };
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => {
                tracing::warn!(target: "rdkafka", facility, suppressed, "{text}");
            }
            _ => tracing::info!(target: "rdkafka", facility, suppressed, "{text}"),
        }
    }

    fn stats_raw(&self, _statistics: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        if code == Code::Fatal {
            self.failing.store(true, Ordering::Release);
            return;
        }
        self.shared.client_error(code, reason);
    }
}

/// Warnings that no operator can do anything about: that the guarantee which order stands on is called
/// experimental, and that a broker which has just started is still loading what it knows.
fn is_expected(facility: &str, text: &str) -> bool {
    match facility {
        "CONFWARN" => text.contains("enable.gapless.guarantee"),
        "GETPID" => text.contains("Coordinator load in progress"),
        _ => false,
    }
}

/// The text of a line which says that a broker ended a connection before it had answered anything, as
/// one does whose port is for TLS. It is told nowhere else.
fn ended_unheard<'a>(facility: &str, text: &'a str) -> Option<&'a str> {
    let is_it = facility == "FAIL" && text.contains("in state APIVERSION_QUERY");
    is_it.then(|| text.split_once("]: ").map_or(text, |(_thread, text)| text))
}

/// Lets one line of a kind through every ten seconds: librdkafka repeats itself without end.
#[derive(Default)]
struct LogLimit {
    kinds: Mutex<HashMap<String, (Instant, u64)>>,
}

impl LogLimit {
    const EVERY: Duration = Duration::from_secs(10);

    /// How many lines of this kind were held back since the last one; `None` holds this one back.
    fn admit(&self, kind: &str) -> Option<u64> {
        let now = Instant::now();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((last, held)) = kinds.get_mut(kind) else {
            kinds.insert(kind.to_owned(), (now, 0));
            return Some(0);
        };
        if now.saturating_duration_since(*last) < Self::EVERY {
            *held += 1;
            return None;
        }
        *last = now;
        Some(std::mem::take(held))
    }
}
