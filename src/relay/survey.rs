//! What of RabbitMQ `run` finds out only by its events, and `check` beforehand: whether anything is
//! bound where events go, and whether it would keep them.
//!
//! Where events go is told by the routes as far as they say it literally, and else by the rows that
//! the outbox table holds now.

mod address;
mod bindings;
mod rows;

use std::collections::BTreeSet;

use crate::config::{Config, RabbitMqConfig, SinkConfig};
use crate::failure::{Class, Failure};
use crate::postgres::{self, Settings};
use crate::replication::preflight::Finding;
use crate::sink::rabbitmq::management;
use address::Address;

/// Looks at every RabbitMQ sink of `config`.
///
/// # Errors
///
/// A configuration that cannot be compiled.
pub async fn survey(config: &Config) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for (index, (name, sink)) in config.sinks.iter().enumerate() {
        if let SinkConfig::RabbitMq(rabbitmq) = sink {
            findings.extend(survey_sink(config, index, name, rabbitmq).await?);
        }
    }
    Ok(findings)
}

async fn survey_sink(
    config: &Config,
    index: usize,
    name: &str,
    rabbitmq: &RabbitMqConfig,
) -> Result<Vec<Finding>, Failure> {
    let subject = format!("sink `{name}`");
    let (Some(api), Some(server)) = (&rabbitmq.management, rabbitmq.servers.first()) else {
        let message = "bindings and queues are not checked, since that takes RabbitMQ's management \
                       API (`management: {url: …}`)";
        return Ok(vec![Finding::ok(subject, message)]);
    };
    let topology = match management::topology(api, &rabbitmq.tls, &server.vhost).await {
        Ok(topology) => topology,
        Err(failure) => return Ok(vec![not_checked(subject, "bindings and queues", &failure)]),
    };
    let mut findings = Vec::new();
    let mut addresses = address::literal(config, index);
    if address::depends_on_rows(config, index) {
        match of_rows(config, index).await {
            Ok(found) => addresses.extend(found),
            Err(failure) if failure.class() == Class::Configuration => return Err(failure),
            Err(failure) => {
                findings.push(not_checked(subject.clone(), "what rows would give", &failure));
            }
        }
    }
    findings.extend(bindings::judge(&subject, &topology, &addresses));
    Ok(findings)
}

/// Where the rows of the outbox tables would go now.
async fn of_rows(config: &Config, sink: usize) -> Result<BTreeSet<Address>, Failure> {
    let settings = Settings::parse(config.source.url.expose(), config.source.password.as_ref())?;
    let session = postgres::connect(&settings, "pgoutbox check").await?;
    rows::addresses(config, sink, &session).await
}

/// Not an error: `run` does without.
fn not_checked(subject: String, what: &str, failure: &Failure) -> Finding {
    let finding = Finding::warning(subject, format!("{what} are not checked: {failure}"));
    match failure.way_out() {
        Some(way_out) => finding.fix(way_out),
        None => finding,
    }
}
