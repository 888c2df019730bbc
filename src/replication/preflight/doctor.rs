//! What `check` asks beyond the preflight of `run`: nothing here keeps a relay from starting, but
//! much of it is learnt otherwise on the day of an outage.
//!
//! A question that fails is a warning of its own, and the others are asked all the same; each is
//! bounded in time.

mod clock;
mod failover;
mod index;
mod retention;
mod role;
mod sender;
mod volume;

use std::time::Duration;

use super::{Context, Finding};
use crate::config::Config;
use crate::failure::Failure;
use crate::postgres::{self, Settings};
use crate::replication::slot::SlotInfo;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks everything, over sessions of its own; `slot` is the configured one, where it exists.
pub async fn doctor(config: &Config, settings: &Settings, slot: Option<&SlotInfo>) -> Vec<Finding> {
    let mut findings = sender::ask(config, settings).await;
    // The name must not look like a relay's: who finds the slot held compares it.
    let session = match postgres::connect(settings, "pgoutbox check").await {
        Ok(session) => session,
        Err(failure) => {
            findings.push(not_checked("server", &failure));
            return findings;
        }
    };
    let bound = format!("SET statement_timeout = {}", PATIENCE.as_millis());
    if let Err(failure) = session.batch("bounding questions", &bound).await {
        findings.push(not_checked("server", &failure));
        return findings;
    }
    let context = Context { config, settings, session: &session };
    collect(&mut findings, "role", role::ask(&context)).await;
    collect(&mut findings, "retention of WAL", retention::ask(&context, slot)).await;
    collect(&mut findings, "volume of WAL", volume::ask(&context)).await;
    collect(&mut findings, "failover", failover::ask(&context, slot)).await;
    collect(&mut findings, "indexes", index::ask(&context)).await;
    collect(&mut findings, "clock", clock::ask(&context)).await;
    findings
}

/// Adds what a question gives.
async fn collect(
    findings: &mut Vec<Finding>,
    subject: &str,
    question: impl Future<Output = Result<Vec<Finding>, Failure>>,
) {
    match tokio::time::timeout(PATIENCE, question).await {
        Ok(Ok(found)) => findings.extend(found),
        Ok(Err(failure)) => findings.push(not_checked(subject, &failure)),
        Err(_) => {
            let failure = Failure::transient(format!("no answer within {} s", PATIENCE.as_secs()));
            findings.push(not_checked(subject, &failure));
        }
    }
}

fn not_checked(subject: &str, failure: &Failure) -> Finding {
    let finding = Finding::warning(subject, format!("is not checked: {failure}"));
    match failure.way_out() {
        Some(way_out) => finding.fix(way_out),
        None => finding,
    }
}

/// `size` bytes for people: with one decimal below ten.
fn bytes(size: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| size >= *unit).unwrap_or((1.0, "bytes"));
    let number = size / unit;
    if number < 9.95 { format!("{number:.1} {name}") } else { format!("{number:.0} {name}") }
}

/// `seconds` for people, in the largest unit of which there are two.
fn duration(seconds: f64) -> String {
    let units = [(86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| seconds >= 2.0 * unit).unwrap_or((1.0, "seconds"));
    format!("{:.0} {name}", seconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(bytes(120_000_000.0), "120 MB");
        assert_eq!(bytes(1_500_000_000.0), "1.5 GB");
        assert_eq!(bytes(9_999_999.0), "10 MB");
        assert_eq!(duration(90.0), "90 seconds");
        assert_eq!(duration(7_200.0), "2 hours");
        assert_eq!(duration(864_000.0), "10 days");
    }
}
