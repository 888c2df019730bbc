//! A database of a test's own, with a role that owns nothing, a slot name and the cases' fixture.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use pgoutbox::lsn::Lsn;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::cluster::Sql;
use super::{Cluster, Server, wait_until};

/// The password of every test's role.
const PASSWORD: &str = "relay";

/// The cases' outbox (cases.md).
const OUTBOX: &str = "
    CREATE TABLE outbox (
      id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
      aggregate_type text NOT NULL, aggregate_id text NOT NULL, type text NOT NULL,
      payload jsonb, created_at timestamptz NOT NULL DEFAULT now())";

/// A fresh database; dropped with its slots and its role at the end, unless its server is private
/// and goes as a whole.
#[derive(Debug)]
pub(crate) struct Database {
    cluster: Cluster,
    shared: bool,
    /// Name of the database, of the relay's role, of its slot and its publication. Unique, since
    /// slots and roles are the server's.
    name: String,
    sql: Sql,
}

/// The server's view of a replication connection.
#[derive(Clone, Debug)]
pub(crate) struct Walsender {
    pub(crate) pid: u32,
    /// End of what it has sent; keepalives move it too.
    pub(crate) sent: Lsn,
    /// When the last status update was sent, by the relay's clock.
    pub(crate) reply_time: Option<String>,
}

impl Database {
    /// On the shared server.
    pub(crate) async fn create(server: Server, hint: &str) -> Self {
        Self::create_in(server.cluster(), hint, true, "").await
    }

    /// On the shared server, with what follows `CREATE DATABASE … TEMPLATE template0`.
    pub(crate) async fn create_with(server: Server, hint: &str, options: &str) -> Self {
        Self::create_in(server.cluster(), hint, true, options).await
    }

    /// On a private server.
    pub(crate) async fn create_on(cluster: &Cluster, hint: &str) -> Self {
        Self::create_in(cluster.clone(), hint, false, "").await
    }

    async fn create_in(cluster: Cluster, hint: &str, shared: bool, options: &str) -> Self {
        let suffix = Uuid::new_v4().simple().to_string();
        let name = format!("it_{hint}_{}", &suffix[..8]);
        let admin = cluster.connect("postgres").await;
        admin.run(&format!("CREATE ROLE {name} LOGIN REPLICATION PASSWORD '{PASSWORD}'")).await;
        admin.run(&format!("CREATE DATABASE {name} TEMPLATE template0 {options}")).await;
        let sql = cluster.connect(&name).await;
        Self { cluster, shared, name, sql }
    }

    /// The database, the role, the slot and the publication all have this name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The server it is on.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The administrator's URL.
    pub(crate) fn admin_url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// The URL of the role that owns nothing and is no superuser.
    pub(crate) fn relay_url(&self) -> String {
        self.cluster.url_of(&self.name, PASSWORD, &self.name)
    }

    /// The same through another port, a proxy's.
    pub(crate) fn relay_url_at(&self, port: u16) -> String {
        let port_here = format!(":{}/", self.cluster.port());
        self.relay_url().replace(&port_here, &format!(":{port}/"))
    }

    /// The administrator's connection that came with the database.
    pub(crate) fn sql(&self) -> &Sql {
        &self.sql
    }

    /// One more connection of the administrator.
    pub(crate) async fn connect(&self) -> Sql {
        self.cluster.connect(&self.name).await
    }

    /// A new connection in place of one that a restart of the server has cut.
    pub(crate) async fn reconnect(&mut self) {
        let (cluster, name) = (&self.cluster, &self.name);
        self.sql =
            wait_until("a connection", super::SHORT, async || cluster.try_connect(name).await.ok())
                .await;
    }

    /// Gives the database's own connection up, where a server waits for that;
    /// [`Database::reconnect`] makes a new one.
    pub(crate) async fn disconnect(&self) {
        self.sql.end().await;
    }

    /// The cases' table and a publication of its inserts.
    pub(crate) async fn create_outbox(&self) {
        self.sql.run(OUTBOX).await;
        let name = &self.name;
        let publication =
            format!("CREATE PUBLICATION {name} FOR TABLE outbox WITH (publish = 'insert')");
        self.sql.run(&publication).await;
    }

    /// Commits one event with a payload that names it; the payload is what PostgreSQL prints of it.
    pub(crate) async fn insert(&self, aggregate_type: &str, aggregate_id: &str, n: u32) {
        self.sql
            .run(&format!(
                "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)
                 VALUES ('{aggregate_type}', '{aggregate_id}', 'happened', '{{\"n\": {n}}}')"
            ))
            .await;
    }

    /// The id of the event whose payload names this number.
    pub(crate) async fn id(&self, n: u32) -> String {
        let query = format!("SELECT id FROM outbox WHERE payload->>'n' = '{n}'");
        self.sql.value(&query).await.unwrap()
    }

    /// CONF of the cases: what the slot has been told; `None` while there is no slot.
    pub(crate) async fn confirmed(&self) -> Option<Lsn> {
        let query = format!(
            "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{}'",
            self.name
        );
        self.sql.value(&query).await.map(|lsn| lsn.parse().unwrap())
    }

    /// Waits until CONF has reached a position.
    pub(crate) async fn wait_confirmed(&self, at_least: Lsn, deadline: Duration) {
        wait_until(&format!("CONF to reach {at_least}"), deadline, async || {
            self.confirmed().await.filter(|lsn| *lsn >= at_least)
        })
        .await;
    }

    /// The server's end of WAL.
    pub(crate) async fn wal_end(&self) -> Lsn {
        self.sql.lsn("SELECT pg_current_wal_lsn()").await
    }

    /// The connection that serves the slot, as the server sees it.
    pub(crate) async fn walsender(&self) -> Option<Walsender> {
        let query = format!(
            "SELECT r.pid, r.sent_lsn, r.reply_time FROM pg_stat_replication r
             JOIN pg_replication_slots s ON s.active_pid = r.pid WHERE s.slot_name = '{}'",
            self.name
        );
        let row = self.sql.rows(&query).await.into_iter().next()?;
        let [pid, sent, reply_time] = row.try_into().unwrap();
        // Nothing has been sent yet on a server where nothing happens.
        let sent = sent.map_or(Lsn::ZERO, |sent| sent.parse().unwrap());
        Some(Walsender { pid: pid?.parse().unwrap(), sent, reply_time })
    }

    /// Watches the slot's connection for as long as it takes the relay to send `count` status
    /// updates, and shows each look to `check`: this is what "stays" means in a case.
    pub(crate) async fn over_replies(&self, count: usize, mut check: impl AsyncFnMut(Walsender)) {
        let mut replies = HashSet::new();
        wait_until(&format!("{count} status updates"), 10 * super::SHORT, async || {
            let walsender = self.walsender().await.expect("a connection of the slot");
            replies.insert(walsender.reply_time.clone());
            check(walsender).await;
            (replies.len() > count).then_some(())
        })
        .await;
    }

    /// Creates a second slot that nobody reads, so that [`Database::commit_ends`] can be asked.
    pub(crate) async fn create_witness(&self) {
        let query = format!(
            "SELECT pg_create_logical_replication_slot('{}_witness', 'pgoutput')",
            self.name
        );
        self.sql.value(&query).await;
    }

    /// end(tx) of every transaction since the witness was created that touched the publication, in
    /// commit order: the end LSN of its Commit message.
    pub(crate) async fn commit_ends(&self) -> Vec<Lsn> {
        let messages = self.witnessed();
        let query = format!("SELECT lsn FROM {messages} WHERE get_byte(data, 0) = ascii('C')");
        let rows = self.sql.rows(&query).await;
        rows.into_iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect()
    }

    /// Each event's id, where that is the table's first column, with end(tx) of its transaction.
    pub(crate) async fn event_ends(&self) -> Vec<(String, Lsn)> {
        let messages = self.witnessed();
        // An Insert message: `I`, relation (4 bytes), `N`, number of columns (2), then of the first
        // column `t`, length (4) and the 36 letters of a UUID.
        let query = format!(
            "SELECT convert_from(substr(data, 14, 36), 'UTF8'), commit FROM (
               SELECT data, get_byte(data, 0) AS kind,
                 max(lsn) FILTER (WHERE get_byte(data, 0) = ascii('C'))
                   OVER (PARTITION BY xid::text) AS commit
               FROM {messages}
             ) AS rows WHERE kind = ascii('I')"
        );
        let rows = self.sql.rows(&query).await;
        let event = |row: Vec<Option<String>>| {
            let [id, end] = row.try_into().unwrap();
            (id.unwrap(), end.unwrap().parse().unwrap())
        };
        rows.into_iter().map(event).collect()
    }

    /// Runs statements in one transaction, and gives end(tx).
    pub(crate) async fn transaction(&self, statements: &str) -> Lsn {
        let sql = &self.sql;
        sql.run("BEGIN").await;
        let xid = sql.value("SELECT pg_current_xact_id()::xid").await.unwrap();
        sql.run(statements).await;
        sql.run("COMMIT").await;
        let messages = self.witnessed();
        let end = format!(
            "SELECT lsn FROM {messages} WHERE get_byte(data, 0) = ascii('C') AND xid = '{xid}'"
        );
        sql.lsn(&end).await
    }

    /// The witness's pgoutput messages, to select from.
    fn witnessed(&self) -> String {
        let name = &self.name;
        format!(
            "pg_logical_slot_peek_binary_changes('{name}_witness', NULL, NULL,
               'proto_version', '1', 'publication_names', '{name}')"
        )
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.shared {
            return;
        }
        let (cluster, name) = (self.cluster.clone(), self.name.clone());
        // A runtime of its own: the test's may be at its end already.
        let cleaning = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(clean_up(&cluster, &name));
        });
        if cleaning.join().is_err() {
            eprintln!("the database {} was left behind", self.name);
        }
    }
}

async fn clean_up(cluster: &Cluster, name: &str) {
    let admin = cluster.connect("postgres").await;
    let drop_slots = format!(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
         WHERE database = '{name}' AND active_pid IS NOT NULL;
         SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
         WHERE database = '{name}'"
    );
    // A walsender that has been told to end holds its slot for a moment more.
    wait_until("the slots to go", super::SHORT, async || match admin.try_run(&drop_slots).await {
        Ok(()) => Some(()),
        Err(error) if error.code() == Some(&SqlState::OBJECT_IN_USE) => None,
        Err(error) => panic!("{drop_slots}: {error:?}"),
    })
    .await;
    admin.run(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
    admin.run(&format!("DROP ROLE {name}")).await;
}
