//! The shared servers of `dev/services`, found through the environment that `dev/services env`
//! prints.

use std::env;
use std::path::PathBuf;

use super::Cluster;
use super::management::Management;
use super::rabbit_node::RabbitNode;

/// One of the two PostgreSQL versions that every case is tested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// The oldest version that is supported.
    Oldest,
    /// The newest one.
    Newest,
}

impl Server {
    /// For a test that is better told once for both.
    pub(crate) fn both() -> [Self; 2] {
        [Self::Oldest, Self::Newest]
    }

    /// The shared server of this version.
    pub(crate) fn cluster(self) -> Cluster {
        Cluster::new(&variable(match self {
            Self::Oldest => "POSTGRES_OLDEST_URL",
            Self::Newest => "POSTGRES_URL",
        }))
    }

    /// Its directory of programs.
    pub(crate) fn programs(self) -> PathBuf {
        PathBuf::from(variable(match self {
            Self::Oldest => "POSTGRES_OLDEST_BIN",
            Self::Newest => "POSTGRES_BIN",
        }))
    }
}

/// One of the two RabbitMQ versions that every case is tested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RabbitVersion {
    /// Version 3.10.
    Oldest,
    /// Version 4.0.
    Newest,
}

impl RabbitVersion {
    /// The shared node of this version.
    pub(crate) fn node(self) -> RabbitNode {
        RabbitNode {
            port: self.port("URL"),
            tls_port: self.port("TLS_URL"),
            management: Management::new(self.port("MANAGEMENT_URL")),
            script: self.variable("NODE").into(),
            is_private: false,
        }
    }

    /// Where this version is installed.
    pub(crate) fn home(self) -> PathBuf {
        self.variable("HOME").into()
    }

    /// The PostgreSQL to test it with: so either version of the one is seen with one of the other.
    pub(crate) fn postgres(self) -> Server {
        match self {
            Self::Oldest => Server::Oldest,
            Self::Newest => Server::Newest,
        }
    }

    fn port(self, name: &str) -> u16 {
        let url = self.variable(name);
        let port = url.rsplit(':').next().unwrap().split('/').next().unwrap();
        port.parse().unwrap_or_else(|_| panic!("no port in {url}"))
    }

    fn variable(self, name: &str) -> String {
        match self {
            Self::Oldest => variable(&format!("AMQP_OLDEST_{name}")),
            Self::Newest => variable(&format!("AMQP_{name}")),
        }
    }
}

/// The port of the process that tells the ports of RabbitMQ's nodes to their tools.
pub(crate) fn rabbit_port_mapper() -> u16 {
    variable("AMQP_EPMD_PORT").parse().unwrap()
}

/// The shared broker's `host:port`.
pub(crate) fn kafka_brokers() -> String {
    variable("KAFKA_BROKERS")
}

/// The program of Alertmanager.
pub(crate) fn alertmanager() -> PathBuf {
    PathBuf::from(variable("ALERTMANAGER"))
}

/// A Java that runs Kafka.
pub(crate) fn java() -> PathBuf {
    PathBuf::from(variable("JAVA"))
}

/// Java's class path with Kafka on it.
pub(crate) fn kafka_class_path() -> String {
    format!("{}:{}/*", variable("KAFKA_CONF"), variable("KAFKA_LIBS"))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `make test`, or eval \"$(dev/services env)\"")
    })
}
