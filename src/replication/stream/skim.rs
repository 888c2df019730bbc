//! Reading a message that is too large to be kept, in pieces.
//!
//! Of an Insert the small columns are kept, so that the event can be named and its place in the
//! order is known; a large value leaves only its length. Any other message leaves only its kind.
//! Forms: PostgreSQL manual, "Logical Replication Message Formats".

use bytes::{BufMut, Bytes, BytesMut};

use super::super::protocol::XLOG_DATA_HEADER;

/// A value up to this long is kept.
const KEPT_VALUE: usize = 8 * 1024;
/// And all kept values together; a row of thousands of columns must not become large again.
const KEPT_ROW: usize = 256 * 1024;
/// Kind `I`, relation id, `N`, number of columns.
const INSERT_HEADER: usize = 8;

/// A message above the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skimmed {
    /// A row: [`crate::outbox::Tuple`]'s form, with large values omitted.
    Insert {
        /// The relation's id.
        relation_id: u32,
        /// Number of columns.
        columns: u16,
        /// The values.
        tuple: Bytes,
    },
    /// Something else, by its kind byte.
    Other(u8),
}

/// A message that is not an XLogData message with a well-formed row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message too large to be kept is not well-formed")]
pub(super) struct Malformed;

/// Reads one such message, fed with whatever has arrived.
#[derive(Debug)]
pub(super) struct Skim {
    /// Bytes of the message still to come.
    left: usize,
    step: Step,
    row: Row,
}

#[derive(Debug)]
enum Step {
    Header,
    Column {
        left: u16,
    },
    Dropped {
        bytes: usize,
        columns_left: u16,
    },
    /// Everything up to the end of the message, which then is this.
    Rest(Skimmed),
}

#[derive(Debug, Default)]
struct Row {
    relation_id: u32,
    columns: u16,
    tuple: BytesMut,
}

impl Skim {
    /// The message's content has `length` bytes, none of which has been fed yet.
    pub(super) fn new(length: usize) -> Self {
        Self { left: length, step: Step::Header, row: Row::default() }
    }

    /// Bytes that must be there together before [`Skim::feed`] gets any further.
    pub(super) fn wanted(&self) -> usize {
        let wanted = match self.step {
            Step::Header => XLOG_DATA_HEADER + INSERT_HEADER,
            Step::Column { .. } => 5 + KEPT_VALUE,
            Step::Dropped { .. } | Step::Rest(_) => 1,
        };
        wanted.min(self.left).max(1)
    }

    /// Takes what it can of `bytes`: gives how much, and the outcome at the message's end.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Option<Skimmed>), Malformed> {
        let whole = bytes.get(..self.left).unwrap_or(bytes);
        let mut rest = whole;
        while !rest.is_empty() && self.step(&mut rest)? {}
        let used = whole.len() - rest.len();
        self.left -= used;
        match &self.step {
            Step::Rest(skimmed) if self.left == 0 => Ok((used, Some(skimmed.clone()))),
            _ if self.left == 0 => Err(Malformed),
            _ => Ok((used, None)),
        }
    }

    /// One step; `false` where more must have arrived first.
    fn step(&mut self, rest: &mut &[u8]) -> Result<bool, Malformed> {
        match &mut self.step {
            Step::Header => self.header(rest),
            Step::Column { left } => {
                let left = *left;
                self.column(rest, left)
            }
            Step::Dropped { bytes, columns_left } => {
                let dropped = (*bytes).min(rest.len());
                *bytes -= dropped;
                *rest = rest.get(dropped..).unwrap_or_default();
                if *bytes == 0 {
                    self.step = self.row.next_column(*columns_left);
                }
                Ok(true)
            }
            Step::Rest(_) => {
                *rest = &[];
                Ok(true)
            }
        }
    }

    fn header(&mut self, rest: &mut &[u8]) -> Result<bool, Malformed> {
        let Some((header, message)) = rest.split_at_checked(XLOG_DATA_HEADER) else {
            return Ok(false);
        };
        let &[b'w', ..] = header else { return Err(Malformed) };
        match message {
            [] => Ok(false),
            [b'I', message @ ..] => {
                let Some((fields, values)) = message.split_first_chunk::<7>() else {
                    return Ok(false);
                };
                let [a, b, c, d, b'N', high, low] = *fields else { return Err(Malformed) };
                self.row.relation_id = u32::from_be_bytes([a, b, c, d]);
                self.row.columns = u16::from_be_bytes([high, low]);
                *rest = values;
                self.step = self.row.next_column(self.row.columns);
                Ok(true)
            }
            [kind, message @ ..] => {
                *rest = message;
                self.step = Step::Rest(Skimmed::Other(*kind));
                Ok(true)
            }
        }
    }

    fn column(&mut self, rest: &mut &[u8], left: u16) -> Result<bool, Malformed> {
        let Some((&kind, tail)) = rest.split_first() else { return Ok(false) };
        match kind {
            b'n' | b'u' => {
                self.row.tuple.put_u8(kind);
                *rest = tail;
                self.step = self.row.next_column(left - 1);
                Ok(true)
            }
            b't' => {
                let Some((length, tail)) = tail.split_first_chunk::<4>() else { return Ok(false) };
                let length = i32::from_be_bytes(*length);
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                if length > KEPT_VALUE || self.row.tuple.len() + length > KEPT_ROW {
                    self.row.omit(length);
                    *rest = tail;
                    self.step = Step::Dropped { bytes: length, columns_left: left - 1 };
                    return Ok(true);
                }
                let Some((value, tail)) = tail.split_at_checked(length) else { return Ok(false) };
                self.row.keep(value);
                *rest = tail;
                self.step = self.row.next_column(left - 1);
                Ok(true)
            }
            _ => Err(Malformed),
        }
    }
}

impl Row {
    fn next_column(&mut self, left: u16) -> Step {
        if left > 0 {
            return Step::Column { left };
        }
        Step::Rest(Skimmed::Insert {
            relation_id: self.relation_id,
            columns: self.columns,
            tuple: self.tuple.split().freeze(),
        })
    }

    fn keep(&mut self, value: &[u8]) {
        self.tuple.put_u8(b't');
        self.tuple.put_u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.tuple.put_slice(value);
    }

    fn omit(&mut self, length: usize) {
        self.tuple.put_u8(b'o');
        self.tuple.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{Tuple, Value};

    fn message(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = vec![0; XLOG_DATA_HEADER];
        bytes[0] = b'w';
        bytes.put_u8(b'I');
        bytes.put_u32(77);
        bytes.put_u8(b'N');
        bytes.put_u16(u16::try_from(values.len()).unwrap());
        for value in values {
            let Some(value) = value else {
                bytes.put_u8(b'n');
                continue;
            };
            bytes.put_u8(b't');
            bytes.put_u32(u32::try_from(value.len()).unwrap());
            bytes.put_slice(value);
        }
        bytes
    }

    /// Feeds `message` in pieces of `size` bytes, as a socket would.
    fn skim(message: &[u8], size: usize) -> Result<Skimmed, Malformed> {
        let mut skim = Skim::new(message.len());
        let mut arrived = Vec::new();
        for piece in message.chunks(size) {
            arrived.extend_from_slice(piece);
            let (used, done) = skim.feed(&arrived)?;
            arrived.drain(..used);
            if let Some(done) = done {
                assert!(arrived.is_empty());
                return Ok(done);
            }
            assert!(arrived.len() < skim.wanted(), "stands still with what it wanted");
        }
        panic!("the message ended without an outcome");
    }

    #[test]
    fn small_columns_are_kept_and_large_ones_leave_their_length() {
        let large = vec![b'p'; 100_000];
        let message = message(&[Some(b"id-1"), None, Some(&large), Some(b"order")]);
        for size in [1, 7, 4096, message.len()] {
            let Ok(Skimmed::Insert { relation_id: 77, columns: 4, tuple }) = skim(&message, size)
            else {
                panic!("not an insert");
            };
            let tuple = Tuple::parse(tuple, 4).unwrap();
            let values: Vec<_> = tuple.values().collect();
            let expected =
                [Value::Text(b"id-1"), Value::Null, Value::Omitted(100_000), Value::Text(b"order")];
            assert_eq!(values, expected, "{size}");
        }
    }

    #[test]
    fn another_kind_leaves_only_its_name() {
        let mut message = vec![0; XLOG_DATA_HEADER + 50_000];
        message[0] = b'w';
        message[XLOG_DATA_HEADER] = b'U';
        assert_eq!(skim(&message, 1000), Ok(Skimmed::Other(b'U')));
    }

    #[test]
    fn a_row_that_ends_early_is_an_error() {
        let mut message = message(&[Some(b"a"), Some(b"b")]);
        message.truncate(message.len() - 6);
        assert_eq!(skim(&message, message.len()), Err(Malformed));
    }
}
