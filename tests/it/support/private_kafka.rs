//! A Kafka cluster of a test's own: brokers that may be stopped, killed, and told whom to trust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tempfile::TempDir;

use super::private_postgres::free_port;
use super::process::{Process, run, server_command, server_directory};
use super::services::{java, kafka_class_path};
use super::wait_until;

/// A JVM takes its time, on a machine that has other work most of all.
const START: Duration = Duration::from_secs(90);

/// Any 16 bytes in Kafka's base64.
const CLUSTER_ID: &str = "cGdvdXRib3gtdGVzdHMtMQ";

/// How a private cluster differs from a plain broker.
#[derive(Clone, Debug, Default)]
pub(crate) struct KafkaOptions {
    /// A second broker, which holds copies only and may be stopped.
    pub(crate) two_brokers: bool,
    /// A listener where `relay` logs in by SASL PLAIN and may do what an ACL says.
    pub(crate) acls: bool,
    /// Further lines of `server.properties`.
    pub(crate) properties: Vec<(&'static str, String)>,
}

/// One or two brokers; dropping them kills them and deletes their data.
pub(crate) struct PrivateKafka {
    brokers: Vec<Broker>,
}

struct Broker {
    process: Process,
    ports: Ports,
    dir: TempDir,
}

#[derive(Clone, Copy)]
struct Ports {
    plain: u16,
    sasl: u16,
    controller: u16,
}

impl PrivateKafka {
    /// Starts the cluster; topics are created by hand only.
    pub(crate) async fn start(options: &KafkaOptions) -> Self {
        let mut brokers: Vec<Broker> = Vec::new();
        for node in 1..=if options.two_brokers { 2 } else { 1 } {
            let ports = Ports { plain: free_port(), sasl: free_port(), controller: free_port() };
            let controller = brokers.first().map_or(ports.controller, |b| b.ports.controller);
            brokers.push(Broker::start(node, ports, controller, options));
        }
        let this = Self { brokers };
        this.wait_ready(this.brokers.len()).await;
        this
    }

    /// `host:port` of all brokers, where everybody may do everything.
    pub(crate) fn brokers(&self) -> String {
        self.list(|ports| ports.plain)
    }

    /// `host:port` of all brokers, where only ACLs allow anything.
    pub(crate) fn sasl_brokers(&self) -> String {
        self.list(|ports| ports.sasl)
    }

    /// librdkafka's properties of the user `relay`.
    pub(crate) fn sasl_properties() -> [(&'static str, &'static str); 4] {
        [
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "relay"),
            ("sasl.password", "secret"),
        ]
    }

    /// Runs `kafka-acls` with these arguments, such as `--add --allow-principal User:relay …`.
    pub(crate) fn acl(&self, arguments: &[&str]) {
        run(java_command("org.apache.kafka.tools.AclCommand")
            .args(["--bootstrap-server", &self.brokers()])
            .args(arguments));
    }

    /// Sends a signal to a broker: 0 is the controller too, 1 holds copies only.
    pub(crate) fn signal(&self, broker: usize, signal: &str) {
        self.brokers[broker].process.signal(signal);
    }

    /// `kill -9` of a broker.
    pub(crate) fn kill(&mut self, broker: usize) {
        self.brokers[broker].process.kill();
    }

    /// Starts a broker that was killed, with its data and ports.
    pub(crate) async fn start_again(&mut self, broker: usize) {
        let killed = &mut self.brokers[broker];
        killed.process = launch(killed.dir.path());
        self.wait_ready(self.brokers.len()).await;
    }

    /// Waits until the cluster says that it has this many brokers.
    pub(crate) async fn wait_ready(&self, count: usize) {
        let client: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.brokers())
            .set("log_level", "0")
            .create()
            .unwrap();
        wait_until("a private Kafka", START, async || {
            let look = || client.fetch_metadata(None, Duration::from_secs(2));
            let metadata = tokio::task::block_in_place(look).ok()?;
            (metadata.brokers().len() == count).then_some(())
        })
        .await;
    }

    fn list(&self, port: impl Fn(&Ports) -> u16) -> String {
        let address = |broker: &Broker| format!("127.0.0.1:{}", port(&broker.ports));
        self.brokers.iter().map(address).collect::<Vec<_>>().join(",")
    }
}

impl Broker {
    fn start(node: usize, ports: Ports, controller: u16, options: &KafkaOptions) -> Self {
        let dir = server_directory();
        let file = dir.path().join("server.properties");
        fs::write(&file, properties(dir.path(), node, ports, controller, options)).unwrap();
        let mut format = java_command("kafka.tools.StorageTool");
        format.args(["format", "--cluster-id", CLUSTER_ID, "-c"]).arg(&file);
        if node == 1 {
            format.arg("--standalone");
        }
        run(&mut format);
        Self { process: launch(dir.path()), ports, dir }
    }
}

fn launch(dir: &Path) -> Process {
    let mut command = java_command("kafka.Kafka");
    Process::start(command.arg(dir.join("server.properties")), &dir.join("log"))
}

fn java_command(class: &str) -> Command {
    let mut command = server_command(java());
    command
        .args(["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC"])
        .args(["-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"])
        .arg("-cp")
        .arg(kafka_class_path())
        .arg(class);
    command
}

fn properties(
    dir: &Path,
    node: usize,
    ports: Ports,
    controller: u16,
    options: &KafkaOptions,
) -> String {
    let mut lines = vec![
        ("node.id", node.to_string()),
        ("log.dirs", path(dir.join("data"))),
        ("controller.quorum.bootstrap.servers", format!("127.0.0.1:{controller}")),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("inter.broker.listener.name", "PLAIN".to_owned()),
        (
            "listener.security.protocol.map",
            "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT".to_owned(),
        ),
        ("auto.create.topics.enable", "false".to_owned()),
        ("offsets.topic.replication.factor", "1".to_owned()),
        ("transaction.state.log.replication.factor", "1".to_owned()),
        ("transaction.state.log.min.isr", "1".to_owned()),
        // A broker that was stopped shall be missed soon.
        ("broker.session.timeout.ms", "3000".to_owned()),
        ("broker.heartbeat.interval.ms", "500".to_owned()),
        ("replica.lag.time.max.ms", "2000".to_owned()),
    ];
    let mut listeners = format!("PLAIN://127.0.0.1:{}", ports.plain);
    if options.acls {
        listeners.push_str(&format!(",SASL://127.0.0.1:{}", ports.sasl));
        lines.extend(acl_properties());
    }
    lines.push(("advertised.listeners", listeners.clone()));
    if node == 1 {
        listeners.push_str(&format!(",CONTROLLER://127.0.0.1:{}", ports.controller));
        lines.push(("process.roles", "broker,controller".to_owned()));
    } else {
        lines.push(("process.roles", "broker".to_owned()));
    }
    lines.push(("listeners", listeners));
    lines.extend(options.properties.iter().cloned());
    lines.into_iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// Who comes through the plain listener is nobody in particular, and may do everything.
fn acl_properties() -> [(&'static str, String); 5] {
    [
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
        ),
        ("super.users", "User:ANONYMOUS".to_owned()),
        ("allow.everyone.if.no.acl.found", "false".to_owned()),
        ("sasl.enabled.mechanisms", "PLAIN".to_owned()),
        (
            "listener.name.sasl.plain.sasl.jaas.config",
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_relay=\"secret\";"
                .to_owned(),
        ),
    ]
}

fn path(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}
