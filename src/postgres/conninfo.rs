//! A connection string as keys and values, without a judgement of what they mean.
//!
//! Both of libpq's forms (PostgreSQL manual, "Connection Strings"): `postgres://user@host/db?key=value`
//! and `host=… user=…`. Nothing that could be part of a password is ever quoted in an error: a
//! password with an unescaped `/`, `@` or blank ends up in other parts of the string.

use crate::config::{PercentError, percent_decode};

/// What is wrong with the string; the text never holds a part of it that may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConninfoError {
    #[error(transparent)]
    Percent(#[from] PercentError),
    #[error(
        "a part of the URL after the host has an `@`; in user and password write `@` as `%40`, `/` as `%2F`, `?` as `%3F`, `#` as `%23`"
    )]
    Authority,
    #[error("`[` without `]` around an IPv6 address")]
    Bracket,
    #[error(
        "an IPv6 address must stand in `[…]`, and `:` in a password must be followed by `@host`"
    )]
    Colons,
    #[error("a parameter has no `=`; values with blanks stand in '…'")]
    NoEquals,
    #[error("a '…' value is not closed")]
    Quote,
}

/// Splits `text` into (key, value); a later pair of the same key overrides an earlier one.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, ConninfoError> {
    let url = ["postgres://", "postgresql://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    match url {
        Some(rest) => url_pairs(rest),
        None => keyword_pairs(text),
    }
}

fn url_pairs(rest: &str) -> Result<Vec<(String, String)>, ConninfoError> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, dbname) = rest.split_once('/').unwrap_or((rest, ""));
    if dbname.contains('@') || query.contains('@') {
        return Err(ConninfoError::Authority);
    }
    let mut pairs = Vec::new();
    let mut put = |key: &str, value: &str| -> Result<(), ConninfoError> {
        if !value.is_empty() {
            pairs.push((key.to_owned(), percent_decode(value)?));
        }
        Ok(())
    };
    let host = match authority.rsplit_once('@') {
        Some((login, host)) => {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            put("user", user)?;
            put("password", password)?;
            host
        }
        None => authority,
    };
    let (host, port) = host_and_port(host)?;
    put("host", host)?;
    put("port", port)?;
    put("dbname", dbname)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(ConninfoError::NoEquals)?;
        put(&percent_decode(key)?, value)?;
    }
    Ok(pairs)
}

/// `host:port`, `[::1]:port`, or either part alone.
fn host_and_port(text: &str) -> Result<(&str, &str), ConninfoError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(ConninfoError::Bracket)?;
        return Ok((host, rest.strip_prefix(':').unwrap_or(rest)));
    }
    // A list stays whole: that it is not supported is said where the host is judged.
    if text.contains(',') {
        return Ok((text, ""));
    }
    let (host, port) = text.split_once(':').unwrap_or((text, ""));
    if port.contains(':') { Err(ConninfoError::Colons) } else { Ok((host, port)) }
}

/// `key = value` with blanks between; `'…'` around a value with blanks; `\` before `'` and `\`.
fn keyword_pairs(text: &str) -> Result<Vec<(String, String)>, ConninfoError> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, tail) = rest.split_once('=').ok_or(ConninfoError::NoEquals)?;
        let key = key.trim_end();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(ConninfoError::NoEquals);
        }
        let (value, tail) = keyword_value(tail.trim_start())?;
        pairs.push((key.to_owned(), value));
        rest = tail.trim_start();
    }
    Ok(pairs)
}

/// One value and what follows it.
fn keyword_value(text: &str) -> Result<(String, &str), ConninfoError> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut value = String::new();
    let mut chars = body.char_indices();
    while let Some((index, char)) = chars.next() {
        match char {
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            '\'' if quoted => return Ok((value, body.get(index + 1..).unwrap_or(""))),
            char if char.is_whitespace() && !quoted => {
                return Ok((value, body.get(index..).unwrap_or("")));
            }
            char => value.push(char),
        }
    }
    if quoted { Err(ConninfoError::Quote) } else { Ok((value, "")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let pairs = pairs(text).unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(pairs, expected, "{text}");
    }

    #[test]
    fn a_url_is_taken_apart() {
        check(
            "postgresql://re%20lay:p%40ss%3Aw%2Frd%3F%23%2525%20%24%C3%A9@db:5433/shop?sslmode=require",
            &[
                ("user", "re lay"),
                ("password", "p@ss:w/rd?#%25 $é"),
                ("host", "db"),
                ("port", "5433"),
                ("dbname", "shop"),
                ("sslmode", "require"),
            ],
        );
        check("postgres://[::1]:5433/a", &[("host", "::1"), ("port", "5433"), ("dbname", "a")]);
        check("postgres://", &[]);
    }

    #[test]
    fn a_socket_directory_fits_into_a_url_in_two_ways() {
        check("postgres://%2Fvar%2Frun/app", &[("host", "/var/run"), ("dbname", "app")]);
        check("postgres:///app?host=/var/run", &[("dbname", "app"), ("host", "/var/run")]);
    }

    #[test]
    fn keys_and_values_need_no_escaping_but_quotes() {
        check(
            r"host = /tmp user=a password='it\'s \\ a = b' dbname=''",
            &[("host", "/tmp"), ("user", "a"), ("password", r"it's \ a = b"), ("dbname", "")],
        );
        check("user=a  password=p@ss:w/rd?#%25", &[("user", "a"), ("password", "p@ss:w/rd?#%25")]);
    }

    #[test]
    fn broken_strings_are_refused_without_their_text() {
        for (text, error) in [
            ("postgres://u:hush%2@h/d", ConninfoError::Percent(PercentError::Digits)),
            ("postgres://u:hush%zz@h/d", ConninfoError::Percent(PercentError::Digits)),
            ("postgres://u:%ff@h/d", ConninfoError::Percent(PercentError::Utf8)),
            ("postgres://u:12/hush@h/d", ConninfoError::Authority),
            ("postgres://u:12?hush@h/d", ConninfoError::Authority),
            ("postgres://u@[::1/d", ConninfoError::Bracket),
            ("postgres://u@::1/d", ConninfoError::Colons),
            ("postgres://u@h/d?hush", ConninfoError::NoEquals),
            ("user=a password=two hush", ConninfoError::NoEquals),
            ("user=a password='hush", ConninfoError::Quote),
        ] {
            assert_eq!(pairs(text), Err(error.clone()), "{text}");
            assert!(!error.to_string().contains("hush"));
        }
    }
}
