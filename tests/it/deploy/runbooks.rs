//! `docs/runbooks`: a page for each alert.

use std::collections::BTreeSet;
use std::fs;

use pgoutbox::config::{AlertsConfig, DEFAULT_RULES};
use regex::Regex;

use super::rules::rules;
use super::{path, read};
use crate::support::{Database, Server};

on_both_servers!(what_a_page_asks_postgresql_has_an_answer);

const FOLDER: &str = "docs/runbooks";

/// What an operator under pressure looks for, in this order.
const SECTIONS: [&str; 4] =
    ["## What it means", "## What to look at", "## What to type", "## How it clears"];

/// Commands of this release.
const COMMANDS: [&str; 5] = ["run", "check", "init", "status", "alerts"];

fn pages() -> BTreeSet<String> {
    let entries = fs::read_dir(path(FOLDER)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.strip_suffix(".md").expect("a page").to_owned()).collect()
}

#[test]
fn each_alert_has_a_page_and_each_page_an_alert() {
    let mut pages = pages();
    assert!(pages.remove("README"), "the list of them");
    let needed: BTreeSet<String> =
        DEFAULT_RULES.iter().map(|rule| rule.runbook.to_owned()).collect();
    assert_eq!(pages, needed);
    let list = read(&format!("{FOLDER}/README.md"));
    for rule in &DEFAULT_RULES {
        let (name, page) = (rule.name, rule.runbook);
        let text = read(&format!("{FOLDER}/{page}.md"));
        assert!(text.contains(&format!("`{name}`")), "{page} does not name `{name}`");
        let line = format!("| `{name}` | {} | [{page}]({page}.md) |", rule.severity.name());
        assert!(list.contains(&line), "the list lacks: {line}");
    }
}

#[test]
fn both_the_relays_and_prometheus_alerts_point_there() {
    let prometheus = rules();
    for (default, rule) in DEFAULT_RULES.iter().zip(AlertsConfig::default().rules) {
        let page = format!("{FOLDER}/{}.md", default.runbook);
        assert_eq!(rule.runbook_url.as_ref(), Some(&page), "{}", rule.name);
        let annotations = &prometheus[default.name]["annotations"];
        assert_eq!(annotations["runbook_url"], page, "{}", rule.name);
    }
}

#[test]
fn pages_have_their_parts_and_name_commands_that_there_are() {
    let command = Regex::new(r"pgoutbox ([a-z]+)").unwrap();
    for page in pages().into_iter().filter(|page| page != "README") {
        let text = read(&format!("{FOLDER}/{page}.md"));
        let parts: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(parts, SECTIONS, "{page}");
        // In code, that is: in prose these are two words.
        for code in text.split('`').skip(1).step_by(2) {
            for named in command.captures_iter(code) {
                assert!(COMMANDS.contains(&&named[1]), "{page}: `{code}`");
            }
        }
    }
}

/// Only questions are asked here: what changes something is for an operator who means it.
async fn what_a_page_asks_postgresql_has_an_answer(server: Server) {
    let database = Database::create(server, "runbooks").await;
    database.create_outbox().await;
    let mut asked = 0;
    for page in pages() {
        let text = read(&format!("{FOLDER}/{page}.md"));
        let blocks = text.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
        for statement in blocks.flat_map(|block| block.split_inclusive(";\n")) {
            let is_question = ["SELECT", "SHOW"].iter().any(|word| statement.starts_with(word));
            if is_question && !["pg_terminate", "pg_reload"].iter().any(|it| statement.contains(it))
            {
                let answer = database.sql().try_run(statement).await;
                assert!(answer.is_ok(), "{page}: {statement}: {answer:?}");
                asked += 1;
            }
        }
    }
    assert!(asked > 15, "{asked}");
}
