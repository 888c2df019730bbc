//! What was published and not confirmed yet, as futures that are polled when they are woken.
//!
//! A place for each, used again and again, instead of a task or an allocation for each. Each place
//! has its own waker, which puts the place's number into a list.
//!
//! [`Unconfirmed::drain`] promises more than a set of futures usually does: *when it returns, it has
//! given out each future that was completed before any other that it has given out.* It holds if,
//! and it needs that,
//!
//! - whoever completes futures wakes them before he completes the next one (lapin's thread does:
//!   `Promise::set` stores the value and then notifies, which calls our waker, before
//!   `Acknowledgements` goes on to the next delivery tag), and
//! - a future once polled is either ready or sees to it that its waker is called (lapin's promises
//!   listen before they look).
//!
//! For let Y be completed before X, and X be given out. X was seen completed, so Y's completion and
//! its call of the waker have happened by then: Y's number was put into the list. It was taken out
//! before or in the loop that looks at the list until it is empty, and Y was polled after it was
//! taken out, so after it was completed: it was ready. A future that was still at an earlier `await`
//! (the frames are not on the wire yet) when Y was completed is no exception: that `await` too had
//! been woken by then, since lapin's thread writes before it reads the answer, and polling goes on
//! to where the future is ready.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::Notify;

/// Futures `F`, each with an item `T` that it is about.
pub(super) struct Unconfirmed<T, F: Future> {
    places: Vec<Place<T, F>>,
    free: Vec<usize>,
    /// Completed when they were begun.
    at_once: Vec<(T, F::Output)>,
    woken: Arc<Woken>,
    taken: Vec<usize>,
}

struct Place<T, F> {
    waker: Waker,
    future: Option<F>,
    item: Option<T>,
}

/// Places whose futures may have got on.
#[derive(Debug)]
struct Woken {
    places: Mutex<Vec<usize>>,
    bell: Arc<Notify>,
}

#[derive(Debug)]
struct PlaceWaker {
    place: usize,
    woken: Arc<Woken>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_first = {
            let mut places = self.woken.lock();
            places.push(self.place);
            places.len() == 1
        };
        // Whoever empties the list sees everything in it.
        if is_first {
            self.woken.bell.notify_one();
        }
    }
}

impl Woken {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, F: Future + Unpin> Unconfirmed<T, F> {
    /// None yet; `bell` is rung when something may be there to drain.
    pub(super) fn new(bell: Arc<Notify>) -> Self {
        let woken = Arc::new(Woken { places: Mutex::default(), bell });
        let (places, free, at_once) = (Vec::new(), Vec::new(), Vec::new());
        Self { places, free, at_once, woken, taken: Vec::new() }
    }

    /// Begins `future`, which has done by the return what it does before it first waits.
    pub(super) fn begin(&mut self, item: T, future: F) {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.add_place(),
        };
        let Some(place) = self.places.get_mut(index) else { return };
        place.future = Some(future);
        match place.poll() {
            Poll::Pending => place.item = Some(item),
            Poll::Ready(output) => {
                place.future = None;
                self.free.push(index);
                self.at_once.push((item, output));
                self.woken.bell.notify_one();
            }
        }
    }

    /// Gives everything to `out` that is completed.
    pub(super) fn drain(&mut self, mut out: impl FnMut(T, F::Output)) {
        self.at_once.drain(..).for_each(|(item, output)| out(item, output));
        let mut taken = std::mem::take(&mut self.taken);
        loop {
            std::mem::swap(&mut *self.woken.lock(), &mut taken);
            if taken.is_empty() {
                break;
            }
            for index in taken.drain(..) {
                let Some(place) = self.places.get_mut(index) else { continue };
                if let Poll::Ready(output) = place.poll()
                    && let Some(item) = place.item.take()
                {
                    place.future = None;
                    self.free.push(index);
                    out(item, output);
                }
            }
        }
        self.taken = taken;
    }

    /// What is not completed, in no order.
    pub(super) fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.item.as_mut())
    }

    /// What is not completed, in no order.
    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.item.as_ref())
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len() + self.at_once.len()
    }

    fn add_place(&mut self) -> usize {
        let place = self.places.len();
        let waker = Waker::from(Arc::new(PlaceWaker { place, woken: Arc::clone(&self.woken) }));
        self.places.push(Place { waker, future: None, item: None });
        place
    }
}

impl<T, F: Future + Unpin> Place<T, F> {
    /// Pending where there is no future.
    fn poll(&mut self) -> Poll<F::Output> {
        let mut context = Context::from_waker(&self.waker);
        match &mut self.future {
            Some(future) => Pin::new(future).poll(&mut context),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    type Receiver = oneshot::Receiver<u64>;

    fn drained(unconfirmed: &mut Unconfirmed<u64, Receiver>) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        unconfirmed.drain(|item, output| out.push((item, output.unwrap())));
        out
    }

    #[tokio::test]
    async fn what_is_completed_is_given_out_once() {
        let bell = Arc::new(Notify::new());
        let mut unconfirmed = Unconfirmed::new(Arc::clone(&bell));
        let (first, receiver) = oneshot::channel();
        unconfirmed.begin(1, receiver);
        let (second, receiver) = oneshot::channel();
        unconfirmed.begin(2, receiver);
        assert!(drained(&mut unconfirmed).is_empty());
        second.send(20).unwrap();
        bell.notified().await;
        assert_eq!(drained(&mut unconfirmed), [(2, 20)]);
        let (third, receiver) = oneshot::channel();
        third.send(30).unwrap();
        unconfirmed.begin(3, receiver);
        first.send(10).unwrap();
        bell.notified().await;
        assert_eq!(drained(&mut unconfirmed), [(3, 30), (1, 10)]);
        assert_eq!(unconfirmed.len(), 0);
    }

    /// Another thread completes in an order of its own; what was given out after each drain must be a
    /// beginning of that order. As with lapin, each future waits twice.
    #[test]
    fn what_was_completed_earlier_is_given_out_no_later() {
        const EACH: u64 = 200;
        let mut unconfirmed = Unconfirmed::new(Arc::new(Notify::new()));
        for round in 0..1000 {
            let (mut sents, mut confirms) = (Vec::new(), Vec::new());
            for item in 0..EACH {
                let (sent, is_sent) = oneshot::channel();
                let (confirm, confirmed) = oneshot::channel::<u64>();
                unconfirmed.begin(
                    item,
                    Box::pin(async move {
                        is_sent.await.unwrap();
                        confirmed.await.unwrap()
                    }),
                );
                sents.push(sent);
                confirms.push((item, confirm));
            }
            confirms.sort_by_key(|(item, _)| (item * 7919 + round) % EACH);
            let completer = thread::spawn(move || {
                sents.into_iter().for_each(|sent| sent.send(()).unwrap());
                for (place, (_, confirm)) in (0..EACH).zip(confirms) {
                    confirm.send(place).unwrap();
                }
            });
            let mut given = Vec::new();
            while given.len() as u64 != EACH {
                unconfirmed.drain(|_, place| given.push(place));
                let mut sorted = given.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..given.len() as u64), "a hole in {given:?}");
            }
            completer.join().unwrap();
        }
    }
}
