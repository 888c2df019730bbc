//! What `run` finds out only by its events, and `check` beforehand: whether RabbitMQ has anything
//! bound where events go, and would keep them; whether Kafka's topics take every event, and keep it;
//! whether routes part what belongs together.
//!
//! Where events go is told by the routes as far as they say it literally, and else by the rows that
//! the outbox table holds now.

mod address;
mod bindings;
mod routes;
mod rows;
mod size;
mod topics;

use std::collections::BTreeSet;
use std::time::Duration;

use super::sinks::{self, Known, Trial};
use crate::config::{
    Config, KafkaConfig, RabbitMqConfig, SinkConfig, TargetConfig, TemplatePart, TemplateText,
};
use crate::failure::{Class, Failure};
use crate::postgres::{self, Settings};
use crate::replication::preflight::Finding;
use crate::routing::Destination;
use crate::sink::kafka::facts;
use crate::sink::rabbitmq::management;

/// How long reading rows may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Topics whose settings are read.
const MAX_TOPICS: usize = 200;

/// Looks at the routes, and at every broker sink of `config`; of `trials` are those that answer.
///
/// # Errors
///
/// A configuration that cannot be compiled.
pub async fn survey(config: &Config, trials: &[Trial]) -> Result<Vec<Finding>, Failure> {
    let mut findings = routes::judge(config);
    for (index, (name, sink)) in config.sinks.iter().enumerate() {
        let known = trials.iter().find(|trial| trial.sink == *name);
        let known = known.and_then(|trial| trial.outcome.as_ref().ok());
        let surveyed = Surveyed { config, index, subject: format!("sink `{name}`") };
        match sink {
            SinkConfig::RabbitMq(rabbitmq) => {
                findings.extend(surveyed.rabbitmq(rabbitmq, known).await?);
            }
            // Who does not answer has been named.
            SinkConfig::Kafka(kafka) if known.is_some() => {
                findings.extend(surveyed.kafka(kafka).await?);
            }
            SinkConfig::Kafka(_) | SinkConfig::Stdout | SinkConfig::Null => {}
        }
    }
    Ok(findings)
}

struct Surveyed<'a> {
    config: &'a Config,
    index: usize,
    subject: String,
}

impl Surveyed<'_> {
    async fn rabbitmq(
        &self,
        rabbitmq: &RabbitMqConfig,
        known: Option<&Known>,
    ) -> Result<Vec<Finding>, Failure> {
        let limit = known.and_then(|known| known.largest);
        let mut findings: Vec<Finding> = limit
            .and_then(|limit| {
                size::of_body(&self.subject, limit, self.config.source.max_event_size)
            })
            .into_iter()
            .collect();
        let (Some(api), Some(server)) = (&rabbitmq.management, rabbitmq.servers.first()) else {
            let message = "bindings and queues are not checked, since that takes RabbitMQ's \
                           management API (`management: {url: …}`)";
            findings.push(Finding::ok(self.subject.clone(), message));
            return Ok(findings);
        };
        let topology = match management::topology(api, &rabbitmq.tls, &server.vhost).await {
            Ok(topology) => topology,
            Err(failure) => {
                findings.push(self.not_checked("bindings and queues", &failure));
                return Ok(findings);
            }
        };
        let mut addresses = address::literal(self.config, self.index);
        addresses.extend(address::of_rows(&self.of_rows(&mut findings).await?));
        findings.extend(bindings::judge(&self.subject, &topology, &addresses));
        Ok(findings)
    }

    async fn kafka(&self, kafka: &KafkaConfig) -> Result<Vec<Finding>, Failure> {
        let mut findings = Vec::new();
        let mut names: BTreeSet<String> =
            sinks::literal_topics(self.config, self.index).into_iter().collect();
        for destination in self.of_rows(&mut findings).await? {
            if let Destination::Topic(name) = destination {
                names.insert(name.to_string());
            }
        }
        let names: Vec<String> = names.into_iter().take(MAX_TOPICS).collect();
        let client_id = format!("pgoutbox-{}", self.config.name);
        match facts::facts(kafka, &client_id, &names).await {
            Ok(facts) => {
                let size = self.config.source.max_event_size;
                findings.extend(topics::judge(&self.subject, &facts, size));
            }
            Err(failure) if failure.class() == Class::Configuration => return Err(failure),
            Err(failure) => findings.push(self.not_checked("topics", &failure)),
        }
        Ok(findings)
    }

    /// Where the rows of the outbox tables would go now; empty where routes say it all literally.
    async fn of_rows(&self, findings: &mut Vec<Finding>) -> Result<Vec<Destination>, Failure> {
        if !self.depends_on_rows() {
            return Ok(Vec::new());
        }
        let source = &self.config.source;
        let settings = Settings::parse(source.url.expose(), source.password.as_ref())?;
        let read = async {
            let session = postgres::connect(&settings, "pgoutbox check").await?;
            rows::destinations(self.config, self.index, &session).await
        };
        let read = tokio::time::timeout(PATIENCE, read).await.unwrap_or_else(|_| {
            Err(Failure::transient(format!("no answer within {} s", PATIENCE.as_secs())))
        });
        match read {
            Ok(found) => Ok(found),
            Err(failure) if failure.class() == Class::Configuration => Err(failure),
            // A table or a grant that is missing has its own line.
            Err(failure) if failure.class() == Class::Fixable => Ok(Vec::new()),
            Err(failure) => {
                findings.push(self.not_checked("what rows would give", &failure));
                Ok(Vec::new())
            }
        }
    }

    /// Whether a route to the sink leaves its destination to the row.
    fn depends_on_rows(&self) -> bool {
        let is_literal = |text: &TemplateText| {
            text.parts.iter().all(|part| matches!(part, TemplatePart::Literal(_)))
        };
        let mut routes = self.config.routes.iter().filter(|route| route.sink == self.index);
        !routes.all(|route| match &route.target {
            TargetConfig::Topic { topic, .. } => is_literal(topic),
            TargetConfig::Exchange { exchange, routing_key } => {
                is_literal(exchange) && is_literal(routing_key)
            }
        })
    }

    /// Not an error: `run` does without.
    fn not_checked(&self, what: &str, failure: &Failure) -> Finding {
        let message = format!("{what} are not checked: {failure}");
        let finding = Finding::warning(self.subject.clone(), message);
        match failure.way_out() {
            Some(way_out) => finding.fix(way_out),
            None => finding,
        }
    }
}
