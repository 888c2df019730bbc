//! A running RabbitMQ, shared or private: where it is, and what its administrator can do to it.

use std::path::PathBuf;
use std::process::Command;

use super::management::{Management, escape};
use super::process::{run, server_command};

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct RabbitNode {
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    pub(crate) management: Management,
    /// The script that runs the node's tools.
    pub(crate) script: PathBuf,
    /// Whether it is a test's own, whose files belong to the account of such servers.
    pub(crate) is_private: bool,
}

impl RabbitNode {
    /// `amqp://…` of a user in a vhost, both of any characters.
    pub(crate) fn url(&self, user: &str, password: &str, vhost: &str) -> String {
        url(self.port, user, password, vhost)
    }

    /// Runs `rabbitmqctl`, which takes most of a second, and returns what it printed.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        run(self.command().arg("rabbitmqctl").arg("-q").args(arguments))
    }

    /// Closes the connections of one user, as an operator does before an upgrade.
    pub(crate) fn close_connections_of(&self, user: &str) {
        self.ctl(&["close_all_user_connections", user, "maintenance"]);
    }

    /// Makes the broker short of memory, or ends that: while it is, it reads from no publisher and
    /// sends `connection.blocked`.
    pub(crate) fn set_memory_alarm(&self, on: bool) {
        let watermark = if on { "0.000001" } else { "0.6" };
        self.ctl(&["set_vm_memory_high_watermark", watermark]);
    }

    fn command(&self) -> Command {
        if self.is_private { server_command(&self.script) } else { Command::new(&self.script) }
    }
}

/// The URL of a broker on loopback, or of a proxy before it.
pub(crate) fn url(port: u16, user: &str, password: &str, vhost: &str) -> String {
    format!("amqp://{}:{}@127.0.0.1:{port}/{}", escape(user), escape(password), escape(vhost))
}
