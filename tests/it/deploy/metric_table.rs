//! `docs/metrics.md`, and README's shorter list.

use std::collections::BTreeSet;

use super::{families, read};

/// A row of the table: name, type, labels.
type Row = (String, String, Vec<String>);

/// The words between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn documented() -> Vec<Row> {
    let text = read("docs/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `pgoutbox_")).map(|line| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [name, kind, _unit, labels, _meaning] = cells[..] else { panic!("five cells: {line}") };
        (quoted(name).concat(), kind.to_owned(), quoted(labels))
    });
    rows.collect()
}

#[test]
fn the_table_of_metrics_has_all_of_them_and_no_others() {
    let there: Vec<Row> = families()
        .into_iter()
        .map(|family| (family.name, family.kind.to_owned(), family.labels))
        .collect();
    let documented = documented();
    let missing: Vec<_> = there.iter().filter(|row| !documented.contains(row)).collect();
    let wrong: Vec<_> = documented.iter().filter(|row| !there.contains(row)).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing {missing:#?}\nwrong {wrong:#?}");
    assert_eq!(documented, there, "the table is sorted by name, without doubles");
}

/// What has a sample at the start is rendered by the names and with the types of the list.
#[test]
fn what_is_rendered_is_in_the_list() {
    let metrics = pgoutbox::metrics::Metrics::new("orders", ["events"]).unwrap();
    let text = metrics.render().unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let rendered: BTreeSet<_> = types.collect();
    assert!(rendered.contains(&("pgoutbox_events_received_total", "counter")), "{text}");
    for (name, kind) in rendered {
        let is_listed = metrics.families().iter().any(|it| it.name == name && it.kind == kind);
        assert!(is_listed, "{name} of type {kind}");
    }
}

/// README leads with some, without their prefix, and with their labels.
#[test]
fn the_readme_names_metrics_that_there_are() {
    let readme = read("README.md");
    let section = readme.split("| metric | meaning |").nth(1).expect("README's table of metrics");
    let rows = section.lines().skip(2).take_while(|line| line.starts_with('|'));
    let names: Vec<String> =
        rows.flat_map(|row| quoted(row.split(" | ").next().unwrap())).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let (name, labels) = name.split_once('{').unwrap_or((&name, ""));
        let labels: Vec<&str> =
            labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).collect();
        let is_there =
            |family: &pgoutbox::metrics::Family| family.name == format!("pgoutbox_{name}");
        let family = families().into_iter().find(is_there);
        let family = family.unwrap_or_else(|| panic!("README names `{name}`"));
        assert_eq!(family.labels, labels, "README's labels of `{name}`");
    }
}
