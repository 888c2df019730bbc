//! One JSON line an event, for pipes and for a first look.
//!
//! A pipe whose reader sleeps blocks its writer for as long as it likes, so the writing is done by
//! a thread of its own. An event is acknowledged once its line was written and flushed; when the
//! reader has gone, nothing later is acknowledged.

mod line;

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use self::line::Line;
use super::exchange::{Exchange, More};
use super::{DeliveryId, Mailbox, Outcome, Report};
use crate::failure::{Class, Failure};
use crate::routing::RoutedEvent;

/// Bytes of lines that may wait for the writer; one more event than fits is taken.
const MAX_WAITING: usize = 1 << 20;

/// A running stdout sink.
#[derive(Debug)]
pub struct StdoutSink {
    lines: Arc<Exchange<Lines>>,
    /// Ends with the writer.
    writer: oneshot::Receiver<()>,
    mailbox: Mailbox,
}

/// Lines on their way to the writer, with their deliveries.
#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    deliveries: Vec<DeliveryId>,
    /// An event found no room, and is owed a [`Report::Room`].
    refused: bool,
}

impl StdoutSink {
    /// Starts a writer to the process's standard output.
    ///
    /// # Errors
    ///
    /// Where the system has no thread left.
    pub fn start(mailbox: Mailbox) -> io::Result<Self> {
        Self::start_with(io::stdout(), mailbox)
    }

    /// Starts a writer to `output`.
    fn start_with(output: impl Write + Send + 'static, mailbox: Mailbox) -> io::Result<Self> {
        let lines = Arc::<Exchange<Lines>>::default();
        let taken = Arc::clone(&lines);
        let reports = mailbox.clone();
        let (alive, writer) = oneshot::channel::<()>();
        thread::Builder::new().name("stdout-sink".to_owned()).spawn(move || {
            write_lines(&taken, output, &reports);
            drop(alive);
        })?;
        Ok(Self { lines, writer, mailbox })
    }

    /// Takes one event, unless too much is waiting for the writer already.
    pub fn enqueue(&mut self, id: DeliveryId, event: &RoutedEvent) -> bool {
        let taken = self.lines.fill(|lines| lines.push(id, event));
        match taken {
            Ok(true) => true,
            Ok(false) => {
                self.lines.seal();
                false
            }
            Err(failure) => {
                self.mailbox.outcome(id, Outcome::Rejected(failure));
                true
            }
        }
    }

    /// Lets everything taken so far be written.
    pub fn seal(&mut self) {
        self.lines.seal();
    }

    /// Writes what was taken, for at most `grace`. A pipe that nobody reads keeps its thread; it
    /// ends with the process.
    pub async fn stop(mut self, grace: Duration) {
        self.lines.close();
        let ended = tokio::time::timeout(grace, &mut self.writer).await;
        if ended.is_err() {
            tracing::warn!("standard output took nothing within the grace period");
        }
    }
}

impl Drop for StdoutSink {
    fn drop(&mut self) {
        self.lines.close();
    }
}

impl Lines {
    /// Appends `event`'s line; `false` where there is no room.
    fn push(&mut self, id: DeliveryId, event: &RoutedEvent) -> Result<bool, Failure> {
        if self.text.len() >= MAX_WAITING {
            self.refused = true;
            return Ok(false);
        }
        let before = self.text.len();
        if let Err(error) = serde_json::to_writer(&mut self.text, &Line(event)) {
            self.text.truncate(before);
            return Err(Failure::new(Class::Poison, "event has no JSON form").cause(error));
        }
        self.text.push(b'\n');
        self.deliveries.push(id);
        Ok(true)
    }

    /// Makes this empty again, for the next exchange.
    fn clear(&mut self) {
        self.text.clear();
        // One huge event must not hold its memory for ever.
        self.text.shrink_to(2 * MAX_WAITING);
        self.deliveries.clear();
        self.refused = false;
    }
}

/// Writes until the sink closes or `output` fails.
fn write_lines(lines: &Exchange<Lines>, mut output: impl Write, mailbox: &Mailbox) {
    let mut taken = Lines::default();
    loop {
        let more = lines.take(&mut taken);
        if taken.refused {
            mailbox.put(Report::Room);
        }
        if let Err(error) = output.write_all(&taken.text).and_then(|()| output.flush()) {
            mailbox.put(Report::Blocked { destination: None, failure: refusal(error) });
            return;
        }
        let written = taken.deliveries.iter();
        mailbox.put_all(written.map(|id| Report::Outcome(*id, Outcome::Acknowledged)));
        taken.clear();
        if more == More::Never {
            return;
        }
    }
}

fn refusal(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::definite("stdout closed").hint("start pgoutbox again with a reader");
    }
    Failure::definite("cannot write to stdout").cause(error)
}

#[cfg(test)]
mod tests;
