//! The real binary, run as a user runs it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::process::Process;
use super::{Settings, http, wait_until};

/// A running `pgoutbox run`; dropping it kills it.
pub(crate) struct Relay {
    process: Process,
    port: u16,
    lines: Lines,
    collectors: Vec<JoinHandle<()>>,
    file: ConfigFile,
}

/// Lines that the relay has printed, on either stream.
type Lines = Arc<Mutex<Vec<String>>>;

impl Relay {
    /// Starts the relay and does not wait for anything.
    pub(crate) fn start(settings: &Settings) -> Self {
        Self::start_with(settings, &[], &[])
    }

    /// The same with further arguments and environment variables.
    pub(crate) fn start_with(
        settings: &Settings,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let file = ConfigFile::new(settings);
        let mut child = file
            .command("run")
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Lines::default();
        let collectors = vec![
            collect(child.stdout.take().unwrap(), &lines),
            collect(child.stderr.take().unwrap(), &lines),
        ];
        let process = Process::new(child);
        Self { process, port: settings.http_port(), lines, collectors, file }
    }

    /// Starts the relay and waits until it streams.
    pub(crate) async fn streaming(settings: &Settings) -> Self {
        let mut relay = Self::start(settings);
        relay.wait_state("streaming", super::SHORT).await;
        relay
    }

    /// `pgoutbox init`, as the administrator of `admin_url`.
    pub(crate) fn init(settings: &Settings, admin_url: &str) {
        let output = Self::command(settings, "init", &["--url", admin_url]);
        assert!(output.status.success(), "init: {}", text(&output));
    }

    /// Runs another command to its end.
    pub(crate) fn command(settings: &Settings, command: &str, arguments: &[&str]) -> Output {
        let file = ConfigFile::new(settings);
        file.command(command).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// The same for one of a command's own: `pgoutbox COMMAND WORD -c FILE …`.
    pub(crate) fn subcommand(settings: &Settings, command: &str, words: &[&str]) -> Output {
        let file = ConfigFile::new(settings);
        let mut process = Command::new(env!("CARGO_BIN_EXE_pgoutbox"));
        process.arg(command).args(words).arg("-c").arg(&file.path);
        process.stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// All it has printed so far.
    pub(crate) fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// All it has printed, once it has ended.
    pub(crate) fn whole_log(&mut self) -> String {
        assert!(self.process.ended().is_some(), "the relay runs still");
        for collector in self.collectors.drain(..) {
            collector.join().unwrap();
        }
        self.log()
    }

    /// The events that a stdout sink has printed so far.
    pub(crate) fn printed(&self) -> Vec<Value> {
        let lines = self.lines.lock().unwrap();
        let events = lines.iter().filter(|line| line.starts_with("{\"id\":"));
        events.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until a stdout sink has printed as many events.
    pub(crate) async fn wait_printed(&mut self, count: usize, deadline: Duration) -> Vec<Value> {
        let lines = Arc::clone(&self.lines);
        let is_event = |line: &&String| line.starts_with("{\"id\":");
        self.wait(&format!("{count} events on standard output"), deadline, async || {
            (lines.lock().unwrap().iter().filter(is_event).count() >= count).then_some(())
        })
        .await;
        self.printed()
    }

    /// Waits for a line that holds all of the words.
    pub(crate) async fn wait_for_log(&mut self, words: &[&str], deadline: Duration) -> String {
        let lines = Arc::clone(&self.lines);
        self.wait(&format!("a log line with {words:?}"), deadline, async || {
            let lines = lines.lock().unwrap();
            lines.iter().find(|line| words.iter().all(|word| line.contains(word))).cloned()
        })
        .await
    }

    /// Answer of an HTTP path; `None` where nobody answers.
    pub(crate) async fn get(&self, path: &str) -> Option<(u16, String)> {
        http::get(self.port, path).await
    }

    /// `/status`, if it answers.
    pub(crate) async fn status(&self) -> Option<Value> {
        let (_code, body) = self.get("/status").await?;
        serde_json::from_str(&body).ok()
    }

    /// The state that `/status` shows.
    pub(crate) async fn state(&self) -> Option<String> {
        Some(self.status().await?.get("state")?.as_str()?.to_owned())
    }

    /// Waits for a state.
    pub(crate) async fn wait_state(&mut self, state: &str, deadline: Duration) {
        let port = self.port;
        self.wait(&format!("state `{state}`"), deadline, async || {
            let (_code, body) = http::get(port, "/status").await?;
            let status: Value = serde_json::from_str(&body).ok()?;
            (status.get("state")?.as_str()? == state).then_some(())
        })
        .await;
    }

    /// Sum of a metric's series that have all of these labels, written `name="value"`.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let (_code, body) = self.get("/metrics").await?;
        let value = |line: &str| -> Option<f64> {
            let rest = line.strip_prefix(name)?;
            let wanted = rest.starts_with(['{', ' ']) && labels.iter().all(|l| rest.contains(l));
            if wanted { rest.rsplit(' ').next()?.parse().ok() } else { None }
        };
        body.lines().filter_map(value).reduce(|sum, next| sum + next)
    }

    /// Most memory it has used so far, in bytes, but for the pages of its program file: without
    /// optimisation those are many, and the kernel takes them back.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let bytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
        };
        bytes("VmHWM:") - bytes("RssFile:")
    }

    /// Gives its file another content, and sends SIGHUP.
    pub(crate) fn reload(&self, settings: &Settings) {
        self.file.write(settings);
        self.signal("HUP");
    }

    /// Asks it at the address of `settings` from now on.
    pub(crate) fn asks(&mut self, settings: &Settings) {
        self.port = settings.http_port();
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends a signal by its name without `SIG`.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Asks it to stop and waits for its end.
    pub(crate) async fn terminate(&mut self, deadline: Duration) -> ExitStatus {
        self.signal("TERM");
        self.wait_exit(deadline).await
    }

    /// Waits until it ends by itself.
    pub(crate) async fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        self.process.wait(deadline).await
    }

    /// Waits, and fails at once where the relay ends in the meantime.
    async fn wait<T>(
        &mut self,
        what: &str,
        deadline: Duration,
        mut probe: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let process = &mut self.process;
        wait_until(what, deadline, async || {
            let value = probe().await;
            if value.is_none()
                && let Some(status) = process.ended()
            {
                panic!("the relay ended while a test waited for {what}: {status}");
            }
            value
        })
        .await
    }
}

impl Drop for Relay {
    /// Shows what the relay said when the test fails.
    fn drop(&mut self) {
        if thread::panicking() {
            let lines = self.lines.lock().unwrap();
            let from = lines.len().saturating_sub(100);
            eprintln!("the relay's last lines:\n{}", lines[from..].join("\n"));
        }
    }
}

fn collect(stream: impl Read + Send + 'static, lines: &Lines) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    })
}

/// Both streams of a command that has ended.
fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

struct ConfigFile {
    _dir: TempDir,
    path: PathBuf,
}

impl ConfigFile {
    fn new(settings: &Settings) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("relay.yaml");
        let file = Self { _dir: dir, path };
        file.write(settings);
        file
    }

    fn write(&self, settings: &Settings) {
        fs::write(&self.path, settings.text()).unwrap();
    }

    fn command(&self, command: &str) -> Command {
        let mut process = Command::new(env!("CARGO_BIN_EXE_pgoutbox"));
        process.arg(command).arg("-c").arg(&self.path);
        process
    }
}
