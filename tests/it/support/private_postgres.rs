//! A PostgreSQL server of a test's own: one that may be configured, stopped, killed and replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;
use uuid::Uuid;

use super::port::free_port;
use super::process::{Process, give_away, run, server_command, server_directory};
use super::{Cluster, SHORT, Server, wait_until};

/// Of the administrator `postgres`.
const PASSWORD: &str = "postgres";

/// A server; dropping it kills it and deletes its data.
#[derive(Debug)]
pub(crate) struct PrivatePostgres {
    process: Process,
    server: Server,
    port: u16,
    dir: TempDir,
}

/// How a `pg_ctl stop` went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    /// Whether the server has stopped.
    pub(crate) done: bool,
    /// How long `pg_ctl` took.
    pub(crate) took: Duration,
}

impl PrivatePostgres {
    /// Starts a fresh server with `wal_level = logical` and the settings.
    pub(crate) async fn start(server: Server, settings: &[(&str, &str)]) -> Self {
        let dir = server_directory();
        let data = dir.path().join("data");
        // Root keeps owners, everybody else is the owner.
        run(Command::new("cp").arg("-a").arg(template(server)).arg(&data));
        Self::start_in(dir, server, settings).await
    }

    /// Starts a streaming standby of this server.
    pub(crate) async fn start_standby(&self, settings: &[(&str, &str)]) -> Self {
        let dir = server_directory();
        run(server_command(self.server.programs().join("pg_basebackup"))
            .arg("-d")
            .arg(self.cluster().url("postgres"))
            .arg("-D")
            .arg(dir.path().join("data"))
            .args(["-R", "-X", "stream", "-c", "fast"]));
        Self::start_in(dir, self.server, settings).await
    }

    async fn start_in(dir: TempDir, server: Server, settings: &[(&str, &str)]) -> Self {
        let port = free_port();
        configure(dir.path(), port, settings);
        let process = launch(dir.path(), server);
        let mut this = Self { process, server, port, dir };
        this.wait_ready().await;
        this
    }

    /// The administrator's way in.
    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::new(&format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres", self.port))
    }

    /// The directory of its unix socket.
    pub(crate) fn socket_directory(&self) -> &Path {
        self.dir.path()
    }

    /// Its data directory.
    pub(crate) fn data_directory(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// `pg_ctl stop -m MODE -t 15`.
    pub(crate) fn stop(&mut self, mode: &str) -> Stop {
        let begin = Instant::now();
        let status = server_command(self.server.programs().join("pg_ctl"))
            .arg("stop")
            .arg("-D")
            .arg(self.data_directory())
            .args(["-m", mode, "-t", "15", "-s"])
            .status()
            .unwrap();
        Stop { done: status.success(), took: begin.elapsed() }
    }

    /// Kills the whole server as a crash of the machine would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
        // Its number may be somebody else's by the next start.
        let pid_file = self.data_directory().join("postmaster.pid");
        if pid_file.exists() {
            fs::remove_file(pid_file).unwrap();
        }
    }

    /// Starts it again after [`PrivatePostgres::stop`] or [`PrivatePostgres::kill`], on the same
    /// port.
    pub(crate) async fn start_again(&mut self) {
        self.process.wait(SHORT).await;
        self.process = launch(self.dir.path(), self.server);
        self.wait_ready().await;
    }

    /// Makes a standby the primary.
    pub(crate) async fn promote(&self) {
        self.cluster().connect("postgres").await.run("SELECT pg_promote()").await;
    }

    async fn wait_ready(&mut self) {
        let (cluster, process) = (self.cluster(), &mut self.process);
        let log = self.dir.path().join("log");
        wait_until("a private PostgreSQL", SHORT, async || {
            if let Some(status) = process.ended() {
                panic!("PostgreSQL: {status}\n{}", fs::read_to_string(&log).unwrap());
            }
            cluster.try_connect("postgres").await.ok()
        })
        .await;
    }
}

fn launch(dir: &Path, server: Server) -> Process {
    let programs = server.programs();
    let mut command = server_command(programs.join("postgres"));
    // A standby's receiver must not meet the system's older libpq.
    let libraries = programs.join("../lib");
    if libraries.join("libpq.so.5").exists() {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    Process::start(command.arg("-D").arg(dir.join("data")), &dir.join("log"))
}

fn configure(dir: &Path, port: u16, settings: &[(&str, &str)]) {
    let mut text = format!(
        "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n",
        dir.display()
    );
    text.push_str("wal_level = logical\nfsync = off\nshared_buffers = 32MB\n");
    for (name, value) in settings {
        text.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
    }
    // The last line of a setting counts, and `ALTER SYSTEM` still comes after these.
    let file = dir.join("data/private.conf");
    fs::write(&file, text).unwrap();
    give_away(&file);
    let main = dir.join("data/postgresql.conf");
    let text = fs::read_to_string(&main).unwrap();
    if !text.contains("private.conf") {
        fs::write(&main, format!("{text}\ninclude 'private.conf'\n")).unwrap();
    }
}

/// A fresh data directory to copy: `initdb` takes a second, a copy next to nothing.
fn template(server: Server) -> PathBuf {
    let version = run(Command::new(server.programs().join("postgres")).arg("--version"));
    let version = version.trim().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let template = Path::new(env!("CARGO_TARGET_TMPDIR")).join(version);
    if !template.exists() {
        let dir = server_directory();
        init(dir.path(), server);
        // Tests that do the same at the same time: the last one's remains.
        let part = template.with_extension(Uuid::new_v4().simple().to_string());
        run(Command::new("cp").arg("-a").arg(dir.path().join("data")).arg(&part));
        if fs::rename(&part, &template).is_err() {
            fs::remove_dir_all(&part).unwrap();
        }
    }
    template
}

fn init(dir: &Path, server: Server) {
    let password = dir.join("password");
    fs::write(&password, PASSWORD).unwrap();
    run(server_command(server.programs().join("initdb"))
        .arg("-D")
        .arg(dir.join("data"))
        .arg(format!("--pwfile={}", password.display()))
        .args(["-U", "postgres", "-A", "scram-sha-256", "--no-locale", "-E", "UTF8", "--no-sync"]));
}
