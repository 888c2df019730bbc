//! Compares what arrived with what was written. Pure: no broker, no clock.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use uuid::Uuid;

use super::{Event, History};

/// One message as a consumer got it, whatever the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// From the message's id; `None` where it has none, or one that is no UUID.
    pub(crate) id: Option<Uuid>,
    pub(crate) lane: Lane,
    /// The rest, as it must be in every copy.
    pub(crate) content: Content,
}

/// Where order is promised: a topic's partition, or a queue and 0.
pub(crate) type Lane = (String, i32);

/// All of a message that the relay is responsible for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The message key, or the routing key.
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    /// Headers, and what else the broker's messages have of that kind.
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) timestamp: Option<i64>,
}

/// The verdicts. Each list names events by their ids, as the log has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Number of committed events.
    pub(crate) written: usize,
    /// Number of them that arrived everywhere, at least once.
    pub(crate) delivered: usize,
    /// Number of further copies: legal, as long as they are equal.
    pub(crate) duplicates: usize,
    /// Committed, and never arrived at one of its destinations.
    pub(crate) missing: Vec<Uuid>,
    /// Arrived, though it was rolled back, never written, or meant for another destination.
    pub(crate) unexpected: Vec<String>,
    /// First occurrence came after that of a later event of its ordering key.
    pub(crate) reordered: Vec<Uuid>,
    /// Key, value or headers are not what the row says.
    pub(crate) altered: Vec<Uuid>,
    /// A copy that differs from the first one.
    pub(crate) changed_duplicates: Vec<Uuid>,
}

/// Judges deliveries, given lane by lane in the order of each lane's log.
///
/// `destinations` gives the topics and queues of an event, and what it must be like in each. They may
/// be of several brokers.
pub(crate) fn judge(
    history: &History,
    deliveries: &[Delivery],
    destinations: impl Fn(&Event) -> Vec<Expected>,
) -> Report {
    let mut report = Report { written: history.len(), ..Report::default() };
    let mut first: HashMap<(&str, Uuid), &Delivery> = HashMap::new();
    let mut order = Order::default();
    for delivery in deliveries {
        let Some(event) = delivery.id.and_then(|id| history.get(&id)) else {
            report.unexpected.push(describe(history, delivery));
            continue;
        };
        let place = delivery.lane.0.as_str();
        let expected = destinations(event).into_iter().find(|e| e.destination == place);
        let Some(expected) = expected else {
            report.unexpected.push(format!("{} in {place}", event.id));
            continue;
        };
        if let Some(earlier) = first.get(&(place, event.id)) {
            report.duplicates += 1;
            if earlier.content != delivery.content {
                report.changed_duplicates.push(event.id);
            }
            continue;
        }
        first.insert((place, event.id), delivery);
        if !expected.matches(event, &delivery.content) {
            report.altered.push(event.id);
        }
        if !order.follows(event, delivery) {
            report.reordered.push(event.id);
        }
    }
    for event in history.committed() {
        let arrived = |e: &Expected| first.contains_key(&(e.destination.as_str(), event.id));
        if destinations(event).iter().all(arrived) {
            report.delivered += 1;
        } else {
            report.missing.push(event.id);
        }
    }
    report
}

/// Where an event belongs, and what must be beside its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Topic or queue.
    pub(crate) destination: String,
    pub(crate) key: Option<Vec<u8>>,
    /// Headers that must be there; others may be.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Expected {
    fn matches(&self, event: &Event, content: &Content) -> bool {
        let has = |(name, value): &(String, Vec<u8>)| {
            content.headers.iter().any(|(n, v)| n == name && v.as_ref() == Some(value))
        };
        content.key == self.key
            && content.value.as_deref() == Some(event.payload.as_bytes())
            && self.headers.iter().all(has)
    }
}

/// How far each aggregate has come at each destination.
#[derive(Default)]
struct Order<'a>(HashMap<(&'a str, &'a str, &'a str), Reached<'a>>);

/// The latest event so far, and the lane that the first one came by.
struct Reached<'a> {
    n: i64,
    lane: &'a Lane,
}

impl<'a> Order<'a> {
    /// Whether this first occurrence comes after those of all earlier events, in the same lane:
    /// order between two lanes is nobody's promise, so an aggregate must stay in one.
    fn follows(&mut self, event: &'a Event, delivery: &'a Delivery) -> bool {
        let lane = &delivery.lane;
        let key = (lane.0.as_str(), event.aggregate_type.as_str(), event.aggregate_id.as_str());
        let reached = self.0.entry(key).or_insert(Reached { n: event.n - 1, lane });
        let follows = event.n > reached.n && reached.lane == lane;
        reached.n = event.n.max(reached.n);
        follows
    }
}

fn describe(history: &History, delivery: &Delivery) -> String {
    match delivery.id {
        Some(id) if history.was_rolled_back(&id) => format!("{id}, rolled back"),
        Some(id) => format!("{id}, never written"),
        None => format!("a message without an id in {:?}", delivery.lane),
    }
}

impl Report {
    /// Whether every verdict is good.
    pub(crate) fn is_clean(&self) -> bool {
        self.missing.is_empty()
            && self.unexpected.is_empty()
            && self.reordered.is_empty()
            && self.altered.is_empty()
            && self.changed_duplicates.is_empty()
    }

    /// # Panics
    ///
    /// Unless every verdict is good.
    pub(crate) fn assert_clean(&self) {
        assert!(self.is_clean(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "written={} delivered={} duplicates={} missing={} unexpected={} reordered={} \
             altered={} changed_duplicates={}",
            self.written,
            self.delivered,
            self.duplicates,
            self.missing.len(),
            self.unexpected.len(),
            self.reordered.len(),
            self.altered.len(),
            self.changed_duplicates.len()
        )?;
        let examples = |ids: &[Uuid]| ids.iter().take(3).map(Uuid::to_string).collect::<Vec<_>>();
        let unexpected = self.unexpected.iter().take(3).cloned().collect();
        let lists = [
            ("missing", examples(&self.missing)),
            ("unexpected", unexpected),
            ("reordered", examples(&self.reordered)),
            ("altered", examples(&self.altered)),
            ("changed_duplicates", examples(&self.changed_duplicates)),
        ];
        for (verdict, examples) in lists.iter().filter(|(_, examples)| !examples.is_empty()) {
            write!(f, "\n  {verdict}: {}", examples.join("; "))?;
        }
        Ok(())
    }
}
