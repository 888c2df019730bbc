//! The ordering key of an event (guarantee 5), as a hash.
//!
//! Two keys with one hash only keep an order that nobody asked for. The hash is the same in every
//! process, so that what is decided by it can be repeated.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

use super::obstacle::Obstacle;
use super::row::{Row, Source};
use crate::outbox::{Role, Shape};

/// Any number; changing it changes every hash.
const SEED: u64 = 0x7067_6f75_7462_6f78;

/// Where the ordering key is in rows of one shape.
#[derive(Clone, Debug)]
pub(super) struct Ordering {
    hasher: FixedState,
    table: u64,
    key: Key,
}

#[derive(Clone, Debug)]
enum Key {
    /// None without an id. A table without a type has one type.
    Aggregate { kind: Source, id: Source },
    /// None where all are NULL.
    Columns(Vec<Source>),
}

impl Ordering {
    /// By the columns `order_by`, or by aggregate where there are none.
    pub(super) fn new(shape: &Shape, order_by: &[String]) -> Self {
        let hasher = FixedState::with_seed(SEED);
        let key = if order_by.is_empty() {
            let kind = Source::of(Role::AggregateType.name(), shape);
            Key::Aggregate { kind, id: Source::of(Role::AggregateId.name(), shape) }
        } else {
            Key::Columns(order_by.iter().map(|name| Source::of(name, shape)).collect())
        };
        let table = hasher.hash_one((&shape.schema, &shape.table));
        Self { hasher, table, key }
    }

    /// The hash of the row's ordering key; `None` where it has none.
    pub(super) fn of(&self, row: &Row<'_>) -> Result<Option<u64>, Obstacle> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(self.table);
        let has_key = match &self.key {
            Key::Aggregate { kind, id } => {
                write(&mut hasher, row, kind)?;
                write(&mut hasher, row, id)?
            }
            Key::Columns(columns) => {
                let mut any = false;
                for column in columns {
                    if let Source::Missing(name) = column {
                        return Err(Obstacle::Missing(name.to_string()));
                    }
                    any |= write(&mut hasher, row, column)?;
                }
                any
            }
        };
        Ok(has_key.then(|| hasher.finish()))
    }
}

/// Whether there was a value to write; `("a", "bc")` and `("ab", "c")` are not the same.
fn write(hasher: &mut impl Hasher, row: &Row<'_>, source: &Source) -> Result<bool, Obstacle> {
    let value = match source {
        Source::Missing(_) => None,
        source => row.text(source)?,
    };
    match &value {
        Some(value) => {
            hasher.write_u8(1);
            hasher.write_usize(value.len());
            hasher.write(value);
        }
        None => hasher.write_u8(0),
    }
    Ok(value.is_some())
}
