//! How long the server keeps WAL for a relay that is stopped, against what it writes.
//!
//! That nothing limits it, `run` says too: see `server`.

use super::super::{Context, Finding};
use super::{bytes, duration};
use crate::config::WalVolume;
use crate::failure::Failure;
use crate::replication::slot::SlotInfo;

const RETENTION: &str = "\
SELECT (SELECT setting::float8 * 1048576
        FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
       wal_bytes::float8,
       extract(epoch FROM clock_timestamp() - stats_reset)::float8
FROM pg_stat_wal";

const SUBJECT: &str = "`max_slot_wal_keep_size`";

/// An outage of so many seconds should be survived.
const OUTAGE: f64 = 3_600.0;

const DAY: f64 = 86_400.0;

const GIB: f64 = 1_073_741_824.0;

pub(super) async fn ask(
    context: &Context<'_>,
    slot: Option<&SlotInfo>,
) -> Result<Vec<Finding>, Failure> {
    let Some(name) = &context.config.source.slot else { return Ok(Vec::new()) };
    let mut findings: Vec<Finding> = slot.and_then(|slot| behind(name, slot)).into_iter().collect();
    let row = context.session.query_one("reading the growth of WAL", RETENTION, &[]).await?;
    let limit: f64 = row.get(0);
    if limit >= 0.0 {
        let growth = Growth { bytes: row.get(1), seconds: row.get(2) };
        findings.extend(beyond_the_disk(limit, context.config.monitor.wal_volume.as_ref()));
        findings.push(against_growth(limit, growth));
    }
    Ok(findings)
}

/// WAL that was written, and in how many seconds.
#[derive(Clone, Copy, Debug)]
struct Growth {
    bytes: f64,
    seconds: f64,
}

impl Growth {
    /// Bytes a second. What was written in less than an outage's length is taken for all that would
    /// be: a young server's start says nothing of its usual days.
    fn rate(self) -> f64 {
        self.bytes / self.seconds.max(OUTAGE)
    }
}

fn against_growth(limit: f64, growth: Growth) -> Finding {
    let rate = growth.rate();
    let lasts = limit / rate.max(1.0);
    if lasts >= OUTAGE {
        let message = format!(
            "is {}; at {} of WAL an hour, a relay may be away for {}",
            bytes(limit),
            bytes(rate * 3_600.0),
            duration(lasts)
        );
        return Finding::ok(SUBJECT, message);
    }
    let message = format!(
        "is {}, and the server wrote {} of WAL in the last {}: a relay that is away for an hour loses \
         its slot, and with it the events of that time",
        bytes(limit),
        bytes(growth.bytes),
        duration(growth.seconds)
    );
    let day = (rate * DAY / GIB).ceil().max(1.0);
    Finding::warning(SUBJECT, message).fix(format!(
        "`ALTER SYSTEM SET max_slot_wal_keep_size = '{day:.0}GB'` (a day's WAL, where the disk can \
         spare it), `SELECT pg_reload_conf()`"
    ))
}

/// Only where the configuration tells how large the volume is.
fn beyond_the_disk(limit: f64, volume: Option<&WalVolume>) -> Option<Finding> {
    let Some(WalVolume::Size(size)) = volume else { return None };
    #[expect(clippy::cast_precision_loss, reason = "no disk is that large")]
    let size = *size as f64;
    if limit < size {
        return None;
    }
    let message = format!(
        "is {}, and the volume has {} (`monitor.wal_volume_size`): the disk is full before the slot \
         is given up, and then nobody can write",
        bytes(limit),
        bytes(size)
    );
    let half = (size / 2.0 / 1_048_576.0).floor().max(1.0);
    Some(Finding::warning(SUBJECT, message).fix(format!(
        "`ALTER SYSTEM SET max_slot_wal_keep_size = '{half:.0}MB'`, `SELECT pg_reload_conf()`"
    )))
}

/// A slot that is far behind already.
fn behind(name: &str, slot: &SlotInfo) -> Option<Finding> {
    let message = match slot.wal_status.as_deref()? {
        "extended" => "keeps more WAL than `max_wal_size`: nothing has been confirmed for long",
        "unreserved" => "is about to be lost: the next checkpoint may remove WAL that it needs",
        _ => return None,
    };
    Some(Finding::warning(format!("slot `{name}`"), message).fix(
        "start the relay, and give it time: `ALTER SYSTEM SET max_slot_wal_keep_size = '…'` higher, \
         or -1 while the disk can bear it, `SELECT pg_reload_conf()`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::preflight::Severity;

    #[track_caller]
    fn check(limit: f64, bytes: f64, seconds: f64, severity: Severity) -> Finding {
        let finding = against_growth(limit, Growth { bytes, seconds });
        assert_eq!(finding.severity, severity, "{finding}");
        finding
    }

    #[test]
    fn an_hours_outage_should_be_survived() {
        check(GIB, GIB * 23.0, DAY, Severity::Ok);
        let finding = check(GIB, GIB * 25.0, DAY, Severity::Warning);
        assert!(finding.fix.unwrap().contains("'25GB'"));
    }

    #[test]
    fn a_young_server_is_judged_by_what_it_wrote() {
        check(GIB, GIB * 0.9, 60.0, Severity::Ok);
        check(GIB, GIB * 1.1, 60.0, Severity::Warning);
        check(GIB, 0.0, 0.0, Severity::Ok);
    }

    #[test]
    fn a_limit_beyond_the_volume_is_none() {
        let volume = WalVolume::Size(1 << 30);
        assert!(beyond_the_disk(GIB, Some(&volume)).is_some());
        assert!(beyond_the_disk(GIB - 1.0, Some(&volume)).is_none());
        assert!(beyond_the_disk(GIB, None).is_none());
    }

    #[test]
    fn a_slot_that_is_behind_is_told() {
        let of = |status: &str| {
            let slot = SlotInfo { wal_status: Some(status.to_owned()), ..SlotInfo::default() };
            behind("s", &slot).map(|finding| finding.message)
        };
        assert_eq!(of("reserved"), None);
        assert!(of("extended").unwrap().contains("max_wal_size"));
        assert!(of("unreserved").unwrap().contains("about to be lost"));
    }
}
