//! What slot and marker together mean (ARCHITECTURE.md, guarantee 12).

use super::{Marker, Server, recovery};
use crate::config::TableConfig;
use crate::failure::Failure;
use crate::replication::slot::SlotInfo;

/// What slot and marker together mean.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Go on from the slot.
    Run,
    /// Go on, and write the marker: the cluster was promoted, and the slot came along.
    RunOnNewTimeline,
    /// Somebody else made the slot: write a marker for it, say so, go on.
    Adopt,
    /// The relay must not run.
    Stop(Failure),
}

/// Decides from what was found; `tables` are for the recovery that a stop names.
pub fn decide(
    name: &str,
    tables: &[TableConfig],
    marker: Option<&Marker>,
    slot: Option<&SlotInfo>,
    server: &Server,
) -> Decision {
    match (marker, slot) {
        (Some(marker), _) if marker.system_identifier != server.system_identifier => {
            Decision::Stop(other_system(name, tables, marker, server))
        }
        (Some(marker), Some(_)) if marker.timeline != server.timeline => Decision::RunOnNewTimeline,
        (Some(_), Some(_)) => Decision::Run,
        (None, Some(_)) => Decision::Adopt,
        (Some(marker), None) => Decision::Stop(slot_gone(name, tables, marker, server)),
        (None, None) => Decision::Stop(never_made(name)),
    }
}

fn other_system(name: &str, tables: &[TableConfig], marker: &Marker, server: &Server) -> Failure {
    Failure::definite(format!(
        "slot `{name}` was made in system {}, but this is system {}: a copy of the database, or \
         another server",
        marker.system_identifier, server.system_identifier
    ))
    .hint(format!(
        "connect to the right server; to begin afresh on this one: {}",
        recovery(name, tables, marker.created_at.as_deref(), false)
    ))
}

fn slot_gone(name: &str, tables: &[TableConfig], marker: &Marker, server: &Server) -> Failure {
    let made = match &marker.created_at {
        Some(time) => format!("made at {time}, position {},", marker.created_lsn),
        None => format!("adopted at position {}", marker.created_lsn),
    };
    let timeline = match marker.timeline == server.timeline {
        true => String::new(),
        false => format!(", and this is timeline {} now", server.timeline),
    };
    Failure::definite(format!(
        "slot `{name}` is gone: it was {made} on timeline {} of system {}{timeline}; what was \
         committed since it was last confirmed may not have been delivered",
        marker.timeline, marker.system_identifier
    ))
    .hint(recovery(name, tables, marker.created_at.as_deref(), false))
}

fn never_made(name: &str) -> Failure {
    Failure::fixable(format!("slot `{name}` does not exist and never has"))
        .hint("create it with `pgoutbox init`, or start with `pgoutbox run --init`")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::failure::Class;
    use crate::lsn::Lsn;

    fn marker() -> Marker {
        Marker {
            system_identifier: "71".to_owned(),
            timeline: 3,
            created_lsn: Lsn::new(0x16_0000_0028),
            created_at: Some("2026-11-29 10:00:00+00".to_owned()),
        }
    }

    fn server(system_identifier: &str, timeline: u32) -> Server {
        Server { system_identifier: system_identifier.to_owned(), timeline }
    }

    fn decided(marker: Option<&Marker>, slot: bool, server: &Server) -> Decision {
        let table = TableConfig {
            schema: "public".to_owned(),
            table: "outbox".to_owned(),
            columns: BTreeMap::new(),
            order_by: Vec::new(),
        };
        let slot = slot.then(SlotInfo::default);
        decide("orders", &[table], marker, slot.as_ref(), server)
    }

    #[track_caller]
    fn stops(decision: Decision) -> Failure {
        match decision {
            Decision::Stop(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn slot_and_marker_run() {
        assert!(matches!(decided(Some(&marker()), true, &server("71", 3)), Decision::Run));
    }

    #[test]
    fn a_slot_alone_is_adopted() {
        assert!(matches!(decided(None, true, &server("71", 3)), Decision::Adopt));
    }

    #[test]
    fn a_marker_alone_stops_with_its_position_and_a_recovery() {
        let failure = stops(decided(Some(&marker()), false, &server("71", 4)));
        assert_eq!(failure.class(), Class::Definite);
        let message = failure.to_string();
        for part in ["`orders`", "16/28", "2026-11-29 10:00:00+00", "timeline 3", "timeline 4 now"]
        {
            assert!(message.contains(part), "{message}");
        }
        let hint = failure.way_out().unwrap();
        for part in [
            "`DELETE FROM pgoutbox.relay WHERE slot = 'orders'`",
            "`pgoutbox init`",
            "DELETE FROM \"public\".\"outbox\" WHERE created_at >= '2026-11-29 10:00:00+00'",
        ] {
            assert!(hint.contains(part), "{hint}");
        }
        assert!(!hint.contains("pg_drop_replication_slot"), "{hint}");
    }

    #[test]
    fn neither_stops_and_names_init() {
        let failure = stops(decided(None, false, &server("71", 3)));
        assert!(failure.way_out().unwrap().contains("`pgoutbox init`"));
    }

    #[test]
    fn another_system_stops_with_and_without_a_slot() {
        for slot in [true, false] {
            let failure = stops(decided(Some(&marker()), slot, &server("72", 3)));
            assert_eq!(failure.class(), Class::Definite);
            assert!(failure.to_string().contains("system 71, but this is system 72"));
        }
    }

    #[test]
    fn a_new_timeline_with_the_slot_runs_and_updates_the_marker() {
        let decision = decided(Some(&marker()), true, &server("71", 4));
        assert!(matches!(decision, Decision::RunOnNewTimeline));
    }
}
