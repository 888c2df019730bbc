//! How rules go from state to state.

use proptest::prelude::*;

use super::*;
use crate::config::{AlertMetric, Bound, Severity};

/// A firing alert of this name, for whoever needs one.
pub(in crate::alert) fn alert(name: &str) -> Alert {
    Alert {
        name: name.to_owned(),
        severity: Severity::Warning,
        metric: AlertMetric::WindowEvents,
        value: 11.0,
        labels: BTreeMap::from([("alertname".to_owned(), name.to_owned())]),
        annotations: BTreeMap::from([("summary", "eleven".to_owned())]),
        starts_at: Timestamp::from_micros(1),
        ends_at: None,
    }
}

/// Above 10, over at 5, after 2 s each.
fn rule() -> AlertRule {
    AlertRule {
        name: "Backlog".to_owned(),
        metric: AlertMetric::WindowEvents,
        bound: Bound::Above,
        threshold: 10.0,
        clear: 5.0,
        wait: Duration::from_secs(2),
        clear_after: Duration::from_secs(2),
        severity: Severity::Critical,
        labels: BTreeMap::from([("team".to_owned(), "shop".to_owned())]),
        runbook_url: Some("https://runbooks/backlog".to_owned()),
    }
}

struct Story {
    engine: Engine,
    begin: Moment,
}

impl Story {
    fn of(rule: AlertRule) -> Self {
        let config = AlertsConfig {
            labels: BTreeMap::from([("env".to_owned(), "test".to_owned())]),
            rules: vec![rule],
            ..AlertsConfig::default()
        };
        Self { engine: Engine::new(&config, "orders", Some("orders_slot")), begin: Moment::now() }
    }

    fn see(&mut self, second: f64, reading: Reading) -> Vec<Change> {
        let mut facts = Facts::default();
        facts.set(AlertMetric::WindowEvents, reading);
        self.engine.step(&facts, self.begin.plus(second))
    }

    /// What became of it at each second.
    fn values(&mut self, values: &[f64]) -> Vec<&'static str> {
        let step = |(second, value): (usize, &f64)| {
            let changes = self.see(second as f64, known(*value));
            match changes.as_slice() {
                [] => self.engine.statuses()[0].state,
                [Change::Fired(_)] => "fired",
                [Change::Resolved(_)] => "resolved",
                more => panic!("{more:?}"),
            }
        };
        values.iter().enumerate().map(step).collect()
    }
}

fn known(value: f64) -> Reading {
    let finding = Finding::new(format!("{value} events wait")).cause("the broker is away");
    Reading::Known(value, finding.fix(Some("start the broker".to_owned())))
}

#[test]
fn it_fires_after_its_time_and_is_over_after_another() {
    let seen = Story::of(rule()).values(&[9.0, 11.0, 12.0, 13.0, 14.0, 5.0, 5.0, 4.0, 4.0]);
    let expected = [
        "inactive", "pending", "pending", "fired", "firing", "firing", "firing", "resolved",
        "inactive",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_does_not_last_never_fires() {
    let seen = Story::of(rule()).values(&[11.0, 11.0, 9.0, 11.0, 11.0, 10.0]);
    assert_eq!(seen, ["pending", "pending", "inactive", "pending", "pending", "inactive"]);
}

#[test]
fn a_rule_without_a_time_fires_at_once() {
    let at_once = AlertRule { wait: Duration::ZERO, clear_after: Duration::ZERO, ..rule() };
    assert_eq!(Story::of(at_once).values(&[11.0, 6.0, 5.0]), ["fired", "firing", "resolved"]);
}

#[test]
fn below_is_the_other_way_round() {
    let below = AlertRule {
        bound: Bound::Below,
        threshold: 5.0,
        clear: 10.0,
        wait: Duration::ZERO,
        clear_after: Duration::ZERO,
        ..rule()
    };
    let seen = Story::of(below).values(&[5.0, 4.0, 9.0, 10.0]);
    assert_eq!(seen, ["inactive", "fired", "firing", "resolved"]);
}

#[test]
fn an_alert_names_cause_fix_and_where_it_comes_from() {
    let mut story = Story::of(rule());
    story.see(0.0, known(11.0));
    let changes = story.see(2.0, known(12.0));
    let [Change::Fired(alert)] = changes.as_slice() else { panic!("{changes:?}") };
    let label = |name: &str| alert.labels[name].as_str();
    let labels = ["alertname", "severity", "relay", "slot", "team", "env"].map(label);
    assert_eq!(labels, ["Backlog", "critical", "orders", "orders_slot", "shop", "test"]);
    let annotation = |name: &str| alert.annotations[name].as_str();
    assert_eq!(annotation("summary"), "relay `orders`: 12 events wait");
    assert_eq!(
        annotation("description"),
        "12 events wait: the broker is away (rule: window_events above 10 for 2s, clear at 5)"
    );
    assert_eq!(annotation("fix"), "start the broker");
    assert_eq!(annotation("runbook_url"), "https://runbooks/backlog");
    assert_eq!((alert.starts_at, alert.ends_at), (story.begin.plus(2.0).time, None));
}

#[test]
fn what_is_told_of_it_is_news_until_it_is_over() {
    let mut story = Story::of(AlertRule { wait: Duration::ZERO, ..rule() });
    story.see(0.0, known(11.0));
    story.see(1.0, known(20.0));
    let summary =
        |story: &Story| story.engine.firing().next().unwrap().annotations["summary"].clone();
    assert_eq!(summary(&story), "relay `orders`: 20 events wait");
    story.see(2.0, known(1.0));
    let changes = story.see(4.0, known(1.0));
    let [Change::Resolved(alert)] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(alert.annotations["summary"], "relay `orders`: 20 events wait");
    assert_eq!(alert.ends_at, Some(story.begin.plus(4.0).time));
}

#[test]
fn what_is_not_known_keeps_an_alert_and_begins_none() {
    let mut story = Story::of(rule());
    story.see(0.0, known(11.0));
    assert!(story.see(2.0, Reading::Unknown).is_empty());
    assert_eq!(story.engine.statuses()[0].state, "inactive");
    story.see(3.0, known(11.0));
    assert_eq!(story.see(5.0, known(11.0)).len(), 1);
    story.see(6.0, known(1.0));
    // It would be over now, but for the look that failed.
    assert!(story.see(7.0, Reading::Unknown).is_empty());
    assert!(story.see(8.0, known(1.0)).is_empty());
    assert_eq!(story.see(10.0, known(1.0)).len(), 1);
}

#[test]
fn a_limit_that_is_not_drawn_nearer_to_is_over() {
    let mut story = Story::of(AlertRule { wait: Duration::ZERO, ..rule() });
    story.see(0.0, known(11.0));
    story.see(1.0, Reading::Fine);
    let changes = story.see(3.0, Reading::Fine);
    assert!(matches!(changes.as_slice(), [Change::Resolved(_)]), "{changes:?}");
}

#[test]
fn what_fired_before_a_reload_goes_on_or_is_over() {
    let mut before = Story::of(AlertRule { wait: Duration::ZERO, ..rule() });
    before.see(0.0, known(11.0));
    let firing: Vec<Alert> = before.engine.firing().collect();
    let gone = alert("Gone");
    let mut after = Story::of(AlertRule { wait: Duration::from_secs(100), ..rule() });
    let now = after.begin;
    let changes = after.engine.take_over([firing.clone(), vec![gone.clone()]].concat(), now);
    let over = Alert { ends_at: Some(now.time), ..gone };
    assert_eq!(changes, [Change::Fired(firing[0].clone()), Change::Resolved(over)]);
    // It neither fires once more nor has it forgotten since when.
    assert!(after.see(1.0, known(12.0)).is_empty());
    assert_eq!(after.engine.firing().next().unwrap().starts_at, firing[0].starts_at);
    after.see(2.0, known(1.0));
    let changes = after.see(4.0, known(1.0));
    assert!(matches!(changes.as_slice(), [Change::Resolved(_)]), "{changes:?}");
}

fn reading() -> impl Strategy<Value = Option<f64>> {
    // Whole numbers around both limits, and now and then a look that fails.
    prop_oneof![9 => (0_u8..16).prop_map(|value| Some(f64::from(value))), 1 => Just(None)]
}

proptest! {
    #[test]
    fn it_is_resolved_exactly_once_for_each_time_it_fired(
        readings in prop::collection::vec((reading(), 0_u8..4), 0..300),
        (wait, clear_after) in (0_u64..4, 0_u64..4),
    ) {
        let (wait, clear_after) = (Duration::from_secs(wait), Duration::from_secs(clear_after));
        let mut story = Story::of(AlertRule { wait, clear_after, ..rule() });
        let (mut second, mut fires) = (0.0, false);
        for (reading, pause) in readings {
            second += f64::from(pause);
            for change in story.see(second, reading.map_or(Reading::Unknown, known)) {
                let fired = matches!(change, Change::Fired(_));
                prop_assert_ne!(fired, fires, "the same change twice");
                fires = fired;
                // Only past the one limit it begins, and only back at the other it ends.
                let value = reading.unwrap();
                let is_past = if fired { value > 10.0 } else { value <= 5.0 };
                prop_assert!(is_past, "at {}", value);
            }
            prop_assert_eq!(story.engine.firing().count(), usize::from(fires));
        }
    }

    #[test]
    fn between_the_limits_nothing_changes(
        fires in any::<bool>(),
        values in prop::collection::vec(6_u8..=10, 1..100),
    ) {
        let mut story = Story::of(AlertRule { wait: Duration::ZERO, ..rule() });
        if fires {
            story.see(0.0, known(11.0));
        }
        for (second, value) in values.into_iter().enumerate() {
            let changes = story.see(second as f64 + 1.0, known(f64::from(value)));
            prop_assert!(changes.is_empty());
        }
    }
}
