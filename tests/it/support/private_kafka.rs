//! A Kafka cluster of a test's own: brokers that may be stopped, killed, and told whom to trust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::{Metadata, MetadataTopic};
use tempfile::TempDir;

use super::certificates::Certificates;
use super::port::free_port;
use super::process::{Process, run, server_command, server_directory};
use super::services::{java, kafka_class_path};
use super::{SHORT, Topics, wait_until};

/// A JVM takes its time, on a machine that has other work most of all.
const START: Duration = Duration::from_secs(180);

/// Any 16 bytes in Kafka's base64.
const CLUSTER_ID: &str = "cGdvdXRib3gtdGVzdHMtMQ";

/// How a private cluster differs from a plain broker.
#[derive(Clone, Debug, Default)]
pub(crate) struct KafkaOptions {
    /// A second broker, which holds copies only and may be stopped.
    pub(crate) two_brokers: bool,
    /// A listener where `relay` logs in by SASL PLAIN and may do what an ACL says.
    pub(crate) acls: bool,
    /// Listeners with TLS: where everybody may come, where only a client certificate may, and where
    /// `relay` logs in by SCRAM.
    pub(crate) tls: Option<KafkaTls>,
    /// Further lines of `server.properties`.
    pub(crate) properties: Vec<(&'static str, String)>,
}

/// Files of a broker with TLS.
#[derive(Clone, Debug)]
pub(crate) struct KafkaTls {
    identity: PathBuf,
    authority: PathBuf,
}

impl From<&Certificates> for KafkaTls {
    fn from(certificates: &Certificates) -> Self {
        Self { identity: certificates.identity(), authority: certificates.authority() }
    }
}

/// Where clients come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KafkaListener {
    /// Everybody may do everything.
    Plain,
    /// SASL PLAIN without TLS.
    Sasl,
    /// TLS.
    Tls,
    /// TLS, and the client has to show a certificate.
    Mutual,
    /// SASL SCRAM-SHA-512 over TLS.
    Scram,
}

impl KafkaListener {
    /// Kafka's name of it and the protocol there.
    fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain => ("PLAIN", "PLAINTEXT"),
            Self::Sasl => ("SASL", "SASL_PLAINTEXT"),
            Self::Tls => ("TLS", "SSL"),
            Self::Mutual => ("MUTUAL", "SSL"),
            Self::Scram => ("SCRAM", "SASL_SSL"),
        }
    }
}

/// One or two brokers; dropping them kills them and deletes their data.
pub(crate) struct PrivateKafka {
    brokers: Vec<Broker>,
}

struct Broker {
    process: Process,
    controller: u16,
    listeners: Vec<(KafkaListener, u16)>,
    dir: TempDir,
}

impl KafkaOptions {
    fn listeners(&self) -> impl Iterator<Item = KafkaListener> {
        let sasl = self.acls.then_some(KafkaListener::Sasl);
        let tls = [KafkaListener::Tls, KafkaListener::Mutual, KafkaListener::Scram];
        let tls = tls.into_iter().filter(|_| self.tls.is_some());
        [KafkaListener::Plain].into_iter().chain(sasl).chain(tls)
    }
}

impl PrivateKafka {
    /// Starts the cluster; topics are created by hand only.
    pub(crate) async fn start(options: &KafkaOptions) -> Self {
        let mut brokers: Vec<Broker> = Vec::new();
        for node in 1..=if options.two_brokers { 2 } else { 1 } {
            let controller = brokers.first().map_or_else(free_port, |first| first.controller);
            brokers.push(Broker::start(node, controller, options));
        }
        let this = Self { brokers };
        this.wait_ready(this.brokers.len()).await;
        this
    }

    /// `host:port` of all brokers, where everybody may do everything.
    pub(crate) fn brokers(&self) -> String {
        self.brokers_of(KafkaListener::Plain)
    }

    /// `host:port` of all brokers, where only ACLs allow anything.
    pub(crate) fn sasl_brokers(&self) -> String {
        self.brokers_of(KafkaListener::Sasl)
    }

    /// `host:port` of one listener of all brokers.
    pub(crate) fn brokers_of(&self, listener: KafkaListener) -> String {
        let address = |broker: &Broker| {
            let of_it = broker.listeners.iter().find(|(it, _)| *it == listener);
            format!("127.0.0.1:{}", of_it.expect("a listener that was asked for").1)
        };
        self.brokers.iter().map(address).collect::<Vec<_>>().join(",")
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

    /// Stops a broker in an orderly way: it hands its partitions over first.
    pub(crate) async fn stop(&mut self, broker: usize) {
        let process = &mut self.brokers[broker].process;
        process.signal("TERM");
        process.wait(2 * SHORT).await;
    }

    /// `kill -9` of a broker.
    pub(crate) fn kill(&mut self, broker: usize) {
        self.brokers[broker].process.kill();
    }

    /// Starts a broker that was killed or stopped, with its data and ports.
    pub(crate) async fn start_again(&mut self, broker: usize) {
        let killed = &mut self.brokers[broker];
        killed.process = launch(killed.dir.path());
        self.wait_ready(self.brokers.len()).await;
    }

    /// Waits until the cluster says that it has this many brokers.
    pub(crate) async fn wait_ready(&self, count: usize) {
        self.wait_metadata("a private Kafka", |metadata| metadata.brokers().len() == count).await;
    }

    /// Waits until a broker leads some partition of the topics.
    pub(crate) async fn wait_leads(&self, broker: usize, topics: &Topics) {
        let id = i32::try_from(broker + 1).unwrap();
        self.wait_metadata(&format!("broker {broker} to lead"), |metadata| {
            let ours = metadata.topics().iter().filter(|it| it.name().starts_with(topics.prefix()));
            ours.flat_map(MetadataTopic::partitions).any(|partition| partition.leader() == id)
        })
        .await;
    }

    async fn wait_metadata(&self, what: &str, is_it: impl Fn(&Metadata) -> bool) {
        let client: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.brokers())
            .set("log_level", "0")
            .create()
            .unwrap();
        wait_until(what, START, async || {
            let look = || client.fetch_metadata(None, Duration::from_secs(2));
            let metadata = tokio::task::block_in_place(look).ok()?;
            is_it(&metadata).then_some(())
        })
        .await;
    }
}

impl Broker {
    fn start(node: usize, controller: u16, options: &KafkaOptions) -> Self {
        let dir = server_directory();
        let listeners: Vec<_> =
            options.listeners().map(|listener| (listener, free_port())).collect();
        let mut format = java_command("kafka.tools.StorageTool");
        format.args(["format", "--cluster-id", CLUSTER_ID, "-c"]);
        format.arg(dir.path().join("server.properties"));
        if node == 1 {
            format.arg("--standalone");
        }
        if options.tls.is_some() {
            format.args(["--add-scram", "SCRAM-SHA-512=[name=relay,password=secret]"]);
        }
        let lines = properties(dir.path(), node, controller, &listeners, options);
        fs::write(dir.path().join("server.properties"), lines).unwrap();
        run(&mut format);
        Self { process: launch(dir.path()), controller, listeners, dir }
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
    controller: u16,
    listeners: &[(KafkaListener, u16)],
    options: &KafkaOptions,
) -> String {
    let mut lines = vec![
        ("node.id", node.to_string()),
        ("log.dirs", path(&dir.join("data"))),
        ("controller.quorum.bootstrap.servers", format!("127.0.0.1:{controller}")),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("inter.broker.listener.name", "PLAIN".to_owned()),
        ("auto.create.topics.enable", "false".to_owned()),
        ("offsets.topic.replication.factor", "1".to_owned()),
        ("transaction.state.log.replication.factor", "1".to_owned()),
        ("transaction.state.log.min.isr", "1".to_owned()),
        // A broker that was stopped shall be missed soon.
        ("broker.session.timeout.ms", "3000".to_owned()),
        ("broker.heartbeat.interval.ms", "500".to_owned()),
        ("replica.lag.time.max.ms", "2000".to_owned()),
    ];
    let mut protocols = "CONTROLLER:PLAINTEXT".to_owned();
    let mut addresses = String::new();
    for (listener, port) in listeners {
        let (name, protocol) = listener.name();
        protocols.push_str(&format!(",{name}:{protocol}"));
        addresses.push_str(&format!("{name}://127.0.0.1:{port},"));
    }
    let addresses = addresses.trim_end_matches(',').to_owned();
    lines.push(("listener.security.protocol.map", protocols));
    lines.push(("advertised.listeners", addresses.clone()));
    if node == 1 {
        lines.push(("process.roles", "broker,controller".to_owned()));
        lines.push(("listeners", format!("{addresses},CONTROLLER://127.0.0.1:{controller}")));
    } else {
        lines.push(("process.roles", "broker".to_owned()));
        lines.push(("listeners", addresses));
    }
    if options.acls {
        lines.extend(acl_properties());
    }
    lines.extend(options.tls.iter().flat_map(tls_properties));
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

fn tls_properties(tls: &KafkaTls) -> [(&'static str, String); 7] {
    [
        ("ssl.keystore.type", "PEM".to_owned()),
        ("ssl.keystore.location", path(&tls.identity)),
        ("ssl.truststore.type", "PEM".to_owned()),
        ("ssl.truststore.location", path(&tls.authority)),
        ("listener.name.mutual.ssl.client.auth", "required".to_owned()),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512".to_owned()),
        (
            "listener.name.scram.scram-sha-512.sasl.jaas.config",
            "org.apache.kafka.common.security.scram.ScramLoginModule required;".to_owned(),
        ),
    ]
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
