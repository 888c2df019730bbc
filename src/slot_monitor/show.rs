//! A report as metrics.

use super::report::{SlotFigures, SlotReport, Walsender};
use crate::metrics::{Metrics, OtherSlots, SlotMetrics};

/// Shows the report in place of the one `before`.
pub(super) fn show(metrics: &Metrics, report: &SlotReport, before: &SlotReport) {
    let m = &metrics.slot;
    m.monitor_up.set(1);
    m.wal_bytes_per_second.show(report.wal_bytes_per_second);
    m.unread_wal_bytes.show(report.unread_wal_bytes.map(|bytes| bytes as f64));
    m.lag_seconds.show(report.lag_seconds);
    m.seconds_to_exhaustion.show(report.seconds_to_exhaustion);
    m.seconds_to_full_disk.show(report.seconds_to_full_disk);
    let oldest = report.holding.first().map_or(0.0, |holder| holder.age_seconds);
    m.holding_transaction_seconds.show(Some(oldest));
    show_slot(m, report.slot.as_ref());
    show_walsender(m, report.walsender.as_ref());
    show_others(&m.others, &report.other_slots, &before.other_slots);
}

fn show_slot(m: &SlotMetrics, slot: Option<&SlotFigures>) {
    m.retained_wal_bytes.show(slot.and_then(|slot| slot.retained_wal_bytes).map(|n| n as f64));
    m.safe_wal_bytes.show(slot.and_then(|slot| slot.safe_wal_size).map(|n| n as f64));
    m.inactive_seconds.show(slot.map(|slot| slot.inactive_seconds));
    let status = slot.and_then(|slot| slot.wal_status.as_deref());
    for name in SlotMetrics::WAL_STATUSES {
        m.wal_status.with_label_values(&[name]).set(i64::from(status == Some(name)));
    }
    let says = |what: fn(&SlotFigures) -> bool| i64::from(slot.is_some_and(what));
    m.active.set(says(|slot| slot.active));
    m.invalidated.set(says(|slot| slot.invalidation_reason.is_some()));
    m.conflicting.set(says(|slot| slot.conflicting == Some(true)));
    m.failover.set(says(|slot| slot.failover == Some(true)));
    m.synced.set(says(|slot| slot.synced == Some(true)));
    let Some(decoding) = slot.and_then(|slot| slot.decoding) else { return m.decoding.reset() };
    for (counter, value) in [
        ("spilled_transactions", decoding.spilled_transactions),
        ("spilled_bytes", decoding.spilled_bytes),
        ("streamed_transactions", decoding.streamed_transactions),
        ("streamed_bytes", decoding.streamed_bytes),
        ("transactions", decoding.transactions),
        ("bytes", decoding.bytes),
    ] {
        m.decoding.with_label_values(&[counter]).set(value as f64);
    }
}

fn show_walsender(m: &SlotMetrics, sender: Option<&Walsender>) {
    for (stage, lag) in [
        ("sent", sender.and_then(|sender| sender.sent_lag_bytes)),
        ("write", sender.and_then(|sender| sender.write_lag_bytes)),
        ("flush", sender.and_then(|sender| sender.flush_lag_bytes)),
    ] {
        match lag {
            Some(lag) => m.walsender_lag_bytes.with_label_values(&[stage]).set(lag as f64),
            None => drop(m.walsender_lag_bytes.remove_label_values(&[stage])),
        }
    }
    let state = sender.and_then(|sender| sender.sync_state.as_deref());
    m.walsender_synchronous.set(i64::from(state.is_some_and(|state| state != "async")));
}

fn show_others(m: &OtherSlots, slots: &[SlotFigures], before: &[SlotFigures]) {
    for gone in before.iter().filter(|gone| slots.iter().all(|slot| slot.name != gone.name)) {
        for gauge in [&m.retained_wal_bytes, &m.safe_wal_bytes, &m.active] {
            drop(gauge.remove_label_values(&[gone.name.as_str()]));
        }
    }
    for slot in slots {
        let label = [slot.name.as_str()];
        m.active.with_label_values(&label).set(f64::from(u8::from(slot.active)));
        for (gauge, figure) in [
            (&m.retained_wal_bytes, slot.retained_wal_bytes.map(|bytes| bytes as f64)),
            (&m.safe_wal_bytes, slot.safe_wal_size.map(|bytes| bytes as f64)),
        ] {
            match figure {
                Some(figure) => gauge.with_label_values(&label).set(figure),
                None => drop(gauge.remove_label_values(&label)),
            }
        }
    }
}
