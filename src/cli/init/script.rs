//! The SQL of `init --print`: the same as `init`, for a DBA to read and to run.

use postgres_protocol::escape::escape_identifier;

use super::{Options, grant};
use crate::config::{Config, TableConfig};
use crate::postgres::Settings;
use crate::replication::marker;
use crate::replication::publication;
use crate::replication::quote::{literal, qualified};

const OUTBOX: &str = include_str!("../../../migrations/0001_outbox.sql");

/// Makes the slot and its marker; not before the publication, and not in place of a slot that was
/// lost. What may fail comes first: the slot stays, whatever becomes of its transaction.
const SLOT: &str = "\
-- The slot, unless it exists. This waits for transactions that are open now; FAILOVER from 17 on.
DO $pgoutbox$
DECLARE
    existed  boolean := EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $slot$);
    began_at timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = $publication$) THEN
        RAISE EXCEPTION 'publication % does not exist; see the errors above', $publication$;
    END IF;
    IF NOT existed AND EXISTS (SELECT FROM pgoutbox.relay WHERE slot = $slot$) THEN
        RAISE EXCEPTION 'slot % is gone; run `pgoutbox check` for the recovery', $slot$;
    END IF;
    IF NOT existed AND current_setting('server_version_num')::integer >= 170000 THEN
        PERFORM pg_create_logical_replication_slot($slot$, 'pgoutput', failover => true);
    ELSIF NOT existed THEN
        PERFORM pg_create_logical_replication_slot($slot$, 'pgoutput');
    END IF;
    -- Its marker.
    INSERT INTO pgoutbox.relay (slot, system_identifier, timeline, created_lsn, created_at)
    SELECT slot.slot_name,
           control.system_identifier::text,
           ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint,
           slot.confirmed_flush_lsn,
           CASE WHEN NOT existed THEN began_at END
    FROM pg_replication_slots AS slot, pg_control_system() AS control
    WHERE slot.slot_name = $slot$
    ON CONFLICT DO NOTHING;
END
$pgoutbox$;
";

/// Everything as one script for psql; running it twice does no harm.
pub(super) fn script(config: &Config, settings: &Settings, options: &Options) -> String {
    let source = &config.source;
    let mut script = format!(
        "-- What relay `{}` needs in database `{}`. Run it there as a superuser, or as the owner of \
         database and tables\n-- with REPLICATION: psql -v ON_ERROR_STOP=1 -f FILE\n\
         SET lock_timeout = '10s';\nBEGIN;\n\n",
        config.name, settings.dbname
    );
    if options.create_table {
        for table in &source.tables {
            script.push_str(&table_sql(table));
            script.push('\n');
        }
    }
    script.push_str(&publication_sql(&source.publication, &source.tables));
    if source.slot.is_some() {
        script.push('\n');
        script.push_str(marker::CREATE);
    }
    script.push_str(
        "\n-- What the relay's role may do; `pgoutbox init` leaves out what it may already.\n",
    );
    let role = escape_identifier(&settings.user);
    script.push_str(&format!(
        "-- It also needs REPLICATION: ALTER ROLE {role} REPLICATION;\n\
         -- The slot's monitor sees all its figures with: GRANT pg_monitor TO {role};\n"
    ));
    for grant in grant::grants(config, settings) {
        script.push_str(&grant.sql);
        script.push_str(";\n");
    }
    script.push_str("\nCOMMIT;\n");
    if let Some(slot) = &source.slot {
        script.push_str(&slot_sql(slot, &source.publication, options));
    }
    script
}

/// Makes the outbox table under the configured name.
pub(super) fn table_sql(table: &TableConfig) -> String {
    OUTBOX.replace("public.outbox", &qualified(table))
}

fn publication_sql(name: &str, tables: &[TableConfig]) -> String {
    let create = publication::create_sql(name, tables);
    format!(
        "DO $pgoutbox$\nBEGIN\nIF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = {}) THEN\n\
         {create}END IF;\nEND\n$pgoutbox$;\n",
        literal(name)
    )
}

fn slot_sql(name: &str, publication: &str, options: &Options) -> String {
    let seconds = options.timeout.as_secs();
    let sql =
        SLOT.replace("$slot$", &literal(name)).replace("$publication$", &literal(publication));
    format!("\nSET lock_timeout = '{seconds}s';\n{sql}")
}
