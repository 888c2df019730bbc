//! AMQP URLs, as RabbitMQ's "AMQP URI Specification" has them.
//!
//! `amqp://user:password@host:port/vhost?parameter=value`, each part percent-encoded. A path that is
//! missing is the virtual host `/`; an empty one (`amqp://host/`) is the virtual host with the empty
//! name. Nothing that could be part of a password is quoted in an error: a password with an
//! unescaped `/`, `?` or `#` ends up in other parts of the URL.

use std::time::Duration;

use super::{PercentError, Sasl, Secret, percent_decode};

/// The user and the password that every fresh RabbitMQ has, for local connections only.
const GUEST: &str = "guest";

/// One server, and how to come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpUrl {
    /// Host name or address, without brackets.
    pub host: String,
    /// 5672, or 5671 with TLS, where the URL has none.
    pub port: u16,
    /// `amqps`.
    pub is_tls: bool,
    /// Virtual host.
    pub vhost: String,
    /// User.
    pub username: String,
    /// Password.
    pub password: Secret,
}

/// What a URL's parameters ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) sasl: Option<Sasl>,
    pub(super) heartbeat: Option<Duration>,
}

/// What is wrong with an AMQP URL; the text never holds a part of it that may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmqpUrlError {
    /// Neither `amqp` nor `amqps`.
    #[error("must begin with `amqp://` or `amqps://`")]
    Scheme,
    /// Nothing between the scheme (or the `@`) and the path.
    #[error("names no host")]
    Host,
    /// `[` without `]`.
    #[error("has a `[` without the `]` around an IPv6 address")]
    Bracket,
    /// What follows the host is no port.
    #[error(
        "has something after its host that is no port (an IPv6 address stands in `[…]`; in user \
         and password write `/` as `%2F`, `?` as `%3F`, `#` as `%23`)"
    )]
    Port,
    /// A part that is not well encoded.
    #[error("{0}: {1}")]
    Percent(&'static str, #[source] EncodingError),
    /// A `/` in the virtual host.
    #[error(
        "has a `/` in its virtual host, or in user or password: write it as `%2F`; the virtual host \
         `/` itself is `/%2F`"
    )]
    Vhost,
    /// A virtual host that no frame can carry.
    #[error("has a virtual host of more than 255 bytes")]
    LongVhost,
    /// An `@` where none can be.
    #[error("has an `@` after its host: in user and password write `/` as `%2F`, `?` as `%3F`")]
    At,
    /// A fragment.
    #[error("has a `#`, which must be written as `%23`")]
    Fragment,
    /// SASL PLAIN has a NUL between user and password.
    #[error("has a NUL in its user or password")]
    Nul,
    /// A parameter without its value.
    #[error("has a parameter without a value")]
    Parameter,
    /// A parameter that means nothing here.
    #[error("has the parameter `{0}`, which is not read here: use the keys beside `url`")]
    UnknownParameter(String),
    /// A known parameter with a wrong value.
    #[error("has a wrong value of the parameter `{0}`")]
    ParameterValue(&'static str),
}

/// Why a text is not well percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct EncodingError(PercentError);

impl AmqpUrl {
    /// Reads a URL; a user or a password that it lacks is `guest`.
    ///
    /// # Errors
    ///
    /// The part that is wrong, never its text.
    pub fn parse(url: &str) -> Result<Self, AmqpUrlError> {
        parse(url).map(|(url, _)| url)
    }
}

/// Reads a URL with its parameters.
pub(super) fn parse(url: &str) -> Result<(AmqpUrl, Parameters), AmqpUrlError> {
    let (is_tls, rest) = scheme(url)?;
    if rest.contains('#') {
        return Err(AmqpUrlError::Fragment);
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, vhost) = match rest.split_once('/') {
        Some((authority, vhost)) => (authority, Some(vhost)),
        None => (rest, None),
    };
    if vhost.is_some_and(|vhost| vhost.contains('@')) || query.contains('@') {
        return Err(AmqpUrlError::At);
    }
    // The last `@`: a host has none, and so the rest can only be user and password.
    let (login, place) = match authority.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, authority),
    };
    let (host, port) = host_and_port(place)?;
    let (username, password) = login.map_or(Ok((None, None)), self::login)?;
    let url = AmqpUrl {
        host: decoded("its host", host)?,
        port: port.unwrap_or(if is_tls { 5671 } else { 5672 }),
        is_tls,
        vhost: self::vhost(vhost)?,
        username: username.unwrap_or_else(|| GUEST.to_owned()),
        password: Secret::new(password.unwrap_or_else(|| GUEST.to_owned())),
    };
    Ok((url, parameters(query)?))
}

fn scheme(url: &str) -> Result<(bool, &str), AmqpUrlError> {
    let (scheme, rest) = url.split_once("://").ok_or(AmqpUrlError::Scheme)?;
    match scheme.to_ascii_lowercase().as_str() {
        "amqp" => Ok((false, rest)),
        "amqps" => Ok((true, rest)),
        _ => Err(AmqpUrlError::Scheme),
    }
}

fn host_and_port(place: &str) -> Result<(&str, Option<u16>), AmqpUrlError> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(AmqpUrlError::Bracket)?;
            match rest.strip_prefix(':') {
                Some(port) => (host, port),
                None if rest.is_empty() => (host, ""),
                None => return Err(AmqpUrlError::Port),
            }
        }
        None => place.split_once(':').unwrap_or((place, "")),
    };
    if host.is_empty() {
        return Err(AmqpUrlError::Host);
    }
    // The grammar allows a colon without a number after it.
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits && port > 0 => Ok((host, Some(port))),
        _ => Err(AmqpUrlError::Port),
    }
}

type Login = (Option<String>, Option<String>);

fn login(login: &str) -> Result<Login, AmqpUrlError> {
    let (username, password) = match login.split_once(':') {
        Some((username, password)) => (username, Some(password)),
        None => (login, None),
    };
    let plain = |part, text| match decoded(part, text)? {
        text if text.contains('\0') => Err(AmqpUrlError::Nul),
        text => Ok(text),
    };
    let username = plain("its user", username)?;
    let password = password.map(|password| plain("its password", password)).transpose()?;
    Ok((Some(username), password))
}

fn vhost(path: Option<&str>) -> Result<String, AmqpUrlError> {
    let Some(path) = path else { return Ok("/".to_owned()) };
    if path.contains('/') {
        return Err(AmqpUrlError::Vhost);
    }
    let vhost = decoded("its virtual host", path)?;
    // A short string of AMQP.
    if vhost.len() > 255 { Err(AmqpUrlError::LongVhost) } else { Ok(vhost) }
}

fn decoded(part: &'static str, text: &str) -> Result<String, AmqpUrlError> {
    percent_decode(text).map_err(|error| AmqpUrlError::Percent(part, EncodingError(error)))
}

/// RabbitMQ's "URI Query Parameters", as far as they mean something here.
fn parameters(query: &str) -> Result<Parameters, AmqpUrlError> {
    let mut parameters = Parameters::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(AmqpUrlError::Parameter)?;
        match name {
            "auth_mechanism" => parameters.sasl = Some(mechanism(value)?),
            "heartbeat" => parameters.heartbeat = Some(heartbeat(value)?),
            _ => return Err(AmqpUrlError::UnknownParameter(name.to_owned())),
        }
    }
    Ok(parameters)
}

fn mechanism(value: &str) -> Result<Sasl, AmqpUrlError> {
    match value.to_ascii_lowercase().as_str() {
        "plain" => Ok(Sasl::Plain),
        "external" => Ok(Sasl::External),
        _ => Err(AmqpUrlError::ParameterValue("auth_mechanism")),
    }
}

/// Seconds, as the specification has them.
fn heartbeat(value: &str) -> Result<Duration, AmqpUrlError> {
    match value.parse::<u16>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
        _ => Err(AmqpUrlError::ParameterValue("heartbeat")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (host, port, vhost, user, password)
    #[track_caller]
    fn check(text: &str, expected: (&str, u16, &str, &str, &str)) {
        let url = AmqpUrl::parse(text).unwrap();
        let AmqpUrl { host, port, vhost, username, password, .. } = &url;
        assert_eq!((&**host, *port, &**vhost, &**username, password.expose()), expected, "{text}");
    }

    #[test]
    fn the_specifications_examples_are_read_as_it_says() {
        check("amqp://user:pass@host:10000/vhost", ("host", 10000, "vhost", "user", "pass"));
        check(
            "amqp://user%61:%61pass@ho%61st:10000/v%2fhost",
            ("hoast", 10000, "v/host", "usera", "apass"),
        );
        check("amqp://:@host/", ("host", 5672, "", "", ""));
        check("amqp://user@host", ("host", 5672, "/", "user", "guest"));
        check("amqp://user:pass@host", ("host", 5672, "/", "user", "pass"));
        check("amqp://host", ("host", 5672, "/", "guest", "guest"));
        check("amqp://host:/vhost", ("host", 5672, "vhost", "guest", "guest"));
        check("amqp://host/", ("host", 5672, "", "guest", "guest"));
        check("amqp://host/%2f", ("host", 5672, "/", "guest", "guest"));
        check("amqp://[::1]", ("::1", 5672, "/", "guest", "guest"));
        check("amqps://[::1]:5673/a", ("::1", 5673, "a", "guest", "guest"));
        check("AMQPS://host", ("host", 5671, "/", "guest", "guest"));
    }

    #[test]
    fn every_character_fits_into_every_part() {
        check(
            "amqp://us%40er%3a:p%40ss%3Aw%2Frd%3F%23%2525%20%24%C3%A9@host/caf%C3%A9%2F%40%25%3a",
            ("host", 5672, "caf\u{e9}/@%:", "us@er:", "p@ss:w/rd?#%25 $\u{e9}"),
        );
        check("amqp://u:a@b:c+d@host", ("host", 5672, "/", "u", "a@b:c+d"));
    }

    #[test]
    fn parameters_are_those_of_the_specification_that_mean_something() {
        let (_, parameters) = parse("amqps://host?auth_mechanism=EXTERNAL&heartbeat=5").unwrap();
        assert_eq!(parameters.sasl, Some(Sasl::External));
        assert_eq!(parameters.heartbeat, Some(Duration::from_secs(5)));
    }

    #[test]
    fn broken_urls_are_refused_without_their_text() {
        for (text, part) in [
            ("http://u:hush@host", "must begin with"),
            ("u:hush@host", "must begin with"),
            ("amqp://u:hush@/vhost", "no host"),
            ("amqp://u:hush@[::1", "`[`"),
            ("amqp://u:hush@fe80::1", "port"),
            ("amqp://u:hush@host:0", "port"),
            ("amqp://u:hush@host:+5672", "port"),
            ("amqp://u:hush@host:99999", "port"),
            ("amqp://u:12/hush@host/v", "`@` after its host"),
            ("amqp://u:12?hush@host/v", "`@` after its host"),
            ("amqp://u:12#hush@host/v", "`#`"),
            ("amqp://u:hu/sh", "port"),
            ("amqp://u:hush%2@host", "its password: `%`"),
            ("amqp://hush%ff@host", "its user: a percent-encoded value is not UTF-8"),
            ("amqp://host/hush%zz", "its virtual host: `%`"),
            ("amqp://host/a/hush", "a `/` in its virtual host"),
            ("amqp://u:hush%00@host", "a NUL"),
            ("amqp://u:hush@host?cacertfile=/a", "`cacertfile`"),
            ("amqp://u:hush@host?heartbeat=hush", "`heartbeat`"),
            ("amqp://u:hush@host?heartbeat=0", "`heartbeat`"),
            ("amqp://u:hush@host?auth_mechanism=hush", "`auth_mechanism`"),
            ("amqp://u:hush@host?hush", "a parameter without a value"),
        ] {
            let error = AmqpUrl::parse(text).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(part), "{text}: {said}");
            assert!(!said.contains("hush") && !format!("{error:?}").contains("hush"), "{said}");
        }
        let long = format!("amqp://host/{}", "v".repeat(256));
        assert_eq!(AmqpUrl::parse(&long), Err(AmqpUrlError::LongVhost));
    }
}
