//! The largest event against what a broker takes.

use crate::replication::preflight::Finding;

/// A broker that takes bodies of at most `limit` bytes.
pub(super) fn of_body(subject: &str, limit: usize, max_event_size: usize) -> Option<Finding> {
    let message = format!(
        "the broker takes messages of at most {limit} bytes, and `max_event_size` is {max_event_size}: \
         an event between the two can never be delivered, and halts"
    );
    (max_event_size > limit).then(|| {
        Finding::warning(subject, message).fix(format!(
            "`max_event_size: {limit}` under `source.postgres`; or `max_message_size = \
             {max_event_size}` in rabbitmq.conf, and `max_message_size: {max_event_size}` in the sink, \
             which cannot ask for it"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_that_the_broker_refuses_are_a_matter() {
        assert_eq!(of_body("sink `s`", 16, 16), None);
        let finding = of_body("sink `s`", 16, 17).unwrap();
        assert!(finding.fix.unwrap().starts_with("`max_event_size: 16`"));
    }
}
