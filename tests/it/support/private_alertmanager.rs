//! An Alertmanager of a test's own, and what it has been told.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::private_postgres::free_port;
use super::process::{Process, give_away, server_command, server_directory};
use super::services::alertmanager;
use super::{http, wait_until};

const START: Duration = Duration::from_secs(30);

/// One that tells nobody.
const CONFIGURATION: &str = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n";

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
        let log = self.dir.path().join("log");
        wait_until("an Alertmanager", START, async || {
            if let Some(status) = self.process.ended() {
                panic!("Alertmanager: {status}\n{}", fs::read_to_string(&log).unwrap());
            }
            let (code, _body) = http::get(self.port, "/-/ready").await?;
            (code == 200).then_some(())
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
    Process::start(&mut command, &dir.join("log"))
}
