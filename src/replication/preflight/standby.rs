//! How the relay and the cluster's standbys may hold each other up.

use super::{Context, Finding};
use crate::failure::{Class, Failure};
use crate::replication::slot::{self, SlotInfo};

const SYNCHRONOUS_STANDBY_NAMES: &str = "SELECT current_setting('synchronous_standby_names')";

const SYNCHRONIZED_STANDBY_SLOTS: &str =
    "SELECT coalesce(current_setting('synchronized_standby_slots', true), '')";

pub(super) async fn ask(
    context: &Context<'_>,
    slot: Option<&SlotInfo>,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let doing = "reading the standby settings";
    let names: String =
        context.session.query_one(doing, SYNCHRONOUS_STANDBY_NAMES, &[]).await?.get(0);
    let application_name = format!("pgoutbox:{}", context.config.name);
    findings.extend(synchronous(&names, &application_name));
    if slot.is_some_and(|slot| slot.failover) {
        let slots: String =
            context.session.query_one(doing, SYNCHRONIZED_STANDBY_SLOTS, &[]).await?.get(0);
        for name in list(&slots) {
            let found = slot::describe(context.session, &name).await?;
            findings.extend(standby_slot(&name, found.as_ref()));
        }
    }
    Ok(())
}

/// A walsender of ours that counts as a synchronous standby makes every commit of the database wait
/// for the broker.
fn synchronous(setting: &str, application_name: &str) -> Option<Finding> {
    let names = standby_names(setting);
    let ours = |name: &&String| *name == "*" || name.eq_ignore_ascii_case(application_name);
    let matching = names.iter().find(ours)?;
    Some(
        Finding::error(
            "`synchronous_standby_names`",
            format!(
                "`{matching}` in `{setting}` matches the relay's `{application_name}`: commits would \
                 wait for its confirmations"
            ),
        )
        .fix(
            "`ALTER SYSTEM SET synchronous_standby_names = '…'` with the standbys' own names, \
             `SELECT pg_reload_conf()`",
        ),
    )
}

/// The names in `a, "B"`, `2 (a, b)`, `FIRST 2 (a, b)` or `ANY 2 (a, b)`.
fn standby_names(setting: &str) -> Vec<String> {
    match setting.split_once('(') {
        // A quoted name may hold anything; the number and the word before the list may not.
        Some((head, tail)) if !head.contains('"') => {
            list(tail.trim_end().strip_suffix(')').unwrap_or(tail))
        }
        _ => list(setting),
    }
}

/// A list of identifiers: between commas, `"…"` around what is not a plain word, `""` for `"`.
fn list(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut quoted = false;
    for char in text.chars() {
        match char {
            '"' => quoted = !quoted,
            ',' if !quoted => names.push(String::new()),
            char => names.last_mut().into_iter().for_each(|name| name.push(char)),
        }
    }
    names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The server holds a FAILOVER slot back until each of these standbys has what it would send.
fn standby_slot(name: &str, found: Option<&SlotInfo>) -> Option<Finding> {
    let (message, class) = match found {
        None => ("does not exist", Class::Fixable),
        Some(slot) if slot.holder.is_none() => ("has no standby connected", Class::Transient),
        Some(_) => return None,
    };
    Some(
        Finding::error(
            format!("`synchronized_standby_slots` slot `{name}`"),
            format!("{message}, and the server sends a failover slot nothing until it has caught up"),
        )
        .fix(
            "start that standby, or take its slot out: `ALTER SYSTEM SET synchronized_standby_slots \
             = '…'`, `SELECT pg_reload_conf()`",
        )
        .class(class),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_setting_gives_its_names() {
        for (setting, names) in [
            ("", vec![]),
            ("a, \"B c\"", vec!["a", "B c"]),
            ("FIRST 2 (a, b)", vec!["a", "b"]),
            ("any 1 (a,*)", vec!["a", "*"]),
            ("2 (a, b)", vec!["a", "b"]),
            ("\"pgoutbox:orders (eu)\"", vec!["pgoutbox:orders (eu)"]),
        ] {
            assert_eq!(standby_names(setting), names, "{setting}");
        }
    }

    #[test]
    fn only_names_that_match_ours_are_errors() {
        assert!(synchronous("", "pgoutbox:orders").is_none());
        assert!(synchronous("FIRST 1 (s1, s2)", "pgoutbox:orders").is_none());
        assert!(synchronous("FIRST 1 (s1, *)", "pgoutbox:orders").is_some());
        assert!(synchronous("\"PgOutbox:orders\"", "pgoutbox:orders").is_some());
    }

    #[test]
    fn a_standby_slot_must_exist_and_be_in_use() {
        let idle = SlotInfo::default();
        let holder = slot::Holder { pid: 1, application_name: None };
        let busy = SlotInfo { holder: Some(holder), ..SlotInfo::default() };
        assert_eq!(standby_slot("s", None).unwrap().class, Class::Fixable);
        assert_eq!(standby_slot("s", Some(&idle)).unwrap().class, Class::Transient);
        assert!(standby_slot("s", Some(&busy)).is_none());
    }
}
