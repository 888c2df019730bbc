//! What Kafka's topics make of events: which they refuse, and which they do not keep.
//!
//! A record's timestamp is its event's commit time (unless the topic puts the broker's own in its
//! place): whatever a topic decides by age, it decides by that, and after an outage events are old
//! when they arrive.

mod copies;
mod time;

use crate::replication::preflight::{Finding, Severity};
use crate::sink::kafka::facts::{Facts, Topic};

/// Topics that are named, of those with one fault.
const NAMED: usize = 10;

/// One fault of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    severity: Severity,
    /// What it is and what comes of it; the same for every topic that has it.
    message: String,
    mend: Mend,
}

/// What to type.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mend {
    /// `NAME=VALUE` of the topic's settings.
    Setting(String),
    /// Something else.
    Other(String),
}

impl Fault {
    fn new(message: impl Into<String>, mend: Mend) -> Self {
        Self { severity: Severity::Warning, message: message.into(), mend }
    }

    fn setting(message: impl Into<String>, setting: impl Into<String>) -> Self {
        Self::new(message, Mend::Setting(setting.into()))
    }
}

/// One line for each fault, and one for what was looked at.
pub(super) fn judge(subject: &str, facts: &Facts, max_event_size: usize) -> Vec<Finding> {
    let mut faults: Vec<(Fault, Vec<&str>)> = Vec::new();
    for topic in &facts.topics {
        for fault in of_topic(topic, facts, max_event_size) {
            match faults.iter_mut().find(|(known, _)| *known == fault) {
                Some((_, topics)) => topics.push(&topic.name),
                None => faults.push((fault, vec![&topic.name])),
            }
        }
    }
    let missing = facts.missing.iter().map(|name| absent(subject, name, facts));
    let found = faults.into_iter().map(|(fault, topics)| finding(subject, fault, &topics, facts));
    let mut findings: Vec<Finding> = missing.chain(found).collect();
    findings.extend(unreadable(subject, facts));
    findings.extend(looked_at(subject, facts));
    findings
}

fn of_topic(topic: &Topic, facts: &Facts, max_event_size: usize) -> Vec<Fault> {
    let mut faults = copies::faults(topic, facts.size);
    faults.extend(size(topic, max_event_size));
    faults.extend(time::faults(topic));
    faults.extend(compaction(topic));
    faults
}

fn size(topic: &Topic, max_event_size: usize) -> Option<Fault> {
    let limit: usize = topic.number("max.message.bytes")?;
    // What a record adds to its event is a fraction of this.
    let wanted = max_event_size + max_event_size / 8 + 1024;
    (max_event_size > limit).then(|| {
        let message = format!(
            "`max.message.bytes` is {limit}, and `max_event_size` is {max_event_size}: an event \
             between the two can never be delivered, and halts (or set `max_event_size: {limit}`)"
        );
        Fault::setting(message, format!("max.message.bytes={wanted}"))
    })
}

fn compaction(topic: &Topic) -> Option<Fault> {
    let policy = topic.settings.get("cleanup.policy")?;
    policy.contains("compact").then(|| {
        let message = format!(
            "`cleanup.policy` is `{policy}`: of each key only the last event stays, and an event \
             without a key (its aggregate id is NULL) is refused, and halts"
        );
        Fault::setting(message, "cleanup.policy=delete")
    })
}

impl Topic {
    /// A setting that is a number.
    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.settings.get(name)?.parse().ok()
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.settings.get(name).is_some_and(|it| it == value)
    }
}

fn finding(subject: &str, fault: Fault, topics: &[&str], facts: &Facts) -> Finding {
    let Fault { severity, message, mend } = fault;
    let message = format!("{}: {message}", names(topics));
    let finding = Finding { severity, ..Finding::warning(subject, message) };
    let others = if topics.len() > 1 { ", and so for the others" } else { "" };
    match (mend, topics.first()) {
        (Mend::Setting(setting), Some(topic)) => finding.fix(format!(
            "`kafka-configs.sh --bootstrap-server {} --alter --entity-type topics --entity-name \
             {topic} --add-config {setting}`{others}",
            facts.brokers
        )),
        (Mend::Setting(text) | Mend::Other(text), _) => finding.fix(text),
    }
}

/// Not an error: the brokers may create it with its first event.
fn absent(subject: &str, topic: &str, facts: &Facts) -> Finding {
    let consequence = if facts.creates_topics {
        "the brokers would create it when it is first used, with their defaults"
    } else {
        "its first event halts, unless the brokers create topics by themselves"
    };
    let message = format!("topic `{topic}` does not exist (or may not be seen): {consequence}");
    Finding::warning(subject, message).fix(format!(
        "`kafka-topics.sh --bootstrap-server {} --create --topic {topic}`",
        facts.brokers
    ))
}

/// `run` does without it.
fn unreadable(subject: &str, facts: &Facts) -> Option<Finding> {
    let topics: Vec<&str> =
        facts.topics.iter().filter(|it| it.settings.is_empty()).map(|it| &*it.name).collect();
    let topic = topics.first()?;
    let user = facts.principal.as_deref().unwrap_or("<principal>");
    let message = format!(
        "{}: sizes, copies and retention are not checked, since the relay may not read the settings",
        names(&topics)
    );
    Some(Finding::ok(subject, message).fix(format!(
        "`kafka-acls.sh --bootstrap-server {} --add --allow-principal User:{user} --operation \
         DescribeConfigs --topic {topic}`",
        facts.brokers
    )))
}

/// With one broker, nobody can do better than one copy.
fn looked_at(subject: &str, facts: &Facts) -> Option<Finding> {
    let topics: Vec<&str> =
        facts.topics.iter().filter(|it| !it.settings.is_empty()).map(|it| &*it.name).collect();
    if topics.is_empty() {
        return None;
    }
    let message = match facts.size {
        1 => "settings are read; the cluster is one broker, and an event is as safe as its disk",
        _ => "settings are read",
    };
    Some(Finding::ok(subject, format!("{}: {message}", names(&topics))))
}

/// `topic `a``, or `topics `a`, `b` and 3 more`.
fn names(topics: &[&str]) -> String {
    let quoted: Vec<String> = topics.iter().take(NAMED).map(|it| format!("`{it}`")).collect();
    let word = if topics.len() == 1 { "topic" } else { "topics" };
    match topics.len().saturating_sub(NAMED) {
        0 => format!("{word} {}", quoted.join(", ")),
        more => format!("{word} {} and {more} more", quoted.join(", ")),
    }
}

#[cfg(test)]
mod tests;
