//! Takes every event and acknowledges it from another thread: what stands before a sink, measured
//! and tested without one.
//!
//! Brokers acknowledge in batches and out of order, so this does too.

use std::sync::Arc;
use std::{io, thread};

use super::exchange::{Exchange, More};
use super::{DeliveryId, Mailbox, Outcome, Report};

/// How many deliveries change hands at once, about what a Kafka batch of small events holds.
const BATCH: usize = 512;

/// A running null sink.
#[derive(Debug)]
pub struct NullSink {
    gathered: Vec<DeliveryId>,
    // Not bounded here: only unsettled deliveries are in it, and the window bounds those.
    deliveries: Arc<Exchange<Vec<DeliveryId>>>,
}

impl NullSink {
    /// Starts the thread that acknowledges into `mailbox`.
    ///
    /// # Errors
    ///
    /// Where the system has no thread left.
    pub fn start(mailbox: Mailbox) -> io::Result<Self> {
        let deliveries = Arc::<Exchange<_>>::default();
        let taken = Arc::clone(&deliveries);
        thread::Builder::new()
            .name("null-sink".to_owned())
            .spawn(move || acknowledge(&taken, &mailbox))?;
        Ok(Self { gathered: Vec::with_capacity(BATCH), deliveries })
    }

    /// Takes one delivery; there is always room.
    pub fn enqueue(&mut self, id: DeliveryId) -> bool {
        self.gathered.push(id);
        if self.gathered.len() >= BATCH {
            self.seal();
        }
        true
    }

    /// Lets everything taken so far be acknowledged.
    pub fn seal(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        self.deliveries.fill(|deliveries| deliveries.append(&mut self.gathered));
        self.deliveries.seal();
    }
}

impl Drop for NullSink {
    fn drop(&mut self) {
        self.seal();
        self.deliveries.close();
    }
}

/// Acknowledges until the sink is dropped: each batch backwards.
fn acknowledge(deliveries: &Exchange<Vec<DeliveryId>>, mailbox: &Mailbox) {
    let mut taken = Vec::new();
    loop {
        let more = deliveries.take(&mut taken);
        for batch in taken.chunks(BATCH) {
            let backwards = batch.iter().rev();
            mailbox.put_all(backwards.map(|id| Report::Outcome(*id, Outcome::Acknowledged)));
        }
        taken.clear();
        if more == More::Never {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn acknowledged(mailbox: &Mailbox, count: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        while ids.len() < count {
            mailbox.arrived().await;
            let mut reports = Vec::new();
            mailbox.take(&mut reports);
            ids.extend(reports.into_iter().filter_map(|report| match report {
                Report::Outcome(id, Outcome::Acknowledged) => Some(id.0),
                _ => None,
            }));
        }
        ids
    }

    #[tokio::test]
    async fn everything_is_acknowledged_once_and_out_of_order() {
        let mailbox = Mailbox::default();
        let mut sink = NullSink::start(mailbox.clone()).unwrap();
        for id in 0..2000 {
            assert!(sink.enqueue(DeliveryId(id)));
        }
        sink.seal();
        let mut ids = acknowledged(&mailbox, 2000).await;
        assert!(!ids.is_sorted());
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..2000));
    }

    #[tokio::test]
    async fn a_full_batch_does_not_wait_for_the_seal() {
        let mailbox = Mailbox::default();
        let mut sink = NullSink::start(mailbox.clone()).unwrap();
        for id in 0..600 {
            sink.enqueue(DeliveryId(id));
        }
        assert_eq!(acknowledged(&mailbox, BATCH).await.len(), BATCH);
    }
}
