//! `pgoutbox status`, against relays as they are.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::{Database, Process, Relay, SHORT, Server, Settings, wait_until};

on_both_servers!(
    a_relay_that_streams_is_shown_and_ready,
    a_relay_that_an_event_halts_is_shown_with_the_way_out,
    watching_goes_on_while_the_relay_is_away_and_ends_cleanly,
    watching_on_a_terminal_keeps_the_state_in_sight,
);

/// A relay to standard output that `init` has prepared.
async fn scene(server: Server) -> (Database, Settings) {
    let database = Database::create(server, "status").await;
    database.create_outbox().await;
    database.sql().run(&format!("GRANT pg_monitor TO {}", database.name())).await;
    let settings = Settings::stdout(&database).with("monitor", json!({"interval": "100ms"}));
    Relay::init(&settings, &database.admin_url());
    (database, settings)
}

/// Exit code, standard output and standard error of `pgoutbox status`.
fn status(settings: &Settings, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Relay::command(settings, "status", arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// What stands behind a label.
#[track_caller]
fn line<'a>(shown: &'a str, label: &str) -> &'a str {
    let found = shown.lines().find_map(|line| line.strip_prefix(&format!("{label:12}")));
    found.unwrap_or_else(|| panic!("no `{label}` in:\n{shown}"))
}

async fn a_relay_that_streams_is_shown_and_ready(server: Server) {
    let (database, settings) = scene(server).await;
    let mut relay = Relay::streaming(&settings).await;
    database.insert("order", "a", 1).await;
    relay.wait_printed(1, SHORT).await;
    database.wait_confirmed(database.wal_end().await, SHORT).await;
    wait_until("the relay to tell of it", SHORT, async || {
        let status = relay.status().await?;
        let is_read = status.pointer("/monitor/walsender/pid")?.is_u64();
        (is_read && status["sinks"][0]["delivered"] == 1).then_some(())
    })
    .await;

    let (code, shown, errors) = status(&settings, &[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{shown}");
    assert_eq!(line(&shown, "state"), "streaming");
    assert!(line(&shown, "relay").starts_with("orders, version "), "{shown}");
    assert_eq!(line(&shown, "events"), "received 0.0/s, delivered 0.0/s");
    assert_eq!(line(&shown, "held by"), "nothing");
    assert_eq!(line(&shown, "sinks"), "out: connected, delivered 1");
    assert_eq!(line(&shown, "last error"), "none");
    let of_slot = format!("{}: read by pid ", database.name());
    assert!(line(&shown, "slot").starts_with(&of_slot), "{shown}");
    assert!(line(&shown, "walsender").contains("async"), "{shown}");
    assert!(!shown.contains('\x1b'), "no colour in a pipe: {shown:?}");

    // As a document, and without the configuration.
    let url = format!("http://127.0.0.1:{}", settings.http_port());
    let (code, document, _) =
        status(&settings.with("http.listen", "off"), &["--json", "--url", &url]);
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&document["state"], &document["name"]), (&json!("streaming"), &json!("orders")));
    assert_eq!(document["events_received"], 1);
}

async fn a_relay_that_an_event_halts_is_shown_with_the_way_out(server: Server) {
    let (database, settings) = scene(server).await;
    let routes = json!([{"sink": "out", "match": {"aggregate_type": "order"}}]);
    let settings = settings.with("routes", routes);
    let mut relay = Relay::streaming(&settings).await;
    database.insert("invoice", "a", 1).await;
    let id = database.id(1).await;
    relay.wait_state("halted", SHORT).await;
    wait_until("the relay's alert", SHORT, async || {
        let status = relay.status().await?;
        status["alerts"].as_array()?.iter().find(|it| it["name"] == "PgoutboxHalted").cloned()
    })
    .await;

    let (code, shown, errors) = status(&settings, &[]);
    assert_eq!((code, errors.as_str()), (Some(1), ""), "{shown}");
    assert!(line(&shown, "alerts").starts_with("critical PgoutboxHalted: "), "{shown}");
    assert_eq!(line(&shown, "state"), "halted");
    assert!(line(&shown, "reason").contains(&id), "{shown}");
    let way_out = format!("`pgoutbox run --skip {id}`");
    assert!(line(&shown, "hint").contains(&way_out), "{shown}");
    assert!(line(&shown, "unsettled").starts_with("1 event in "), "{shown}");
    assert!(line(&shown, "held by").starts_with(&format!("event `{id}`")), "{shown}");
    assert!(!shown.contains("last error"), "the reason says it: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_does_not_run_is_one_clear_error() {
    let (_database, settings) = scene(Server::Newest).await;
    let url = format!("http://127.0.0.1:{}", settings.http_port());
    for arguments in [&[][..], &["--json"]] {
        let (code, shown, errors) = status(&settings, arguments);
        assert_eq!((code, shown.as_str()), (Some(1), ""));
        let [error, hint] = errors.lines().collect::<Vec<_>>()[..] else { panic!("{errors}") };
        assert!(error.starts_with(&format!("error: no relay runs at `{url}`")), "{error}");
        assert!(hint.starts_with(" hint: ") && hint.contains("`pgoutbox run`"), "{hint}");
    }
    let (code, _, errors) = status(&settings.with("http.listen", "off"), &[]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("`http.listen` is `off`"), "{errors}");
}

async fn watching_goes_on_while_the_relay_is_away_and_ends_cleanly(server: Server) {
    let (_database, settings) = scene(server).await;
    let mut relay = Relay::streaming(&settings).await;
    let mut watch = Watch::start(&settings);
    watch.wait_for("state       streaming").await;
    assert!(relay.terminate(SHORT).await.success());
    watch.wait_for("error: no relay runs").await;
    let mut relay = Relay::streaming(&settings).await;
    watch.wait_for("state       streaming").await;
    watch.process.signal("INT");
    let end = watch.process.wait(SHORT).await;
    assert_eq!(end.code(), Some(0));
    assert!(!watch.lines.lock().unwrap().concat().contains('\x1b'), "no cursor in a pipe");
    assert!(relay.terminate(SHORT).await.success());
}

/// On one of 30 columns and 5 rows: the first four lines, cut off, and how many are left out.
async fn watching_on_a_terminal_keeps_the_state_in_sight(server: Server) {
    let (_database, settings) = scene(server).await;
    let mut relay = Relay::streaming(&settings).await;
    let url = format!("http://127.0.0.1:{}", settings.http_port());
    let program = env!("CARGO_BIN_EXE_pgoutbox");
    let shell = format!("stty columns 30 rows 5 && exec '{program}' status --watch --url {url}");
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--flush", "--command", &shell, "/dev/null"]).env("NO_COLOR", "1");
    // It says how it was ended.
    terminal.stderr(Stdio::null());
    let mut watch = Watch::of(&mut terminal);
    watch.wait_for("\x1b[K… ").await;
    watch.wait_for("\x1b[K… ").await;
    let lines = watch.lines.lock().unwrap().clone();
    let end = lines.iter().rposition(|line| line.starts_with("\x1b[K… ")).unwrap();
    let texts: Vec<_> =
        lines[..=end].iter().map(|line| line.trim_end().rsplit_once("\x1b[K").unwrap().1).collect();
    let [.., relay_line, state, events, more] = texts[..] else { panic!("{lines:?}") };
    assert!(relay_line.starts_with("relay       orders, version"), "{lines:?}");
    assert_eq!((relay_line.chars().count(), relay_line.chars().last()), (30, Some('…')));
    assert_eq!(state, "state       streaming");
    assert!(events.starts_with("events      received "), "{lines:?}");
    assert!(more.contains(" more lines; `pgoutbox") && more.ends_with('…'), "{lines:?}");
    watch.process.signal("TERM");
    watch.process.wait(SHORT).await;
    assert!(relay.terminate(SHORT).await.success());
}

/// `pgoutbox status --watch` with a pipe as its output.
struct Watch {
    process: Process,
    /// What it has printed and no test has looked at.
    lines: Arc<Mutex<Vec<String>>>,
}

impl Watch {
    fn start(settings: &Settings) -> Self {
        let url = format!("http://127.0.0.1:{}", settings.http_port());
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgoutbox"));
        Self::of(command.args(["status", "--watch", "--url", &url]))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        Self { process: Process::new(child), lines }
    }

    /// Waits for a new line that begins like this.
    async fn wait_for(&mut self, begin: &str) {
        self.lines.lock().unwrap().clear();
        wait_until(&format!("a line `{begin}`"), SHORT, async || {
            self.lines.lock().unwrap().iter().any(|line| line.starts_with(begin)).then_some(())
        })
        .await;
    }
}
