//! Start-up and authentication (PostgreSQL manual, "Message Flow: Start-up").

use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use tokio::time::Instant;

use super::{Answer, Connection, lost, server_failure, unexpected};
use crate::failure::Failure;
use crate::postgres::Settings;

const DOING: &str = "log in for replication";

/// Settings that change the text pgoutput sends, or hide its warnings: whatever the role or the
/// database says, these hold for our session.
const PINNED: [(&str, &str); 9] = [
    ("datestyle", "ISO"),
    ("intervalstyle", "postgres"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
    ("timezone", "UTC"),
    ("search_path", ""),
    ("client_min_messages", "warning"),
    ("statement_timeout", "0"),
    ("idle_session_timeout", "0"),
];

impl Connection {
    pub(super) fn log_in(
        &mut self,
        settings: &Settings,
        application_name: &str,
        wal_sender_timeout: Option<Duration>,
    ) -> Result<(), Failure> {
        let timeout = wal_sender_timeout.map(|timeout| format!("{}ms", timeout.as_millis()));
        let mut parameters = vec![
            ("user", settings.user.as_str()),
            ("database", settings.dbname.as_str()),
            ("replication", "database"),
            ("application_name", application_name),
            ("client_encoding", "UTF8"),
        ];
        parameters.extend(PINNED);
        parameters.extend(timeout.as_deref().map(|timeout| ("wal_sender_timeout", timeout)));
        self.send(DOING, |out| frontend::startup_message(parameters, out))?;
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.other_answer(deadline)? {
                Message::AuthenticationOk => break,
                Message::AuthenticationSasl(body) => self.scram(&body, settings, deadline)?,
                Message::AuthenticationMd5Password(body) => {
                    let password = password(settings)?;
                    let hash = md5_hash(settings.user.as_bytes(), password, body.salt());
                    self.send_password(hash.as_bytes())?;
                }
                Message::AuthenticationCleartextPassword if self.transport.is_private() => {
                    self.send_password(password(settings)?)?;
                }
                Message::AuthenticationCleartextPassword => {
                    return Err(Failure::fixable("the server wants the password in clear text")
                        .hint("use `sslmode=require` or better, or SCRAM in pg_hba.conf"));
                }
                _ => {
                    return Err(Failure::fixable(
                        "the server asks for an authentication method that is not supported yet",
                    )
                    .hint("use `scram-sha-256` for this role in pg_hba.conf"));
                }
            }
        }
        self.until_ready(deadline)
    }

    fn scram(
        &mut self,
        body: &AuthenticationSaslBody,
        settings: &Settings,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let mut mechanisms = body.mechanisms();
        let offered = mechanisms.any(|name| Ok(name == SCRAM_SHA_256)).map_err(broken)?;
        if !offered {
            return Err(Failure::fixable("the server offers no SCRAM-SHA-256"));
        }
        let mut scram = ScramSha256::new(password(settings)?, ChannelBinding::unsupported());
        self.send(DOING, |out| {
            frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), out)
        })?;
        let Message::AuthenticationSaslContinue(body) = self.other_answer(deadline)? else {
            return Err(unexpected(DOING));
        };
        scram.update(body.data()).map_err(broken)?;
        self.send(DOING, |out| frontend::sasl_response(scram.message(), out))?;
        let Message::AuthenticationSaslFinal(body) = self.other_answer(deadline)? else {
            return Err(unexpected(DOING));
        };
        // The server's own proof that it knows the password.
        scram.finish(body.data()).map_err(broken)
    }

    fn send_password(&mut self, password: &[u8]) -> Result<(), Failure> {
        self.send(DOING, |out: &mut BytesMut| frontend::password_message(password, out))
    }

    fn until_ready(&mut self, deadline: Instant) -> Result<(), Failure> {
        loop {
            if let Message::ReadyForQuery(_) = self.other_answer(deadline)? {
                return Ok(());
            }
        }
    }

    /// The next message that is neither CopyBoth nor an error, which ends the login.
    fn other_answer(&mut self, deadline: Instant) -> Result<Message, Failure> {
        match self.answer(DOING, deadline)? {
            Answer::Other(Message::ErrorResponse(error)) => {
                Err(server_failure(DOING, error.fields()))
            }
            Answer::Other(message) => Ok(message),
            Answer::CopyBoth => Err(unexpected(DOING)),
        }
    }
}

fn password(settings: &Settings) -> Result<&[u8], Failure> {
    let password = settings.password.as_ref().map(|password| password.expose().as_bytes());
    password.ok_or_else(|| {
        Failure::fixable(format!("role `{}` needs a password and none is given", settings.user))
            .hint("set `source.postgres.password`, for example to `${env:PGPASSWORD}`")
    })
}

fn broken(error: std::io::Error) -> Failure {
    lost(DOING, error)
}
