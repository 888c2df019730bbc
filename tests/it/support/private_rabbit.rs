//! A RabbitMQ node of a test's own: one that may be configured, stopped and killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::management::Management;
use super::port::free_port;
use super::process::{Process, give_away, server_command, server_directory};
use super::rabbit_node::RabbitNode;
use super::services::{RabbitVersion, rabbit_port_mapper};
use super::{Certificates, wait_until};

/// A few seconds on an idle machine.
const START: Duration = Duration::from_secs(180);

/// An orderly stop, which takes RabbitMQ 3.10 six seconds at least.
const STOP: Duration = Duration::from_secs(60);

/// What runs a node and its tools, as `dev/services` does.
const SCRIPT: &str = include_str!("../../../dev/lib/rabbitmq-node");

/// A node; dropping it kills it and deletes its data.
pub(crate) struct PrivateRabbit {
    process: Process,
    node: RabbitNode,
    dir: TempDir,
}

impl PrivateRabbit {
    /// Starts a fresh node with further lines of `rabbitmq.conf`.
    pub(crate) async fn start(version: RabbitVersion, lines: &[(&str, &str)]) -> Self {
        let dir = server_directory();
        let node = RabbitNode {
            port: free_port(),
            tls_port: free_port(),
            management: Management::new(free_port()),
            script: dir.path().join("run"),
            is_private: true,
        };
        configure(dir.path(), version, &node, lines);
        let process = launch(dir.path());
        let mut this = Self { process, node, dir };
        this.wait_ready().await;
        this
    }

    /// Starts a node that also listens with TLS, and with EXTERNAL lets in whoever has a certificate
    /// of the same authority: its common name is the user.
    pub(crate) async fn start_with_tls(
        version: RabbitVersion,
        certificates: &Certificates,
        lines: &[(&str, &str)],
    ) -> Self {
        let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let files = [
            ("ssl_options.cacertfile", path(certificates.authority())),
            ("ssl_options.certfile", path(certificates.certificate())),
            ("ssl_options.keyfile", path(certificates.key())),
        ];
        let mut all: Vec<(&str, &str)> = vec![
            ("ssl_options.verify", "verify_peer"),
            ("ssl_cert_login_from", "common_name"),
            ("auth_mechanisms.1", "EXTERNAL"),
            ("auth_mechanisms.2", "PLAIN"),
        ];
        all.extend(files.iter().map(|(name, path)| (*name, path.as_str())));
        all.extend(lines);
        Self::start(version, &all).await
    }

    /// Where it is, and its administrator's tools.
    pub(crate) fn node(&self) -> &RabbitNode {
        &self.node
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it in an orderly way.
    pub(crate) async fn stop(&mut self) {
        self.process.signal("TERM");
        self.process.wait(STOP).await;
    }

    /// Starts it again after [`PrivateRabbit::kill`] or [`PrivateRabbit::stop`], with its data and
    /// ports.
    pub(crate) async fn start_again(&mut self) {
        self.process = launch(self.dir.path());
        self.wait_ready().await;
    }

    /// Sends a signal by its name without `SIG`: `STOP` makes a broker that hangs.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    async fn wait_ready(&mut self) {
        let log = self.dir.path().join("log");
        wait_until("a private RabbitMQ", START, async || {
            let text = fs::read_to_string(&log).unwrap();
            if let Some(status) = self.process.ended() {
                panic!("RabbitMQ: {status}\n{text}");
            }
            text.contains("Server startup complete").then_some(())
        })
        .await;
    }
}

fn launch(dir: &Path) -> Process {
    let mut command = server_command(dir.join("run"));
    Process::start(command.arg("rabbitmq-server"), &dir.join("log"))
}

/// The last line of a setting counts.
fn configure(dir: &Path, version: RabbitVersion, node: &RabbitNode, lines: &[(&str, &str)]) {
    let name = dir.file_name().unwrap().to_str().unwrap().replace('.', "-");
    let environment = format!(
        "AMQP_HOME='{}'\nRABBITMQ_NODENAME={name}@localhost\nRABBITMQ_DIST_PORT={}\n\
         ERL_EPMD_PORT={}\n",
        version.home().display(),
        free_port(),
        rabbit_port_mapper(),
    );
    let mut text = format!(
        "listeners.tcp.1 = 127.0.0.1:{}\nmanagement.tcp.ip = 127.0.0.1\n\
         management.tcp.port = {}\nlog.console = true\nlog.console.use_colors = off\n\
         log.file = false\ndisk_free_limit.absolute = 50MB\n",
        node.port,
        node.management.port(),
    );
    if lines.iter().any(|(name, _)| name.starts_with("ssl_options")) {
        text.push_str(&format!("listeners.ssl.1 = 127.0.0.1:{}\n", node.tls_port));
    }
    text.extend(lines.iter().map(|(name, value)| format!("{name} = {value}\n")));
    for (file, text) in [
        ("run", SCRIPT),
        ("node.env", &environment),
        ("enabled_plugins", "[rabbitmq_management,rabbitmq_auth_mechanism_ssl]."),
        ("rabbitmq.conf", &text),
    ] {
        let file = dir.join(file);
        fs::write(&file, text).unwrap();
        give_away(&file);
    }
    fs::set_permissions(dir.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
}
