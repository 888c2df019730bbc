//! An Alertmanager of a test's own, and what it has been told.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::port::free_port;
use super::process::{Process, give_away, server_command, server_directory};
use super::services::alertmanager;
use super::{Certificates, http, wait_until};

const START: Duration = Duration::from_secs(30);

/// One that tells nobody.
const CONFIGURATION: &str = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n";

/// Whom one with TLS lets in.
pub(crate) const USER: &str = "relay";
pub(crate) const PASSWORD: &str = "U*U";

/// bcrypt of the password: a test vector of its first implementation.
const HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

/// An Alertmanager; dropping it kills it.
pub(crate) struct PrivateAlertmanager {
    process: Process,
    port: u16,
    dir: TempDir,
}

impl PrivateAlertmanager {
    /// Starts one.
    pub(crate) async fn start() -> Self {
        let (dir, port) = (server_directory(), free_port());
        let file = dir.path().join("alertmanager.yml");
        fs::write(&file, CONFIGURATION).unwrap();
        give_away(&file);
        let mut this = Self { process: launch(dir.path(), port), port, dir };
        this.wait_ready().await;
        this
    }

    /// Starts one that listens with TLS as `localhost`, and lets in [`USER`] with [`PASSWORD`].
    pub(crate) async fn start_with_tls(certificates: &Certificates) -> Self {
        let (dir, port) = (server_directory(), free_port());
        let web = format!(
            "tls_server_config: {{cert_file: {}, key_file: {}}}\nbasic_auth_users: {{{USER}: {HASH}}}\n",
            certificates.certificate().display(),
            certificates.key().display(),
        );
        for (name, text) in [("alertmanager.yml", CONFIGURATION), ("web.yml", &web)] {
            let file = dir.path().join(name);
            fs::write(&file, text).unwrap();
            give_away(&file);
        }
        let mut this = Self { process: launch(dir.path(), port), port, dir };
        this.wait_listening().await;
        this
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its address, as a configuration has it.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// `kill -9`; what it was told goes with it.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again after [`PrivateAlertmanager::kill`], on the same port.
    pub(crate) async fn start_again(&mut self) {
        self.process = launch(self.dir.path(), self.port);
        self.wait_ready().await;
    }

    /// The alerts that fire there (its API, version 2).
    pub(crate) async fn alerts(&self) -> Vec<Value> {
        let (code, body) = http::get(self.port, "/api/v2/alerts").await.expect("an answer");
        assert_eq!(code, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn wait_ready(&mut self) {
        self.wait_listening().await;
        wait_until("an Alertmanager that is ready", START, async || {
            let (code, _body) = http::get(self.port, "/-/ready").await?;
            (code == 200).then_some(())
        })
        .await;
    }

    async fn wait_listening(&mut self) {
        let log = self.dir.path().join("log");
        wait_until("an Alertmanager", START, async || {
            let text = fs::read_to_string(&log).unwrap();
            if let Some(status) = self.process.ended() {
                panic!("Alertmanager: {status}\n{text}");
            }
            text.contains("Listening on").then_some(())
        })
        .await;
    }
}

fn launch(dir: &Path, port: u16) -> Process {
    let mut command = server_command(alertmanager());
    command
        .arg(format!("--config.file={}", dir.join("alertmanager.yml").display()))
        .arg(format!("--storage.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        // It has no peers.
        .arg("--cluster.listen-address=");
    let web = dir.join("web.yml");
    if web.exists() {
        command.arg(format!("--web.config.file={}", web.display()));
    }
    Process::start(&mut command, &dir.join("log"))
}
