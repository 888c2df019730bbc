//! An ordinary SQL session: catalogue queries, the marker, watching for a server's shutdown.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode as TlsUse;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;

use crate::failure::Failure;

use super::error::failure;
use super::settings::{Host, Settings, SslMode};
use super::tls;

/// Pinned, because a role's or database's own settings would change what queries mean or how values
/// read. `search_path` is empty: every name in our SQL is qualified.
const PIN_SESSION: &str = "\
SET search_path = '';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
SET bytea_output = 'hex';
SET timezone = 'UTC';
SET extra_float_digits = 1;
SET client_min_messages = 'notice';
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET idle_session_timeout = 0;
SET synchronous_commit = 'on';
SET statement_timeout = '30s';
SET lock_timeout = '10s'";

/// A dead peer is noticed after about this long, twice over, instead of after hours.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// One ordinary session; its socket closes when it is dropped.
#[derive(Debug)]
pub struct Session {
    client: Client,
    driver: JoinHandle<()>,
    closed: watch::Receiver<Option<Failure>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Connects, logs in and pins the session's settings, all within `settings.connect_timeout`.
///
/// # Errors
///
/// A [`Failure`] that names the server, never the password.
pub async fn connect(settings: &Settings, application_name: &str) -> Result<Session, Failure> {
    let timeout = settings.connect_timeout;
    match tokio::time::timeout(timeout, connect_and_pin(settings, application_name)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::transient(format!(
            "connecting to `{settings}`: no answer within {} s",
            timeout.as_secs()
        ))),
    }
}

async fn connect_and_pin(settings: &Settings, application_name: &str) -> Result<Session, Failure> {
    let doing = format!("connecting to `{settings}`");
    let config = client_config(settings, application_name);
    let session = if settings.ssl_mode == SslMode::Disable {
        let (client, connection) =
            config.connect(NoTls).await.map_err(|error| failure(&doing, &error))?;
        Session::spawn(client, connection)
    } else {
        let tls = MakeRustlsConnect::new((*tls::client_config(settings)?).clone());
        let (client, connection) =
            config.connect(tls).await.map_err(|error| failure(&doing, &error))?;
        Session::spawn(client, connection)
    };
    session.client.batch_execute(PIN_SESSION).await.map_err(|error| failure(&doing, &error))?;
    Ok(session)
}

fn client_config(settings: &Settings, application_name: &str) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    match &settings.host {
        Host::Tcp(host) => config.host(host),
        Host::Unix(directory) => config.host_path(directory),
    };
    config
        .port(settings.port)
        .user(&settings.user)
        .dbname(&settings.dbname)
        .application_name(application_name)
        .keepalives_idle(KEEPALIVE)
        .keepalives_interval(KEEPALIVE / 5)
        .keepalives_retries(5)
        .tcp_user_timeout(KEEPALIVE * 2)
        .ssl_mode(match settings.ssl_mode {
            SslMode::Disable => TlsUse::Disable,
            SslMode::Prefer => TlsUse::Prefer,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => TlsUse::Require,
        });
    if let Some(password) = &settings.password {
        config.password(password.expose());
    }
    config
}

impl Session {
    fn spawn<S, T>(client: Client, connection: tokio_postgres::Connection<S, T>) -> Self
    where
        tokio_postgres::Connection<S, T>:
            Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
    {
        let (ended, closed) = watch::channel(None);
        let driver = tokio::spawn(async move {
            let why = match connection.await {
                Ok(()) => Failure::transient("the ordinary connection was closed"),
                Err(error) => failure("the ordinary connection ended", &error),
            };
            debug!(%why, "session ended");
            ended.send_replace(Some(why));
        });
        Self { client, driver, closed }
    }

    /// The client itself, for what the methods below do not cover.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The client for transactions.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Waits until the connection ends and tells why: 57P01 and the like by their SQLSTATE, where
    /// the server said so on its own. Safe to drop and call again.
    pub async fn closed(&self) -> Failure {
        let mut closed = self.closed.clone();
        match closed.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(why)) => why.clone(),
            _ => Failure::transient("the ordinary connection was given up"),
        }
    }

    /// All rows of `sql`; `doing` begins the message of a failure.
    ///
    /// # Errors
    ///
    /// A [`Failure`] classified by SQLSTATE.
    pub async fn query(
        &self,
        doing: &str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        self.client.query(sql, parameters).await.map_err(|error| failure(doing, &error))
    }

    /// The one row of `sql`, or none.
    ///
    /// # Errors
    ///
    /// As [`Session::query`].
    pub async fn query_opt(
        &self,
        doing: &str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Failure> {
        self.client.query_opt(sql, parameters).await.map_err(|error| failure(doing, &error))
    }

    /// The one row of `sql`.
    ///
    /// # Errors
    ///
    /// As [`Session::query`].
    pub async fn query_one(
        &self,
        doing: &str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Failure> {
        self.client.query_one(sql, parameters).await.map_err(|error| failure(doing, &error))
    }

    /// Runs `sql` and gives the number of rows it changed.
    ///
    /// # Errors
    ///
    /// As [`Session::query`].
    pub async fn execute(
        &self,
        doing: &str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Failure> {
        self.client.execute(sql, parameters).await.map_err(|error| failure(doing, &error))
    }

    /// Runs several statements, as one transaction unless they say otherwise.
    ///
    /// # Errors
    ///
    /// As [`Session::query`].
    pub async fn batch(&self, doing: &str, sql: &str) -> Result<(), Failure> {
        self.client.batch_execute(sql).await.map_err(|error| failure(doing, &error))
    }
}
