//! What a source gives the relay, and what it is told back.
//!
//! Two channels join a source and the relay: a bounded one of [`Batch`]es going out, and a `watch` of
//! the confirmed [`Position`] coming back. The relay cannot tell one source from another.

pub mod wal;

use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::outbox::{OutboxEvent, Transaction};
use crate::window::Share;

/// A point in a source's order that the source can be told to have been reached.
///
/// The relay compares positions and hands them back; only the source knows what they mean. For a
/// WAL source it is a transaction's commit `end_lsn` or a keepalive's `wal_end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub Lsn);

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One step of a source, in commit order.
#[derive(Debug)]
pub enum Change {
    /// The events that follow belong to this transaction.
    Begin(Transaction),
    /// One inserted row.
    Event(OutboxEvent),
    /// The transaction is whole; everything before this position may be confirmed once settled.
    Commit(Position),
    /// Nothing is open, and nothing was published up to here. Sent only while the source knows that
    /// what it reads covers every configured table (guarantee 2).
    Progress(Position),
    /// What comes next cannot be read as events, and only an operator can change that. The source
    /// stands still, with its connection alive, until it is stopped; nothing else follows.
    Halt(Failure),
}

/// Changes that were read together, and the memory they hold.
#[derive(Debug)]
pub struct Batch {
    /// In commit order.
    pub changes: Vec<Change>,
    /// The share of the window that the changes' buffer takes; given back when it is dropped, which
    /// the relay does once every event of the batch is settled.
    pub share: Share,
}
