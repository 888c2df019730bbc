//! Processes that a test starts, and ends by their pids.

use std::fs;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::wait_until;

/// A process of ours; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts it with output and errors into a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Self {
        let log = File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        loop {
            match command.spawn() {
                Ok(child) => return Self::new(child),
                // A script that was just written, and that a child which another test starts at this
                // moment still has open.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
                Err(error) => panic!("{command:?}: {error}"),
            }
        }
    }

    /// Takes over a child that was started elsewhere.
    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal by its name without `SIG`.
    pub(crate) fn signal(&self, signal: &str) {
        send_signal(self.pid(), signal);
    }

    /// Whether it has ended by itself.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("the end of process {}", self.pid());
        wait_until(&what, deadline, async || self.0.try_wait().unwrap()).await
    }

    /// `kill -9`, children first: those of a PostgreSQL hold its shared memory for a moment more.
    pub(crate) fn kill(&mut self) {
        if self.0.try_wait().unwrap().is_some() {
            return;
        }
        let children = children_of(self.pid());
        self.signal("KILL");
        for child in children {
            send_signal(child, "KILL");
        }
        let _status = self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal; a process that has ended already is fine.
pub(crate) fn send_signal(pid: u32, signal: &str) {
    let script = format!("kill -{signal} {pid} 2>/dev/null || true");
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}

fn children_of(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// A directory of a private server, with a short path, since sockets live in it.
///
/// As root the servers run as the account `postgres`, which owns the directory.
pub(crate) fn server_directory() -> TempDir {
    let dir = tempfile::Builder::new().prefix("pgoutbox.").tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    give_away(dir.path());
    dir
}

/// Hands a path to the account that the servers run as.
pub(crate) fn give_away(path: &Path) {
    if let Some((uid, gid)) = server_account() {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
}

/// A command that runs as the servers do.
pub(crate) fn server_command(program: impl Into<PathBuf>) -> Command {
    let mut command = Command::new(program.into());
    if let Some((uid, gid)) = server_account() {
        command.uid(uid).gid(gid);
    }
    // A directory that every account may enter.
    command.current_dir("/");
    command
}

/// Runs a command to its end.
///
/// # Panics
///
/// Where it fails, with what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output =
        command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text
}

/// Root's servers run as somebody without rights (PostgreSQL insists); others' as themselves.
fn server_account() -> Option<(u32, u32)> {
    static ACCOUNT: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *ACCOUNT.get_or_init(|| {
        let id =
            |args: &[&str]| -> u32 { run(Command::new("id").args(args)).trim().parse().unwrap() };
        (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
    })
}
