//! The replication connection as the relay would have it: whether there is one, and the timeouts that
//! hold on it.

use std::time::Duration;

use postgres_protocol::escape::escape_identifier;

use super::super::Finding;
use crate::config::Config;
use crate::failure::Failure;
use crate::postgres::Settings;
use crate::replication::{Connection, Identity};

/// Both in milliseconds, as the session has them.
const TIMEOUTS: &str = "SELECT name, setting FROM pg_catalog.pg_settings \
     WHERE name IN ('wal_sender_timeout', 'tcp_user_timeout') AND setting <> '0'";

const SUBJECT: &str = "replication connection";

/// The relay reports four times in this; below it, a pause of a machine or a network ends the session.
const SHORT: Duration = Duration::from_secs(5);

/// A relay that takes over waits so long for the slot.
const LONG: Duration = Duration::from_secs(600);

/// Zero is "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Timeouts {
    wal_sender: Duration,
    tcp_user: Duration,
}

/// Privileges are found by trying: `rolreplication` is not the only way to have them.
pub(super) async fn ask(config: &Config, settings: &Settings) -> Vec<Finding> {
    let (wanted, ours) = (config.source.wal_sender_timeout, settings.clone());
    let connecting = tokio::task::spawn_blocking(move || connect(&ours, wanted)).await;
    let found = connecting.unwrap_or_else(|error| {
        Err(Failure::transient("the replication connection was given up").cause(error))
    });
    let (identity, timeouts) = match found {
        Ok(found) => found,
        Err(failure) => return vec![Finding::from_failure(SUBJECT, &failure)],
    };
    let Identity { system_identifier, timeline, .. } = identity;
    let message = format!("system {system_identifier}, timeline {timeline}");
    let mut findings = vec![Finding::ok(SUBJECT, message)];
    findings.extend(of_walsender(timeouts.wal_sender));
    findings.extend(of_tcp(timeouts.tcp_user, settings));
    findings
}

/// Takes at most a few times the connection's timeout.
fn connect(
    settings: &Settings,
    wal_sender_timeout: Option<Duration>,
) -> Result<(Identity, Timeouts), Failure> {
    let mut connection = Connection::connect_with(settings, "pgoutbox check", wal_sender_timeout)?;
    let identity = connection.identify_system()?;
    let mut timeouts = Timeouts::default();
    for row in connection.query("read the session's timeouts", TIMEOUTS)? {
        let [Some(name), Some(millis)] = row.as_slice() else { continue };
        let value = Duration::from_millis(millis.parse().unwrap_or_default());
        match name.as_str() {
            "wal_sender_timeout" => timeouts.wal_sender = value,
            _ => timeouts.tcp_user = value,
        }
    }
    Ok((identity, timeouts))
}

fn of_walsender(timeout: Duration) -> Option<Finding> {
    let message = if timeout.is_zero() {
        "is 0: the server does not notice a relay that has died or cannot be reached, and the slot \
         stays held for as long as TCP takes"
            .to_owned()
    } else if timeout < SHORT {
        format!(
            "is {timeout:?}: a pause of that length ends the session, and all that was on its way is sent again"
        )
    } else if timeout > LONG {
        format!("is {timeout:?}: a relay that takes over after a crash waits so long for the slot")
    } else {
        return None;
    };
    Some(
        Finding::warning("`wal_sender_timeout`", message).fix(
            "`wal_sender_timeout: 60s` under `source.postgres`, for the relay's session alone",
        ),
    )
}

/// The kernel counts a reader that takes nothing as one that does not answer.
fn of_tcp(timeout: Duration, settings: &Settings) -> Option<Finding> {
    let message = format!(
        "is {timeout:?}: while a broker takes nothing the relay reads nothing, and after that time \
         the server ends its connection"
    );
    let (role, database) = (escape_identifier(&settings.user), escape_identifier(&settings.dbname));
    (!timeout.is_zero()).then(|| {
        Finding::warning("`tcp_user_timeout`", message)
            .fix(format!("`ALTER ROLE {role} IN DATABASE {database} SET tcp_user_timeout = 0`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_timeout_is_silent() {
        for seconds in [5, 60, 600] {
            assert_eq!(of_walsender(Duration::from_secs(seconds)), None);
        }
    }

    #[test]
    fn each_extreme_says_what_comes_of_it() {
        let message = |timeout| of_walsender(timeout).unwrap().message;
        assert!(message(Duration::ZERO).contains("stays held"));
        assert!(message(Duration::from_secs(1)).contains("sent again"));
        assert!(message(Duration::from_secs(3_600)).contains("takes over"));
    }
}
