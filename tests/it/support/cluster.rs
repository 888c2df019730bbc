//! A PostgreSQL server as its administrator reaches it, and SQL in two words.

use std::time::Duration;

use pgoutbox::lsn::Lsn;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// Where a server is, and its administrator.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    config: Config,
    host: String,
    port: u16,
    user: String,
    password: String,
}

impl Cluster {
    /// From an administrator's URL with one TCP host.
    pub(crate) fn new(url: &str) -> Self {
        let mut config: Config = url.parse().unwrap();
        config.connect_timeout(Duration::from_secs(5));
        let host = match config.get_hosts() {
            [tokio_postgres::config::Host::Tcp(host)] => host.clone(),
            hosts => panic!("one TCP host expected, not {hosts:?}"),
        };
        Self {
            port: config.get_ports()[0],
            user: config.get_user().unwrap().to_owned(),
            password: String::from_utf8_lossy(config.get_password().unwrap()).into_owned(),
            host,
            config,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The administrator's URL of one database.
    pub(crate) fn url(&self, database: &str) -> String {
        let Self { host, port, user, password, .. } = self;
        format!("postgres://{user}:{password}@{host}:{port}/{database}")
    }

    /// The same server for an ordinary role.
    pub(crate) fn url_of(&self, role: &str, password: &str, database: &str) -> String {
        let Self { host, port, .. } = self;
        format!("postgres://{role}:{password}@{host}:{port}/{database}")
    }

    /// Connects as the administrator.
    pub(crate) async fn connect(&self, database: &str) -> Sql {
        match self.try_connect(database).await {
            Ok(sql) => sql,
            Err(error) => panic!("{database} at port {}: {error:?}", self.port),
        }
    }

    /// Connects as the administrator if the server lets it.
    pub(crate) async fn try_connect(&self, database: &str) -> Result<Sql, tokio_postgres::Error> {
        let mut config = self.config.clone();
        let (client, connection) =
            config.dbname(database).application_name("pgoutbox tests").connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(Sql(client))
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Sql(Client);

/// A question that takes longer than this has met a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(300);

impl Sql {
    /// Runs statements, several if separated by semicolons.
    pub(crate) async fn run(&self, statements: &str) {
        match timeout(PATIENCE, self.0.batch_execute(statements)).await.unwrap() {
            Ok(()) => {}
            Err(error) => panic!("{statements}: {error:?}"),
        }
    }

    /// Sets something for the whole server, which takes a moment to read it.
    pub(crate) async fn set(&self, setting: &str, value: &str) {
        self.run(&format!("ALTER SYSTEM SET {setting} = '{value}'")).await;
        self.run("SELECT pg_reload_conf()").await;
    }

    /// Runs statements, where a failure is of interest.
    pub(crate) async fn try_run(&self, statements: &str) -> Result<(), tokio_postgres::Error> {
        self.0.batch_execute(statements).await
    }

    /// Rows as PostgreSQL prints them.
    pub(crate) async fn rows(&self, query: &str) -> Vec<Vec<Option<String>>> {
        let messages = match timeout(PATIENCE, self.0.simple_query(query)).await.unwrap() {
            Ok(messages) => messages,
            Err(error) => panic!("{query}: {error:?}"),
        };
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            }
            _ => None,
        };
        messages.into_iter().filter_map(row).collect()
    }

    /// The one value of one row; `None` without a row, or for NULL.
    pub(crate) async fn value(&self, query: &str) -> Option<String> {
        self.rows(query).await.into_iter().next()?.into_iter().next()?
    }

    /// The one value as a position.
    pub(crate) async fn lsn(&self, query: &str) -> Lsn {
        self.value(query).await.unwrap_or_else(|| panic!("{query}: nothing")).parse().unwrap()
    }

    /// Ends the connection; nothing can be asked afterwards.
    pub(crate) async fn end(&self) {
        // The server's answer to this is the end of the connection.
        let ended = self.try_run("SELECT pg_terminate_backend(pg_backend_pid())").await;
        assert!(ended.is_err(), "the connection is still there");
    }

    /// The client itself, for parameters.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.0
    }
}
