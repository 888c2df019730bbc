//! The messages inside CopyData, in both directions.
//!
//! Source: PostgreSQL manual, "Streaming Replication Protocol".

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::lsn::Lsn;

/// Seconds from 1970-01-01 to 2000-01-01, where PostgreSQL's clock begins.
const POSTGRES_EPOCH: Duration = Duration::from_secs(946_684_800);

/// Bytes of XLogData before its data: kind, start, end, clock.
pub const XLOG_DATA_HEADER: usize = 25;

/// What the server sends within CopyData.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerMessage {
    /// One message of the output plugin. Its two LSNs can be 0 and are not monotonic, so they are
    /// left out: positions come from commits and keepalives.
    XLogData(Bytes),
    /// The server is alive and has sent everything up to `wal_end`.
    Keepalive {
        /// End of what has been sent.
        wal_end: Lsn,
        /// The server wants a status update at once.
        reply_requested: bool,
    },
}

/// Bytes that are no replication message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The message ends too early.
    #[error("replication message of kind {kind:?} has {length} bytes, too few")]
    Truncated {
        /// The kind byte, if there was one.
        kind: Option<char>,
        /// Length of the whole.
        length: usize,
    },
    /// A kind that protocol version 3 does not have.
    #[error("unknown replication message kind {0:?}")]
    Kind(char),
}

impl ServerMessage {
    /// Reads the content of one CopyData message.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] where it is not a replication message.
    pub fn parse(mut bytes: Bytes) -> Result<Self, ProtocolError> {
        let length = bytes.len();
        let kind = bytes.first().map(|kind| char::from(*kind));
        let truncated = ProtocolError::Truncated { kind, length };
        match kind {
            Some('w') if length >= XLOG_DATA_HEADER => {
                bytes.advance(XLOG_DATA_HEADER);
                Ok(Self::XLogData(bytes))
            }
            Some('k') if length >= 18 => {
                bytes.advance(1);
                let wal_end = Lsn::new(bytes.get_u64());
                bytes.advance(8);
                Ok(Self::Keepalive { wal_end, reply_requested: bytes.get_u8() != 0 })
            }
            Some('w' | 'k') | None => Err(truncated),
            Some(kind) => Err(ProtocolError::Kind(kind)),
        }
    }
}

/// Appends a standby status update, as a whole CopyData message, that reports `confirmed` as
/// written, flushed and applied: a server sends keepalives of its own only while write and flush
/// are both behind, so reporting them apart would gain nothing and confuse monitoring.
pub fn put_status_update(out: &mut BytesMut, confirmed: Lsn, now: SystemTime, want_reply: bool) {
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = since_1970.saturating_sub(POSTGRES_EPOCH).as_micros();
    out.put_u8(b'd');
    out.put_i32(4 + 1 + 8 * 4 + 1);
    out.put_u8(b'r');
    for _ in ["written", "flushed", "applied"] {
        out.put_u64(confirmed.as_u64());
    }
    out.put_i64(i64::try_from(micros).unwrap_or(i64::MAX));
    out.put_u8(u8::from(want_reply));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_keepalive_gives_the_end_and_the_wish_for_a_reply() {
        let bytes = Bytes::from_static(b"k\0\0\0\x16\xB3\x74\xD8\x48\0\0\0\0\0\0\0\0\x01");
        let expected =
            ServerMessage::Keepalive { wal_end: Lsn::new(0x16_B374_D848), reply_requested: true };
        assert_eq!(ServerMessage::parse(bytes), Ok(expected));
    }

    #[test]
    fn xlog_data_is_what_follows_its_header() {
        let mut bytes = vec![0; XLOG_DATA_HEADER];
        bytes[0] = b'w';
        bytes.extend(b"B...");
        let parsed = ServerMessage::parse(bytes.into());
        assert_eq!(parsed, Ok(ServerMessage::XLogData(Bytes::from_static(b"B..."))));
    }

    #[test]
    fn a_status_update_has_the_length_it_says() {
        let mut out = BytesMut::new();
        let now = UNIX_EPOCH + POSTGRES_EPOCH + Duration::from_micros(7);
        put_status_update(&mut out, Lsn::new(0x0102), now, true);
        assert_eq!(out.len(), 1 + 38);
        assert_eq!(out[1..5], 38i32.to_be_bytes());
        assert_eq!(out[6..14], 0x0102u64.to_be_bytes());
        assert_eq!(out[30..38], 7i64.to_be_bytes());
        assert_eq!(out[38], 1);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            drop(ServerMessage::parse(bytes.into()));
        }
    }
}
