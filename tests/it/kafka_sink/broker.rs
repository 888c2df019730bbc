//! A real broker: the shared one, or one of a test's own with settings of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use pgoutbox::config::KafkaConfig;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use tempfile::TempDir;

/// A topic's name.
pub(crate) type Topic = Arc<str>;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Broker {
    address: String,
    own: Option<Own>,
}

struct Own {
    home: TempDir,
    process: Mutex<Option<Child>>,
}

impl Broker {
    /// The development broker.
    pub(crate) fn shared() -> Self {
        Self { address: variable("KAFKA_BROKERS"), own: None }
    }

    /// A broker with these further lines in its properties; it ends with the value.
    pub(crate) async fn private(properties: &[&str]) -> Self {
        let home = TempDir::new().expect("a temporary directory");
        let (port, controller) = (free_port(), free_port());
        let lines = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\nlog.dirs={}\n\
             offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\nnum.partitions=3\n{}\n",
            home.path().join("data").display(),
            properties.join("\n"),
        );
        fs::write(home.path().join("server.properties"), lines).expect("properties");
        let format = ["kafka.tools.StorageTool", "format", "--standalone", "-t"];
        let status = java(home.path())
            .args(format)
            .args(["AAAAAAAAAAAAAAAAAAAAAA", "-c", "server.properties"])
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("java").success(), "the format failed");
        let own = Own { home, process: Mutex::new(None) };
        let broker = Self { address: format!("127.0.0.1:{port}"), own: Some(own) };
        broker.start_process().await;
        broker
    }

    pub(crate) async fn start_process(&self) {
        let own = self.own.as_ref().expect("a private broker");
        let log = File::create(own.home.path().join("log")).expect("log");
        let child = java(own.home.path())
            .args(["kafka.Kafka", "server.properties"])
            .stdout(log.try_clone().expect("log"))
            .stderr(log)
            .spawn();
        *own.process.lock().expect("lock") = Some(child.expect("java"));
        let answers = || {
            let consumer: BaseConsumer = self.client().create().expect("client");
            consumer.fetch_metadata(None, Duration::from_secs(1)).is_ok()
        };
        for _ in 0..60 {
            if answers() {
                return;
            }
        }
        panic!("the broker does not answer");
    }

    pub(crate) fn stop_process(&self) {
        let own = self.own.as_ref().expect("a private broker");
        if let Some(mut child) = own.process.lock().expect("lock").take() {
            child.kill().expect("kill");
            child.wait().expect("wait");
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
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
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
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
        let partitions = metadata.topics()[0].partitions().len();
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
                let message = consumer.poll(PATIENCE).expect("a record").expect("no error");
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

impl Drop for Own {
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
