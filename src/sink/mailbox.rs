//! Where a sink's threads leave their reports for the relay.
//!
//! A lock around a vector, and one wake-up for however many reports gather before the relay looks:
//! at full speed that is one for hundreds of deliveries.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::{DeliveryId, Outcome, Report};

/// One end that sink threads put reports in and the relay takes them out of, in order; cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub struct Mailbox {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    reports: Mutex<Vec<Report>>,
    arrived: Notify,
}

impl Mailbox {
    /// Leaves one report.
    pub fn put(&self, report: Report) {
        let was_empty = {
            let mut reports = self.lock();
            reports.push(report);
            reports.len() == 1
        };
        // Whoever empties the vector sees everything in it, so only the first report must wake.
        if was_empty {
            self.shared.arrived.notify_one();
        }
    }

    /// Leaves several reports at once: one lock and at most one wake-up for all of them. `reports`
    /// runs under the lock, so it must not wait.
    pub fn put_all(&self, reports: impl IntoIterator<Item = Report>) {
        let has_news = {
            let mut waiting = self.lock();
            let was_empty = waiting.is_empty();
            waiting.extend(reports);
            was_empty && !waiting.is_empty()
        };
        if has_news {
            self.shared.arrived.notify_one();
        }
    }

    /// Leaves the outcome of one delivery.
    pub fn outcome(&self, id: DeliveryId, outcome: Outcome) {
        self.put(Report::Outcome(id, outcome));
    }

    /// Waits until there is something to take. Safe to drop and call again.
    pub async fn arrived(&self) {
        while self.lock().is_empty() {
            self.shared.arrived.notified().await;
        }
    }

    /// Takes everything, in order, in exchange for the empty `into`, whose room is used again.
    pub fn take(&self, into: &mut Vec<Report>) {
        debug_assert!(into.is_empty());
        mem::swap(&mut *self.lock(), into);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Report>> {
        // A thread that panicked while it pushed leaves a whole vector behind.
        self.shared.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pace;
    use super::*;

    #[tokio::test]
    async fn reports_come_out_in_the_order_they_went_in() {
        let mailbox = Mailbox::default();
        for id in 0..3 {
            mailbox.outcome(DeliveryId(id), Outcome::Acknowledged);
        }
        mailbox.arrived().await;
        let mut reports = Vec::new();
        mailbox.take(&mut reports);
        let ids: Vec<u64> = reports
            .iter()
            .filter_map(|report| match report {
                Report::Outcome(id, _) => Some(id.0),
                _ => None,
            })
            .collect();
        assert_eq!(ids, [0, 1, 2]);
    }

    #[tokio::test]
    async fn reports_left_at_once_wake_once_and_keep_their_order() {
        let mailbox = Mailbox::default();
        mailbox.put_all([]);
        mailbox.put_all([Report::Room, Report::Reset(Pace::SlowStart)]);
        mailbox.put_all([Report::Room]);
        mailbox.arrived().await;
        let mut reports = Vec::new();
        mailbox.take(&mut reports);
        assert!(matches!(reports[..], [Report::Room, Report::Reset(_), Report::Room]));
    }

    #[tokio::test]
    async fn a_report_after_taking_wakes_again() {
        let mailbox = Mailbox::default();
        mailbox.put(Report::Room);
        mailbox.arrived().await;
        mailbox.take(&mut Vec::new());
        let other = mailbox.clone();
        let waiter = tokio::spawn(async move { other.arrived().await });
        tokio::task::yield_now().await;
        mailbox.put(Report::Room);
        waiter.await.unwrap();
    }
}
