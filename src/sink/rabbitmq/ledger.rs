//! Decides how deliveries ended, from the confirms that lapin gives out.
//!
//! RabbitMQ acknowledges an unroutable message like any other; that it was returned comes before, on
//! its own. lapin puts returned messages into a queue, and hangs the oldest one on whatever confirm
//! it completes next (`Acknowledgements::complete_pending`): on that of another message, where one
//! ack stands for several, since it completes those in no order. So an ack means nothing by itself:
//!
//! - A message that hangs on a confirm is matched by its exchange, routing key and message id. Every
//!   delivery that agrees in all three has been returned, for all that can be known.
//! - A confirm with *nothing* hanging on it was completed when lapin's queue was empty. The return
//!   of that delivery, had there been one, had come before its ack, and so hung on a confirm that was
//!   completed earlier: one that has been given out by now (see [`unconfirmed`](super::unconfirmed)).
//!   If none matches at the end of the drain, the broker has the event.
//! - A confirm with *another's* return on it says that the queue was not empty: the delivery's own
//!   return may still be in it. It stays in doubt until lapin's queue is known to have been empty
//!   later: a confirm with nothing on it, of a message that was published after this one was given
//!   out; or nothing is out any more (each message in the queue belongs to an unconfirmed delivery,
//!   or takes the place of one that does).
//!
//! Pure.

use tokio::time::Instant;

use super::message::Address;
use crate::sink::DeliveryId;

/// A published delivery.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: DeliveryId,
    pub(super) address: Address,
    /// Counts up with each publish on a channel.
    pub(super) number: u64,
    /// When it was published.
    pub(super) at: Instant,
    /// The reply code of its return, if that has been seen.
    pub(super) returned: Option<u16>,
}

/// What a confirm says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Ack,
    Nack,
}

/// A message that the broker gave back.
#[derive(Clone, Debug)]
pub(super) struct Return {
    pub(super) address: Address,
    /// 312: no queue is bound for it.
    pub(super) code: u16,
}

/// How a delivery ended.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The broker has it.
    Acknowledged,
    /// The broker would not take it now.
    Nacked,
    /// No queue took it; the reply code says why.
    Returned(u16),
}

/// The confirms of one channel.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The next publish's number.
    next: u64,
    confirmed: Vec<(Sent, Word, bool)>,
    returns: Vec<Return>,
    /// Acknowledged with another's return on it, and the next publish's number at that time.
    doubtful: Vec<(Sent, u64)>,
}

impl Ledger {
    /// A delivery that is published now.
    pub(super) fn send(&mut self, id: DeliveryId, address: Address, at: Instant) -> Sent {
        let number = self.next;
        self.next += 1;
        Sent { id, address, number, at, returned: None }
    }

    /// Takes a confirm that was given out, and the message that hung on it.
    pub(super) fn confirm(&mut self, sent: Sent, word: Word, carried: Option<Return>) {
        self.confirmed.push((sent, word, carried.is_none()));
        self.returns.extend(carried);
    }

    /// Deliveries that were acknowledged, and may still turn out to have been returned.
    pub(super) fn in_doubt(&self) -> usize {
        self.doubtful.len()
    }

    /// Everything completed has been given out: says how deliveries ended. `out` is what is still
    /// unconfirmed.
    pub(super) fn conclude<'a>(
        &mut self,
        out: impl Iterator<Item = &'a mut Sent>,
        mut end: impl FnMut(Sent, Verdict),
    ) {
        let is_all_in = self.mark(out);
        let clean = self.confirmed.iter().filter(|(_, _, is_clean)| *is_clean);
        let latest_clean = clean.map(|(sent, ..)| sent.number).max();
        for (sent, word, is_clean) in self.confirmed.drain(..) {
            match (sent.returned, word) {
                (Some(code), _) => end(sent, Verdict::Returned(code)),
                (None, Word::Nack) => end(sent, Verdict::Nacked),
                (None, Word::Ack) if is_clean => end(sent, Verdict::Acknowledged),
                (None, Word::Ack) => self.doubtful.push((sent, self.next)),
            }
        }
        if self.doubtful.is_empty() {
            return;
        }
        let is_settled = |(sent, since): &mut (Sent, u64)| {
            sent.returned.is_some()
                || is_all_in
                || latest_clean.is_some_and(|number| number >= *since)
        };
        for (sent, _) in self.doubtful.extract_if(.., is_settled) {
            match sent.returned {
                Some(code) => end(sent, Verdict::Returned(code)),
                None => end(sent, Verdict::Acknowledged),
            }
        }
    }

    /// Marks what was returned; whether nothing is out.
    fn mark<'a>(&mut self, out: impl Iterator<Item = &'a mut Sent>) -> bool {
        let (mut is_all_in, returns) = (true, std::mem::take(&mut self.returns));
        let mark = |sent: &mut Sent| {
            if let Some(found) = returns.iter().find(|found| found.address == sent.address) {
                sent.returned = Some(found.code);
            }
        };
        for sent in out {
            is_all_in = false;
            if returns.is_empty() {
                return is_all_in;
            }
            mark(sent);
        }
        if !returns.is_empty() {
            self.confirmed.iter_mut().for_each(|(sent, ..)| mark(sent));
            self.doubtful.iter_mut().for_each(|(sent, _)| mark(sent));
        }
        is_all_in
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::sync::Arc;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn address(id: u64) -> Address {
        Address {
            exchange: Arc::from("x"),
            routing_key: Arc::from("k"),
            message_id: Bytes::from(id.to_string()),
        }
    }

    fn returned(id: u64) -> Option<Return> {
        Some(Return { address: address(id), code: 312 })
    }

    fn concluded(ledger: &mut Ledger, out: &mut [Sent]) -> Vec<(u64, bool)> {
        let mut ended = Vec::new();
        ledger.conclude(out.iter_mut(), |sent, verdict| {
            ended.push((sent.id.0, matches!(verdict, Verdict::Acknowledged)));
        });
        ended
    }

    fn send(ledger: &mut Ledger, id: u64) -> Sent {
        ledger.send(DeliveryId(id), address(id), Instant::now())
    }

    #[test]
    fn a_return_counts_whichever_confirm_it_hangs_on() {
        let mut ledger = Ledger::default();
        let (lost, fine) = (send(&mut ledger, 1), send(&mut ledger, 2));
        ledger.confirm(fine, Word::Ack, returned(1));
        ledger.confirm(lost, Word::Ack, None);
        assert_eq!(concluded(&mut ledger, &mut []), [(1, false), (2, true)]);
    }

    #[test]
    fn an_ack_with_anothers_return_on_it_stays_in_doubt() {
        let mut ledger = Ledger::default();
        let (first, second) = (send(&mut ledger, 1), send(&mut ledger, 2));
        let mut out = vec![send(&mut ledger, 3), first];
        // The second's own return is still in lapin's queue, behind the first's.
        ledger.confirm(second, Word::Ack, returned(1));
        assert!(concluded(&mut ledger, &mut out).is_empty());
        ledger.confirm(out.pop().unwrap(), Word::Ack, returned(2));
        assert_eq!(concluded(&mut ledger, &mut out), [(1, false), (2, false)]);
    }

    #[test]
    fn doubt_ends_with_a_bare_ack_of_what_was_published_later() {
        let mut ledger = Ledger::default();
        let (first, second) = (send(&mut ledger, 1), send(&mut ledger, 2));
        let mut out = vec![first, send(&mut ledger, 3)];
        ledger.confirm(second, Word::Ack, returned(1));
        assert!(concluded(&mut ledger, &mut out).is_empty());
        // Published before: it may have been completed before.
        ledger.confirm(out.pop().unwrap(), Word::Ack, None);
        assert_eq!(concluded(&mut ledger, &mut out), [(3, true)]);
        let later = send(&mut ledger, 4);
        ledger.confirm(later, Word::Ack, None);
        assert_eq!(concluded(&mut ledger, &mut out), [(4, true), (2, true)]);
    }

    #[test]
    fn whatever_agrees_has_been_returned() {
        let mut ledger = Ledger::default();
        let twins = [(); 3].map(|()| ledger.send(DeliveryId(7), address(7), Instant::now()));
        let [first, second, third] = twins;
        ledger.confirm(first, Word::Ack, returned(7));
        ledger.confirm(second, Word::Ack, None);
        let mut out = [third];
        assert_eq!(concluded(&mut ledger, &mut out), [(7, false), (7, false)]);
        assert_eq!(out[0].returned, Some(312));
    }

    #[test]
    fn a_nack_is_told_at_once() {
        let mut ledger = Ledger::default();
        let (first, mut out) = (send(&mut ledger, 1), [send(&mut ledger, 2)]);
        ledger.confirm(first, Word::Nack, returned(2));
        assert_eq!(concluded(&mut ledger, &mut out), [(1, false)]);
    }

    /// One step of a channel's life.
    #[derive(Clone, Debug)]
    enum Step {
        Publish {
            routable: bool,
        },
        /// The broker's process takes the next publish: a return, if it is unroutable.
        Take,
        /// The broker acknowledges that many of what it took; lapin completes them in an order that
        /// the number gives.
        Ack(usize, u64),
        /// A number of confirms that lapin's thread has completed; then we drain.
        Drain(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any::<bool>().prop_map(|routable| Step::Publish { routable }),
            4 => Just(Step::Take),
            2 => (1usize..6, any::<u64>()).prop_map(|(count, order)| Step::Ack(count, order)),
            3 => (0usize..6).prop_map(Step::Drain),
        ]
    }

    /// lapin and a broker, as far as confirms and returns go.
    #[derive(Default)]
    struct Channel {
        published: VecDeque<(Sent, bool)>,
        taken: Vec<Sent>,
        waiting: VecDeque<u64>,
        completed: VecDeque<(Sent, Option<Return>)>,
        routable: BTreeMap<u64, bool>,
    }

    impl Channel {
        fn publish(&mut self, ledger: &mut Ledger, routable: bool) {
            let id = self.routable.len() as u64;
            self.routable.insert(id, routable);
            self.published.push_back((send(ledger, id), routable));
        }

        fn take(&mut self) {
            if let Some((sent, routable)) = self.published.pop_front() {
                if !routable {
                    self.waiting.push_back(sent.id.0);
                }
                self.taken.push(sent);
            }
        }

        fn ack(&mut self, count: usize, order: u64) {
            let count = count.min(self.taken.len());
            let mut acked: Vec<Sent> = self.taken.drain(..count).collect();
            acked.sort_by_key(|sent| (sent.id.0 ^ order).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for sent in acked {
                let carried = self.waiting.pop_front().and_then(returned);
                self.completed.push_back((sent, carried));
            }
        }

        fn drain(&mut self, ledger: &mut Ledger, count: usize, acked: &mut Vec<u64>) {
            let count = count.min(self.completed.len());
            for (sent, carried) in self.completed.drain(..count) {
                ledger.confirm(sent, Word::Ack, carried);
            }
            let rest = self.completed.iter_mut().map(|(sent, _)| sent);
            let taken = self.taken.iter_mut();
            let published = self.published.iter_mut().map(|(sent, _)| sent);
            ledger.conclude(rest.chain(taken).chain(published), |sent, verdict| match verdict {
                Verdict::Acknowledged => {
                    assert!(self.routable[&sent.id.0], "{} was returned", sent.id.0);
                    acked.push(sent.id.0);
                }
                _ => assert!(!self.routable[&sent.id.0], "{} was not returned", sent.id.0),
            });
        }
    }

    proptest! {
        #[test]
        fn nothing_returned_is_acknowledged(steps in prop::collection::vec(step(), 0..120)) {
            let (mut ledger, mut channel, mut acked) = <(Ledger, Channel, Vec<u64>)>::default();
            for step in steps {
                match step {
                    Step::Publish { routable } => channel.publish(&mut ledger, routable),
                    Step::Take => channel.take(),
                    Step::Ack(count, order) => channel.ack(count, order),
                    Step::Drain(count) => channel.drain(&mut ledger, count, &mut acked),
                }
            }
            for _ in 0..channel.published.len() {
                channel.take();
            }
            channel.ack(usize::MAX, 1);
            channel.drain(&mut ledger, usize::MAX, &mut acked);
            prop_assert_eq!(ledger.in_doubt(), 0);
            acked.sort_unstable();
            let routable = channel.routable.iter().filter(|(_, routable)| **routable);
            prop_assert!(routable.map(|(id, _)| *id).eq(acked));
        }
    }
}
