//! `deploy/grafana`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use pgoutbox::metrics::Family;
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::promtool::promtool;
use super::{families, promql, read};

/// A question that a panel asks.
struct Query {
    panel: String,
    expression: String,
    legend: String,
}

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/grafana/pgoutbox.json")).unwrap()
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().unwrap()
}

fn queries() -> Vec<Query> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let dashboard = dashboard();
    let of_panel = |panel: &Value| -> Vec<Query> {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        assert!(panel["type"] == "row" || !targets.is_empty(), "{panel} asks for nothing");
        let query = |target: &Value| Query {
            panel: text(&panel["title"]),
            expression: text(&target["expr"]),
            legend: text(&target["legendFormat"]),
        };
        targets.iter().map(query).collect()
    };
    panels(&dashboard).iter().flat_map(of_panel).collect()
}

#[test]
fn panels_have_ids_and_places_of_their_own() {
    let dashboard = dashboard();
    let panels = panels(&dashboard);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeMap::new();
    for panel in panels {
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        for (x, y) in (side("x")..side("x") + side("w"))
            .flat_map(|x| (side("y")..side("y") + side("h")).map(move |y| (x, y)))
        {
            assert!(x < 24, "{} is too far to the right", panel["title"]);
            let before = taken.insert((x, y), &panel["title"]);
            assert_eq!(before, None, "{} lies on it", panel["title"]);
        }
    }
}

#[test]
fn it_can_be_used_with_any_data_source_and_relay() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| &variable["name"]).collect();
    assert_eq!(names, ["datasource", "relay"]);
    for panel in panels(&dashboard).iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
    for Query { panel, expression, .. } in queries() {
        let selected = expression.matches("pgoutbox_").count();
        assert_eq!(expression.matches(r#"relay=~"$relay""#).count(), selected, "{panel}");
    }
}

#[test]
fn it_asks_for_what_there_is() {
    let families = families();
    let label = Regex::new(r"\{\{\s*(\w+)\s*\}\}").unwrap();
    for Query { panel, expression, legend } in queries() {
        let offences = promql::offences(&expression, &families);
        assert!(offences.is_empty(), "{panel}: {offences:#?}");
        let known = promql::labels(&expression, &families);
        for label in label.captures_iter(&legend) {
            assert!(known.contains(&label[1]), "{panel}: no label `{}`", &label[1]);
        }
    }
}

#[test]
fn it_shows_every_metric() {
    let families = families();
    let queries = queries();
    let asked = queries.iter().flat_map(|query| promql::named(&query.expression, &families));
    let asked: BTreeSet<&str> = asked.map(|family| family.name.as_str()).collect();
    let all: BTreeSet<&str> = families.iter().map(|family: &Family| family.name.as_str()).collect();
    assert_eq!(all.difference(&asked).collect::<Vec<_>>(), Vec::<&&str>::new());
}

/// Rules are the expressions that promtool parses without a server.
#[test]
fn promtool_takes_its_queries() {
    let rules: Vec<Value> = queries()
        .iter()
        .enumerate()
        .map(|(index, query)| {
            let expression = query.expression.replace("$__rate_interval", "5m");
            assert!(!expression.replace("$relay", "").contains('$'), "{expression}");
            json!({"record": format!("query_{index}"), "expr": expression})
        })
        .collect();
    let directory = TempDir::new().unwrap();
    let file = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(directory.path().join("rules.yml"), file.to_string()).unwrap();
    promtool(&["check", "rules", "rules.yml"], directory.path());
}
