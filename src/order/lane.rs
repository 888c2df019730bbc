//! One lane: what of it waits, and how much of it may be with the sink.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::sink::Pace;

/// A lane without an ack for this long starts slowly again. Well under the 24 h after which Kafka
/// forgets an idle producer by default (`producer.id.expiration.ms`).
pub(super) const COLD_AFTER: Duration = Duration::from_secs(30 * 60);

/// Events of one lane that may be with the sink at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Before the lane's first ack.
    pub cold: usize,
    /// After it.
    pub warm: usize,
    /// Lanes are many and short: one that is empty is forgotten, with the time of its last ack.
    pub forgets: bool,
}

impl Limits {
    /// No limit at all.
    pub const NONE: Self = Self { cold: usize::MAX, warm: usize::MAX, forgets: false };
    /// One before the first ack, then no limit: Kafka's partitions.
    pub const SLOW_START: Self = Self { cold: 1, warm: usize::MAX, forgets: false };

    /// So many, whatever was acknowledged: RabbitMQ's ordering keys.
    pub const fn fixed(limit: usize) -> Self {
        Self { cold: limit, warm: limit, forgets: true }
    }
}

/// The state of one lane.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    /// Ready or out.
    pub(super) admitted: usize,
    /// In rising order.
    pub(super) waiting: VecDeque<u64>,
    pub(super) last_ack: Option<Instant>,
    /// The sink cannot send here at the moment.
    pub(super) closed: bool,
    /// Nothing from this delivery on may be handed over: it is a poison event.
    pub(super) held: Option<u64>,
    /// Nothing may be handed over before then: something came back.
    pub(super) paused: Option<Instant>,
}

impl LaneState {
    pub(super) fn limit(&self, pace: Pace, limits: Limits, now: Instant) -> usize {
        if self.closed || self.paused.is_some() {
            return 0;
        }
        if pace == Pace::OneByOne {
            return 1;
        }
        let warm = self.last_ack.is_some_and(|ack| now.duration_since(ack) < COLD_AFTER);
        if warm { limits.warm } else { limits.cold }
    }

    pub(super) fn is_held(&self, id: u64) -> bool {
        self.held.is_some_and(|held| id >= held)
    }

    /// `id`, which had been admitted, waits again, before what is later.
    pub(super) fn take_back(&mut self, id: u64) {
        self.admitted -= 1;
        let place = self.waiting.partition_point(|waiting| *waiting < id);
        self.waiting.insert(place, id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.admitted == 0 && self.waiting.is_empty() && self.paused.is_none()
    }
}
