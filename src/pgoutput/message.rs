//! What the messages of protocol 1 say.

use bytes::Bytes;

use crate::lsn::Lsn;

/// One message. Times are microseconds since 1970-01-01T00:00:00Z.
///
/// Source: PostgreSQL manual, "Logical Replication Message Formats".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// `B`: the changes that follow were committed together.
    Begin {
        /// LSN of the commit record: where the transaction ends is known before its rows come.
        final_lsn: Lsn,
        /// When it was committed.
        commit_time_micros: i64,
        /// The transaction's id, without the epoch.
        xid: u32,
    },
    /// `C`: the transaction is whole.
    Commit {
        /// No flag is in use; 0.
        flags: u8,
        /// LSN of the commit record, as in Begin.
        commit_lsn: Lsn,
        /// Position after the commit record: what may be confirmed.
        end_lsn: Lsn,
        /// When it was committed.
        commit_time_micros: i64,
    },
    /// `O`: the transaction was replicated into this server from elsewhere.
    Origin {
        /// LSN of the commit there.
        commit_lsn: Lsn,
        /// The origin's name.
        name: String,
    },
    /// `R`: the form of a table from here on; comes before the table's first row, and again after
    /// anything that may have changed it.
    Relation(Relation),
    /// `Y`: a type that is not built in, before the Relation that has a column of it.
    Type {
        /// `pg_type.oid`.
        id: u32,
        /// Schema; empty stands for `pg_catalog`.
        schema: String,
        /// Name.
        name: String,
    },
    /// `I`: one new row.
    Insert {
        /// The [`Relation::id`] of its table.
        relation_id: u32,
        /// The new row.
        tuple: RawTuple,
    },
    /// `U`: one changed row. Its images are not looked at: an outbox is read by its inserts.
    Update {
        /// The [`Relation::id`] of its table.
        relation_id: u32,
    },
    /// `D`: one removed row. Its image is not looked at.
    Delete {
        /// The [`Relation::id`] of its table.
        relation_id: u32,
    },
    /// `T`: tables were emptied.
    Truncate {
        /// The [`Relation::id`] of each.
        relation_ids: Vec<u32>,
        /// 1: CASCADE, 2: RESTART IDENTITY.
        options: u8,
    },
    /// `M`: what somebody wrote with `pg_logical_emit_message`.
    LogicalMessage {
        /// Whether it belongs to the transaction around it.
        transactional: bool,
        /// Where it stands in the WAL.
        lsn: Lsn,
        /// Whom it is for.
        prefix: String,
        /// What it says.
        content: Bytes,
    },
}

/// The form of one published table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// `pg_class.oid`; with `publish_via_partition_root` that of the root.
    pub id: u32,
    /// Schema; empty stands for `pg_catalog`.
    pub schema: String,
    /// Name.
    pub name: String,
    /// `pg_class.relreplident`: `d`, `n`, `f` or `i`.
    pub replica_identity: u8,
    /// The published columns, in the order of a row's values.
    pub columns: Vec<RelationColumn>,
}

/// One column of a [`Relation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationColumn {
    /// Whether it is part of the replica identity.
    pub key: bool,
    /// Name.
    pub name: String,
    /// `pg_type.oid`.
    pub type_oid: u32,
    /// `pg_attribute.atttypmod`; -1 where the type has none.
    pub type_modifier: i32,
}

/// A row that has not been walked yet: `TupleData` without its count.
///
/// Whether `bytes` really are `columns` values is checked by whoever knows the relation, in the
/// same pass that reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTuple {
    /// How many values the server announced.
    pub columns: u16,
    /// The values, from the first one's kind byte; a slice of the decoded message.
    pub bytes: Bytes,
}
