//! Everything that `run` needs of PostgreSQL, asked before anything is read.
//!
//! `run` stops at the first error, `check` prints every line. A question that cannot be answered
//! because an earlier one failed is left out: one line per cause. What only `check` asks stands in
//! [`doctor`](fn@doctor).

mod doctor;
mod finding;
mod server;
mod slot;
mod standby;
mod table;

pub use doctor::doctor;
pub use finding::{Finding, Severity};
pub use server::finding as server_finding;
pub use slot::usable as slot_usable;
pub use table::{coverage, endangered};

use super::marker::Decision;
use super::publication::Coverage;
use super::slot::SlotInfo;
use crate::config::{Config, TableConfig};
use crate::failure::Failure;
use crate::postgres::{self, Session, Settings};

/// Tells which columns of a table its events are made from, given all its columns; or that the
/// configuration refers to one that is not there. `routing`, which knows, stands below this module.
pub type ColumnsNeeded<'a> =
    dyn Fn(&TableConfig, &[String]) -> Result<Vec<String>, Failure> + Send + Sync + 'a;

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// One line each, in the order in which they were asked.
    pub findings: Vec<Finding>,
    /// Columns that each table must publish, in the configuration's order of tables; shorter where
    /// an error keeps it from being known.
    pub needed: Vec<Vec<String>>,
    /// What the publication gives; `None` where that could not be asked.
    pub coverage: Option<Coverage>,
    /// The slot, where it is configured and exists.
    pub slot: Option<SlotInfo>,
    /// What slot and marker mean together; `None` without a configured slot, or where they could
    /// not be read.
    pub decision: Option<Decision>,
}

impl Report {
    /// The first error, which keeps `run` from starting.
    pub fn first_error(&self) -> Option<Failure> {
        self.findings
            .iter()
            .find(|finding| finding.severity == Severity::Error)
            .map(Finding::failure)
    }

    /// What `run` starts with all the same.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Warning)
    }
}

/// What every question may use.
struct Context<'a> {
    config: &'a Config,
    settings: &'a Settings,
    session: &'a Session,
}

/// Asks everything, over one ordinary session of its own.
pub async fn preflight(
    config: &Config,
    settings: &Settings,
    columns: &ColumnsNeeded<'_>,
) -> Report {
    let mut report = Report::default();
    // The name must not look like a relay's: who finds the slot held compares it.
    match postgres::connect(settings, "pgoutbox check").await {
        Ok(session) => {
            if let Err(failure) = ask(config, settings, &session, columns, &mut report).await {
                report.findings.push(Finding::from_failure("server", &failure));
            }
        }
        Err(failure) => report.findings.push(connection_failed(settings, &failure)),
    }
    report
}

async fn ask(
    config: &Config,
    settings: &Settings,
    session: &Session,
    columns: &ColumnsNeeded<'_>,
    report: &mut Report,
) -> Result<(), Failure> {
    let context = Context { config, settings, session };
    let server = server_finding(session, settings).await?;
    let is_suitable = server.severity != Severity::Error;
    report.findings.push(server);
    // Nothing below makes sense on a server that cannot serve a relay at all.
    if !is_suitable {
        return Ok(());
    }
    table::ask(&context, columns, report).await?;
    let findings = &mut report.findings;
    if let Some(name) = &config.source.slot {
        let (slot, decision) = slot::ask(&context, name, findings).await?;
        (report.slot, report.decision) = (slot, decision);
    }
    server::capacity(&context, report.slot.as_ref(), findings).await?;
    standby::ask(&context, report.slot.as_ref(), findings).await
}

fn connection_failed(settings: &Settings, failure: &Failure) -> Finding {
    let mut finding = Finding::from_failure("connection", failure);
    let hint = match failure.peer_code() {
        // No line of pg_hba.conf lets this role in; a replication connection to a database counts as
        // one to the database.
        Some("28000") => format!(
            "add a line for database `{}` and role `{}` to `pg_hba.conf`, then `SELECT \
             pg_reload_conf()`",
            settings.dbname, settings.user
        ),
        Some("28P01") => format!("check the password of role `{}`", settings.user),
        Some("3D000") => format!("check the database's name, `{}`", settings.dbname),
        _ => return finding,
    };
    finding.fix.get_or_insert(hint);
    finding
}
