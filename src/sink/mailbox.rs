//! Where a sink's threads leave their reports for the relay.
//!
//! A lock around a vector, and one wake-up for however many reports gather before the relay looks:
//! at full speed that is one for hundreds of deliveries.
//!
//! A sink must know whether a report that changes what the relay may send has reached it: until
//! then the relay goes by what was true before. So reports are counted, in and out.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
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
    // Written with the lock held.
    taken: AtomicU64,
    arrived: Arc<Notify>,
}

impl Mailbox {
    /// A mailbox that rings `bell`, which several mailboxes may share.
    pub fn new(bell: Arc<Notify>) -> Self {
        Self { shared: Arc::new(Shared { arrived: bell, ..Shared::default() }) }
    }

    /// Leaves one report.
    pub fn put(&self, report: Report) {
        self.put_all(std::iter::once(report));
    }

    /// Leaves several reports at once: one lock and at most one wake-up for all of them. `reports`
    /// runs under the lock, so it must not wait.
    pub fn put_all(&self, reports: impl IntoIterator<Item = Report>) {
        self.put_all_noting(reports, |_| {});
    }

    /// Like [`Mailbox::put_all`]; `note` is given the last report's number, before anybody can take
    /// one of them: all have been taken once [`Mailbox::taken`] reaches it.
    pub fn put_all_noting(
        &self,
        reports: impl IntoIterator<Item = Report>,
        note: impl FnOnce(u64),
    ) {
        let has_news = {
            let mut waiting = self.lock();
            let was_empty = waiting.is_empty();
            waiting.extend(reports);
            note(self.taken() + waiting.len() as u64);
            was_empty && !waiting.is_empty()
        };
        // Whoever empties the vector sees everything in it, so only the first report must wake.
        if has_news {
            self.shared.arrived.notify_one();
        }
    }

    /// How many reports have been taken so far.
    pub fn taken(&self) -> u64 {
        self.shared.taken.load(Ordering::Acquire)
    }

    /// Leaves the outcome of one delivery.
    pub fn outcome(&self, id: DeliveryId, outcome: Outcome) {
        self.put(Report::Outcome(id, outcome));
    }

    /// Waits until there is something to take, where the bell is this mailbox's alone. Safe to drop
    /// and call again.
    pub async fn arrived(&self) {
        while self.lock().is_empty() {
            self.shared.arrived.notified().await;
        }
    }

    /// Takes everything, in order, in exchange for the empty `into`, whose room is used again. All
    /// of it must be acted on before anything else is handed to the sink.
    pub fn take(&self, into: &mut Vec<Report>) {
        debug_assert!(into.is_empty());
        let mut reports = self.lock();
        mem::swap(&mut *reports, into);
        self.shared.taken.fetch_add(into.len() as u64, Ordering::AcqRel);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Report>> {
        // A thread that panicked while it pushed leaves a whole vector behind.
        self.shared.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_report_counts_as_taken_only_once_it_is() {
        let (mailbox, mut number) = (Mailbox::default(), 0);
        mailbox.put(Report::Room);
        mailbox.take(&mut Vec::new());
        mailbox.put(Report::Room);
        mailbox.put_all_noting([Report::Room, Report::Room], |given| number = given);
        assert!(mailbox.taken() < number);
        mailbox.take(&mut Vec::new());
        assert_eq!(mailbox.taken(), number);
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
