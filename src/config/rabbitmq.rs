//! `sinks.*.rabbitmq`.

use std::time::Duration;

use super::field::{Field, Fields};
use super::tls::tls;
use super::{AmqpUrl, ConfigError, ManagementConfig, RabbitMqConfig, Sasl, amqp};

const KEYS: [&str; 9] = [
    "url",
    "username",
    "password",
    "tls",
    "sasl",
    "heartbeat",
    "max_unsettled_per_key",
    "max_message_size",
    "management",
];

/// RabbitMQ itself asks for 60 s; a lost peer would be noticed after two of them.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// RabbitMQ's own upper bound of `max_message_size`.
const MOST_MESSAGE_SIZE: usize = 512 << 20;

pub(super) fn rabbitmq(field: &Field<'_>) -> Result<RabbitMqConfig, ConfigError> {
    let fields = field.fields(&KEYS)?;
    let url_field = fields.need("url")?;
    let (mut servers, asked) = servers(&url_field)?;
    override_login(&fields, &mut servers)?;
    let words = [("plain", Sasl::Plain), ("external", Sasl::External)];
    let sasl = fields.read("sasl", |f| f.choice(&words))?.or(asked.sasl).unwrap_or_default();
    let tls = fields.read("tls", tls)?.unwrap_or_default();
    if let Some(tls) = fields.get("tls")
        && servers.iter().all(|server| !server.is_tls)
    {
        return Err(tls.invalid("needs a `url` that begins with `amqps://`"));
    }
    if sasl == Sasl::External && tls.identity.is_none() {
        let must = "is by the client certificate: it needs `tls.cert_file` and `tls.key_file`";
        return Err(fields.get("sasl").unwrap_or(url_field).invalid(must));
    }
    Ok(RabbitMqConfig {
        heartbeat: fields.read("heartbeat", heartbeat)?.or(asked.heartbeat).unwrap_or(HEARTBEAT),
        max_unsettled_per_key: fields.read("max_unsettled_per_key", Field::count)?.unwrap_or(1),
        max_message_size: fields
            .read("max_message_size", |f| f.size(1 << 10, MOST_MESSAGE_SIZE))?,
        management: fields.read("management", |f| management(f, &servers))?,
        servers,
        sasl,
        tls,
    })
}

/// One URL or a list of them, and what the first that has parameters asks for.
fn servers(field: &Field<'_>) -> Result<(Vec<AmqpUrl>, amqp::Parameters), ConfigError> {
    let mut servers = Vec::new();
    let mut asked = amqp::Parameters::default();
    for item in if field.is_list() { field.list()? } else { vec![field.clone()] } {
        let (server, parameters) =
            amqp::parse(&item.text()?).map_err(|error| item.invalid(&error.to_string()))?;
        servers.push(server);
        asked.sasl = asked.sasl.or(parameters.sasl);
        asked.heartbeat = asked.heartbeat.or(parameters.heartbeat);
    }
    if servers.is_empty() {
        return Err(field.invalid("must name a server, as in `amqp://localhost`"));
    }
    Ok((servers, asked))
}

/// `username` and `password` go before those of the URLs.
fn override_login(fields: &Fields<'_>, servers: &mut [AmqpUrl]) -> Result<(), ConfigError> {
    for field in ["username", "password"].into_iter().filter_map(|key| fields.get(key)) {
        if field.text()?.contains('\0') {
            return Err(field.invalid("must not have a NUL in it"));
        }
    }
    let username = fields.read("username", Field::text)?;
    let password = fields.read("password", Field::secret)?;
    for server in servers {
        if let Some(username) = &username {
            server.username.clone_from(username);
        }
        if let Some(password) = &password {
            server.password.clone_from(password);
        }
    }
    Ok(())
}

/// AMQP has whole seconds, in two bytes.
fn heartbeat(field: &Field<'_>) -> Result<Duration, ConfigError> {
    let heartbeat = field.duration(Duration::from_secs(1))?;
    if heartbeat.subsec_nanos() > 0 || heartbeat.as_secs() > u64::from(u16::MAX) {
        return Err(field.invalid("must be whole seconds, at most 65535"));
    }
    Ok(heartbeat)
}

/// User and password are those of the first server where it has none of its own.
fn management(field: &Field<'_>, servers: &[AmqpUrl]) -> Result<ManagementConfig, ConfigError> {
    let fields = field.fields(&["url", "username", "password"])?;
    let url = fields.need("url")?;
    let text = url.text()?;
    let place = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    match place.map(|place| place.trim_end_matches('/')) {
        None | Some("") => {
            return Err(url.invalid("must be like `http://localhost:15672`"));
        }
        // It may be a password, and is not repeated.
        Some(place) if place.contains('@') => {
            return Err(url.invalid("has an `@`: user and password are `username` and `password`"));
        }
        Some(place) if place.contains(['?', '#', ' ']) => {
            return Err(url.invalid("must be like `http://localhost:15672`"));
        }
        Some(_) => {}
    }
    let login = servers.first().map(|server| (server.username.clone(), server.password.clone()));
    let (username, password) = login.unwrap_or_else(|| (String::new(), super::Secret::new("")));
    Ok(ManagementConfig {
        url: text.trim_end_matches('/').to_owned(),
        username: fields.read("username", Field::text)?.unwrap_or(username),
        password: fields.read("password", Field::secret)?.unwrap_or(password),
    })
}
