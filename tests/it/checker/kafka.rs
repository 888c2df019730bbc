//! From records of Kafka to what the judge judges.

use std::collections::HashSet;
use std::time::Duration;

use uuid::Uuid;

use super::{Content, Delivery, Event, Expected, History, Report, judge};
use crate::support::{Reader, Record, Topics};

/// Records as deliveries, each partition in the order of its log.
pub(crate) fn record_deliveries(records: &[Record]) -> Vec<Delivery> {
    let mut records: Vec<&Record> = records.iter().collect();
    records.sort_by_key(|record| (&record.topic, record.partition, record.offset));
    records.into_iter().map(delivery).collect()
}

/// Reads until every committed event has come at least once, and then what else is in the log.
pub(crate) fn read_all<'a>(
    history: &History,
    reader: &'a mut Reader,
    deadline: Duration,
) -> &'a [Record] {
    let mut missing: HashSet<Uuid> = history.committed().map(|event| event.id).collect();
    let mut seen = 0;
    let what = format!("all of {} events", history.len());
    reader.read_until(&what, deadline, |records| {
        for record in &records[seen..] {
            if let Some(id) = id(record) {
                missing.remove(&id);
            }
        }
        seen = records.len();
        missing.is_empty()
    });
    reader.read_to_end()
}

/// Judges a relay with the default route: a topic for each aggregate type, the aggregate id as key,
/// and the headers `id` and `eventType`.
pub(crate) fn judge_topics(history: &History, records: &[Record], topics: &Topics) -> Report {
    judge(history, &record_deliveries(records), |event| vec![in_topic(event, topics)])
}

/// What the default route makes of an event.
pub(crate) fn in_topic(event: &Event, topics: &Topics) -> Expected {
    Expected {
        destination: topics.name(&event.aggregate_type),
        key: Some(event.aggregate_id.clone().into_bytes()),
        headers: vec![
            ("id".to_owned(), event.id.to_string().into_bytes()),
            ("eventType".to_owned(), event.event_type.clone().into_bytes()),
        ],
    }
}

fn id(record: &Record) -> Option<Uuid> {
    Uuid::parse_str(record.header("id")?).ok()
}

fn delivery(record: &Record) -> Delivery {
    Delivery {
        id: id(record),
        lane: (record.topic.clone(), record.partition),
        content: Content {
            key: record.key.clone(),
            value: record.value.clone(),
            headers: record.headers.clone(),
            timestamp: record.timestamp,
        },
    }
}
