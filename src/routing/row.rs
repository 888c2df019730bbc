//! One row's values, found in one walk, and where a route's names point in it.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use time::OffsetDateTime;

use super::obstacle::Obstacle;
use crate::outbox::{OutboxEvent, Role, RoleSource, Shape, Transaction, Value};

/// The type OID of bytea (PostgreSQL's `pg_type.dat`).
const BYTEA: u32 = 17;

/// Where a value comes from in rows of one shape.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The column at this index; `binary` where its text is a bytea's.
    Column { index: usize, binary: bool },
    /// Always the same.
    Constant(Bytes),
    /// The commit's LSN.
    Lsn,
    /// The commit's time.
    CommitTime,
    /// The transaction's id.
    Xid,
    /// Rows of this shape have no column of this name.
    Missing(Arc<str>),
}

impl Source {
    /// What `name` means in rows of `shape`: a role first, else a column by its exact name.
    pub(super) fn of(name: &str, shape: &Shape) -> Self {
        let role = Role::ALL.into_iter().find(|role| role.name() == name);
        match role.map(|role| shape.role(role)) {
            Some(RoleSource::Column(index)) => Self::column(*index, shape),
            Some(RoleSource::Literal(value)) => Self::Constant(value.clone()),
            Some(RoleSource::Missing) | None => match shape.column(name) {
                Some(index) => Self::column(index, shape),
                None => Self::Missing(name.into()),
            },
        }
    }

    fn column(index: usize, shape: &Shape) -> Self {
        let binary = shape.columns.get(index).is_some_and(|column| column.type_oid == BYTEA);
        Self::Column { index, binary }
    }
}

/// A row and its transaction, ready to be read by [`Source`].
pub(super) struct Row<'e> {
    event: &'e OutboxEvent,
    transaction: &'e Transaction,
    values: SmallVec<[Value<'e>; 16]>,
}

impl<'e> Row<'e> {
    pub(super) fn new(event: &'e OutboxEvent, transaction: &'e Transaction) -> Self {
        Self { event, transaction, values: event.tuple.values().collect() }
    }

    /// The column whose value was too large to be kept, and its length.
    pub(super) fn omitted(&self) -> Option<Obstacle> {
        let omitted = |(index, value): (usize, &Value<'_>)| match value {
            Value::Omitted(size) => {
                Some(Obstacle::TooLarge { column: self.column_name(index), size: *size })
            }
            _ => None,
        };
        self.values.iter().enumerate().find_map(omitted)
    }

    /// The value as PostgreSQL wrote it, without a copy where there is something to refer to.
    pub(super) fn text<'s>(
        &'s self,
        source: &'s Source,
    ) -> Result<Option<Cow<'s, [u8]>>, Obstacle> {
        let text = match source {
            Source::Column { index, .. } => {
                return Ok(self.column(*index)?.map(Cow::Borrowed));
            }
            Source::Constant(value) => return Ok(Some(Cow::Borrowed(value))),
            Source::Missing(name) => return Err(Obstacle::Missing(name.to_string())),
            Source::Lsn => self.transaction.commit_lsn.to_string(),
            Source::CommitTime => commit_time_text(self.transaction.commit_time_micros),
            Source::Xid => self.transaction.xid.to_string(),
        };
        Ok(Some(Cow::Owned(text.into_bytes())))
    }

    /// The value as it goes to a broker: as [`Row::text`], a bytea's bytes themselves.
    pub(super) fn content<'s>(
        &'s self,
        source: &'s Source,
    ) -> Result<Option<Cow<'s, [u8]>>, Obstacle> {
        match source {
            Source::Column { index, binary: true } => {
                let Some(text) = self.column(*index)? else { return Ok(None) };
                Ok(Some(Cow::Owned(self.unhex(*index, text)?)))
            }
            _ => self.text(source),
        }
    }

    /// [`Row::content`] as a counted reference into the row, where it stands there as it is.
    pub(super) fn share(&self, source: &Source) -> Result<Option<Bytes>, Obstacle> {
        match source {
            Source::Column { index, binary: false } => {
                Ok(self.column(*index)?.map(|text| self.event.tuple.share(text)))
            }
            Source::Constant(value) => Ok(Some(value.clone())),
            _ => Ok(self.content(source)?.map(|content| Bytes::from(content.into_owned()))),
        }
    }

    /// The text of the row's id; `None` where it has none.
    pub(super) fn id(&self) -> Option<Bytes> {
        match self.event.shape.role(Role::Id) {
            RoleSource::Column(index) => {
                self.column(*index).ok()?.map(|text| self.event.tuple.share(text))
            }
            RoleSource::Literal(value) => Some(value.clone()),
            RoleSource::Missing => None,
        }
    }

    /// What `source` is called where it is NULL.
    pub(super) fn name(&self, source: &Source) -> String {
        match source {
            Source::Column { index, .. } => self.column_name(*index),
            Source::Missing(name) => name.to_string(),
            Source::Constant(_) | Source::Lsn | Source::CommitTime | Source::Xid => String::new(),
        }
    }

    fn column(&self, index: usize) -> Result<Option<&'e [u8]>, Obstacle> {
        match self.values.get(index) {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null) => Ok(None),
            Some(Value::Omitted(size)) => {
                Err(Obstacle::TooLarge { column: self.column_name(index), size: *size })
            }
            Some(Value::Unchanged) | None => Err(Obstacle::NotSent(self.column_name(index))),
        }
    }

    fn column_name(&self, index: usize) -> String {
        let column = self.event.shape.columns.get(index);
        column.map_or_else(|| format!("#{index}"), |column| column.name.clone())
    }

    /// PostgreSQL manual, "bytea Hex Format": `\x`, then two digits a byte. The sessions pin
    /// `bytea_output`, so there is no other form.
    fn unhex(&self, index: usize, text: &[u8]) -> Result<Vec<u8>, Obstacle> {
        let bytes = || {
            let (pairs, rest) = text.strip_prefix(b"\\x")?.as_chunks::<2>();
            let byte = |[high, low]: &[u8; 2]| Some(nibble(*high)? << 4 | nibble(*low)?);
            if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
        };
        bytes().ok_or_else(|| Obstacle::NotHex(self.column_name(index)))
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// A commit time, given in microseconds since 1970-01-01T00:00:00Z, as
/// `2026-11-30T09:05:00.000250Z`; the number itself where it is outside years 0 to 9999.
pub fn commit_time_text(micros: i64) -> String {
    let Ok(time) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000) else {
        return micros.to_string();
    };
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second, micro) = time.to_hms_micro();
    let mut text = String::with_capacity(27);
    // Writing to a String cannot fail.
    let _infallible =
        write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_time_has_all_its_microseconds() {
        assert_eq!(commit_time_text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(commit_time_text(1_796_029_500_000_250), "2026-11-30T09:05:00.000250Z");
        assert_eq!(commit_time_text(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(commit_time_text(i64::MAX), "9223372036854775807");
    }
}
