//! From messages of RabbitMQ to what the judge judges.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use uuid::Uuid;

use super::{Content, Delivery, Event, Expected, History, Report, judge};
use crate::support::{EXCHANGE, Message, RabbitReader};

/// Messages as deliveries, each queue in its order.
pub(crate) fn message_deliveries(messages: &[Message]) -> Vec<Delivery> {
    let mut messages: Vec<&Message> = messages.iter().collect();
    messages.sort_by_key(|message| &message.queue);
    messages.into_iter().map(delivery).collect()
}

/// Reads until every committed event has come at least once to each of its queues that the reader
/// reads, and then what else is there.
pub(crate) async fn read_queues_of<'a>(
    history: &History,
    reader: &'a mut RabbitReader,
    deadline: Duration,
    queues: impl Fn(&Event) -> Vec<Expected>,
) -> &'a [Message] {
    let mut missing = Missing::default();
    for event in history.committed() {
        let own = queues(event).into_iter().filter(|expected| reader.reads(&expected.destination));
        missing.0.extend(own.map(|expected| (expected.destination, event.id)));
    }
    let mut seen = 0;
    let what = format!("all of {} messages", missing.0.len());
    reader
        .read_until(&what, deadline, |messages| {
            for message in &messages[seen..] {
                if let Some(id) = id(message) {
                    missing.0.remove(&(message.queue.clone(), id));
                }
            }
            seen = messages.len();
            missing.0.is_empty()
        })
        .await;
    reader.read_to_end().await
}

/// What has not come yet, by queue. A test that waited in vain tells it.
#[derive(Default)]
struct Missing(HashSet<(String, Uuid)>);

impl Drop for Missing {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut queues: BTreeMap<&str, Vec<Uuid>> = BTreeMap::new();
        for (queue, id) in &self.0 {
            queues.entry(queue).or_default().push(*id);
        }
        for (queue, ids) in queues {
            eprintln!("missing in {queue}: {}, such as {:?}", ids.len(), &ids[..ids.len().min(5)]);
        }
    }
}

/// The same for the cases' layout.
pub(crate) async fn read_queues<'a>(
    history: &History,
    reader: &'a mut RabbitReader,
    deadline: Duration,
) -> &'a [Message] {
    read_queues_of(history, reader, deadline, |event| vec![in_queue(event)]).await
}

/// Judges a relay with the cases' layout: a queue for each aggregate type, which is also the routing
/// key, and the headers `id` and `eventType`.
pub(crate) fn judge_queues(history: &History, messages: &[Message]) -> Report {
    judge(history, &message_deliveries(messages), |event| vec![in_queue(event)])
}

/// What the cases' layout makes of an event.
pub(crate) fn in_queue(event: &Event) -> Expected {
    by_key(event, &event.aggregate_type, &event.aggregate_type)
}

/// An event in a queue that it got into by a routing key of [`EXCHANGE`].
pub(crate) fn by_key(event: &Event, queue: &str, routing_key: &str) -> Expected {
    let headers = [
        ("id", event.id.to_string()),
        ("eventType", event.event_type.clone()),
        (":exchange", EXCHANGE.to_owned()),
        (":type", event.event_type.clone()),
        (":content-type", "application/json".to_owned()),
        (":delivery-mode", "2".to_owned()),
    ];
    Expected {
        destination: queue.to_owned(),
        key: Some(routing_key.as_bytes().to_vec()),
        headers: headers.map(|(name, value)| (name.to_owned(), value.into_bytes())).to_vec(),
    }
}

fn id(message: &Message) -> Option<Uuid> {
    Uuid::parse_str(message.id()?).ok()
}

fn delivery(message: &Message) -> Delivery {
    let mut headers = message.headers();
    headers.extend(properties(message));
    Delivery {
        id: id(message),
        lane: (message.queue.clone(), 0),
        content: Content {
            key: Some(message.routing_key.clone().into_bytes()),
            value: Some(message.body.clone()),
            headers,
            timestamp: message.properties.timestamp().map(|seconds| seconds.try_into().unwrap()),
        },
    }
}

/// What is not in a header, as headers whose names begin with a colon.
fn properties(message: &Message) -> impl Iterator<Item = (String, Option<Vec<u8>>)> {
    let properties = &message.properties;
    let text = |text: &Option<lapin::types::ShortString>| text.as_ref().map(ToString::to_string);
    let number = |number: &Option<u8>| number.map(|n| n.to_string());
    let all = [
        (":exchange", Some(message.exchange.clone())),
        (":type", text(properties.kind())),
        (":content-type", text(properties.content_type())),
        (":content-encoding", text(properties.content_encoding())),
        (":delivery-mode", number(properties.delivery_mode())),
        (":priority", number(properties.priority())),
        (":expiration", text(properties.expiration())),
        (":correlation-id", text(properties.correlation_id())),
        (":reply-to", text(properties.reply_to())),
        (":user-id", text(properties.user_id())),
        (":app-id", text(properties.app_id())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Some(value?.into_bytes()))))
}
