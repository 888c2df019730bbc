//! `alerts.alertmanager` and `alerts.webhook`.
//!
//! Nothing of an address but scheme, host and port is ever shown: user, password, path and query may
//! each be what lets somebody in.

use super::{HttpTarget, Login};
use crate::config::field::{Field, Fields};
use crate::config::tls::tls;
use crate::config::{ConfigError, Secret, TlsFiles, percent_decode};

/// One address or a list of them.
pub(super) fn targets(field: &Field<'_>) -> Result<Vec<HttpTarget>, ConfigError> {
    if !field.is_list() {
        return Ok(vec![target(field)?]);
    }
    field.list()?.iter().map(target).collect()
}

/// A URL, or a map with `url` and what it takes to be let in.
pub(super) fn target(field: &Field<'_>) -> Result<HttpTarget, ConfigError> {
    if !field.is_map() {
        let (url, shown, login) = url(field)?;
        return Ok(HttpTarget { url, shown, login, tls: TlsFiles::default() });
    }
    let fields = field.fields(&["url", "username", "password", "bearer_token", "tls"])?;
    let (url, shown, of_url) = url(&fields.need("url")?)?;
    let login = login(field, &fields)?.or(of_url);
    let tls = fields.read("tls", tls)?.unwrap_or_default();
    if let Some(tls) = fields.get("tls")
        && !shown.starts_with("https://")
    {
        return Err(tls.invalid("needs a `url` that begins with `https://`"));
    }
    Ok(HttpTarget { url, shown, login, tls })
}

fn login(field: &Field<'_>, fields: &Fields<'_>) -> Result<Option<Login>, ConfigError> {
    let username = fields.read("username", Field::filled_text)?;
    let password = fields.read("password", Field::secret)?;
    let token = fields.read("bearer_token", Field::secret)?;
    match (username, password, token) {
        (None, None, None) => Ok(None),
        (Some(username), Some(password), None) => Ok(Some(Login::Password { username, password })),
        (None, None, Some(token)) => {
            // What cannot stand in a header would only be found out at the first alert.
            if token.expose().is_empty() || !token.expose().bytes().all(|b| b.is_ascii_graphic()) {
                let token = fields.need("bearer_token")?;
                return Err(token.invalid("must be of visible ASCII characters"));
            }
            Ok(Some(Login::Token(token)))
        }
        _ => Err(field.invalid("takes `username` and `password`, or `bearer_token`")),
    }
}

/// The URL without its login, as much of it as may be shown, and the login.
fn url(field: &Field<'_>) -> Result<(Secret, String, Option<Login>), ConfigError> {
    let text = field.text()?;
    let wrong = || field.invalid("must be like `http://alertmanager:9093`");
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    if !["http", "https"].contains(&scheme) {
        return Err(wrong());
    }
    let plain = |c: char| c.is_ascii_graphic() && c != '#';
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if !tail.chars().all(plain) {
        return Err(wrong());
    }
    let (login, place) = match authority.rsplit_once('@') {
        Some((login, place)) => (Some(self::login_of_url(field, login)?), place),
        None => (None, authority),
    };
    if !is_place(place) {
        return Err(wrong());
    }
    let shown = format!("{scheme}://{place}");
    let tail = if tail.starts_with('?') { format!("/{tail}") } else { tail.to_owned() };
    Ok((Secret::new(format!("{shown}{tail}")), shown, login))
}

fn login_of_url(field: &Field<'_>, login: &str) -> Result<Login, ConfigError> {
    let wrong = || field.invalid("has a login that is not `user:password` in percent-encoding");
    let (username, password) = login.split_once(':').ok_or_else(wrong)?;
    let username = percent_decode(username).map_err(|_| wrong())?;
    let password = percent_decode(password).map_err(|_| wrong())?;
    Ok(Login::Password { username, password: Secret::new(password) })
}

/// `host`, `host:port`, `[::1]:port`.
fn is_place(place: &str) -> bool {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) => (host, port),
            None => return false,
        },
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    let port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|it| it.parse::<u16>().is_ok_and(|port| port > 0));
    !host.is_empty() && host.chars().all(plain) && port
}
