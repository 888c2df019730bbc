//! Connections: hosts in turn, each within a time.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_rs::Runtime;
use futures_core::Stream;
use lapin::uri::{
    AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism,
};
use lapin::{AsyncTcpStream, Channel, Connection, ConnectionProperties, Error, Event};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::error::Site;
use super::greeting::Greeting;
use super::kit::Kit;
use super::limits::Limits;
use super::session::Session;
use super::transport::{Cut, Socket, Transport};
use crate::config::{AmqpUrl, RabbitMqConfig, Sasl};
use crate::failure::{Class, Failure};
use crate::tls;

/// How long one host may take to be connected to.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a polite goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// What RabbitMQ itself asks for; it is not exceeded where a server has no limit, since lapin makes
/// its buffers of 32 frames.
const FRAME_MAX: u32 = 131_072;

/// How connections are made.
#[derive(Debug)]
pub(super) struct Connector {
    config: RabbitMqConfig,
    /// What the broker shows us as.
    name: String,
    /// The host to begin with.
    first: usize,
}

/// A connection, with a channel that confirms.
pub(super) struct Link {
    pub(super) session: Arc<Session>,
    pub(super) channel: Arc<Channel>,
    pub(super) events: Events,
    pub(super) limits: Limits,
    cut: CutOnDrop,
}

/// What a connection has to tell.
pub(super) type Events = std::pin::Pin<Box<dyn Stream<Item = Event> + Send>>;

/// lapin's thread never outlives it.
struct CutOnDrop(Cut);

impl Drop for CutOnDrop {
    fn drop(&mut self) {
        self.0.cut();
    }
}

impl Connector {
    pub(super) fn new(config: &RabbitMqConfig, name: &str) -> Self {
        Self { config: config.clone(), name: name.to_owned(), first: 0 }
    }

    /// Begins with another host than the one that was connected to last.
    pub(super) fn turn(&mut self) {
        self.first = (self.first + 1) % self.config.servers.len().max(1);
    }

    /// Connects to the first host that lets us.
    ///
    /// # Errors
    ///
    /// What an operator must mend, if any of them said such; else what the last said.
    pub(super) async fn connect(&mut self) -> Result<Link, Failure> {
        let count = self.config.servers.len();
        let mut failed: Option<Failure> = None;
        for index in (0..count).map(|index| (self.first + index) % count.max(1)) {
            let Some(server) = self.config.servers.get(index) else { continue };
            match self.connect_to(server).await {
                Ok(link) => {
                    self.first = index;
                    return Ok(link);
                }
                Err(failure) => {
                    tracing::debug!(server = server.host, %failure, "not connected");
                    let keep =
                        failed.as_ref().is_some_and(|failed| failed.class() == Class::Fixable);
                    if !keep {
                        failed = Some(failure);
                    }
                }
            }
        }
        Err(failed.unwrap_or_else(|| Failure::configuration("no RabbitMQ server is named")))
    }

    async fn connect_to(&self, server: &AmqpUrl) -> Result<Link, Failure> {
        let site = Site {
            server: place(server),
            vhost: server.vhost.clone(),
            username: match self.config.sasl {
                Sasl::Plain => server.username.clone(),
                Sasl::External => "the client certificate".to_owned(),
            },
        };
        let late = || {
            let message = format!("RabbitMQ at `{}` does not answer in time", site.server);
            Failure::transient(message).code("timeout")
        };
        let connecting = self.open(server, &site);
        timeout(CONNECT, Box::pin(connecting)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn open(&self, server: &AmqpUrl, site: &Site) -> Result<Link, Failure> {
        let socket = self.socket(server, site).await?;
        let (transport, cut, greeting) = Transport::new(socket);
        let cut = CutOnDrop(cut);
        let connection = self.login(server, transport).await.map_err(|error| {
            self.not_offered(site, &greeting)
                .unwrap_or_else(|| site.login(&error, greeting.get().is_some()))
        })?;
        let events: Events = Box::pin(connection.events_listener());
        let frame = connection.configuration().frame_max();
        let limits = Limits::new(frame, greeting.get(), self.config.max_message_size);
        tracing::info!(
            server = site.server,
            version = greeting.get().map(|greeting| &*greeting.version),
            heartbeat = connection.configuration().heartbeat(),
            "connected to RabbitMQ"
        );
        let session = Session::new(site.clone(), connection);
        let channel = session.confirming().await.map_err(|error| site.login(&error, true))?;
        let (session, channel) = (Arc::new(session), Arc::new(channel));
        Ok(Link { session, channel, events, limits, cut })
    }

    async fn socket(&self, server: &AmqpUrl, site: &Site) -> Result<Socket, Failure> {
        let failed = |error| {
            Failure::transient(format!("cannot connect to RabbitMQ at `{}`", site.server))
                .code("connection")
                .cause(error)
        };
        let stream =
            TcpStream::connect((server.host.as_str(), server.port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        if !server.is_tls {
            return Ok(Socket::Plain(stream));
        }
        let stream = tls::connect(&self.config.tls, "RabbitMQ", &server.host, stream).await?;
        Ok(Socket::Tls(Box::new(stream)))
    }

    async fn login(&self, server: &AmqpUrl, transport: Transport) -> Result<Connection, Error> {
        let uri = AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: server.username.clone(),
                    password: server.password.expose().to_owned(),
                },
                host: server.host.clone(),
                port: server.port,
            },
            vhost: server.vhost.clone(),
            query: AMQPQueryString {
                frame_max: Some(FRAME_MAX),
                channel_max: None,
                heartbeat: Some(u16::try_from(self.config.heartbeat.as_secs()).unwrap_or(u16::MAX)),
                connection_timeout: None,
                auth_mechanism: Some(match self.config.sasl {
                    Sasl::Plain => SASLMechanism::Plain,
                    Sasl::External => SASLMechanism::External,
                }),
            },
        };
        let properties = ConnectionProperties::default()
            .with_connection_name(self.name.as_str().into())
            .with_client_property("product".into(), "pgoutbox".into())
            .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into());
        // Given away once: lapin never gets to connect by itself.
        let transport = Arc::new(Mutex::new(Some(transport)));
        let connect = async move |_: AMQPUri, _: Runtime<Kit>| {
            let transport = transport.lock().unwrap_or_else(PoisonError::into_inner).take();
            let gone = || Error::from(std::io::Error::from(std::io::ErrorKind::NotConnected));
            transport.map(AsyncTcpStream::Plain).ok_or_else(gone)
        };
        Connection::connector(uri, Runtime::new(Kit::current()), connect, properties).await
    }

    /// lapin asks for a mechanism whether it is offered or not, and the server then just hangs up.
    fn not_offered(&self, site: &Site, greeting: &OnceLock<Greeting>) -> Option<Failure> {
        let greeting = greeting.get()?;
        let (mechanism, hint) = match self.config.sasl {
            Sasl::Plain => ("PLAIN", "allow it in `auth_mechanisms` of rabbitmq.conf"),
            Sasl::External => (
                "EXTERNAL",
                "rabbitmq-plugins enable rabbitmq_auth_mechanism_ssl, and name EXTERNAL in \
                 `auth_mechanisms` of rabbitmq.conf",
            ),
        };
        if greeting.offers(mechanism) {
            return None;
        }
        let message = format!(
            "RabbitMQ at `{}` offers {} and not {mechanism}",
            site.server, greeting.mechanisms
        );
        Some(Failure::fixable(message).code("sasl").hint(hint))
    }
}

impl Link {
    /// Opens another channel that confirms, in the place of one that was closed.
    pub(super) async fn reopen(&mut self) -> Result<(), Failure> {
        let channel = self.session.confirming().await;
        self.channel = Arc::new(channel.map_err(|error| self.session.site.connection(&error))?);
        Ok(())
    }

    /// Says goodbye, for a moment, and cuts.
    pub(super) async fn close(self) {
        // The server answers nothing while it blocks the connection.
        if let Ok(Err(error)) = timeout(GOODBYE, self.session.close()).await {
            tracing::debug!(%error, "closing the connection");
        }
        drop(self.cut);
    }
}

fn place(server: &AmqpUrl) -> String {
    match server.host.contains(':') {
        true => format!("[{}]:{}", server.host, server.port),
        false => format!("{}:{}", server.host, server.port),
    }
}
