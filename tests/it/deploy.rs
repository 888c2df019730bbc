//! What ships beside the program must agree with it: the table of metrics, Prometheus' rules, the
//! dashboard, the runbooks.

mod dashboard;
mod metric_table;
mod promql;
mod promtool;
mod rules;
mod runbooks;

use std::fs;
use std::path::{Path, PathBuf};

use pgoutbox::metrics::{Family, Metrics};

/// A path of this repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Everything that the program has.
fn families() -> Vec<Family> {
    Metrics::new("orders", ["events"]).unwrap().families().to_vec()
}
