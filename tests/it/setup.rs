//! `init` and `check` on real servers: what they make, find, refuse and advise.

use std::process::Output;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::support::{
    Database, PrivatePostgres, Relay, SHORT, Server, Settings, Topics, kafka_brokers, wait_until,
};

mod init;
mod publication;
mod rabbitmq;
mod refusal;
mod recovery;
mod tls;

/// A relay without a broker, so that `check` is about the database alone.
fn settings(database: &Database) -> Settings {
    Settings::new(database, &Topics::new(&kafka_brokers(), "setup"))
        .with("sinks", json!({"out": {"stdout": {}}}))
        .with("routes", json!([{"sink": "out"}]))
}

/// One ended command.
#[derive(Debug)]
struct Ended {
    success: bool,
    stdout: String,
    stderr: String,
}

async fn command(settings: &Settings, name: &'static str, arguments: &[&str]) -> Ended {
    let settings = settings.clone();
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let run = move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Relay::command(&settings, name, &arguments)
    };
    let Output { status, stdout, stderr } = spawn_blocking(run).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { success: status.success(), stdout: text(stdout), stderr: text(stderr) }
}

/// `init` as the administrator, which must work.
pub(crate) async fn init(database: &Database, settings: &Settings, arguments: &[&str]) -> String {
    let url = database.admin_url();
    let mut all = vec!["--url", &url];
    all.extend(arguments);
    let ended = command(settings, "init", &all).await;
    assert!(ended.success, "{ended:?}");
    ended.stdout
}

/// The lines of `check`.
#[derive(Debug)]
pub(crate) struct Checked(Vec<Value>);

pub(crate) async fn check(settings: &Settings) -> Checked {
    let ended = command(settings, "check", &["--json"]).await;
    let findings: Vec<Value> = serde_json::from_str(&ended.stdout).expect(&ended.stderr);
    let checked = Checked(findings);
    assert_eq!(ended.success, checked.of("error").is_empty(), "{checked:?}");
    checked
}

impl Checked {
    /// Subject and message of each line of a severity.
    pub(crate) fn of(&self, severity: &str) -> Vec<String> {
        let of = |finding: &&Value| finding["severity"] == severity;
        let text = |finding: &Value| {
            format!(
                "{} {}",
                finding["subject"].as_str().unwrap(),
                finding["message"].as_str().unwrap()
            )
        };
        self.0.iter().filter(of).map(text).collect()
    }

    /// The fix of the one line of a severity that holds all of these words.
    #[track_caller]
    pub(crate) fn fix(&self, severity: &str, words: &[&str]) -> String {
        let matches = |finding: &&Value| {
            let text = finding.to_string();
            finding["severity"] == severity && words.iter().all(|word| text.contains(word))
        };
        match self.0.iter().filter(matches).collect::<Vec<_>>()[..] {
            [finding] => finding["fix"].as_str().unwrap_or_default().to_owned(),
            _ => panic!("not one {severity} with {words:?} in {self:#?}"),
        }
    }
}

/// What stands between backticks: what an operator copies.
fn typed(fix: &str) -> Vec<&str> {
    fix.split('`').skip(1).step_by(2).collect()
}

async fn slots(database: &Database) -> Option<String> {
    let name = database.name();
    let query = format!("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{name}'");
    database.sql().value(&query).await
}
