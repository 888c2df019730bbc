//! What a PostgreSQL error means, judged by its SQLSTATE alone.
//!
//! Texts differ between versions and languages. Where one SQLSTATE has several causes (55000, 42704)
//! the caller asks the catalogue and makes the better [`Failure`] itself.

use std::error::Error as StdError;
use std::io;

use crate::failure::{Class, Failure};
use crate::tls::rustls_error;

use super::tls;

/// Sorts a SQLSTATE (PostgreSQL manual, "PostgreSQL Error Codes").
///
/// Anything unknown is [`Class::Fixable`]: it does not go away by itself, and somebody must see it.
pub fn classify(sqlstate: &str) -> Class {
    match sqlstate {
        // Dropped databases stay dropped, though their class is "operator intervention".
        "57P04" => Class::Fixable,
        // WAL that a slot needs was removed.
        "58P01" => Class::Definite,
        // Locks, and slots that somebody else holds.
        "55P03" | "55006" => Class::Transient,
        _ => classify_group(sqlstate.get(..2).unwrap_or_default()),
    }
}

fn classify_group(group: &str) -> Class {
    match group {
        // Connection, rollback (deadlock), resources (53300, 53400: no slot or walsender free),
        // operator intervention (shutdown, start-up, cancel), system and internal errors.
        "08" | "40" | "53" | "57" | "58" | "XX" => Class::Transient,
        _ => Class::Fixable,
    }
}

/// A [`Failure`] from the fields of an ErrorResponse: `doing: message: detail`, the SQLSTATE as its
/// code and the server's hint as its way out.
pub fn from_fields(
    doing: &str,
    sqlstate: &str,
    message: &str,
    detail: Option<&str>,
    hint: Option<&str>,
) -> Failure {
    let text = match detail {
        Some(detail) => format!("{doing}: {message}: {detail}"),
        None => format!("{doing}: {message}"),
    };
    let failure = Failure::new(classify(sqlstate), text).code(sqlstate);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A [`Failure`] from an error of the ordinary connection; `doing` says what failed, as in
/// "reading slot `orders`".
pub fn failure(doing: &str, error: &tokio_postgres::Error) -> Failure {
    if let Some(db) = error.as_db_error() {
        return from_fields(doing, db.code().code(), db.message(), db.detail(), db.hint());
    }
    // The cause is copied as text: tokio-postgres' error cannot be cloned into the failure.
    let mut text = format!("{doing}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let failure = Failure::new(class_without_sqlstate(error), text);
    match tls::hint(error) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Sockets come back. What is refused on this side (a certificate, TLS that the server lacks, a
/// missing password) does not until somebody mends it.
fn class_without_sqlstate(error: &tokio_postgres::Error) -> Class {
    if rustls_error(error).is_some() {
        return Class::Fixable;
    }
    let is_io = error.source().is_some_and(<dyn StdError>::is::<io::Error>);
    if error.is_closed() || is_io { Class::Transient } else { Class::Fixable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_the_sqlstate() {
        for transient in ["57P01", "57P03", "53300", "53400", "08006", "55006", "55P03", "40P01"] {
            assert_eq!(classify(transient), Class::Transient, "{transient}");
        }
        for fixable in ["28P01", "28000", "42501", "3D000", "42P01", "57P04", "55000", "", "9"] {
            assert_eq!(classify(fixable), Class::Fixable, "{fixable}");
        }
        assert_eq!(classify("58P01"), Class::Definite);
    }

    #[test]
    fn fields_become_one_sentence() {
        let failure =
            from_fields("starting", "53300", "too many clients", Some("100"), Some("wait"));
        assert_eq!(failure.to_string(), "starting: too many clients: 100 (53300)");
        assert_eq!(failure.way_out(), Some("wait"));
        assert_eq!(failure.peer_code(), Some("53300"));
    }
}
