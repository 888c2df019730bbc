//! Takes fields off the front of a message, each checked before it is used.

use bytes::{Buf, Bytes, TryGetError};

use super::DecodeError;
use crate::lsn::Lsn;

/// Microseconds from 1970-01-01 to 2000-01-01, where PostgreSQL's own time begins.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// The rest of one message. `field`, everywhere, names what is read in errors.
pub(super) struct Reader {
    message: &'static str,
    rest: Bytes,
}

impl Reader {
    /// Reads `rest`, the body of a `message`.
    pub(super) fn new(message: &'static str, rest: Bytes) -> Self {
        Self { message, rest }
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.rest.try_get_u8().map_err(self.truncated(field))
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.rest.try_get_u16().map_err(self.truncated(field))
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.rest.try_get_u32().map_err(self.truncated(field))
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.rest.try_get_i32().map_err(self.truncated(field))
    }

    pub(super) fn lsn(&mut self, field: &'static str) -> Result<Lsn, DecodeError> {
        self.rest.try_get_u64().map(Lsn::new).map_err(self.truncated(field))
    }

    /// A time in microseconds since 1970; one beyond what 64 bits hold becomes the last that they do.
    pub(super) fn time(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        let micros = self.rest.try_get_i64().map_err(self.truncated(field))?;
        Ok(micros.saturating_add(POSTGRES_EPOCH_MICROS))
    }

    /// A text up to its NUL byte.
    pub(super) fn text(&mut self, field: &'static str) -> Result<String, DecodeError> {
        let message = self.message;
        let end = self.rest.iter().position(|&byte| byte == 0);
        let end = end.ok_or(DecodeError::Truncated { message, field })?;
        let text = Vec::from(self.rest.split_to(end));
        self.rest.advance(1);
        String::from_utf8(text).map_err(|_| DecodeError::NotUtf8 { message, field })
    }

    /// A length or count that is not negative. It may still exceed what is there.
    pub(super) fn count(&mut self, field: &'static str) -> Result<usize, DecodeError> {
        let value = self.i32(field)?;
        let message = self.message;
        usize::try_from(value).map_err(|_| DecodeError::Negative { message, field, value })
    }

    /// The next `length` bytes.
    pub(super) fn take(
        &mut self,
        length: usize,
        field: &'static str,
    ) -> Result<Bytes, DecodeError> {
        self.need(length, field)?;
        Ok(self.rest.split_to(length))
    }

    /// Refuses a message that has fewer than `length` bytes left.
    pub(super) fn need(&self, length: usize, field: &'static str) -> Result<(), DecodeError> {
        if self.rest.len() < length {
            return Err(DecodeError::Truncated { message: self.message, field });
        }
        Ok(())
    }

    /// A byte that must be one of `allowed`.
    pub(super) fn one_of(
        &mut self,
        allowed: &[u8],
        field: &'static str,
    ) -> Result<(), DecodeError> {
        let byte = self.u8(field)?;
        if allowed.contains(&byte) {
            return Ok(());
        }
        Err(DecodeError::Unexpected { message: self.message, field, byte })
    }

    /// Whatever is left.
    pub(super) fn rest(self) -> Bytes {
        self.rest
    }

    /// Refuses a message that goes on.
    pub(super) fn end(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { message: self.message, bytes }),
        }
    }

    fn truncated(&self, field: &'static str) -> impl FnOnce(TryGetError) -> DecodeError + use<> {
        let message = self.message;
        move |_| DecodeError::Truncated { message, field }
    }
}
