//! Routes that may scatter the events of one ordering key: over several destinations, between which
//! there is no order, or over the partitions of one topic.
//!
//! Judged by the configuration alone, before there are events. Order is promised for events of one
//! ordering key in one destination (guarantee 5), so a destination and a message key should be
//! functions of the ordering key; whatever else they are made of may change within it.

mod key;
mod place;

use key::Key;
use place::Place;

use crate::config::{Config, RouteConfig, SinkConfig, TableConfig, TargetConfig, TemplateText};

/// Routes with which the order within an ordering key ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scatter {
    /// Their places in the configuration, from 1; the first is the one to look at.
    pub routes: Vec<usize>,
    /// What comes of it.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

/// Everything of the kind in `config`, each once, by table and route.
pub fn scatters(config: &Config) -> Vec<Scatter> {
    let mut found: Vec<Scatter> = Vec::new();
    for table in &config.source.tables {
        for scatter in of_table(config, table) {
            if !found.contains(&scatter) {
                found.push(scatter);
            }
        }
    }
    found
}

fn of_table(config: &Config, table: &TableConfig) -> Vec<Scatter> {
    let key = Key::new(table);
    let is_kafka = |route: &RouteConfig| {
        matches!(config.sinks.get(route.sink), Some((_, SinkConfig::Kafka(_))))
    };
    let routes: Vec<Place<'_>> = (1..)
        .zip(&config.routes)
        .filter_map(|(number, route)| Place::new(&key, number, route, is_kafka(route)))
        .collect();
    let alone = routes.iter().flat_map(|route| within(&key, route));
    alone.chain(between(&key, &routes)).collect()
}

/// What one route does by itself.
fn within(key: &Key<'_>, place: &Place<'_>) -> Vec<Scatter> {
    let TargetConfig::Topic { topic, key: message_key } = &place.route.target else {
        return Vec::new();
    };
    if !place.is_kafka {
        return Vec::new();
    }
    let by_topic = place.unsteady(key, topic).map(|name| topic_depends(key, place, topic, name));
    let default = key::default_message_key();
    let message_key = message_key.as_ref().unwrap_or(&default);
    let by_key =
        place.unsteady(key, message_key).map(|name| key_depends(key, place, message_key, name));
    by_topic.into_iter().chain(by_key).collect()
}

fn topic_depends(key: &Key<'_>, place: &Place<'_>, topic: &TemplateText, name: &str) -> Scatter {
    let fix = match name.strip_prefix('@') {
        Some(_) => format!("take `${{{name}}}` out of `topic`"),
        None => format!(
            "take `${{{name}}}` out of `topic`; or, where it never changes within a key, say so: \
             `order_by: [{}, {name}]`",
            key.names().join(", ")
        ),
    };
    Scatter {
        routes: vec![place.number],
        message: format!(
            "topic `{}` depends on `{name}`, which is not of the ordering key ({key}): events of one \
             key may go to several topics, and there is no order between them",
            place::show(topic)
        ),
        fix,
    }
}

fn key_depends(key: &Key<'_>, place: &Place<'_>, text: &TemplateText, name: &str) -> Scatter {
    Scatter {
        routes: vec![place.number],
        message: format!(
            "the message key `{}` depends on `{name}`, which is not of the ordering key ({key}): \
             events of one ordering key spread over the topic's partitions, and there is no order \
             between them",
            place::show(text)
        ),
        fix: format!("`key: {}`", key.good_message_key()),
    }
}

/// Pairs of routes that share an ordering key, by the first of the pair.
fn between(key: &Key<'_>, routes: &[Place<'_>]) -> Vec<Scatter> {
    let mut found = Vec::new();
    for (index, first) in routes.iter().enumerate() {
        // Whoever takes every event of its keys leaves nothing of them to later routes.
        let Some(by) = first.partial_by() else { continue };
        let shares = |(later, second): &(usize, &Place<'_>)| {
            first.shares_a_key(second)
                && first.destination() != second.destination()
                && !routes.iter().take(*later).any(|other| other.covers(first, second))
        };
        let others: Vec<&Place<'_>> =
            routes.iter().enumerate().skip(index + 1).filter(shares).map(|(_, it)| it).collect();
        if !others.is_empty() {
            found.push(parts(key, first, &others, by));
        }
    }
    found
}

fn parts(key: &Key<'_>, first: &Place<'_>, others: &[&Place<'_>], by: &str) -> Scatter {
    let named: Vec<String> = others.iter().map(|other| other.describe()).collect();
    Scatter {
        routes: std::iter::once(first).chain(others.iter().copied()).map(|it| it.number).collect(),
        message: format!(
            "{} takes some events of an ordering key ({key}) by `{by}`, and {} the others: there is \
             no order between them",
            first.describe(),
            named.join(", "),
        ),
        fix: format!(
            "send all of a key to one place, where its readers choose (an event's type is its header \
             `eventType`), or `match` by {} only",
            key.names().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and "),
        ),
    }
}

#[cfg(test)]
mod tests;
