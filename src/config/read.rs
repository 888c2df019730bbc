//! The file's top level, and what its sections must agree on.

use std::net::SocketAddr;
use std::time::Duration;

use super::field::{Field, Fields};
use super::{
    Config, ConfigError, OnHalt, OnUnmatched, SinkConfig, SourceConfig, TableConfig, alerts,
    monitor, route, sink, table,
};

const MIB: usize = 1 << 20;

/// Reads the whole file.
pub(super) fn config(root: &Field<'_>) -> Result<Config, ConfigError> {
    let fields = root.fields(&[
        "name",
        "source",
        "sinks",
        "routes",
        "on_unmatched",
        "on_halt",
        "grace_period",
        "max_rate",
        "http",
        "monitor",
        "alerts",
    ])?;
    let source = source(&fields)?;
    let sinks_field = fields.get("sinks");
    let sinks = sink::sinks(sinks_field.as_ref())?;
    if let Some(field) = &sinks_field {
        check_slot(field, &source, &sinks)?;
    }
    let unmatched = [("halt", OnUnmatched::Halt), ("drop", OnUnmatched::Drop)];
    let halt = [("stay", OnHalt::Stay), ("exit", OnHalt::Exit)];
    Ok(Config {
        name: fields.read("name", name)?.unwrap_or_else(|| "pgoutbox".to_owned()),
        routes: route::routes(&fields, &sinks)?,
        on_unmatched: fields.read("on_unmatched", |f| f.choice(&unmatched))?.unwrap_or_default(),
        on_halt: fields.read("on_halt", |f| f.choice(&halt))?.unwrap_or_default(),
        max_rate: fields.read("max_rate", Field::count)?,
        grace_period: fields
            .read("grace_period", |f| f.duration(Duration::ZERO))?
            .unwrap_or(Duration::from_secs(25)),
        http_listen: fields
            .read("http", http_listen)?
            .unwrap_or_else(|| Some(SocketAddr::from(([127, 0, 0, 1], 7432)))),
        monitor: fields.read("monitor", monitor::monitor)?.unwrap_or_default(),
        alerts: fields.read("alerts", alerts::alerts)?.unwrap_or_default(),
        file: None,
        inputs: Vec::new(),
        source,
        sinks,
    })
}

/// `application_name` is `pgoutbox:<name>`, and PostgreSQL cuts it at 63 bytes.
fn name(field: &Field<'_>) -> Result<String, ConfigError> {
    let name = field.text()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if (1..=54).contains(&name.len()) && name.chars().all(plain) {
        return Ok(name);
    }
    Err(field.invalid("must be 1 to 54 letters, digits, `_`, `-` and `.`"))
}

fn source(root: &Fields<'_>) -> Result<SourceConfig, ConfigError> {
    let fields = root.need("source")?.fields(&["postgres"])?.need("postgres")?.fields(&[
        "url",
        "password",
        "slot",
        "publication",
        "tables",
        "window",
        "max_event_size",
        "wal_sender_timeout",
    ])?;
    let (window_bytes, window_events) = fields.read("window", window)?.unwrap_or((None, None));
    Ok(SourceConfig {
        url: fields.need("url")?.filled_text().map(super::Secret::new)?,
        password: fields.read("password", Field::secret)?,
        slot: fields.read("slot", slot)?,
        publication: fields
            .read("publication", publication)?
            .unwrap_or_else(|| "pgoutbox".to_owned()),
        tables: fields
            .read("tables", table::tables)?
            .unwrap_or_else(|| vec![TableConfig::default()]),
        window_bytes: window_bytes.unwrap_or(16 * MIB),
        window_events: window_events.unwrap_or(15_000),
        // PostgreSQL itself holds no value above 1GiB.
        max_event_size: fields
            .read("max_event_size", |f| f.size(1 << 10, 1 << 30))?
            .unwrap_or(16 * MIB),
        wal_sender_timeout: fields
            .read("wal_sender_timeout", |f| f.duration(Duration::from_secs(1)))?,
    })
}

fn window(field: &Field<'_>) -> Result<(Option<usize>, Option<usize>), ConfigError> {
    let fields = field.fields(&["bytes", "events"])?;
    let bytes = fields.read("bytes", |f| f.size(MIB, 1 << 40))?;
    let events = fields.read("events", Field::count)?;
    Ok((bytes, events))
}

/// PostgreSQL manual, "Replication Slots": lower-case letters, digits and underscores.
fn slot(field: &Field<'_>) -> Result<String, ConfigError> {
    let slot = field.text()?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if (1..=63).contains(&slot.len()) && slot.chars().all(plain) {
        return Ok(slot);
    }
    Err(field.invalid("must be 1 to 63 lower-case letters, digits and `_`"))
}

fn publication(field: &Field<'_>) -> Result<String, ConfigError> {
    let publication = field.text()?;
    if (1..=63).contains(&publication.len()) {
        return Ok(publication);
    }
    Err(field.invalid("must be 1 to 63 bytes"))
}

/// `off`, or a map with `listen: off` or an address.
fn http_listen(field: &Field<'_>) -> Result<Option<SocketAddr>, ConfigError> {
    let listen =
        if field.is_map() { field.fields(&["listen"])?.need("listen")? } else { field.clone() };
    let text = listen.text()?;
    if text == "off" {
        return Ok(None);
    }
    let must = "must be `off` or an address with its port, as in `127.0.0.1:7432`";
    text.parse().map(Some).map_err(|_| listen.invalid(must))
}

/// Without a slot that outlives the connection, what a broker missed while the relay was away is
/// gone: guarantee 4 cannot be kept.
fn check_slot(
    field: &Field<'_>,
    source: &SourceConfig,
    sinks: &[(String, SinkConfig)],
) -> Result<(), ConfigError> {
    let broker = field
        .named()?
        .into_iter()
        .zip(sinks)
        .find(|(_, (_, sink))| matches!(sink, SinkConfig::Kafka(_) | SinkConfig::RabbitMq(_)));
    match broker {
        Some(((name, sink), _)) if source.slot.is_none() => {
            let message = format!(
                "sink `{name}` needs `source.postgres.slot`: without a slot that stays, events \
                 written while the relay is away would be lost"
            );
            Err(ConfigError::invalid(sink.key_location, message))
        }
        _ => Ok(()),
    }
}
