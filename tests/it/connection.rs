//! Connections to PostgreSQL: TLS and login of both kinds, the ways to write where a server is, and
//! what a server's own settings must not change.

mod bytes;
mod login;
mod tls;

use pgoutbox::failure::Failure;
use pgoutbox::postgres::{self, Settings as ConnectionSettings};
use pgoutbox::replication::Connection;

use crate::support::{Database, Settings, Sql, Topics, kafka_brokers, wait_until};

/// A relay's settings where what it delivers does not matter.
fn settings(database: &Database, url: &str) -> Settings {
    Settings::new(database, &Topics::new(&kafka_brokers(), "connection"))
        .with("source.postgres.url", url)
        .with("sinks", serde_json::json!({"events": {"stdout": {}}}))
}

/// How each kind of connection is refused: the ordinary one, then that of replication.
async fn refusals(url: &str) -> [Failure; 2] {
    let settings = ConnectionSettings::parse(url, None).unwrap();
    let ordinary = postgres::connect(&settings, "pgoutbox tests").await.unwrap_err();
    let replication = move || Connection::connect(&settings, "pgoutbox tests").unwrap_err();
    [ordinary, tokio::task::spawn_blocking(replication).await.unwrap()]
}

/// Whether the relay's connections are encrypted: the guard's, the monitor's, that of replication.
async fn encrypted(sql: &Sql) -> [bool; 3] {
    wait_until("three connections", crate::support::SHORT, async || {
        let query = "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
                     WHERE a.application_name LIKE 'pgoutbox:orders%'
                     ORDER BY a.backend_type = 'walsender'";
        let rows = sql.rows(query).await;
        let encrypted: Vec<bool> = rows.iter().map(|row| row[0].as_deref() == Some("t")).collect();
        encrypted.try_into().ok()
    })
    .await
}
