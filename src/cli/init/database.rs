//! The steps of `init` on a live server, each of which first looks whether it is done.

use std::io::Write;

use super::script::table_sql;
use super::{Options, grant, say};
use crate::config::Config;
use crate::failure::Failure;
use crate::postgres::{self, Session, Settings};
use crate::relay::columns_needed;
use crate::replication::marker::{self, Decision, Origin};
use crate::replication::preflight::{self, Severity};
use crate::replication::publication::{self, Coverage, GapKind};
use crate::replication::quote::TableName;
use crate::replication::slot;

const APPLICATION_NAME: &str = "pgoutbox init";

const ROLE: &str = "\
SELECT current_user::text, role.rolreplication OR role.rolsuper
FROM (SELECT) AS one
LEFT JOIN pg_roles AS role ON role.rolname = $1::text::name";

/// Makes what is missing.
pub(super) async fn prepare(
    config: &Config,
    settings: &Settings,
    admin: &Settings,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let session = postgres::connect(admin, APPLICATION_NAME).await?;
    let server = preflight::server_finding(&session, admin).await?;
    if server.severity == Severity::Error {
        return Err(server.failure());
    }
    let init = Init { config, settings, admin, options, session };
    let role = init.role().await?;
    init.tables(out).await?;
    init.publication(out).await?;
    if config.source.slot.is_some() {
        init.marker_table(out).await?;
    }
    if !role.is_own {
        init.grants(out).await?;
    }
    match &config.source.slot {
        Some(name) => init.slot(name, out).await?,
        None => say(out, "skipped", "slot: `run` makes a temporary one, as `slot` is not set")?,
    }
    if !role.may_replicate {
        say(out, "warning", &grant::replication_hint(&settings.user))?;
    }
    Ok(())
}

struct Init<'a> {
    config: &'a Config,
    settings: &'a Settings,
    admin: &'a Settings,
    options: &'a Options,
    session: Session,
}

/// The configured role.
struct Role {
    /// This is done as the role itself.
    is_own: bool,
    /// It has REPLICATION, as far as its attributes tell; clouds have roles of their own for it.
    may_replicate: bool,
}

impl Init<'_> {
    async fn role(&self) -> Result<Role, Failure> {
        let user = &self.settings.user;
        let row = self.session.query_one("reading the role", ROLE, &[user]).await?;
        let Some(may_replicate) = row.get(1) else {
            return Err(Failure::fixable(format!("role `{user}` does not exist"))
                .hint(grant::create_role_hint(user)));
        };
        Ok(Role { is_own: row.get::<_, String>(0) == *user, may_replicate })
    }

    async fn tables(&self, out: &mut dyn Write) -> Result<(), Failure> {
        for table in &self.config.source.tables {
            let name = TableName::from(table);
            if self.table_exists(&name).await? {
                say(out, "exists", &format!("table {name}"))?;
                continue;
            }
            if !self.options.create_table {
                return Err(Failure::fixable(format!("table `{name}` does not exist")).hint(
                    "create it with `pgoutbox init --create-table`, or name the right one in `tables`",
                ));
            }
            self.session.batch(&format!("creating table `{name}`"), &table_sql(table)).await?;
            say(out, "created", &format!("table {name}"))?;
        }
        Ok(())
    }

    async fn table_exists(&self, name: &TableName) -> Result<bool, Failure> {
        let sql = "SELECT to_regclass($1) IS NOT NULL";
        let doing = format!("looking for table `{name}`");
        Ok(self.session.query_one(&doing, sql, &[&name.sql()]).await?.get(0))
    }

    async fn publication(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let source = &self.config.source;
        let name = &source.publication;
        if publication::exists(&self.session, name).await? {
            say(out, "exists", &format!("publication {name}"))?;
        } else {
            let sql = publication::create_sql(name, &source.tables);
            self.session.batch(&format!("creating publication `{name}`"), &sql).await?;
            say(out, "created", &format!("publication {name}"))?;
        }
        let mut coverage = self.coverage().await?;
        if self.add_tables(&coverage, out).await? {
            coverage = self.coverage().await?;
        }
        for table in &coverage.endangered {
            let line = preflight::endangered(name, table);
            say(out, "warning", &format!("{}: {}", line.subject, line.message))?;
        }
        match coverage.gaps.first() {
            Some(gap) => Err(gap.failure()),
            None => Ok(()),
        }
    }

    async fn coverage(&self) -> Result<Coverage, Failure> {
        let needed = columns_needed(self.config)?;
        preflight::coverage(&self.session, &self.config.source, &needed).await
    }

    /// A publication that lacks a whole table gets it; anything else about it is somebody's wish.
    async fn add_tables(&self, coverage: &Coverage, out: &mut dyn Write) -> Result<bool, Failure> {
        let name = &self.config.source.publication;
        let mut added = false;
        for table in &self.config.source.tables {
            let missing = GapKind::NotPublished { table: table.into() };
            if coverage.gaps.iter().any(|gap| gap.kind == missing) {
                let sql = publication::add_table_sql(name, table);
                self.session.batch(&format!("adding to publication `{name}`"), &sql).await?;
                say(
                    out,
                    "added",
                    &format!("table {} to publication {name}", TableName::from(table)),
                )?;
                added = true;
            }
        }
        Ok(added)
    }

    async fn marker_table(&self, out: &mut dyn Write) -> Result<(), Failure> {
        // Even with IF NOT EXISTS the statements need the privilege to create.
        if marker::table_exists(&self.session).await? {
            return say(out, "exists", "table pgoutbox.relay");
        }
        self.session.batch("creating table `pgoutbox.relay`", marker::CREATE).await?;
        say(out, "created", "table pgoutbox.relay")
    }

    async fn grants(&self, out: &mut dyn Write) -> Result<(), Failure> {
        for grant in grant::grants(self.config, self.settings) {
            if grant.is_there(&self.session, &self.settings.user).await? {
                continue;
            }
            self.session.batch("granting", &grant.sql).await?;
            say(out, "granted", &grant.sql)?;
        }
        Ok(())
    }

    async fn slot(&self, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let found = slot::describe(&self.session, name).await?;
        let marker = marker::read(&self.session, name).await?;
        let server = marker::server(&self.session).await?;
        let tables = &self.config.source.tables;
        let decision = marker::decide(name, tables, marker.as_ref(), found.as_ref(), &server);
        match (decision, found) {
            (Decision::Stop(_), None) if marker.is_none() => {
                self.create_slot(name, &server, out).await
            }
            (Decision::Stop(failure), _) => Err(failure),
            (decision, Some(slot)) => {
                let created_at = marker.and_then(|marker| marker.created_at);
                preflight::slot_usable(
                    name,
                    &slot,
                    &self.config.source,
                    self.settings,
                    created_at.as_deref(),
                )?;
                marker::keep(&self.session, name, &decision, &slot).await?;
                let verb = if matches!(decision, Decision::Adopt) { "adopted" } else { "exists" };
                say(out, verb, &format!("slot {name}"))
            }
            (_, None) => Ok(()),
        }
    }

    async fn create_slot(
        &self,
        name: &str,
        server: &marker::Server,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let creator = postgres::connect(self.admin, APPLICATION_NAME).await?;
        let created = slot::create(creator, &self.session, name, self.options.timeout).await?;
        let failover = if created.failover { ", failover" } else { "" };
        say(out, "created", &format!("slot {name} at {}{failover}", created.position))?;
        let origin = Origin::Created { began_at: &created.began_at };
        marker::write(&self.session, name, server, created.position, origin).await?;
        say(out, "created", &format!("marker of slot {name}"))
    }
}
