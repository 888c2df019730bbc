//! How a relay starts: what it is given, what it finds, what it makes.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    Database, PrivatePostgres, Refusal, Relay, SHORT, Server, Settings, Topics, kafka_brokers,
    wait_until,
};

on_both_servers!(
    a_url_alone_prints_events_from_now_on,
    slot_and_marker_run,
    a_slot_alone_is_adopted,
    a_marker_alone_stops_and_nothing_is_made,
    neither_stops_and_names_init,
    another_systems_marker_stops,
    a_new_timeline_with_the_slot_runs_and_is_remembered,
    run_with_init_makes_everything_and_then_nothing,
    run_with_init_waits_for_its_server,
);

/// Configurations that are wrong, each with the place and what is said of it.
const WRONG: [(&str, &str, &str); 8] = [
    ("source:\n  postgres:\n    urll: x\n", ":3:5:", "did you mean `url`"),
    ("source: {postgres: {url: x, slot: [1]}}\n", ":1:35:", "not a list"),
    ("source:\n  postgres: {url: \"${env:PGOUTBOX_NOT_SET}\"}\n", ":2:20:", "PGOUTBOX_NOT_SET"),
    ("source: {postgres: {url: x, window: {bytes: 16}}}\n", ":1:45:", "1MiB"),
    ("source: {postgres: {url: x}}\nsinks: {k: {kafka: {brokers: [\"b:1\"]}}}\n", ":2:9:", "slot"),
    ("source: {postgres: {url: x}}\nroutes: [{sink: nowhere}]\n", ":2:17:", "`nowhere`"),
    ("source: {postgres: {url: x}}\non_halt: leave\n", ":2:10:", "`stay` or `exit`"),
    ("source: [unclosed\n", ":1:9:", "YAML"),
];

/// A template is compiled by those who route.
const WRONG_TEMPLATE: &str = "source: {postgres: {url: \"postgres://me@db/shop\"}}
routes: [{sink: stdout, topic: \"${@lsm}\"}]
";

/// One error each, with file, line and column, and exit code 2, from every command.
#[test]
fn a_wrong_configuration_is_named_with_its_place() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("wrong.yaml");
    let all: &[&str] = &["run", "check", "init"];
    let template = (WRONG_TEMPLATE, ":2:32:", "`@lsm`", &all[..2]);
    let wrong = WRONG.map(|(text, place, words)| (text, place, words, all));
    for (text, place, words, commands) in wrong.into_iter().chain([template]) {
        fs::write(&file, text).unwrap();
        for command in commands {
            let (code, errors) = ended(command, file.to_str().unwrap());
            let wanted = format!("{}{place}", file.display());
            assert_eq!(code, Some(2), "{errors}");
            assert!(errors.contains(&wanted) && errors.contains(words), "{place} in {errors}");
            assert_eq!(errors.matches("error: ").count(), 1, "{errors}");
        }
    }
    let missing = directory.path().join("missing.yaml");
    let (code, errors) = ended("run", missing.to_str().unwrap());
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("missing.yaml"), "{errors}");
}

/// A level that is none would mute the relay, and nobody would know.
#[test]
fn a_wrong_log_filter_is_named() {
    for (text, part) in
        [("loud", "`loud`"), ("info,pgoutbox::relay=trce", "`pgoutbox::relay=trce`")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_pgoutbox"))
            .args(["run", "-c", "nowhere.yaml"])
            .env("PGOUTBOX_LOG", text)
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert_eq!(errors.matches("error: ").count(), 1, "{errors}");
        assert!(errors.contains("`PGOUTBOX_LOG`") && errors.contains(part), "{errors}");
    }
}

/// As behind `| true`, and behind `2>&1 | true`: no panic, and no exit code that means something else.
#[test]
fn who_does_not_read_on_is_left_in_peace() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("away.yaml");
    fs::write(&file, "source: {postgres: {url: \"postgres://me@127.0.0.1:1/shop\"}}\n").unwrap();
    let file = file.to_str().unwrap();
    let unread = || Stdio::from(std::io::pipe().unwrap().1);
    let code = |arguments: &[&str], out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgoutbox"));
        command.args(arguments).env("PGOUTBOX_LOG", "trace").stdin(Stdio::null());
        command.stdout(out).stderr(unread()).status().unwrap().code()
    };
    for command in [&["check"][..], &["alerts", "list"], &["init", "--print"]] {
        let arguments = [command, &["-c", file]].concat();
        assert_eq!(code(&arguments, unread()), Some(141), "{command:?}");
    }
    // The errors alone are not read: what they say is in the exit code still.
    assert_eq!(code(&["check", "-c", file], Stdio::null()), Some(1));
    assert_eq!(code(&["check", "-c", "nowhere.yaml"], Stdio::null()), Some(2));
}

/// Exit code and errors of a command that cannot get far.
fn ended(command: &str, file: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pgoutbox"))
        .args([command, "-c", file])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Table, publication and sink by default; a slot that goes with the relay; one line an event.
async fn a_url_alone_prints_events_from_now_on(server: Server) {
    let database = Database::create(server, "bare").await;
    let settings = Settings::bare(&database);
    let before = Refusal::of(&settings, &[]).await.says(1, &["`pgoutbox`", "does not exist"]);
    assert!(before.hint.contains("`pgoutbox init"), "{before:?}");
    let output =
        Relay::command(&settings, "init", &["--url", &database.admin_url(), "--create-table"]);
    assert!(output.status.success(), "{output:?}");
    insert(&database, "before").await;

    let mut relay = Relay::streaming(&settings).await;
    relay.wait_for_log(&["temporary"], SHORT).await;
    let slots = "SELECT count(*) FROM pg_replication_slots
                 WHERE temporary AND database = current_database()";
    assert_eq!(database.sql().value(slots).await.as_deref(), Some("1"));
    let id = insert(&database, "after").await;
    let [event] = &relay.wait_printed(1, SHORT).await[..] else { panic!("{}", relay.log()) };
    let mut names: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "aggregate_id",
        "aggregate_type",
        "commit_time",
        "event_type",
        "headers",
        "id",
        "key",
        "lsn",
        "payload",
        "topic",
    ];
    assert_eq!(names, expected);
    for (name, value) in [
        ("id", json!(id)),
        ("aggregate_type", json!("order")),
        ("aggregate_id", json!("a")),
        ("event_type", json!("after")),
        ("topic", json!("outbox.event.order")),
        ("key", json!("a")),
        ("headers", json!({"id": id, "eventType": "after"})),
        ("payload", json!("{\"n\": 1}")),
    ] {
        assert_eq!(event[name], value, "{name}");
    }
    let lsn: pgoutbox::lsn::Lsn = event["lsn"].as_str().unwrap().parse().unwrap();
    assert!(lsn <= database.wal_end().await);

    assert!(relay.terminate(SHORT).await.success());
    wait_until("the temporary slot to go", SHORT, async || {
        (database.sql().value(slots).await.as_deref() == Some("0")).then_some(())
    })
    .await;
}

/// Into the table that `init --create-table` makes.
async fn insert(database: &Database, event_type: &str) -> String {
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
         VALUES ('order', 'a', '{event_type}', '{{\"n\": 1}}') RETURNING id"
    );
    database.sql().value(&sql).await.unwrap()
}

async fn slot_and_marker_run(server: Server) {
    let scene = Scene::new(server).await;
    Relay::init(&scene.settings, &scene.database.admin_url());
    let before = scene.marker().await;
    scene.runs().await;
    assert_eq!(scene.marker().await, before);
}

async fn a_slot_alone_is_adopted(server: Server) {
    let scene = Scene::new(server).await;
    Relay::init(&scene.settings, &scene.database.admin_url());
    scene.database.sql().run("DELETE FROM pgoutbox.relay").await;
    let position = scene.database.confirmed().await.unwrap();
    let mut relay = scene.runs().await;
    relay.wait_for_log(&["adopting", scene.database.name()], SHORT).await;
    let marker = scene.marker().await;
    assert_eq!(marker["created_lsn"], position.to_string());
    // Nobody knows what was written before.
    assert_eq!(marker["created_at"], Value::Null);
}

async fn a_marker_alone_stops_and_nothing_is_made(server: Server) {
    let scene = Scene::new(server).await;
    Relay::init(&scene.settings, &scene.database.admin_url());
    let marker = scene.marker().await;
    let name = scene.database.name();
    scene.database.sql().value(&format!("SELECT pg_drop_replication_slot('{name}')")).await;
    let position = marker["created_lsn"].as_str().unwrap();
    for arguments in [&[][..], &["--init"]] {
        let refusal = Refusal::of(&scene.settings, arguments).await;
        let refusal = refusal.says(1, &[name, "is gone", position]);
        assert!(refusal.hint.contains("`pgoutbox init`"), "{refusal:?}");
    }
    assert_eq!(scene.database.confirmed().await, None);
    assert_eq!(scene.marker().await, marker);
}

async fn neither_stops_and_names_init(server: Server) {
    let scene = Scene::new(server).await;
    Relay::init(&scene.settings, &scene.database.admin_url());
    let name = scene.database.name();
    scene.database.sql().value(&format!("SELECT pg_drop_replication_slot('{name}')")).await;
    scene.database.sql().run("DELETE FROM pgoutbox.relay").await;
    let refusal = Refusal::of(&scene.settings, &[]).await.says(1, &[name, "does not exist"]);
    for part in ["`pgoutbox init`", "`pgoutbox run --init`"] {
        assert!(refusal.hint.contains(part), "{refusal:?}");
    }
    assert_eq!(scene.database.confirmed().await, None);
    // Which creates: a slot is all that is missing, and the relay's own role may make one.
    let mut relay = Relay::start_with(&scene.settings, &["--init"], &[]);
    relay.wait_state("streaming", SHORT).await;
    assert!(scene.database.confirmed().await.is_some());
    assert_ne!(scene.marker().await["created_at"], Value::Null);
}

async fn another_systems_marker_stops(server: Server) {
    let scene = Scene::new(server).await;
    Relay::init(&scene.settings, &scene.database.admin_url());
    let before = scene.database.confirmed().await;
    scene.database.sql().run("UPDATE pgoutbox.relay SET system_identifier = '42'").await;
    for arguments in [&[][..], &["--init"]] {
        let refusal = Refusal::of(&scene.settings, arguments).await;
        refusal.says(1, &[scene.database.name(), "system 42"]);
    }
    assert_eq!(scene.database.confirmed().await, before);
}

async fn a_new_timeline_with_the_slot_runs_and_is_remembered(server: Server) {
    let scene = Scene::new(server).await;
    Relay::init(&scene.settings, &scene.database.admin_url());
    let before = scene.marker().await;
    // As if the promotion lay between the two.
    scene.database.sql().run("UPDATE pgoutbox.relay SET timeline = 0").await;
    let mut relay = scene.runs().await;
    relay.wait_for_log(&["promoted"], SHORT).await;
    let mut after = scene.marker().await;
    assert_ne!(after["updated_at"], before["updated_at"]);
    after["updated_at"] = before["updated_at"].clone();
    assert_eq!(after, before);
}

/// As a container does at each start, here as a role that may make everything.
async fn run_with_init_makes_everything_and_then_nothing(server: Server) {
    let database = Database::create(server, "runinit").await;
    let settings = Settings::stdout(&database).with("source.postgres.url", database.admin_url());
    let arguments = ["--init", "--create-table"];
    let mut relay = Relay::start_with(&settings, &arguments, &[]);
    relay.wait_state("streaming", SHORT).await;
    insert(&database, "first").await;
    relay.wait_printed(1, SHORT).await;
    assert!(relay.terminate(SHORT).await.success());
    insert(&database, "second").await;

    let mut relay = Relay::start_with(&settings, &arguments, &[]);
    let [event] = &relay.wait_printed(1, SHORT).await[..] else { panic!("{}", relay.log()) };
    assert_eq!(event["event_type"], "second");
    let log = relay.log();
    for thing in ["table public.outbox", "publication", "table pgoutbox.relay", "slot"] {
        assert!(log.contains(&format!("exists   {thing}")), "{thing} in {log}");
    }
    assert!(!log.contains("\ncreated "), "{log}");
}

/// A container may come up before its server does.
async fn run_with_init_waits_for_its_server(server: Server) {
    let mut postgres = PrivatePostgres::start(server, &[]).await;
    let mut database = Database::create_on(&postgres.cluster(), "runinit").await;
    let settings = Settings::stdout(&database).with("source.postgres.url", database.admin_url());
    assert!(postgres.stop("fast").done);
    let mut relay = Relay::start_with(&settings, &["--init", "--create-table"], &[]);
    relay.wait_for_log(&["WARN", "cannot start yet"], SHORT).await;
    assert_eq!(relay.state().await.as_deref(), Some("starting"));
    postgres.start_again().await;
    database.reconnect().await;
    relay.wait_state("streaming", SHORT).await;

    // And it can be stopped while it waits.
    assert!(relay.terminate(SHORT).await.success());
    assert!(postgres.stop("fast").done);
    let mut relay = Relay::start_with(&settings, &["--init"], &[]);
    relay.wait_for_log(&["WARN", "cannot start yet"], SHORT).await;
    assert!(relay.terminate(SHORT).await.success());
}

/// A broker would not get what is written while the relay is away: that needs a slot.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_a_slot_is_a_wrong_configuration() {
    let database = Database::create(Server::Newest, "noslot").await;
    let settings = Settings::new(&database, &Topics::new(&kafka_brokers(), "noslot"))
        .with("source.postgres.slot", Value::Null);
    Refusal::of(&settings, &[]).await.says(2, &["source.postgres.slot"]);
}

struct Scene {
    settings: Settings,
    database: Database,
}

impl Scene {
    /// The table, and a configuration to standard output.
    async fn new(server: Server) -> Self {
        let database = Database::create(server, "start").await;
        database.create_outbox().await;
        Self { settings: Settings::stdout(&database), database }
    }

    /// The relay starts, and prints an event.
    async fn runs(&self) -> Relay {
        let mut relay = Relay::streaming(&self.settings).await;
        self.database.insert("order", "a", 1).await;
        relay.wait_printed(1, SHORT).await;
        relay
    }

    async fn marker(&self) -> Value {
        let query = "SELECT to_jsonb(relay) FROM pgoutbox.relay";
        serde_json::from_str(&self.database.sql().value(query).await.unwrap()).unwrap()
    }
}
