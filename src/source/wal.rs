//! The WAL source: a replication slot as a source of changes.
//!
//! ```text
//!  reader (OS thread; owns the replication socket) ══ batches ══▶ relay
//!     ▲     ▲                                                       │
//!     │     └═══════════ watch of the confirmed position ═══════════┘
//!     └── covered up to …; server is stopping ── guard (task; ordinary connection)
//! ```
//!
//! The reader never waits for the relay without its timer running: a broker's outage does not cost
//! the replication connection.

mod feedback;
pub mod guard;
mod reader;
mod relation;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use postgres_protocol::escape::{escape_identifier, escape_literal};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::info;

use self::reader::Reader;
use super::{Batch, Position};
use crate::config::TableConfig;
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::metrics::Metrics;
use crate::postgres::Settings;
use crate::replication::publication::Partition;
use crate::replication::{Connection, Identity, Stream};
use crate::window::Window;

/// Batches on their way to the relay. A few, since the window bounds what they hold; more would only
/// let the reader run ahead of a relay that is busy.
const BATCHES: usize = 32;
/// A server may have much WAL to read before it answers START_REPLICATION.
const START_BOUND: Duration = Duration::from_secs(60);

/// What the reader needs to know.
#[derive(Clone, Debug)]
pub struct WalConfig {
    /// Where the server is.
    pub settings: Settings,
    /// `pgoutbox:<relay>`.
    pub application_name: String,
    /// The slot; `None` makes a temporary one.
    pub slot: Option<String>,
    /// The publication.
    pub publication: String,
    /// The outbox tables.
    pub tables: Vec<TableConfig>,
    /// Their partitions.
    pub partitions: Vec<Partition>,
    /// An event above this is not kept whole.
    pub max_event_size: usize,
    /// For our session; `None` leaves the server's.
    pub wal_sender_timeout: Option<Duration>,
}

/// What the relay tells the reader to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Read.
    Read,
    /// Report the confirmed position for the last time, end the stream, and close.
    Finish,
    /// Let the connection go as it is.
    Abandon,
}

/// What the reader and the guard share.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The newest position heard from the server.
    heard: AtomicU64,
    /// The newest of those that were heard while no transaction was open.
    idle: AtomicU64,
    /// Idle positions up to here are known to be covered by the publication.
    covered: AtomicU64,
    /// The reader would like the guard to look now.
    wanted: Notify,
    /// How often the reader's loop has turned.
    turns: AtomicU64,
}

impl Coverage {
    /// The newest position heard from the server.
    pub fn heard(&self) -> Lsn {
        Lsn::new(self.heard.load(Ordering::Acquire))
    }

    /// How often the reader's loop has turned: several times a second while it is alive.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    fn idle(&self) -> Lsn {
        Lsn::new(self.idle.load(Ordering::Acquire))
    }
}

/// A running WAL source.
#[derive(Debug)]
pub struct WalSource {
    /// Who the server is.
    pub identity: Identity,
    /// Where the stream began.
    pub start: Position,
    /// Its changes.
    pub changes: mpsc::Receiver<Batch>,
    /// What is shared with the guard.
    pub coverage: Arc<Coverage>,
    confirmed: watch::Sender<Position>,
    order: watch::Sender<Order>,
    /// `None` once it has been heard.
    ended: Option<oneshot::Receiver<Result<(), Failure>>>,
}

impl WalSource {
    /// Connects and starts streaming from `resume`, or from the slot's own position where that is
    /// later or `resume` is of another server. Blocking work is done on threads of its own.
    ///
    /// # Errors
    ///
    /// The connection's failure or the server's refusal; 55006 says that another holds the slot.
    pub async fn start(
        config: WalConfig,
        resume: Option<(Identity, Position)>,
        window: Window,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Failure> {
        let (changes_to, changes) = mpsc::channel(BATCHES);
        let (confirmed, confirmed_seen) = watch::channel(Position::default());
        let (order, order_seen) = watch::channel(Order::Read);
        let (ended_to, ended) = oneshot::channel();
        let (started_to, started) = oneshot::channel();
        let coverage = Arc::new(Coverage::default());
        let channels = reader::Channels {
            changes: changes_to,
            confirmed: confirmed_seen,
            order: order_seen,
            coverage: Arc::clone(&coverage),
            runtime: tokio::runtime::Handle::current(),
        };
        thread::Builder::new()
            .name("replication".to_owned())
            .spawn(move || {
                let outcome = match open(&config, resume, &window) {
                    Ok(opened) => {
                        let Opened { stream, identity, start, timeout } = opened;
                        // Where nobody waits any more there is nobody to read for either.
                        if started_to.send(Ok((identity, start))).is_err() {
                            return;
                        }
                        Reader::new(stream, config, start, timeout, window, metrics, channels).run()
                    }
                    Err(failure) => {
                        drop(started_to.send(Err(failure)));
                        return;
                    }
                };
                drop(ended_to.send(outcome));
            })
            .map_err(|error| Failure::transient("cannot start a thread").cause(error))?;
        let stopped = |_| Failure::transient("the replication thread stopped");
        let (identity, start) = started.await.map_err(stopped)??;
        confirmed.send_replace(start);
        Ok(Self { identity, start, changes, coverage, confirmed, order, ended: Some(ended) })
    }

    /// Tells the server, soon, that everything up to `position` is safe.
    pub fn confirm(&self, position: Position) {
        self.confirmed.send_if_modified(|confirmed| {
            let is_news = *confirmed < position;
            *confirmed = position.max(*confirmed);
            is_news
        });
    }

    /// Reports the confirmed position for the last time and ends the stream.
    ///
    /// # Errors
    ///
    /// Where the server did not answer: it may not have the last position.
    pub async fn finish(self) -> Result<(), Failure> {
        self.end(Order::Finish).await
    }

    /// Closes the connection without another word.
    pub async fn abandon(self) {
        // It was given up: how it ended changes nothing.
        drop(self.end(Order::Abandon).await);
    }

    /// Waits until the reader has ended by itself, and says why, once. Safe to drop and call again.
    pub async fn ended(&mut self) -> Failure {
        match self.outcome().await {
            Err(failure) => failure,
            Ok(()) => Failure::transient("the replication stream ended"),
        }
    }

    async fn end(mut self, order: Order) -> Result<(), Failure> {
        self.order.send_replace(order);
        // A reader that waits for room here is told that nobody takes anything any more.
        self.changes.close();
        self.outcome().await
    }

    /// How the reader ended.
    async fn outcome(&mut self) -> Result<(), Failure> {
        let Some(ended) = &mut self.ended else { return Ok(()) };
        let outcome = ended.await.unwrap_or(Ok(()));
        self.ended = None;
        outcome
    }
}

struct Opened {
    stream: Stream,
    identity: Identity,
    start: Position,
    timeout: Option<Duration>,
}

fn open(
    config: &WalConfig,
    resume: Option<(Identity, Position)>,
    window: &Window,
) -> Result<Opened, Failure> {
    let name = &config.application_name;
    let timeout = config.wal_sender_timeout;
    let mut connection = Connection::connect_with(&config.settings, name, timeout)?;
    let identity = connection.identify_system()?;
    let timeout = parse_timeout(&connection.show("wal_sender_timeout")?);
    let slot = match &config.slot {
        Some(slot) => slot.clone(),
        None => create_temporary_slot(&mut connection)?,
    };
    let start = resume_at(resume, &identity);
    let sql = start_replication(&slot, start, &config.publication);
    let max_message = config.max_event_size;
    let stream = Stream::start(connection, &sql, START_BOUND, window.clone(), max_message)?;
    info!(%slot, from = %start, timeline = identity.timeline, "replication started");
    Ok(Opened { stream, identity, start, timeout })
}

/// Where to go on: what this process knows to be settled, if it is this server that it knows it of.
/// The server takes any position and skips what is before it in silence, so a position beyond its
/// own WAL (after a failover that lost some) must not be sent.
fn resume_at(resume: Option<(Identity, Position)>, identity: &Identity) -> Position {
    resume
        .filter(|(known, position)| {
            known.system_identifier == identity.system_identifier
                && known.timeline == identity.timeline
                && position.0 <= identity.xlogpos
        })
        .map(|(_, position)| position)
        .unwrap_or_default()
}

fn start_replication(slot: &str, start: Position, publication: &str) -> String {
    // `publication_names` is a list of identifiers inside a literal.
    let publications = escape_literal(&escape_identifier(publication));
    format!(
        "START_REPLICATION SLOT {} LOGICAL {start} \
         (proto_version '1', publication_names {})",
        escape_identifier(slot),
        publications.trim_start(),
    )
}

fn create_temporary_slot(connection: &mut Connection) -> Result<String, Failure> {
    let slot = format!("pgoutbox_{:08x}", rand::random::<u32>());
    let sql = format!("CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput");
    connection.query("create a temporary slot", &sql)?;
    info!(%slot, "no `slot` is configured: a temporary one, events from now on, gone at exit");
    Ok(slot)
}

/// `SHOW wal_sender_timeout`: a number and a unit, or 0 for none.
fn parse_timeout(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let millis = match unit {
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 1,
    };
    Some(Duration::from_millis(number.saturating_mul(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit_that_show_gives() {
        assert_eq!(parse_timeout("1min"), Some(Duration::from_secs(60)));
        assert_eq!(parse_timeout("2500ms"), Some(Duration::from_millis(2500)));
        assert_eq!(parse_timeout("5s"), Some(Duration::from_secs(5)));
        assert_eq!(parse_timeout("0"), None);
    }

    #[test]
    fn names_are_quoted_for_the_parser_they_meet() {
        let sql = start_replication("s", Position(Lsn::new(1)), "it's \"mine\"");
        assert_eq!(
            sql,
            "START_REPLICATION SLOT \"s\" LOGICAL 0/1 \
             (proto_version '1', publication_names '\"it''s \"\"mine\"\"\"')"
        );
    }

    #[test]
    fn a_position_of_another_server_or_beyond_its_wal_is_not_used() {
        let identity = |timeline, xlogpos| Identity {
            system_identifier: "7".to_owned(),
            timeline,
            xlogpos: Lsn::new(xlogpos),
        };
        let position = Position(Lsn::new(50));
        let resume = |timeline| Some((identity(timeline, 60), position));
        assert_eq!(resume_at(resume(1), &identity(1, 60)), position);
        assert_eq!(resume_at(resume(1), &identity(2, 60)), Position::default());
        assert_eq!(resume_at(resume(1), &identity(1, 40)), Position::default());
        assert_eq!(resume_at(None, &identity(1, 60)), Position::default());
    }
}
