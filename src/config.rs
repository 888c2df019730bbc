//! The configuration as the rest of the crate sees it: checked, resolved, every default filled in.
//!
//! [`Config::load`] reads one YAML file. Everything wrong with it is a [`ConfigError`] that names
//! file, line, column and the nearest right key; no error shows a value that may be a secret.

mod alerts;
mod amqp;
mod error;
mod expand;
mod field;
mod input;
mod monitor;
mod nearest;
mod node;
mod percent;
mod rabbitmq;
mod read;
mod route;
mod sink;
mod table;
mod tls;
mod unit;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use alerts::{
    AlertMetric, AlertRule, AlertsConfig, Bound, DEFAULT_RULES, DefaultRule, HttpTarget, Login,
    Severity, Unit, WAL_STATUSES,
};
pub use amqp::{AmqpUrl, AmqpUrlError};
pub use error::{ConfigError, Problem};
use expand::Expander;
use field::Field;
pub use input::InputFile;
use input::Inputs;
pub(crate) use nearest::{did_you_mean, nearest};
use node::Node;
pub(crate) use percent::{PercentError, percent_decode};
pub(crate) use unit::show_duration;

/// One relay's whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The relay's name: in metrics, logs and `application_name`.
    pub name: String,
    /// Where events come from.
    pub source: SourceConfig,
    /// Where they may go, in the file's order; never empty (stdout by default).
    pub sinks: Vec<(String, SinkConfig)>,
    /// The first match wins; never empty.
    pub routes: Vec<RouteConfig>,
    /// What becomes of an event that no route matches.
    pub on_unmatched: OnUnmatched,
    /// Exit instead of staying up in state `halted`.
    pub on_halt: OnHalt,
    /// Most events a second that each sink is handed, those sent again included; `None` is no limit.
    pub max_rate: Option<usize>,
    /// How long a stop may take to get acknowledgements.
    pub grace_period: Duration,
    /// Address of the HTTP endpoint; `None` switches it off.
    pub http_listen: Option<std::net::SocketAddr>,
    /// `monitor`.
    pub monitor: MonitorConfig,
    /// `alerts`.
    pub alerts: AlertsConfig,
    /// The file it was read from, for messages; `None` for a configuration made in memory.
    pub file: Option<PathBuf>,
    /// The other files that it was read from, and those that connections read.
    pub inputs: Vec<InputFile>,
}

impl Config {
    /// Reads `path`; `${env:…}` is the process's environment, and a relative `${file:…}` stands
    /// beside `path`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its place in the file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::from(Problem::Unreadable(error)).in_file(Some(path)))?;
        Self::parse(&text, Some(path.to_owned()), &|name| std::env::var(name).ok())
    }

    /// Reads `text`, which came from `file`; `env` answers `${env:…}`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its place in the text.
    pub fn parse(
        text: &str,
        file: Option<PathBuf>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let base = file.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        let expander = Expander { env, base, inputs: Inputs::default() };
        let read = |root: Node| read::config(&Field::root(&root, &expander));
        match Node::parse(text).and_then(read) {
            Ok(config) => {
                let inputs = expander.inputs.with_certificates(&config);
                Ok(Self { file, inputs, ..config })
            }
            Err(error) => Err(error.in_file(file.as_deref())),
        }
    }
}

/// `source.postgres`.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// URL or key=value string, without its password where `password` is given.
    pub url: Secret,
    /// Overrides the URL's password.
    pub password: Option<Secret>,
    /// The persistent slot; `None` is a temporary one.
    pub slot: Option<String>,
    /// The publication.
    pub publication: String,
    /// The outbox tables; never empty.
    pub tables: Vec<TableConfig>,
    /// Most bytes of unsettled events.
    pub window_bytes: usize,
    /// Most unsettled events.
    pub window_events: usize,
    /// An event above this is a poison event.
    pub max_event_size: usize,
    /// `wal_sender_timeout` for our own session; `None` leaves the server's.
    pub wal_sender_timeout: Option<Duration>,
}

/// `monitor`: what is looked at on ordinary connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorConfig {
    /// How often the slot is looked at, and the publication's coverage.
    pub interval: Duration,
    /// Also the other replication slots of the server.
    pub all_slots: bool,
    /// Where WAL may fill the disk.
    pub wal_volume: Option<WalVolume>,
}

/// The volume that holds the server's WAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalVolume {
    /// Its size in bytes, as the configuration tells it: free is what the WAL does not take.
    Size(u64),
    /// A path on it, where the relay runs beside the server: free is what the system says.
    Path(PathBuf),
}

/// One outbox table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Schema, exact.
    pub schema: String,
    /// Name, exact.
    pub table: String,
    /// Column or literal for each role that the file names (`Role::name` as key).
    pub columns: BTreeMap<String, ColumnConfig>,
    /// Columns that make the ordering key instead of (aggregate type, aggregate id).
    pub order_by: Vec<String>,
}

/// Where a role's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnConfig {
    /// A column by its exact name.
    Name(String),
    /// `{value: …}`: a constant in place of a column.
    Value(String),
}

/// One sink.
#[derive(Clone, Debug)]
pub enum SinkConfig {
    /// `kafka: …`
    Kafka(KafkaConfig),
    /// `rabbitmq: …`
    RabbitMq(RabbitMqConfig),
    /// `stdout: {}`
    Stdout,
    /// `"null": {}`; only benchmarks and tests name it.
    Null,
}

/// A Kafka sink.
#[derive(Clone, Debug)]
pub struct KafkaConfig {
    /// `host:port`, at least one.
    pub brokers: Vec<String>,
    /// librdkafka's own properties, checked against those that the guarantees need.
    pub properties: BTreeMap<String, Secret>,
}

/// A RabbitMQ sink.
#[derive(Clone, Debug)]
pub struct RabbitMqConfig {
    /// Servers of one cluster, to be tried in turn; never empty. User and password are those in
    /// force: `username` and `password` of the file have gone in.
    pub servers: Vec<AmqpUrl>,
    /// How the relay says who it is.
    pub sasl: Sasl,
    /// Files for `amqps`; to be read at every connection.
    pub tls: TlsFiles,
    /// Whole seconds of at least one: what is asked of the server, which may ask for less.
    pub heartbeat: Duration,
    /// Most events of one ordering key that are with the broker at once; at least 1.
    pub max_unsettled_per_key: usize,
    /// The broker's `max_message_size` where the configuration tells it.
    pub max_message_size: Option<usize>,
    /// The management API, for `check`.
    pub management: Option<ManagementConfig>,
}

/// The SASL mechanism of an AMQP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sasl {
    /// User and password.
    #[default]
    Plain,
    /// The client certificate.
    External,
}

/// Files in PEM form; paths that stand beside the configuration file have its folder before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The only authorities to trust; `None` are the system's.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate, its chain after it, and the key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// RabbitMQ's management API.
#[derive(Clone, Debug)]
pub struct ManagementConfig {
    /// `http://host:port` or `https://host:port`, without a path at its end.
    pub url: String,
    /// User.
    pub username: String,
    /// Password.
    pub password: Secret,
}

/// One route. Templates are kept as text with their position; `routing` compiles them.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// Which events: all of these must hold; empty matches all.
    pub matches: Vec<Condition>,
    /// Index into [`Config::sinks`].
    pub sink: usize,
    /// Where to within the sink.
    pub target: TargetConfig,
    /// Headers beyond the default ones, or in place of them by the same name.
    pub headers: Vec<(String, TemplateText)>,
}

/// Where a route leads within its sink: of the kind that the sink is of.
#[derive(Clone, Debug)]
pub enum TargetConfig {
    /// Kafka, and the sinks that show what Kafka would get.
    Topic {
        /// Topic template.
        topic: TemplateText,
        /// Message key template; `None` is the aggregate id.
        key: Option<TemplateText>,
    },
    /// RabbitMQ.
    Exchange {
        /// Exchange template; the empty text is the default exchange.
        exchange: TemplateText,
        /// Routing key template.
        routing_key: TemplateText,
    },
}

/// A template as it stands in the file, after `${env:…}` and `${file:…}` went in as literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateText {
    /// Alternating parts.
    pub parts: Vec<TemplatePart>,
    /// Where it stands, for messages.
    pub location: Location,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Goes in as it is.
    Literal(String),
    /// `${name}` or `${@name}`: the text between the braces.
    Placeholder(String),
}

/// Line and column in the configuration file, from 1; 0 where there is no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// One entry of a route's `match`.
#[derive(Clone, Debug)]
pub struct Condition {
    /// A role's name first, else a column's exact name; `@table` is the event's table.
    pub column: String,
    /// What its value must be. NULL is never it.
    pub accepts: MatchConfig,
    /// Where it stands, for messages.
    pub location: Location,
}

/// What a route asks of one column.
#[derive(Clone, Debug)]
pub enum MatchConfig {
    /// Exactly this text.
    Value(String),
    /// One of these.
    List(Vec<String>),
    /// A regular expression that matches the whole text.
    Regex(regex::Regex),
}

/// `on_unmatched`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnUnmatched {
    /// A poison event.
    #[default]
    Halt,
    /// Settled, and counted.
    Drop,
}

/// `on_halt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnHalt {
    /// Stay up, not ready.
    #[default]
    Stay,
    /// Exit with 1.
    Exit,
}

/// A text that is never printed: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one who must send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
