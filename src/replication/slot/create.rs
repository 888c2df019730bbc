//! Creating a slot, which waits for every transaction that is open at that moment.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, interval_at};
use tokio_postgres::Row;
use tracing::warn;

use super::PLUGIN;
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::postgres::Session;
use crate::replication::quote::literal;

/// A wait is named for the first time after this long, and then again and again.
const NAME_EVERY: Duration = Duration::from_secs(5);

/// The most that the setting takes is a little more.
const MAX_TIMEOUT_MILLIS: u128 = 2_000_000_000;

const QUERY_CANCELED: &str = "57014";

/// First server version with FAILOVER slots.
const FAILOVER_VERSION: i32 = 170_000;

const BEFOREHAND: &str = "\
SELECT pg_backend_pid(), current_setting('server_version_num')::integer, now()::text";

// Slot creation waits for one transaction after the other, each by its lock. Whose lock it is may be
// seen by everybody; `backend_xid` in `pg_stat_activity` may not.
const WAITED_FOR: &str = "\
SELECT waits.transactionid::text,
       holder.pid,
       prepared.gid,
       coalesce(activity.datname, prepared.database)::text,
       activity.application_name,
       extract(epoch FROM clock_timestamp() - coalesce(activity.xact_start, prepared.prepared))::bigint
FROM pg_locks AS waits
LEFT JOIN pg_locks AS holder
       ON holder.locktype = 'transactionid'
      AND holder.transactionid = waits.transactionid
      AND holder.granted
LEFT JOIN pg_stat_activity AS activity ON activity.pid = holder.pid
LEFT JOIN pg_prepared_xacts AS prepared ON prepared.transaction = waits.transactionid
WHERE waits.pid = $1
  AND waits.locktype = 'transactionid'
  AND NOT waits.granted";

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Where the slot begins.
    pub position: Lsn,
    /// When the server began to make it, before it waited for anything.
    pub began_at: String,
    /// Whether it is a FAILOVER slot.
    pub failover: bool,
}

/// The statement that makes the slot on a server of this version (`server_version_num`).
pub fn create_sql(name: &str, server_version: i32) -> String {
    let failover = if server_version >= FAILOVER_VERSION { ", failover => true" } else { "" };
    format!(
        "SELECT lsn::text FROM pg_create_logical_replication_slot({}, '{PLUGIN}'{failover})",
        literal(name)
    )
}

/// Creates the slot `name` on `session`, with FAILOVER where the server knows it.
///
/// The server waits for open transactions, in any database; while it does, they are looked up on
/// `watcher`, a second session, and named in the log. After `timeout` the server itself gives up, and
/// then there is no slot. `session` ends with it: its timeouts are not the ordinary ones any more.
///
/// # Errors
///
/// A [`Failure`] that names what was waited for, or the server's own.
pub async fn create(
    session: Session,
    watcher: &Session,
    name: &str,
    timeout: Duration,
) -> Result<Created, Failure> {
    let doing = format!("creating slot `{name}`");
    let row_before = session.query_one(&doing, BEFOREHAND, &[]).await?;
    let (pid, version): (i32, i32) = (row_before.get(0), row_before.get(1));
    // The server's own clock: a slot that is half made must not outlive a relay that has gone.
    let millis = timeout.as_millis().clamp(1, MAX_TIMEOUT_MILLIS);
    let timeouts = format!("SET statement_timeout = {millis}; SET lock_timeout = 0");
    session.batch(&doing, &timeouts).await?;
    let sql = create_sql(name, version);
    let mut creating = pin!(session.query_one(&doing, &sql, &[]));
    let mut looks = interval_at(Instant::now() + NAME_EVERY, NAME_EVERY);
    let mut waited_for = Vec::new();
    let outcome = loop {
        tokio::select! {
            outcome = &mut creating => break outcome,
            _ = looks.tick() => {
                waited_for = look(watcher, pid).await?;
                announce(name, &waited_for);
            }
        }
    };
    match outcome {
        Ok(row) => Ok(Created {
            position: row.get::<_, String>(0).parse().unwrap_or(Lsn::ZERO),
            began_at: row_before.get(2),
            failover: version >= FAILOVER_VERSION,
        }),
        Err(failure) if failure.peer_code() == Some(QUERY_CANCELED) => {
            // It answers once the cancelled statement's slot has been cleaned away.
            session.batch(&doing, "SELECT 1").await?;
            Err(gave_up(name, timeout, &waited_for))
        }
        Err(failure) => Err(failure),
    }
}

/// One transaction that the creation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WaitedFor {
    xid: String,
    holder: TransactionHolder,
    database: Option<String>,
    application_name: Option<String>,
    age: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TransactionHolder {
    Backend(i32),
    /// `PREPARE TRANSACTION` with this name: no session holds it any more.
    Prepared(String),
    /// It ended between two looks of the same query.
    Gone,
}

async fn look(watcher: &Session, pid: i32) -> Result<Vec<WaitedFor>, Failure> {
    let rows = watcher.query("looking for open transactions", WAITED_FOR, &[&pid]).await?;
    let waited_for = |row: &Row| WaitedFor {
        xid: row.get(0),
        holder: match (row.get(1), row.get(2)) {
            (_, Some(gid)) => TransactionHolder::Prepared(gid),
            (Some(pid), None) => TransactionHolder::Backend(pid),
            (None, None) => TransactionHolder::Gone,
        },
        database: row.get(3),
        application_name: row.get(4),
        age: row
            .get::<_, Option<i64>>(5)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
    };
    Ok(rows.iter().map(waited_for).collect())
}

fn announce(slot: &str, waited_for: &[WaitedFor]) {
    for transaction in waited_for {
        warn!(%slot, "creating the slot waits for {transaction}");
    }
}

fn gave_up(name: &str, timeout: Duration, waited_for: &[WaitedFor]) -> Failure {
    let seconds = timeout.as_secs();
    let what = format!("creating slot `{name}`: gave up after {seconds} s, no slot was made");
    let Some(transaction) = waited_for.first() else {
        return Failure::transient(what).code(QUERY_CANCELED);
    };
    let hint = match &transaction.holder {
        TransactionHolder::Backend(pid) => format!("`SELECT pg_terminate_backend({pid})`"),
        TransactionHolder::Prepared(gid) => {
            format!("`ROLLBACK PREPARED {}` or `COMMIT PREPARED` in its database", literal(gid))
        }
        TransactionHolder::Gone => "try again".to_owned(),
    };
    Failure::fixable(format!("{what}: it waited for {transaction}"))
        .code(QUERY_CANCELED)
        .hint(format!("end that transaction ({hint}), or wait longer with `--timeout`"))
}

impl fmt::Display for WaitedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction xid {}", self.xid)?;
        match &self.holder {
            TransactionHolder::Backend(pid) => write!(f, ", pid {pid}")?,
            TransactionHolder::Prepared(gid) => write!(f, ", prepared as gid `{gid}`")?,
            TransactionHolder::Gone => {}
        }
        if let Some(application) = self.application_name.as_deref().filter(|it| !it.is_empty()) {
            write!(f, " (`{application}`)")?;
        }
        if let Some(database) = &self.database {
            write!(f, ", database `{database}`")?;
        }
        match self.age {
            Some(age) => write!(f, ", open for {} s", age.as_secs()),
            None => Ok(()),
        }
    }
}
