//! What an operator types when a slot's events are lost to it.

use crate::config::TableConfig;
use crate::replication::quote::{literal, qualified};

/// The way out: a new slot, and the rows once more through it.
///
/// A row that is deleted and inserted by one statement keeps every column, its id too, and so
/// arrives as a copy that readers can tell. `since` is when the slot was made, if that is known;
/// `drop_slot` is for a slot that is still there but useless.
pub fn recovery(
    name: &str,
    tables: &[TableConfig],
    since: Option<&str>,
    drop_slot: bool,
) -> String {
    let slot = literal(name);
    let mut steps = Vec::new();
    if drop_slot {
        steps.push(format!("`SELECT pg_drop_replication_slot({slot})`"));
    }
    steps.push(format!("`DELETE FROM pgoutbox.relay WHERE slot = {slot}`"));
    steps.push("`pgoutbox init`".to_owned());
    steps.extend(tables.iter().map(|table| format!("`{}`", send_again(table, since))));
    format!(
        "{} (sends all rows of that time once more, with their own ids; a later `created_at` sends \
         fewer)",
        steps.join(", then ")
    )
}

fn send_again(table: &TableConfig, since: Option<&str>) -> String {
    let table = qualified(table);
    let since = literal(since.unwrap_or("-infinity"));
    format!(
        "WITH lost AS (DELETE FROM {table} WHERE created_at >= {since} RETURNING *) \
         INSERT INTO {table} SELECT * FROM lost"
    )
}
