//! Starts the configured sinks: the one place that knows them all.

use crate::config::{Config, SinkConfig};
use crate::failure::Failure;
use crate::metrics::SinkMetrics;
use crate::sink::null::NullSink;
use crate::sink::stdout::StdoutSink;
use crate::sink::{Mailbox, Sink};

/// Starts the sink at `index` of the configuration.
pub(super) async fn start(
    _config: &Config,
    _index: usize,
    sink: &SinkConfig,
    mailbox: &Mailbox,
    metrics: &SinkMetrics,
) -> Result<Sink, Failure> {
    let no_thread = |error| Failure::transient("cannot start a thread").cause(error);
    let sink = match sink {
        SinkConfig::Stdout => {
            StdoutSink::start(mailbox.clone()).map(Sink::Stdout).map_err(no_thread)?
        }
        SinkConfig::Null => NullSink::start(mailbox.clone()).map(Sink::Null).map_err(no_thread)?,
        SinkConfig::Kafka(_) => return Err(Failure::configuration("not yet")),
    };
    metrics.connected.set(1);
    Ok(sink)
}
