//! A row's values, walked in place.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The kind byte of a value that was read and dropped, followed by its length (4 bytes).
/// pgoutput has no such kind; it stands where a value exceeded `max_event_size`.
const OMITTED: u8 = b'o';

/// One column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// The type's text output.
    Text(&'a [u8]),
    /// A TOASTed value that an UPDATE left alone: pgoutput does not send it.
    Unchanged,
    /// The value was too large to be kept; its length in bytes.
    Omitted(u32),
}

/// A checked row: walking it cannot fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuple {
    bytes: Bytes,
}

/// Bytes that are not a `TupleData` of the expected number of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TupleError {
    /// The row ends inside a value.
    #[error("row ends inside column {0}")]
    Truncated(usize),
    /// A kind byte that pgoutput's text format does not have.
    #[error("column {column} has the unknown kind {kind:#04x}")]
    Kind {
        /// The column's index.
        column: usize,
        /// The byte found.
        kind: u8,
    },
    /// A value's length is negative.
    #[error("column {0} has a negative length")]
    NegativeLength(usize),
    /// Bytes are left over after the last column.
    #[error("{0} bytes follow the last column")]
    Trailing(usize),
}

impl Tuple {
    /// Checks `bytes`, which begin at the first column's kind byte, as exactly `columns` values.
    ///
    /// # Errors
    ///
    /// A [`TupleError`] where they are not that.
    pub fn parse(bytes: Bytes, columns: usize) -> Result<Self, TupleError> {
        let mut rest: &[u8] = &bytes;
        for column in 0..columns {
            skip(&mut rest, column)?;
        }
        if rest.is_empty() { Ok(Self { bytes }) } else { Err(TupleError::Trailing(rest.len())) }
    }

    /// A row made of these values; for sources that are not a replication stream.
    pub fn from_values<'a>(values: impl IntoIterator<Item = Value<'a>>) -> Self {
        let mut bytes = BytesMut::new();
        for value in values {
            match value {
                Value::Null => bytes.put_u8(b'n'),
                Value::Unchanged => bytes.put_u8(b'u'),
                Value::Omitted(length) => {
                    bytes.put_u8(OMITTED);
                    bytes.put_u32(length);
                }
                Value::Text(text) => {
                    bytes.put_u8(b't');
                    bytes.put_i32(i32::try_from(text.len()).unwrap_or(i32::MAX));
                    bytes.put_slice(text);
                }
            }
        }
        Self { bytes: bytes.freeze() }
    }

    /// The values in order.
    pub fn values(&self) -> Values<'_> {
        Values { rest: &self.bytes }
    }

    /// The value at `index`; `None` past the last one.
    pub fn value(&self, index: usize) -> Option<Value<'_>> {
        self.values().nth(index)
    }

    /// `text`, which must be a slice out of one of this row's values, as a counted reference.
    pub fn share(&self, text: &[u8]) -> Bytes {
        self.bytes.slice_ref(text)
    }

    /// Bytes of the row as it was read.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the row has no column at all.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Iterator over a row's values.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        take(&mut self.rest)
    }
}

/// Takes one value off a checked row.
fn take<'a>(rest: &mut &'a [u8]) -> Option<Value<'a>> {
    let (&kind, tail) = rest.split_first()?;
    *rest = tail;
    match kind {
        b'n' => Some(Value::Null),
        b'u' => Some(Value::Unchanged),
        OMITTED => {
            let (length, tail) = rest.split_first_chunk::<4>()?;
            *rest = tail;
            Some(Value::Omitted(u32::from_be_bytes(*length)))
        }
        _ => {
            let (length, tail) = rest.split_first_chunk::<4>()?;
            let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
            let (text, tail) = tail.split_at_checked(length)?;
            *rest = tail;
            Some(Value::Text(text))
        }
    }
}

/// Checks one value and steps over it.
fn skip(rest: &mut &[u8], column: usize) -> Result<(), TupleError> {
    let kind = rest.try_get_u8().map_err(|_| TupleError::Truncated(column))?;
    match kind {
        b'n' | b'u' => Ok(()),
        OMITTED => rest.try_get_u32().map(drop).map_err(|_| TupleError::Truncated(column)),
        b't' => {
            let length = rest.try_get_i32().map_err(|_| TupleError::Truncated(column))?;
            let length = usize::try_from(length).map_err(|_| TupleError::NegativeLength(column))?;
            *rest = rest.get(length..).ok_or(TupleError::Truncated(column))?;
            Ok(())
        }
        kind => Err(TupleError::Kind { column, kind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_put_in() {
        let values = [Value::Text(b"a"), Value::Null, Value::Text(b""), Value::Omitted(1 << 30)];
        let tuple = Tuple::from_values(values);
        assert_eq!(tuple.values().collect::<Vec<_>>(), values);
        assert_eq!(tuple.value(3), Some(Value::Omitted(1 << 30)));
        assert_eq!(tuple.value(4), None);
        assert_eq!(Tuple::parse(tuple.bytes.clone(), 4), Ok(tuple));
    }

    #[test]
    fn a_row_cut_anywhere_is_an_error() {
        let whole = Tuple::from_values([Value::Text(b"abc"), Value::Null, Value::Text(b"x")]).bytes;
        for length in 0..whole.len() {
            assert!(Tuple::parse(whole.slice(..length), 3).is_err(), "{length}");
        }
        assert_eq!(Tuple::parse(whole, 2), Err(TupleError::Trailing(6)));
    }

    #[test]
    fn lengths_are_checked_before_they_are_used() {
        let negative = Bytes::from_static(b"t\xff\xff\xff\xff");
        assert_eq!(Tuple::parse(negative, 1), Err(TupleError::NegativeLength(0)));
        let huge = Bytes::from_static(b"t\x7f\xff\xff\xffabc");
        assert_eq!(Tuple::parse(huge, 1), Err(TupleError::Truncated(0)));
        let kind = Bytes::from_static(b"b\0\0\0\0");
        assert_eq!(Tuple::parse(kind, 1), Err(TupleError::Kind { column: 0, kind: b'b' }));
    }
}
