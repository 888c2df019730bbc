//! What the configured role is granted.

use postgres_protocol::escape::escape_identifier;
use tokio_postgres::types::ToSql;

use crate::config::Config;
use crate::failure::Failure;
use crate::postgres::{Session, Settings};
use crate::replication::quote::qualified;

/// One statement, and how to see that it is not needed.
pub(super) struct Grant {
    pub(super) sql: String,
    /// Function of role and object that is true where the privilege is there.
    check: &'static str,
    object: String,
}

const ON_DATABASE: &str = "SELECT has_database_privilege($1::text::name, $2::text, 'CONNECT')";
const ON_SCHEMA: &str = "SELECT has_schema_privilege($1::text::name, $2::text, 'USAGE')";
const SELECT_ON_TABLE: &str = "SELECT has_table_privilege($1::text::name, $2::text, 'SELECT')";
const ALL_ON_MARKER: &str = "\
SELECT has_table_privilege($1::text::name, $2::text, 'SELECT')
   AND has_table_privilege($1::text::name, $2::text, 'INSERT')
   AND has_table_privilege($1::text::name, $2::text, 'UPDATE')";

impl Grant {
    /// Whether the role may do it already.
    pub(super) async fn is_there(&self, session: &Session, role: &str) -> Result<bool, Failure> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&role, &self.object];
        Ok(session.query_one("looking at privileges", self.check, &parameters).await?.get(0))
    }
}

/// Everything that `run` needs as the configured role, apart from REPLICATION.
pub(super) fn grants(config: &Config, settings: &Settings) -> Vec<Grant> {
    let role = escape_identifier(&settings.user);
    let mut grants = vec![Grant {
        sql: format!("GRANT CONNECT ON DATABASE {} TO {role}", escape_identifier(&settings.dbname)),
        check: ON_DATABASE,
        object: settings.dbname.clone(),
    }];
    let mut schemas: Vec<&str> = Vec::new();
    if config.source.slot.is_some() {
        schemas.push("pgoutbox");
        grants.push(Grant {
            sql: format!("GRANT SELECT, INSERT, UPDATE ON pgoutbox.relay TO {role}"),
            check: ALL_ON_MARKER,
            object: "pgoutbox.relay".to_owned(),
        });
    }
    for table in &config.source.tables {
        let name = qualified(table);
        grants.push(Grant {
            sql: format!("GRANT SELECT ON {name} TO {role}"),
            check: SELECT_ON_TABLE,
            object: name,
        });
        if !schemas.contains(&&*table.schema) {
            schemas.push(&table.schema);
        }
    }
    grants.extend(schemas.into_iter().map(|schema| Grant {
        sql: format!("GRANT USAGE ON SCHEMA {} TO {role}", escape_identifier(schema)),
        check: ON_SCHEMA,
        object: schema.to_owned(),
    }));
    grants
}

/// `init` does not make a role able to replicate: that is a superuser's decision.
pub(super) fn replication_hint(role: &str) -> String {
    format!(
        "role {role} has no REPLICATION attribute; unless a cloud's own role gives it that, run `ALTER \
         ROLE {} REPLICATION`",
        escape_identifier(role)
    )
}

/// Nor does it make roles.
pub(super) fn create_role_hint(role: &str) -> String {
    format!("`CREATE ROLE {} LOGIN REPLICATION PASSWORD '…'`", escape_identifier(role))
}
