//! What a topic decides by a record's timestamp, which is the commit's.

use super::{Fault, Topic};

/// Events may be so old when they arrive: an outage over a night and its morning.
const OUTAGE: i64 = 24 * 3_600_000;

/// Two machines' clocks may differ by so much.
const SKEW: i64 = 60_000;

pub(super) fn faults(topic: &Topic) -> Vec<Fault> {
    // Where the broker's own time takes the place of ours, an event's age does not matter.
    if topic.is("message.timestamp.type", "LogAppendTime") {
        return Vec::new();
    }
    let difference = "message.timestamp.difference.max.ms";
    [
        retention(topic),
        refused(topic, "message.timestamp.before.max.ms"),
        // Up to 3.x, and in both directions.
        refused(topic, difference),
        ahead(topic),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn retention(topic: &Topic) -> Option<Fault> {
    let kept: i64 = topic.number("retention.ms")?;
    let deletes = topic.settings.get("cleanup.policy").is_none_or(|it| it.contains("delete"));
    (deletes && (0..OUTAGE).contains(&kept)).then(|| {
        let message = format!(
            "`retention.ms` is {kept} ({}), counted from the commit: what is delivered after a longer \
             outage may be deleted before anybody has read it",
            duration(kept)
        );
        Fault::setting(message, "retention.ms=604800000")
    })
}

fn refused(topic: &Topic, name: &str) -> Option<Fault> {
    let most: i64 = topic.number(name)?;
    (most < OUTAGE).then(|| {
        let message = format!(
            "`{name}` is {most} ({}): an event whose commit is older is refused, and halts, as after \
             an outage",
            duration(most)
        );
        Fault::setting(message, format!("{name}={}", i64::MAX))
    })
}

fn ahead(topic: &Topic) -> Option<Fault> {
    let name = "message.timestamp.after.max.ms";
    let most: i64 = topic.number(name)?;
    (most < SKEW).then(|| {
        let message = format!(
            "`{name}` is {most}: if PostgreSQL's clock is ahead of the broker's by more, events are \
             refused, and halt"
        );
        Fault::setting(message, format!("{name}=3600000"))
    })
}

fn duration(millis: i64) -> String {
    match millis {
        7_200_000.. => format!("{} hours", millis / 3_600_000),
        120_000.. => format!("{} minutes", millis / 60_000),
        _ => format!("{} seconds", millis / 1_000),
    }
}
