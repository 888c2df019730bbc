//! What is printed and written.

use std::fs::{self, File};
use std::io::Write;

use serde_json::json;

/// The figures of one run of the benchmark.
pub(crate) struct Report {
    file: File,
    only: Option<Vec<String>>,
}

impl Report {
    pub(crate) fn new() -> Self {
        fs::create_dir_all("target").unwrap();
        let only = std::env::var("BENCH_ONLY").ok();
        let only = only.map(|list| list.split(',').map(str::to_owned).collect());
        Self { file: File::create("target/bench.jsonl").unwrap(), only }
    }

    /// Whether the figure `name` is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|prefix| name.starts_with(prefix)))
    }

    /// Whether a figure is wanted whose name begins with `group`.
    pub(crate) fn wants_some(&self, group: &str) -> bool {
        let within = |prefix: &String| prefix.starts_with(group) || group.starts_with(prefix);
        self.only.as_ref().is_none_or(|only| only.iter().any(within))
    }

    pub(crate) fn note(&self, text: &str) {
        println!("# {text}");
    }

    /// One figure, with what it is compared to.
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str, reference: Option<f64>) {
        let ratio = reference.map(|reference| value / reference);
        match (reference, ratio) {
            (Some(reference), Some(ratio)) => {
                println!(
                    "{name:34} {value:12.1} {unit:10} reference {reference:12.1}  ratio {ratio:.2}"
                );
            }
            _ => println!("{name:34} {value:12.3} {unit}"),
        }
        let line = json!({
            "name": name, "value": value, "unit": unit, "reference": reference, "ratio": ratio,
        });
        writeln!(self.file, "{line}").unwrap();
    }

    pub(crate) fn finish(mut self) {
        self.file.flush().unwrap();
        println!("# written to target/bench.jsonl");
    }
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
