//! CopyBoth: frames in, status updates out.
//!
//! Bytes are read into a chunk of 64 KiB (or of one large frame) and handed out as slices of it;
//! only the cut-off start of a frame is copied, into the next chunk. A chunk is made once its share
//! of the [`Window`] has been taken; where there is no room, nothing is read.

mod skim;

use std::io::{Read, Write};
use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use postgres_protocol::message::backend::{self, Message};
use tokio::time::Instant;

use self::skim::Skim;
pub use self::skim::Skimmed;
use super::connection::{Connection, is_timeout, lost, server_failure, sqlstate};
use super::protocol::{ServerMessage, put_status_update};
use super::socket::Transport;
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::window::{Share, Window};

const CHUNK: usize = 64 * 1024;
/// A chunk with less room than this at its end is left for a new one.
const MIN_ROOM: usize = 2 * 1024;
/// Tag and length.
const FRAME_HEADER: usize = 5;
const DOING: &str = "read the replication stream";

/// A replication stream in CopyBoth mode.
#[derive(Debug)]
pub struct Stream {
    transport: Transport,
    /// Initialised throughout; the first `filled` bytes came from the server.
    chunk: BytesMut,
    filled: usize,
    share: Share,
    window: Window,
    max_frame: usize,
    skim: Option<Skim>,
}

/// What one attempt to read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Bytes.
    Some,
    /// Nothing within the read timeout.
    Nothing,
    /// Nothing was read, since the window has no room for this many bytes.
    NoRoom(usize),
}

/// One message of the server.
#[derive(Debug)]
pub enum Frame {
    /// A replication message.
    Replication(ServerMessage),
    /// A message above the limit, read and dropped but for its small columns.
    Skimmed(Skimmed),
    /// A warning.
    Notice {
        /// Its SQLSTATE.
        sqlstate: String,
        /// Its text, as a failure of the class that its SQLSTATE has.
        failure: Failure,
    },
    /// The server has ended the stream.
    End,
    /// Nothing that the relay acts on.
    Other,
}

impl Stream {
    /// Sends `sql`, a START_REPLICATION command, and waits for at most `bound` until the server
    /// streams. A message above `max_message` bytes is not kept whole.
    ///
    /// # Errors
    ///
    /// The server's refusal, classified by SQLSTATE (55006: somebody else holds the slot).
    pub fn start(
        mut connection: Connection,
        sql: &str,
        bound: Duration,
        window: Window,
        max_message: usize,
    ) -> Result<Self, Failure> {
        connection.start_copy_both(sql, bound)?;
        let mut chunk = connection.inbound;
        let filled = chunk.len();
        chunk.resize(filled.max(CHUNK), 0);
        let transport = connection.transport;
        let max_frame =
            max_message.saturating_add(FRAME_HEADER + super::protocol::XLOG_DATA_HEADER);
        Ok(Self {
            transport,
            filled,
            // Where others hold the whole window at this moment, the first chunk is beyond it.
            share: window.try_take(chunk.len()).unwrap_or_default(),
            chunk,
            window,
            max_frame,
            skim: None,
        })
    }

    /// How long a [`Stream::fill`] waits for bytes.
    ///
    /// # Errors
    ///
    /// Where the socket refuses.
    pub fn set_read_timeout(&mut self, timeout: Duration) -> Result<(), Failure> {
        self.transport.set_read_timeout(timeout).map_err(|error| lost(DOING, error))
    }

    /// Whether bytes are let gather between reads: while the relay is behind.
    pub fn set_gathering(&mut self, gathering: bool) {
        self.transport.set_gathering(gathering);
    }

    /// Reads once. Take all frames with [`Stream::next_frame`] before.
    ///
    /// # Errors
    ///
    /// Where the connection is lost.
    pub fn fill(&mut self) -> Result<Filled, Failure> {
        if let Some(bytes) = self.chunk_needed() {
            // Given back first: a frame as large as the window needs all of it.
            self.share = Share::default();
            let Some(share) = self.window.try_take(bytes) else {
                return Ok(Filled::NoRoom(bytes));
            };
            self.renew_chunk(bytes, share);
        }
        let room = self.chunk.get_mut(self.filled..).unwrap_or_default();
        match self.transport.read(room) {
            Ok(0) => Err(lost(DOING, std::io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => {
                self.filled += read;
                Ok(Filled::Some)
            }
            Err(error) if is_timeout(&error) => Ok(Filled::Nothing),
            Err(error) => Err(lost(DOING, error)),
        }
    }

    /// The next whole message, if it has been read.
    ///
    /// # Errors
    ///
    /// The server's own error, classified; or bytes that are not the protocol.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Failure> {
        if let Some(skim) = &mut self.skim {
            let before = self.chunk.len();
            let filled = self.chunk.get(..self.filled).unwrap_or_default();
            let (used, done) = skim.feed(filled).map_err(|error| broken(&error))?;
            self.chunk.advance(used);
            self.filled -= before - self.chunk.len();
            return Ok(done.map(|skimmed| {
                self.skim = None;
                Frame::Skimmed(skimmed)
            }));
        }
        let Some((tag, total)) = self.header()? else { return Ok(None) };
        if total > self.max_frame && tag == backend::COPY_DATA_TAG {
            self.take(FRAME_HEADER);
            self.skim = Some(Skim::new(total - FRAME_HEADER));
            return self.next_frame();
        }
        if total > self.max_frame.max(CHUNK) {
            return Err(broken(&format!("a message of {total} bytes")));
        }
        if self.filled < total {
            return Ok(None);
        }
        let frame = self.take(total);
        Self::read_frame(tag, frame).map(Some)
    }

    /// Whether the next [`Stream::fill`] reads into the chunk that the last frames are slices of, so that
    /// [`Stream::share`] still stands for them after it.
    pub fn keeps_chunk(&self) -> bool {
        self.chunk_needed().is_none()
    }

    /// The share of the window that all frames since the last [`Stream::fill`] hold.
    pub fn share(&self) -> Share {
        self.share.clone()
    }

    /// Reports `confirmed` to the server.
    ///
    /// # Errors
    ///
    /// Where the connection is lost.
    pub fn send_status(&mut self, confirmed: Lsn, want_reply: bool) -> Result<(), Failure> {
        let mut out = BytesMut::with_capacity(64);
        put_status_update(&mut out, confirmed, SystemTime::now(), want_reply);
        self.write(&out)
    }

    /// Reports `confirmed` for the last time and ends the stream in the protocol's way: a status sent
    /// just before closing the socket is often lost, so this waits for the server's answer, for at
    /// most `bound`.
    ///
    /// # Errors
    ///
    /// Where the server did not answer; whether it has the last status is then unknown.
    pub fn finish(mut self, confirmed: Lsn, bound: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + bound;
        self.send_status(confirmed, false)?;
        let mut out = BytesMut::new();
        out.put_slice(b"c\0\0\0\x04");
        self.write(&out)?;
        self.set_gathering(false);
        self.set_read_timeout(Duration::from_millis(100))?;
        // What is still on its way is read and dropped; the window plays no part in it.
        self.window = Window::new(self.max_frame.max(CHUNK));
        while Instant::now() < deadline {
            while let Some(frame) = self.next_frame()? {
                if matches!(frame, Frame::End) {
                    out.clear();
                    out.put_slice(b"X\0\0\0\x04");
                    return self.write(&out);
                }
            }
            self.fill()?;
        }
        Err(Failure::transient("the server did not end the stream in time"))
    }

    fn write(&mut self, out: &[u8]) -> Result<(), Failure> {
        let written = self.transport.write_all(out).and_then(|()| self.transport.flush());
        written.map_err(|error| lost("send a status update", error))
    }

    /// Tag and whole length of the frame at the front.
    fn header(&self) -> Result<Option<(u8, usize)>, Failure> {
        let filled = self.chunk.get(..self.filled).unwrap_or_default();
        let header = backend::Header::parse(filled).map_err(|error| lost(DOING, error))?;
        Ok(header.map(|header| (header.tag(), usize::try_from(header.len()).unwrap_or(0) + 1)))
    }

    fn take(&mut self, bytes: usize) -> Bytes {
        self.filled -= bytes;
        self.chunk.split_to(bytes).freeze()
    }

    fn read_frame(tag: u8, mut frame: Bytes) -> Result<Frame, Failure> {
        if tag == backend::COPY_DATA_TAG {
            frame.advance(FRAME_HEADER);
            let message = ServerMessage::parse(frame).map_err(|error| broken(&error))?;
            return Ok(Frame::Replication(message));
        }
        let message = Message::parse(&mut BytesMut::from(&*frame));
        match message.map_err(|error| lost(DOING, error))? {
            Some(Message::ErrorResponse(error)) => Err(server_failure(DOING, error.fields())),
            Some(Message::NoticeResponse(notice)) => Ok(Frame::Notice {
                sqlstate: sqlstate(notice.fields()),
                failure: server_failure(DOING, notice.fields()),
            }),
            // CopyDone is followed by CommandComplete and ReadyForQuery.
            Some(Message::ReadyForQuery(_)) => Ok(Frame::End),
            Some(Message::CopyDone | Message::CommandComplete(_) | Message::ParameterStatus(_)) => {
                Ok(Frame::Other)
            }
            _ => Err(broken(&format!("a message with the tag {:?}", char::from(tag)))),
        }
    }

    /// How large the next chunk must be, where the present one cannot take what comes.
    fn chunk_needed(&self) -> Option<usize> {
        let wanted = match &self.skim {
            Some(skim) => skim.wanted(),
            None => self.header().ok().flatten().map_or(FRAME_HEADER, |(_, total)| total),
        };
        // A frame that will be skimmed needs no room for itself.
        let wanted = if wanted > self.max_frame { FRAME_HEADER } else { wanted };
        let room = self.chunk.len() - self.filled;
        let fits = wanted > FRAME_HEADER && self.filled < wanted && wanted <= self.chunk.len();
        let is_spent = self.chunk.len() < wanted || room < MIN_ROOM && !fits;
        is_spent.then(|| wanted.max(CHUNK))
    }

    fn renew_chunk(&mut self, bytes: usize, share: Share) {
        let mut chunk = BytesMut::zeroed(bytes);
        let begun = self.chunk.get(..self.filled).unwrap_or_default();
        if let Some(start) = chunk.get_mut(..self.filled) {
            start.copy_from_slice(begun);
        }
        self.chunk = chunk;
        self.share = share;
    }
}

fn broken(what: &dyn std::fmt::Display) -> Failure {
    Failure::transient(format!("the replication stream is broken: {what}"))
}
