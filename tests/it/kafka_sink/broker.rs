//! A real broker: the shared one, or one of a test's own with settings of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use pgoutbox::config::{KafkaConfig, Secret};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use tempfile::TempDir;

use crate::support::{SHORT, wait_until};

/// A topic's name.
pub(crate) type Topic = Arc<str>;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Broker {
    address: String,
    /// Where an ordinary user logs in; empty without [`LOGIN`].
    login: String,
    nodes: Vec<Node>,
}

/// A process of ours; it ends with the value.
struct Node {
    home: TempDir,
    process: Mutex<Option<Child>>,
}

/// The lines by which a broker also takes the user `app`, who may do only what he is granted.
pub(crate) const LOGIN: &str = "sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_app=\"secret\";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS";

impl Broker {
    /// The development broker.
    pub(crate) fn shared() -> Self {
        Self { address: variable("KAFKA_BROKERS"), login: String::new(), nodes: Vec::new() }
    }

    /// A broker with these further lines in its properties.
    pub(crate) async fn private(properties: &[&str]) -> Self {
        Self::cluster(1, properties).await
    }

    /// Brokers of which the first is the controller too.
    pub(crate) async fn cluster(nodes: u16, properties: &[&str]) -> Self {
        let (controller, login) = (free_port(), free_port());
        let mut broker =
            Self { address: String::new(), login: format!("127.0.0.1:{login}"), nodes: Vec::new() };
        for id in 1..=nodes {
            let port = free_port();
            let is_first = id == 1;
            let (roles, more, format): (_, _, &[&str]) = match is_first {
                true => (
                    "broker,controller",
                    format!(",LOGIN://127.0.0.1:{login},CONTROLLER://127.0.0.1:{controller}"),
                    &["--standalone"],
                ),
                false => ("broker", String::new(), &[]),
            };
            let advertised = if is_first { &format!(",LOGIN://127.0.0.1:{login}") } else { "" };
            let home = TempDir::new().expect("a temporary directory");
            let lines = format!(
                "process.roles={roles}\nnode.id={id}\n\
                 controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
                 controller.listener.names=CONTROLLER\n\
                 listener.security.protocol.map=\
                 PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT\n\
                 inter.broker.listener.name=PLAINTEXT\n\
                 listeners=PLAINTEXT://127.0.0.1:{port}{more}\n\
                 advertised.listeners=PLAINTEXT://127.0.0.1:{port}{advertised}\n\
                 log.dirs={}\noffsets.topic.replication.factor=1\n\
                 transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
                 num.partitions=3\nlog.retention.ms=-1\n{LOGIN}\n{}\n",
                home.path().join("data").display(),
                properties.join("\n"),
            );
            fs::write(home.path().join("server.properties"), lines).expect("properties");
            let status = java(home.path())
                .args(["kafka.tools.StorageTool", "format", "-c", "server.properties"])
                .args(["-t", "AAAAAAAAAAAAAAAAAAAAAA"])
                .args(format)
                .stdout(Stdio::null())
                .status();
            assert!(status.expect("java").success(), "the format failed");
            broker.nodes.push(Node { home, process: Mutex::new(None) });
            let comma = if is_first { "" } else { "," };
            broker.address.push_str(&format!("{comma}127.0.0.1:{port}"));
        }
        for node in 0..broker.nodes.len() {
            broker.start_process(node).await;
        }
        broker
    }

    /// Starts the process of a node, and waits for all nodes started so far to answer.
    pub(crate) async fn start_process(&self, node: usize) {
        let own = &self.nodes[node];
        let log = File::create(own.home.path().join("log")).expect("log");
        let child = java(own.home.path())
            .args(["kafka.Kafka", "server.properties"])
            .stdout(log.try_clone().expect("log"))
            .stderr(log)
            .spawn();
        *own.process.lock().expect("lock") = Some(child.expect("java"));
        let running = |node: &Node| node.process.lock().expect("lock").is_some();
        let expected = self.nodes.iter().filter(|node| running(node)).count();
        wait_until("the brokers", 2 * SHORT, async || {
            let consumer: BaseConsumer = self.client().create().expect("client");
            let metadata = consumer.fetch_metadata(None, Duration::from_secs(1)).ok()?;
            (metadata.brokers().len() == expected).then_some(())
        })
        .await;
    }

    pub(crate) fn stop_process(&self, node: usize) {
        if let Some(mut child) = self.nodes[node].process.lock().expect("lock").take() {
            child.kill().expect("kill");
            child.wait().expect("wait");
        }
    }

    /// Lets the user `app` do `operation` with `topic`.
    pub(crate) fn grant(&self, operation: &str, topic: &str) {
        let status = java(self.nodes[0].home.path())
            .args(["org.apache.kafka.tools.AclCommand", "--bootstrap-server", &self.address])
            .args(["--add", "--allow-principal", "User:app"])
            .args(["--operation", operation, "--topic", topic])
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("java").success(), "the grant failed");
    }

    /// How the user `app` connects.
    pub(crate) fn login(&self, password: &str) -> KafkaConfig {
        let properties = [
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "app"),
            ("sasl.password", password),
        ];
        let property = |(name, value): (&str, &str)| (name.to_owned(), Secret::new(value));
        KafkaConfig {
            brokers: vec![self.login.clone()],
            properties: properties.map(property).into(),
        }
    }

    pub(crate) fn config(&self) -> KafkaConfig {
        KafkaConfig { brokers: vec![self.address.clone()], properties: BTreeMap::new() }
    }

    /// A name that no topic has.
    pub(crate) fn name(&self) -> Topic {
        Arc::from(format!("sink-{}", uuid::Uuid::new_v4()))
    }

    pub(crate) async fn create(&self, partitions: i32, config: &[(&str, &str)]) -> Topic {
        let name = self.name();
        self.create_named(&name, partitions, config).await;
        name
    }

    pub(crate) async fn create_named(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("client");
        let copies = self.nodes.len().max(1).try_into().expect("few");
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(copies));
        for (key, value) in config {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let made = admin.create_topics(&[topic], &options).await.expect("an answer");
        for result in made {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) => panic!("cannot create {name}: {code}"),
            }
        }
    }

    pub(crate) async fn delete(&self, topic: &str) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("client");
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        admin.delete_topics(&[topic], &options).await.expect("an answer");
    }

    /// (partition, value) of everything in the topic, by partition.
    pub(crate) fn read(&self, topic: &str) -> Vec<(i32, Vec<u8>)> {
        self.records(topic, |message| {
            (message.partition(), message.payload().unwrap_or_default().to_vec())
        })
    }

    /// (key, value) of everything in the topic, in order within a partition.
    pub(crate) fn read_keyed(&self, topic: &str) -> Vec<(String, Vec<u8>)> {
        self.records(topic, |message| {
            let key = String::from_utf8_lossy(message.key().unwrap_or_default()).into_owned();
            (key, message.payload().unwrap_or_default().to_vec())
        })
    }

    fn records<T>(
        &self,
        topic: &str,
        read: impl Fn(&rdkafka::message::BorrowedMessage) -> T,
    ) -> Vec<T> {
        let consumer: BaseConsumer =
            self.client().set("group.id", "none").create().expect("client");
        let partitions = loop {
            let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
            let found = &metadata.topics()[0];
            // Just created, or its broker has just come back.
            if found.error().is_none() && found.partitions().iter().all(|one| one.leader() >= 0) {
                break found.partitions().len();
            }
            consumer.poll(Duration::from_millis(50));
        };
        let mut records = Vec::new();
        for partition in 0..i32::try_from(partitions).expect("few") {
            let (low, high) = consumer.fetch_watermarks(topic, partition, PATIENCE).expect("ends");
            if low == high {
                continue;
            }
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(topic, partition, Offset::Offset(low)).expect("offset");
            consumer.assign(&list).expect("assign");
            loop {
                // A connection that was lost is made again by the client itself.
                let Ok(message) = consumer.poll(PATIENCE).expect("a record") else { continue };
                records.push(read(&message));
                if message.offset() + 1 >= high {
                    break;
                }
            }
        }
        records
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("enable.auto.commit", "false");
        config
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.lock().expect("lock").take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn java(home: &Path) -> Command {
    let mut command = Command::new(variable("JAVA"));
    let path = format!("{}:{}/*", variable("KAFKA_CONF"), variable("KAFKA_LIBS"));
    command.current_dir(home).args([
        "-Xms64m",
        "-Xmx384m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        &path,
    ]);
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("address").port()
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: eval \"$(dev/services env)\""))
}
