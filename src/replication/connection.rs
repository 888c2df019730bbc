//! A blocking connection in replication mode, up to where CopyBoth begins.
//!
//! Only the simple query protocol is used: a walsender has no other (PostgreSQL manual, "Streaming
//! Replication Protocol"). Every wait is bounded by the settings' `connect_timeout`, renewed with
//! each command.

mod login;
mod open;

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::escape::escape_identifier;
use postgres_protocol::message::backend::{ErrorFields, Header, Message};
use postgres_protocol::message::frontend;
use tokio::time::Instant;

use super::socket::Transport;
use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::postgres::{self, Settings};

/// No answer before CopyBoth is near this long; a longer one is not PostgreSQL speaking.
const MAX_ANSWER: usize = 1024 * 1024;
/// PostgreSQL's CopyBothResponse, which `postgres-protocol` does not know.
const COPY_BOTH_RESPONSE: u8 = b'W';
/// From PostgreSQL 17 on: decoding a large transaction is a transaction of the walsender's own, and
/// takes as long as the broker does. At start-up an older server would refuse the unknown name.
const PIN_WHERE_KNOWN: &str = "SELECT pg_catalog.set_config(name, '0', false) \
     FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'";
/// SQLSTATE with which a role that may not replicate is refused.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// A connection that is logged in and has said nothing else yet.
#[derive(Debug)]
pub struct Connection {
    pub(super) transport: Transport,
    /// Bytes read and not yet taken.
    pub(super) inbound: BytesMut,
    timeout: Duration,
    server_encoding: Option<String>,
}

/// Who the server is and where it stands (`IDENTIFY_SYSTEM`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Made by `initdb`; the same on a physical standby.
    pub system_identifier: String,
    /// Changes at each promotion.
    pub timeline: u32,
    /// End of the WAL that has been flushed.
    pub xlogpos: Lsn,
}

/// One answer of the server.
enum Answer {
    CopyBoth,
    Other(Message),
}

impl Connection {
    /// Connects, encrypts as the settings say, logs in, and pins what changes pgoutput's text.
    ///
    /// # Errors
    ///
    /// One [`Failure`] that names the host and the reason; its class follows the SQLSTATE.
    pub fn connect(settings: &Settings, application_name: &str) -> Result<Self, Failure> {
        Self::connect_with(settings, application_name, None)
    }

    /// Like [`Connection::connect`], with a `wal_sender_timeout` for this session.
    ///
    /// # Errors
    ///
    /// As [`Connection::connect`].
    pub fn connect_with(
        settings: &Settings,
        application_name: &str,
        wal_sender_timeout: Option<Duration>,
    ) -> Result<Self, Failure> {
        let transport = open::open(settings)?;
        let mut connection = Self {
            transport,
            inbound: BytesMut::with_capacity(8 * 1024),
            timeout: settings.connect_timeout,
            server_encoding: None,
        };
        connection
            .log_in(settings, application_name, wal_sender_timeout)
            .map_err(|failure| may_not_replicate(failure, &settings.user))?;
        connection.query("pin settings", PIN_WHERE_KNOWN)?;
        // There the server would refuse to convert, and so to send, a byte that is not UTF-8.
        if connection.server_encoding.as_deref() == Some("SQL_ASCII") {
            connection.query("set client_encoding", "SET client_encoding = 'SQL_ASCII'")?;
        }
        Ok(connection)
    }

    /// Asks the server who it is.
    ///
    /// # Errors
    ///
    /// Where the server refuses or does not answer.
    pub fn identify_system(&mut self) -> Result<Identity, Failure> {
        let rows = self.query("identify the system", "IDENTIFY_SYSTEM")?;
        let field = |index: usize| rows.first()?.get(index)?.clone();
        let identity = || {
            Some(Identity {
                system_identifier: field(0)?,
                timeline: field(1)?.parse().ok()?,
                xlogpos: field(2)?.parse().ok()?,
            })
        };
        identity().ok_or_else(|| Failure::transient("the server's IDENTIFY_SYSTEM makes no sense"))
    }

    /// This session's value of a setting, in the unit that `SHOW` gives.
    ///
    /// # Errors
    ///
    /// Where the server refuses or does not answer.
    pub fn show(&mut self, setting: &str) -> Result<String, Failure> {
        let rows = self.query("read a setting", &format!("SHOW {setting}"))?;
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        value.ok_or_else(|| Failure::transient(format!("SHOW {setting} gave nothing")))
    }

    /// Runs one command or query and gives its rows as text.
    ///
    /// # Errors
    ///
    /// The server's own error, classified; or that of the connection.
    pub fn query(&mut self, doing: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        self.send(doing, |out| frontend::query(sql, out))?;
        let deadline = Instant::now() + self.timeout;
        let mut rows = Vec::new();
        let mut failure = None;
        loop {
            match self.answer(doing, deadline)? {
                Answer::Other(Message::DataRow(row)) => rows.push(text_row(&row, doing)?),
                Answer::Other(Message::ErrorResponse(error)) => {
                    failure = Some(server_failure(doing, error.fields()));
                }
                Answer::Other(Message::ReadyForQuery(_)) => {
                    return failure.map_or(Ok(rows), Err);
                }
                Answer::Other(_) => {}
                Answer::CopyBoth => return Err(unexpected(doing)),
            }
        }
    }

    /// Sends START_REPLICATION (`sql`) and waits for CopyBoth. The wait is not bounded by the
    /// connect timeout alone: the server may first read much WAL.
    ///
    /// # Errors
    ///
    /// The server's own error, classified; or that of the connection.
    pub(super) fn start_copy_both(&mut self, sql: &str, bound: Duration) -> Result<(), Failure> {
        let doing = "start replication";
        self.send(doing, |out| frontend::query(sql, out))?;
        let deadline = Instant::now() + bound;
        loop {
            match self.answer(doing, deadline)? {
                Answer::CopyBoth => return Ok(()),
                Answer::Other(Message::ErrorResponse(error)) => {
                    return Err(server_failure(doing, error.fields()));
                }
                Answer::Other(Message::NoticeResponse(_) | Message::ParameterStatus(_)) => {}
                Answer::Other(_) => return Err(unexpected(doing)),
            }
        }
    }

    fn send(
        &mut self,
        doing: &str,
        message: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut out = BytesMut::new();
        message(&mut out)
            .and_then(|()| self.transport.write_all(&out))
            .and_then(|()| self.transport.flush())
            .map_err(|error| lost(doing, error))
    }

    /// The next message; parameters are noted on the way.
    fn answer(&mut self, doing: &str, deadline: Instant) -> Result<Answer, Failure> {
        loop {
            if let Some(header) = Header::parse(&self.inbound).map_err(|e| lost(doing, e))? {
                let length = usize::try_from(header.len()).unwrap_or(usize::MAX);
                if length > MAX_ANSWER {
                    return Err(unexpected(doing));
                }
                if self.inbound.len() > length {
                    return self.take_answer(doing, header.tag(), length);
                }
            }
            self.read_some(doing, deadline)?;
        }
    }

    fn take_answer(&mut self, doing: &str, tag: u8, length: usize) -> Result<Answer, Failure> {
        if tag == COPY_BOTH_RESPONSE {
            drop(self.inbound.split_to(length + 1));
            return Ok(Answer::CopyBoth);
        }
        let message = Message::parse(&mut self.inbound).map_err(|error| lost(doing, error))?;
        let message = message.ok_or_else(|| unexpected(doing))?;
        if let Message::ParameterStatus(parameter) = &message
            && parameter.name().is_ok_and(|name| name == "server_encoding")
        {
            self.server_encoding = parameter.value().ok().map(str::to_owned);
        }
        Ok(Answer::Other(message))
    }

    fn read_some(&mut self, doing: &str, deadline: Instant) -> Result<(), Failure> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let seconds = self.timeout.as_secs();
            return Err(Failure::transient(format!(
                "the server did not answer within {seconds} s"
            ))
            .cause(io::Error::new(io::ErrorKind::TimedOut, format!("cannot {doing}"))));
        }
        let mut chunk = [0; 4096];
        match self.transport.set_read_timeout(left).and_then(|()| self.transport.read(&mut chunk)) {
            Ok(0) => Err(lost(doing, io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => {
                self.inbound.extend_from_slice(chunk.get(..read).unwrap_or_default());
                Ok(())
            }
            Err(error) if is_timeout(&error) => Ok(()),
            Err(error) => Err(lost(doing, error)),
        }
    }
}

/// What a role without REPLICATION is told; clouds have roles of their own that have it too.
fn may_not_replicate(failure: Failure, role: &str) -> Failure {
    if failure.peer_code() != Some(INSUFFICIENT_PRIVILEGE) {
        return failure;
    }
    failure.hint(format!("`ALTER ROLE {} REPLICATION`", escape_identifier(role)))
}

/// Whether a read ended since nothing came in time.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// A broken connection: retried, but for TLS that was refused.
pub(super) fn lost(doing: &str, error: io::Error) -> Failure {
    let hint = postgres::tls::hint(&error);
    let message = format!("cannot {doing}: the replication connection broke");
    match hint {
        Some(hint) => Failure::fixable(message).cause(error).hint(hint),
        None => Failure::transient(message).cause(error),
    }
}

/// The server's ErrorResponse or NoticeResponse as a [`Failure`].
pub(super) fn server_failure(doing: &str, fields: ErrorFields<'_>) -> Failure {
    let text = ServerText::read(fields);
    let (detail, hint) = (text.detail.as_deref(), text.hint.as_deref());
    postgres::from_fields(doing, &text.sqlstate, &text.message, detail, hint)
}

/// SQLSTATE of an ErrorResponse or NoticeResponse.
pub(super) fn sqlstate(fields: ErrorFields<'_>) -> String {
    ServerText::read(fields).sqlstate
}

#[derive(Default)]
struct ServerText {
    sqlstate: String,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

impl ServerText {
    fn read(mut fields: ErrorFields<'_>) -> Self {
        let mut text = Self::default();
        // What cannot be parsed ends the fields; those before it stay.
        while let Ok(Some(field)) = fields.next() {
            let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => text.sqlstate = value,
                b'M' => text.message = value,
                b'D' => text.detail = Some(value),
                b'H' => text.hint = Some(value),
                _ => {}
            }
        }
        text
    }
}

fn unexpected(doing: &str) -> Failure {
    Failure::transient(format!("cannot {doing}: the server's answer is not PostgreSQL's protocol"))
}

fn text_row(
    row: &postgres_protocol::message::backend::DataRowBody,
    doing: &str,
) -> Result<Vec<Option<String>>, Failure> {
    let buffer = Bytes::copy_from_slice(row.buffer());
    row.ranges()
        .map(|range| {
            Ok(range.and_then(|range| {
                buffer.get(range).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            }))
        })
        .collect()
        .map_err(|error| lost(doing, error))
}
