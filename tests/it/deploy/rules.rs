//! `deploy/prometheus`.

use std::collections::BTreeMap;

use pgoutbox::config::{AlertMetric, DEFAULT_RULES, DefaultRule, WAL_STATUSES};
use regex::Regex;
use serde_json::Value;

use super::promtool::promtool;
use super::{families, path, promql, read};

const RULES: &str = "deploy/prometheus/pgoutbox.rules.yml";
const TESTS: &str = "deploy/prometheus/pgoutbox.rules.test.yml";

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Prometheus' rules by name.
pub(super) fn rules() -> BTreeMap<String, Value> {
    let file = yaml(RULES);
    let groups = file["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
    let named = rules.map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule));
    named.collect()
}

#[test]
fn promtool_takes_the_rules_and_their_tests_pass() {
    let directory = path("deploy/prometheus");
    promtool(&["check", "rules", "pgoutbox.rules.yml"], &directory);
    promtool(&["test", "rules", "pgoutbox.rules.test.yml"], &directory);
}

#[test]
fn every_rule_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() {
    let mut fires: BTreeMap<String, [bool; 2]> =
        rules().into_keys().map(|name| (name, [false; 2])).collect();
    for story in yaml(TESTS)["tests"].as_array().unwrap() {
        for look in story["alert_rule_test"].as_array().unwrap() {
            let name = look["alertname"].as_str().unwrap();
            let alerts = look["exp_alerts"].as_array().unwrap();
            let seen = fires.get_mut(name).unwrap_or_else(|| panic!("a test of no rule: {name}"));
            seen[usize::from(!alerts.is_empty())] = true;
        }
    }
    fires.retain(|_, seen| *seen != [true; 2]);
    assert!(fires.is_empty(), "seen [silent, firing]: {fires:?}");
}

#[test]
fn rules_ask_for_what_there_is() {
    let families = families();
    let label = Regex::new(r"\$labels\.(\w+)").unwrap();
    for (name, rule) in rules() {
        let expression = rule["expr"].as_str().unwrap();
        let offences = promql::offences(expression, &families);
        assert!(offences.is_empty(), "{name}: {offences:#?}");
        let known = promql::labels(expression, &families);
        for part in ["summary", "description"] {
            let text = rule["annotations"][part].as_str().unwrap();
            assert!(!text.is_empty(), "{name} has no {part}");
            for label in label.captures_iter(text) {
                assert!(known.contains(&label[1]), "{name}: no label `{}`", &label[1]);
            }
        }
    }
}

#[test]
fn prometheus_has_the_relays_own_rules() {
    let rules = rules();
    let names: Vec<&str> = DEFAULT_RULES.iter().map(|rule| rule.name).collect();
    for name in rules.keys() {
        assert!(names.contains(&name.as_str()), "`{name}` is no rule of the relay");
    }
    for default in &DEFAULT_RULES {
        let name = default.name;
        let rule = rules.get(name).unwrap_or_else(|| panic!("Prometheus has no `{name}`"));
        assert_eq!(rule["labels"]["severity"], default.severity.name(), "{name}");
        assert_eq!(rule["for"], wait(default), "{name}");
        let expression = rule["expr"].as_str().unwrap();
        assert!(expression.contains(&threshold(default)), "{name}: {expression}");
    }
}

/// Where Prometheus needs a part of the time to see a rate, it waits for the rest.
fn wait(rule: &DefaultRule) -> String {
    let seconds = match rule.metric {
        AlertMetric::SecondsSinceDelivery => rule.threshold - 120.0,
        _ => rule.wait.as_secs_f64(),
    };
    let minutes = seconds / 60.0;
    if seconds > 0.0 && minutes.fract() == 0.0 {
        format!("{minutes}m")
    } else {
        format!("{seconds}s")
    }
}

/// What the expression must say.
fn threshold(rule: &DefaultRule) -> String {
    let DefaultRule { threshold, .. } = rule;
    let sign = if rule.bound.name() == "above" { '>' } else { '<' };
    match rule.metric {
        AlertMetric::SecondsSinceDelivery => "increase(pgoutbox_events_delivered_total".to_owned(),
        AlertMetric::SlotWalStatus => {
            let worse =
                WAL_STATUSES.iter().zip(0_u32..).filter(|(_, at)| f64::from(*at) > *threshold);
            let words: Vec<&str> = worse.map(|(word, _)| *word).collect();
            format!(r#"{{status=~"{}"}} == 1"#, words.join("|"))
        }
        AlertMetric::SinksDisconnected => "pgoutbox_sink_connected == 0".to_owned(),
        // Yes or no.
        _ if sign == '>' && *threshold == 0.0 => "== 1".to_owned(),
        _ if sign == '<' && *threshold == 1.0 => "== 0".to_owned(),
        _ => format!("{sign} {threshold}"),
    }
}
