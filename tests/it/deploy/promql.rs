//! What a PromQL expression names: metrics, labels, and functions that ask for a counter.
//!
//! promtool says whether it is one; this says whether it can find anything.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use pgoutbox::metrics::Family;
use regex::Regex;

/// Labels that Prometheus adds at the scrape, and the one that all of ours have.
const OF_ALL: [&str; 3] = ["relay", "instance", "job"];

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).unwrap());
    };
}

pattern!(METRIC, r"\bpgoutbox_\w+");
pattern!(SELECTOR, r"\b(pgoutbox_\w+)(?:\{([^}]*)\})?");
pattern!(MATCHER, r"(\w+)\s*(?:=~|!~|!=|=)");
pattern!(VALUE, r#""[^"]*""#);
pattern!(GROUPING, r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)");
pattern!(COUNTING, r"\b(?:rate|irate|increase)\((pgoutbox_\w+)");

/// What in `expression` cannot be found among `families`.
pub(super) fn offences(expression: &str, families: &[Family]) -> Vec<String> {
    let mut found = Vec::new();
    for selected in SELECTOR.captures_iter(expression) {
        let Some(family) = family_of(&selected[1], families) else {
            found.push(format!("there is no metric `{}`", &selected[1]));
            continue;
        };
        let matchers = selected.get(2).map_or("", |matchers| matchers.as_str());
        // A value may hold what looks like a label.
        let names = VALUE.replace_all(matchers, "");
        for label in MATCHER.captures_iter(&names).map(|label| label[1].to_owned()) {
            if !labels_of(family).contains(&label) {
                found.push(format!("`{}` has no label `{label}`", family.name));
            }
        }
    }
    found.extend(grouped_in_vain(expression, families));
    found.extend(counted_in_vain(expression, families));
    found
}

/// The labels that a result of `expression` can have.
pub(super) fn labels(expression: &str, families: &[Family]) -> BTreeSet<String> {
    let named = METRIC.find_iter(expression).filter_map(|it| family_of(it.as_str(), families));
    named.flat_map(labels_of).collect()
}

/// The families that `expression` names.
pub(super) fn named<'a>(expression: &str, families: &'a [Family]) -> Vec<&'a Family> {
    METRIC.find_iter(expression).filter_map(|it| family_of(it.as_str(), families)).collect()
}

/// A histogram's samples have names of their own.
fn family_of<'a>(sample: &str, families: &'a [Family]) -> Option<&'a Family> {
    let of = |name: &str, histogram: bool| {
        families.iter().find(|it| it.name == name && (it.kind == "histogram") == histogram)
    };
    let suffixes = ["_bucket", "_sum", "_count"];
    let base = suffixes.iter().find_map(|suffix| sample.strip_suffix(suffix));
    of(sample, false).or_else(|| of(base?, true))
}

fn labels_of(family: &Family) -> BTreeSet<String> {
    let of_histograms = (family.kind == "histogram").then_some("le");
    let others = OF_ALL.into_iter().chain(of_histograms).map(str::to_owned);
    family.labels.iter().cloned().chain(others).collect()
}

fn grouped_in_vain(expression: &str, families: &[Family]) -> Vec<String> {
    let known = labels(expression, families);
    let mut found = Vec::new();
    for group in GROUPING.captures_iter(expression) {
        let names = group[1].split(',').map(str::trim).filter(|name| !name.is_empty());
        let unknown = names.filter(|name| !known.contains(*name));
        found.extend(unknown.map(|name| format!("groups by `{name}`, which nothing has")));
    }
    found
}

/// A gauge that falls looks to these like a counter that was reset, and a counter without them only
/// says how long a process has run.
fn counted_in_vain(expression: &str, families: &[Family]) -> Vec<String> {
    let counted: BTreeSet<String> =
        COUNTING.captures_iter(expression).map(|it| it[1].to_owned()).collect();
    let mut found = Vec::new();
    for sample in METRIC.find_iter(expression).map(|it| it.as_str()) {
        let is_gauge = family_of(sample, families).is_none_or(|family| family.kind == "gauge");
        if is_gauge == counted.contains(sample) {
            found.push(format!("`{sample}` and `rate` do not fit"));
        }
    }
    found
}

#[test]
fn what_cannot_be_found_is_told() {
    let family = |name: &str, kind: &'static str, labels: &[&str]| Family {
        name: name.to_owned(),
        kind,
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
    };
    let families = [
        family("pgoutbox_state", "gauge", &["state"]),
        family("pgoutbox_sent_total", "counter", &["sink"]),
        family("pgoutbox_seconds", "histogram", &["sink"]),
    ];
    let offences = |expression| offences(expression, &families);
    for fine in [
        r#"pgoutbox_state{state=~"halted|a=b", relay="orders"} == 1"#,
        "sum by (sink) (rate(pgoutbox_sent_total[5m]))",
        "histogram_quantile(0.9, sum by (le) (rate(pgoutbox_seconds_bucket[5m])))",
    ] {
        assert_eq!(offences(fine), Vec::<String>::new(), "{fine}");
    }
    for wrong in [
        "pgoutbox_stat",
        "pgoutbox_state_bucket",
        r#"pgoutbox_state{sink="a"}"#,
        "sum by (sink) (pgoutbox_state)",
        "rate(pgoutbox_state[5m])",
        "pgoutbox_sent_total > 5",
        "rate(pgoutbox_seconds[5m])",
    ] {
        assert!(!offences(wrong).is_empty(), "{wrong}");
    }
}
