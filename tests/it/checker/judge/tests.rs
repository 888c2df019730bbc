//! Each verdict on made-up deliveries: a judge that always nods proves nothing.

use uuid::Uuid;

use super::{Content, Delivery, Expected, Report, judge};
use crate::checker::{Event, History};

/// Two aggregates with three events each, one rolled-back row, and the deliveries of a good relay.
struct Story {
    history: History,
    deliveries: Vec<Delivery>,
}

const ROLLED_BACK: Uuid = Uuid::from_u128(99);

impl Story {
    fn new() -> Self {
        let events: Vec<Event> = (1..=3).flat_map(|n| [event("a", n), event("b", n)]).collect();
        let deliveries = events.iter().map(delivery).collect();
        let mut history = History::default();
        history.commit(events);
        history.roll_back([Event { id: ROLLED_BACK, ..event("a", 4) }]);
        Self { history, deliveries }
    }

    fn judge(&self) -> Report {
        judge(&self.history, &self.deliveries, |event| vec![expected(event)])
    }

    /// Adds a copy of a delivery at the end and returns it.
    fn resend(&mut self, index: usize) -> &mut Delivery {
        self.deliveries.push(self.deliveries[index].clone());
        self.deliveries.last_mut().unwrap()
    }
}

fn event(aggregate_id: &str, n: i64) -> Event {
    let first = u128::from(aggregate_id.as_bytes()[0]);
    Event {
        id: Uuid::from_u128(first * 1000 + u128::try_from(n).unwrap()),
        aggregate_type: "order".to_owned(),
        aggregate_id: aggregate_id.to_owned(),
        event_type: "created".to_owned(),
        payload: format!("{{\"n\": {n}}}"),
        n,
    }
}

fn delivery(event: &Event) -> Delivery {
    Delivery {
        id: Some(event.id),
        lane: ("orders".to_owned(), 0),
        content: Content {
            key: Some(event.aggregate_id.clone().into_bytes()),
            value: Some(event.payload.clone().into_bytes()),
            headers: vec![("id".to_owned(), Some(event.id.to_string().into_bytes()))],
            timestamp: Some(1),
        },
    }
}

fn expected(event: &Event) -> Expected {
    Expected {
        destination: "orders".to_owned(),
        key: Some(event.aggregate_id.clone().into_bytes()),
        headers: vec![("id".to_owned(), event.id.to_string().into_bytes())],
    }
}

#[test]
fn a_good_relay_is_found_good() {
    let report = Story::new().judge();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.written, report.delivered, report.duplicates), (6, 6, 0));
}

#[test]
fn equal_copies_are_counted_and_legal_even_after_later_events() {
    let mut story = Story::new();
    story.resend(0);
    story.resend(0);
    let report = story.judge();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.duplicates, 2);
}

#[test]
fn a_committed_row_that_did_not_arrive_is_missing() {
    let mut story = Story::new();
    let lost = story.deliveries.remove(5);
    let report = story.judge();
    assert_eq!(report, Report { missing: vec![lost.id.unwrap()], ..report.clone() });
    assert!(!report.is_clean());
    assert_eq!(report.delivered, 5);
}

#[test]
fn a_rolled_back_row_is_unexpected() {
    let mut story = Story::new();
    story.resend(0).id = Some(ROLLED_BACK);
    let report = story.judge();
    assert_eq!(report.unexpected, [format!("{ROLLED_BACK}, rolled back")]);
    assert!(!report.is_clean());
}

#[test]
fn a_row_that_nobody_wrote_is_unexpected() {
    let mut story = Story::new();
    story.resend(0).id = Some(Uuid::nil());
    let report = story.judge();
    assert_eq!(report.unexpected, [format!("{}, never written", Uuid::nil())]);
}

#[test]
fn a_message_without_an_id_is_unexpected() {
    let mut story = Story::new();
    story.resend(0).id = None;
    assert_eq!(story.judge().unexpected.len(), 1);
}

#[test]
fn an_event_at_the_wrong_destination_is_unexpected_there_and_missing_here() {
    let mut story = Story::new();
    story.deliveries[5].lane.0 = "payments".to_owned();
    let report = story.judge();
    assert_eq!((report.unexpected.len(), report.missing.len()), (1, 1));
}

#[test]
fn an_event_with_two_destinations_must_come_to_both_and_is_a_duplicate_in_neither() {
    let mut story = Story::new();
    let mut copies = story.deliveries.clone();
    copies.iter_mut().for_each(|copy| copy.lane.0 = "audit".to_owned());
    let audit = |event: &Event| Expected { destination: "audit".to_owned(), ..expected(event) };
    let both = |event: &Event| vec![expected(event), audit(event)];
    let missing = judge(&story.history, &story.deliveries, both);
    assert_eq!((missing.delivered, missing.missing.len()), (0, 6));

    copies.swap(0, 2);
    story.deliveries.extend(copies);
    let report = judge(&story.history, &story.deliveries, both);
    assert_eq!((report.delivered, report.duplicates), (6, 0));
    assert_eq!(report.reordered, [event("a", 1).id]);
}

#[test]
fn an_earlier_event_that_comes_first_after_a_later_one_is_reordered() {
    let mut story = Story::new();
    // a-1 and a-2: the same key. Their copies in the right order do not help.
    story.deliveries.swap(0, 2);
    story.resend(0);
    let report = story.judge();
    assert_eq!(report.reordered, [event("a", 1).id]);
    assert!(!report.is_clean());
}

#[test]
fn order_between_two_keys_is_nobodys_promise() {
    let mut story = Story::new();
    story.deliveries.swap(0, 1);
    let report = story.judge();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_key_that_changes_its_partition_is_reordered() {
    let mut story = Story::new();
    story.deliveries[4].lane.1 = 1;
    assert_eq!(story.judge().reordered, [event("a", 3).id]);
}

#[test]
fn another_key_value_or_header_than_the_rows_is_altered() {
    let changes: [fn(&mut Content); 4] = [
        |content| content.key = Some(b"c".to_vec()),
        |content| content.value = None,
        |content| content.value = Some(b"{\"n\":1}".to_vec()),
        |content| content.headers.clear(),
    ];
    for change in changes {
        let mut story = Story::new();
        change(&mut story.deliveries[0].content);
        let report = story.judge();
        assert_eq!(report.altered, [event("a", 1).id]);
        assert!(!report.is_clean());
    }
}

#[test]
fn a_copy_that_differs_is_a_changed_duplicate() {
    let changes: [fn(&mut Content); 5] = [
        |content| content.key = None,
        |content| content.value = Some(b"{}".to_vec()),
        |content| content.headers[0].1 = None,
        |content| content.headers.push(("sent-at".to_owned(), Some(b"now".to_vec()))),
        |content| content.timestamp = Some(2),
    ];
    for change in changes {
        let mut story = Story::new();
        change(&mut story.resend(0).content);
        let report = story.judge();
        assert_eq!(report.changed_duplicates, [event("a", 1).id]);
        assert!(!report.is_clean());
    }
}
