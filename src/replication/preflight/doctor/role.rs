//! The relay's role: what the monitor may see, and what would keep the relay from logging in.

use postgres_protocol::escape::escape_identifier;

use super::super::{Context, Finding};
use super::duration;
use crate::failure::Failure;

const ROLE: &str = "\
SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       role.rolconnlimit,
       database.datconnlimit,
       CASE WHEN isfinite(role.rolvaliduntil)
            THEN extract(epoch FROM role.rolvaliduntil - clock_timestamp())::float8
       END
FROM pg_roles AS role, pg_database AS database
WHERE role.rolname = current_user AND database.datname = current_database()";

/// Replication, guard and monitor, and one that is not yet gone or a `check` beside them.
const CONNECTIONS: i32 = 4;

/// Seconds before its end at which a password should be thought of: 30 days.
const EXPIRY: f64 = 30.0 * 86_400.0;

pub(super) async fn ask(context: &Context<'_>) -> Result<Vec<Finding>, Failure> {
    let row = context.session.query_one("reading the role", ROLE, &[]).await?;
    let role = Role {
        name: &context.settings.user,
        database: &context.settings.dbname,
        may_monitor: row.get(0),
        limit: row.get(1),
        database_limit: row.get(2),
        expires_in: row.get(3),
    };
    let mut findings: Vec<Finding> = role.findings().collect();
    if findings.is_empty() {
        findings.push(Finding::ok(role.subject(), "may see what the monitor asks for"));
    }
    Ok(findings)
}

struct Role<'a> {
    name: &'a str,
    database: &'a str,
    may_monitor: bool,
    /// -1 is none.
    limit: i32,
    database_limit: i32,
    /// Seconds.
    expires_in: Option<f64>,
}

impl Role<'_> {
    fn subject(&self) -> String {
        format!("role `{}`", self.name)
    }

    fn findings(&self) -> impl Iterator<Item = Finding> {
        [self.monitoring(), self.connections(), self.expiry()].into_iter().flatten()
    }

    fn monitoring(&self) -> Option<Finding> {
        let message = "has not `pg_monitor`: the monitor sees no other session, and so neither what \
                       the walsender waits for nor the transaction that holds the slot back";
        let grant = format!("`GRANT pg_monitor TO {}`", escape_identifier(self.name));
        (!self.may_monitor).then(|| Finding::warning(self.subject(), message).fix(grant))
    }

    fn connections(&self) -> Option<Finding> {
        let is_few = |limit: i32| (0..CONNECTIONS).contains(&limit);
        let (subject, limit, alter) = if is_few(self.limit) {
            let alter = format!("ALTER ROLE {}", escape_identifier(self.name));
            (self.subject(), self.limit, alter)
        } else if is_few(self.database_limit) {
            let alter = format!("ALTER DATABASE {}", escape_identifier(self.database));
            (format!("database `{}`", self.database), self.database_limit, alter)
        } else {
            return None;
        };
        let message = format!(
            "may have {limit} connections, and a relay has three, and more while one is replaced"
        );
        Some(Finding::warning(subject, message).fix(format!("`{alter} CONNECTION LIMIT -1`")))
    }

    fn expiry(&self) -> Option<Finding> {
        let left = self.expires_in.filter(|left| *left < EXPIRY)?;
        let message = if left > 0.0 {
            format!("its password ends in {}: no connection after that", duration(left))
        } else {
            "its password has ended: other ways to log in may still work".to_owned()
        };
        let name = escape_identifier(self.name);
        let fix = format!("`ALTER ROLE {name} VALID UNTIL 'infinity'`, or a new password in time");
        Some(Finding::warning(self.subject(), message).fix(fix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Role<'_> = Role {
        name: "relay",
        database: "shop",
        may_monitor: true,
        limit: -1,
        database_limit: -1,
        expires_in: None,
    };

    #[track_caller]
    fn check(role: &Role<'_>, fixes: &[&str]) {
        let found: Vec<_> = role.findings().filter_map(|finding| finding.fix).collect();
        assert_eq!(found, fixes);
    }

    #[test]
    fn each_limit_has_its_own_way_out() {
        check(&FINE, &[]);
        check(&Role { limit: 4, expires_in: Some(1e9), ..FINE }, &[]);
        check(&Role { may_monitor: false, ..FINE }, &["`GRANT pg_monitor TO \"relay\"`"]);
        check(&Role { limit: 3, ..FINE }, &["`ALTER ROLE \"relay\" CONNECTION LIMIT -1`"]);
        let shop = Role { database_limit: 0, ..FINE };
        check(&shop, &["`ALTER DATABASE \"shop\" CONNECTION LIMIT -1`"]);
    }

    #[test]
    fn a_password_that_ends_is_told_in_time() {
        let message = |left| {
            let role = Role { expires_in: Some(left), ..FINE };
            role.findings().next().map(|finding| finding.message)
        };
        assert!(message(86_400.0 * 3.0).unwrap().contains("in 3 days"));
        assert!(message(-1.0).unwrap().contains("has ended"));
        assert_eq!(message(86_400.0 * 40.0), None);
    }
}
