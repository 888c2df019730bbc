//! Holds the order of modules: each uses itself and those above it in `lib.rs`, nothing below.
//!
//! Read as text, on purpose: what a module names in its code is what a reader of it has to know.
//! Doc comments may point anywhere. A few more absences that the design counts on are held here too.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that only the named places may know, as files or folders under `src`.
const OWNERS: [(&str, &[&str]); 4] = [
    ("anyhow", &["cli", "main"]),
    ("lapin", &["sink/rabbitmq"]),
    ("rdkafka", &["sink/kafka"]),
    ("prometheus", &["metrics", "status", "http"]),
];

/// One source file: its path under `src` without `.rs`, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// The top-level module it belongs to.
    fn module(&self) -> &str {
        self.path.split('/').next().unwrap_or(&self.path)
    }

    /// (line number, line) of everything but comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// The modules of `lib.rs`, in order.
fn order(lib: &str) -> Vec<String> {
    let declared = |line: &str| {
        let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?;
        name.strip_suffix(';').map(str::to_owned)
    };
    lib.lines().filter_map(declared).collect()
}

/// Every use of a module that its user may not know, as `file:line: module`.
fn offences(order: &[String], sources: &[Source]) -> Vec<String> {
    let place = |module: &str| order.iter().position(|name| name == module);
    let mut found = Vec::new();
    for source in sources {
        let own = place(source.module());
        for (line, used) in used_modules(source) {
            if place(&used).is_none_or(|used| Some(used) > own) {
                found.push(format!(
                    "{}.rs:{line}: `{}` uses `{used}`",
                    source.path,
                    source.module()
                ));
            }
        }
    }
    found
}

/// (line number, module) for every `crate::module` and every member of a `crate::{…}`.
fn used_modules(source: &Source) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    // A `use crate::{…}` may go over several lines, so it is looked for in the whole code.
    let code: Vec<(usize, &str)> = source.code().collect();
    for (index, (number, line)) in code.iter().enumerate() {
        for (at, _) in line.match_indices("crate::") {
            let mut rest = line[at + "crate::".len()..].to_owned();
            if rest.starts_with('{') {
                rest.extend(code[index + 1..].iter().map(|(_, line)| *line));
            }
            used.extend(first_names(&rest).into_iter().map(|name| (*number, name)));
        }
    }
    used
}

/// The first name of each path in `rest`, which follows a `crate::`.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else { return vec![identifier(rest)] };
    let mut depth = 0;
    let mut names = vec![identifier(group)];
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(identifier(&group[at + 1..])),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The identifier that `text` begins with, after blanks.
fn identifier(text: &str) -> String {
    let is_part = |character: &char| character.is_alphanumeric() || *character == '_';
    text.trim_start().chars().take_while(is_part).collect()
}

/// Every use of a crate outside of the places that own it.
fn trespasses(owners: &[(&str, &[&str])], sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, places) in owners {
        let path = format!("{name}::");
        let owned = |source: &Source| {
            places.iter().any(|place| {
                let below = source.path.strip_prefix(place);
                below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
            })
        };
        for source in sources.iter().filter(|source| !owned(source)) {
            let lines = source.code().filter(|(_, line)| line.contains(&path));
            found.extend(lines.map(|(line, _)| format!("{}.rs:{line}: `{name}`", source.path)));
        }
    }
    found
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file, `lib.rs` and `main.rs` too.
fn sources() -> Vec<Source> {
    let root = source_folder();
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.with_extension("");
                let name = name.strip_prefix(&root).unwrap().to_str().unwrap();
                found.push(Source::new(name, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// The sources that the order binds: the roots stand outside of it.
fn modules() -> Vec<Source> {
    sources().into_iter().filter(|source| !["lib", "main"].contains(&&*source.path)).collect()
}

fn check(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn a_module_uses_only_modules_above_it() {
    let order = order(&fs::read_to_string(source_folder().join("lib.rs")).unwrap());
    assert!(order.len() > 5, "lib.rs declares only {order:?}");
    check(&offences(&order, &modules()));
}

#[test]
fn a_crate_is_known_only_to_its_owners() {
    check(&trespasses(&OWNERS, &sources()));
}

#[test]
fn a_folders_file_stands_beside_it() {
    let roots = sources().into_iter().filter(|source| source.path.ends_with("/mod"));
    check(&roots.map(|source| format!("{}.rs", source.path)).collect::<Vec<_>>());
}

/// `offences` on a made-up tree of the modules `low`, `middle`, `high` with one more file.
#[track_caller]
fn check_made_up(path: &str, text: &str, expected: &[&str]) {
    let order = order("//! mod none;\npub mod low;\nmod middle;\npub mod high;\n");
    assert_eq!(order, ["low", "middle", "high"]);
    assert_eq!(offences(&order, &[Source::new(path, text)]), expected, "{text}");
}

#[test]
fn a_use_from_below_is_found_wherever_it_stands() {
    let offence = ["middle.rs:1: `middle` uses `high`"];
    check_made_up("middle", "use crate::high;", &offence);
    check_made_up("middle", "fn f() -> crate::high::Thing {}", &offence);
    check_made_up("middle", "use crate::{low, high::Thing};", &offence);
    check_made_up("middle", "use crate::{\n    low::{A, B},\n    high::{C, D},\n};", &offence);
    check_made_up(
        "middle/deep/file",
        "use crate::high;",
        &["middle/deep/file.rs:1: `middle` uses `high`"],
    );
    check_made_up("low", "use crate::nowhere::Thing;", &["low.rs:1: `low` uses `nowhere`"]);
}

#[test]
fn uses_of_what_is_above_and_of_itself_pass() {
    check_made_up("middle", "use crate::low::high;\nuse crate::middle::part;", &[]);
    check_made_up("high", "use crate::{low::{A, B}, middle};\npub(crate) fn f() {}", &[]);
    check_made_up("low", "/// See [`crate::high`].\n// crate::high is told later.", &[]);
}

#[test]
fn a_trespass_is_found_and_an_owner_passes() {
    let owners: [(&str, &[&str]); 1] = [("broker", &["sink/one"])];
    let sources = [
        Source::new("sink/one", "use broker::Client;"),
        Source::new("sink/one/send", "use broker::Client;"),
        Source::new("sink/one_more", "// broker::Client\n\nuse broker::Client;"),
    ];
    assert_eq!(trespasses(&owners, &sources), ["sink/one_more.rs:3: `broker`"]);
}
