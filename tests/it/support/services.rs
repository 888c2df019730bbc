//! The shared servers of `dev/services`, found through the environment that `dev/services env`
//! prints.

use std::env;
use std::path::PathBuf;

use super::Cluster;

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

/// The shared broker's `host:port`.
pub(crate) fn kafka_brokers() -> String {
    variable("KAFKA_BROKERS")
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
