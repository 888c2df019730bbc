//! What a test on real servers needs: the servers, a database and topics of its own, a relay, a
//! network that can be cut, and the one way to wait.

mod wait;
mod services;
mod process;
mod port;
mod cluster;
mod database;
mod private_postgres;
mod private_kafka;
mod topic;
mod management;
mod rabbit_node;
mod rabbit;
mod private_rabbit;
mod rabbit_message;
mod rabbit_reader;
mod reader;
mod proxy;
mod private_alertmanager;
mod webhook;
mod http;
mod settings;
mod certificates;
mod relay;
mod refusal;

pub(crate) use certificates::Certificates;
pub(crate) use cluster::{Cluster, Sql};
pub(crate) use database::Database;
pub(crate) use private_alertmanager::{PASSWORD, PrivateAlertmanager, USER};
pub(crate) use private_kafka::{KafkaListener, KafkaOptions, PrivateKafka};
pub(crate) use private_postgres::PrivatePostgres;
pub(crate) use private_rabbit::PrivateRabbit;
pub(crate) use process::{Process, run as run_to_end};
pub(crate) use proxy::Proxy;
pub(crate) use rabbit::{EXCHANGE, QueueKind, Rabbit};
pub(crate) use rabbit_message::Message;
pub(crate) use rabbit_reader::RabbitReader;
pub(crate) use reader::{Reader, Record, first_texts};
pub(crate) use refusal::{Refusal, typed};
pub(crate) use relay::Relay;
pub(crate) use services::{RabbitVersion, Server, kafka_brokers};
pub(crate) use settings::Settings;
pub(crate) use topic::Topics;
pub(crate) use wait::{SHORT, wait_until};
pub(crate) use webhook::Webhook;

/// Makes of each named `async fn name(server: Server)` two tests, `name::oldest` and
/// `name::newest`.
macro_rules! on_both_servers {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            use crate::support::Server;

            #[tokio::test(flavor = "multi_thread")]
            async fn oldest() {
                super::$name(Server::Oldest).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn newest() {
                super::$name(Server::Newest).await;
            }
        })+
    };
}

/// Makes of each named `async fn name(version: RabbitVersion)` two tests, `name::oldest` and
/// `name::newest`.
macro_rules! on_both_rabbits {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            use crate::support::RabbitVersion;

            #[tokio::test(flavor = "multi_thread")]
            async fn oldest() {
                super::$name(RabbitVersion::Oldest).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn newest() {
                super::$name(RabbitVersion::Newest).await;
            }
        })+
    };
}
