//! One connection's channels.
//!
//! lapin has a fault here: once the server has closed a channel, lapin answers whatever is sent on a
//! later channel of the same number with what closed the first (`Frames::poison_channel`). So no
//! number is used twice: a connection has as many channels as it has numbers, and then it is worn.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Connection, Error, ErrorKind, ExchangeKind};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::error::Site;

/// How long the server may take to answer one question.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Numbers that a worn connection still has, for what is under way.
const RESERVE: u32 = 8;

/// A connection, and what its messages name.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) site: Site,
    connection: Connection,
    opened: AtomicU32,
    /// The channel that asks for exchanges; a missing one closes it.
    asks: Mutex<Option<Channel>>,
}

impl Session {
    pub(super) fn new(site: Site, connection: Connection) -> Self {
        Self { site, connection, opened: AtomicU32::new(0), asks: Mutex::default() }
    }

    /// Whether the connection stands, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Whether the broker takes nothing at the moment.
    pub(super) fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// Whether it has hardly any channel left.
    pub(super) fn is_worn(&self) -> bool {
        self.opened.load(Ordering::Relaxed) + RESERVE > self.most()
    }

    /// A channel that confirms.
    pub(super) async fn confirming(&self) -> Result<Channel, Error> {
        answered(async {
            let channel = self.open().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(channel)
        })
        .await
    }

    /// Asks for an exchange.
    pub(super) async fn look(&self, exchange: &str) -> Result<(), Error> {
        // Every server has the default exchange, and lets nobody declare it.
        let Ok(name) = ShortString::try_new(exchange) else { return Ok(()) };
        if exchange.is_empty() {
            return Ok(());
        }
        let mut asks = self.asks.lock().await;
        let channel = asks.take();
        let question = async {
            let channel = match channel.filter(|channel| channel.status().connected()) {
                Some(channel) => channel,
                None => self.open().await?,
            };
            let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
            let kind = ExchangeKind::Direct;
            channel.exchange_declare(name, kind, options, FieldTable::default()).await?;
            Ok(channel)
        };
        *asks = Some(answered(question).await?);
        Ok(())
    }

    /// Says goodbye; nobody answers while the broker blocks the connection.
    pub(super) async fn close(&self) -> Result<(), Error> {
        self.connection.close(200, "OK".into()).await
    }

    async fn open(&self) -> Result<Channel, Error> {
        if self.opened.fetch_add(1, Ordering::Relaxed) >= self.most() {
            return Err(ErrorKind::ChannelsLimitReached.into());
        }
        self.connection.create_channel().await
    }

    /// lapin gives out numbers from 1 in turn.
    fn most(&self) -> u32 {
        u32::from(self.connection.configuration().channel_max())
    }
}

/// What the server answers, or a time-out as an error.
async fn answered<T>(question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(ANSWER, question)
        .await
        .unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
}
