//! What a relay is doing, in the words that operators see.
//!
//! Several parts of a relay have something to say at once: a sink that is blocked, an event that
//! halts it, a stop that was asked for. [`combine`] makes one state of them, and [`RelayStatus`] is
//! what the relay publishes (by `tokio::sync::watch`) for whoever answers questions.

use serde::{Serialize, Serializer};

use crate::failure::Failure;
use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

/// The state of one relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// Not streaming yet, or again after a connection was lost.
    Starting {
        /// What it does, or what has failed and is tried again.
        reason: String,
    },
    /// Everything but the slot was checked; another relay holds it.
    Standby {
        /// Who holds the slot, as PostgreSQL shows it.
        holder: String,
    },
    /// Events flow, or would if there were any.
    Streaming,
    /// A sink takes nothing, or a destination does not move.
    Blocked {
        /// Which, and why.
        reason: String,
    },
    /// Somebody must act; nothing past the cause is confirmed.
    Halted {
        /// What is wrong.
        reason: String,
        /// What to type.
        hint: Option<String>,
    },
    /// A stop was asked for, or a reload: what is with the brokers is waited for.
    Stopping {
        /// What is waited for.
        reason: String,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Starting { reason: "connecting to PostgreSQL and the brokers".to_owned() }
    }
}

impl State {
    /// The names of all states, for the metric `state`.
    pub const NAMES: [&'static str; 6] =
        ["starting", "standby", "streaming", "blocked", "halted", "stopping"];

    /// Somebody must act on this.
    pub fn halted(failure: &Failure) -> Self {
        let hint = failure.way_out().map(str::to_owned);
        Self::Halted { reason: failure.to_string(), hint }
    }

    /// The state's name: in metrics, logs and `/status`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Starting { .. } => "starting",
            Self::Standby { .. } => "standby",
            Self::Streaming => "streaming",
            Self::Blocked { .. } => "blocked",
            Self::Halted { .. } => "halted",
            Self::Stopping { .. } => "stopping",
        }
    }

    /// Whether `/readyz` answers 200.
    pub const fn is_ready(&self) -> bool {
        matches!(self, Self::Streaming | Self::Standby { .. })
    }

    /// Why the relay does not stream, where there is more to say than the state's name.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Standby { holder } => Some(holder),
            Self::Starting { reason }
            | Self::Blocked { reason }
            | Self::Halted { reason, .. }
            | Self::Stopping { reason } => Some(reason),
            Self::Streaming => None,
        }
    }

    /// The higher rank is shown.
    const fn rank(&self) -> u8 {
        match self {
            Self::Streaming => 0,
            Self::Starting { .. } => 1,
            Self::Standby { .. } => 2,
            Self::Blocked { .. } => 3,
            Self::Halted { .. } => 4,
            Self::Stopping { .. } => 5,
        }
    }

    /// One state for two: the higher rank; of one rank, both reasons.
    fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Blocked { reason: one }, Self::Blocked { reason: other }) => {
                Self::Blocked { reason: join(one, &other) }
            }
            (Self::Halted { reason: one, hint }, Self::Halted { reason: other, hint: next }) => {
                Self::Halted { reason: join(one, &other), hint: join_hints(hint, next) }
            }
            (one, other) if other.rank() > one.rank() => other,
            (one, _) => one,
        }
    }
}

/// One state of all that the parts of a relay report: stopping before halted, blocked, standby,
/// starting and streaming. Several reasons of the state that wins are all named; nothing reported
/// is streaming.
pub fn combine(states: impl IntoIterator<Item = State>) -> State {
    states.into_iter().fold(State::Streaming, State::merge)
}

fn join(mut one: String, other: &str) -> String {
    // Two destinations can be blocked by one cause; it is named once.
    if !one.split("; ").any(|reason| reason == other) {
        one.push_str("; ");
        one.push_str(other);
    }
    one
}

fn join_hints(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(join(one, &other)),
        (one, other) => one.or(other),
    }
}

/// All that a relay tells about itself; the JSON of `/status` shows it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelayStatus {
    /// What it is doing.
    #[serde(flatten)]
    pub state: State,
    /// The slot; `None` before a temporary one has its name.
    pub slot: Option<String>,
    /// The position last confirmed to the server.
    #[serde(serialize_with = "as_text")]
    pub confirmed: Lsn,
    /// The end of the server's WAL, as last heard from it.
    #[serde(serialize_with = "as_text")]
    pub received: Lsn,
    /// Unsettled events.
    pub window_events: u64,
    /// Bytes of source buffers that unsettled events hold.
    pub window_bytes: u64,
    /// Commit time of the oldest unsettled event.
    pub oldest_unacknowledged: Option<Timestamp>,
    /// The event that holds the confirmed position back; `None` where nothing is unsettled.
    pub blocked_by: Option<HoldsBack>,
    /// The sinks, in the configuration's order.
    pub sinks: Vec<SinkStatus>,
    /// The events that halt it, oldest first; a bounded number of them.
    pub halted_events: Vec<HaltedEvent>,
    /// What the publication leaves out: while it does, idle positions are not confirmed.
    pub publication_gap: Option<PublicationGap>,
    /// What last went wrong; it stays when that is over.
    pub last_error: Option<LastError>,
    /// When it began with the configuration in force.
    pub started_at: Timestamp,
    /// How often the replication connection was made again.
    pub reconnects: u64,
}

impl RelayStatus {
    /// WAL bytes that the slot still keeps for this relay, as far as the server has told.
    pub const fn confirmed_lag_bytes(&self) -> u64 {
        self.received.bytes_since(self.confirmed)
    }
}

/// The oldest event that is not settled: nothing past it is confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HoldsBack {
    /// The row's id as text.
    pub event: String,
    /// The sink it goes to; empty where it has none.
    pub sink: String,
    /// Where to within the sink.
    pub destination: String,
    /// When it was committed.
    pub committed_at: Timestamp,
    /// Why it is not settled, where there is more to say than that it is under way.
    pub reason: Option<String>,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// When.
    pub at: Timestamp,
    /// What.
    pub reason: String,
}

/// One sink as `/status` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SinkStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Whether its broker is connected.
    pub connected: bool,
    /// What does not move; a bounded number of it.
    pub blocked: Vec<BlockedDestination>,
    /// Events that it acknowledged since the process began.
    pub delivered: u64,
}

/// A destination that does not move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedDestination {
    /// The destination; `None` is the whole sink.
    pub destination: Option<String>,
    /// Why.
    pub reason: String,
}

/// A publication that does not give every event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicationGap {
    /// What it leaves out.
    pub reason: String,
    /// What to type.
    pub hint: Option<String>,
}

/// An event that can never be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HaltedEvent {
    /// The row's id as text.
    pub id: String,
    /// Where it should have gone.
    pub destination: String,
    /// Why it cannot.
    pub reason: String,
}

fn as_text<S: Serializer>(lsn: &Lsn, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(lsn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(reason: &str) -> State {
        State::Blocked { reason: reason.to_owned() }
    }

    fn halted(reason: &str, hint: Option<&str>) -> State {
        State::Halted { reason: reason.to_owned(), hint: hint.map(str::to_owned) }
    }

    fn stopping() -> State {
        State::Stopping { reason: "1 event".to_owned() }
    }

    fn standby() -> State {
        State::Standby { holder: "pid 7".to_owned() }
    }

    #[test]
    fn the_weightiest_state_wins_whatever_the_order() {
        let by_weight = [
            State::Streaming,
            State::default(),
            standby(),
            blocked("topic `a`"),
            halted("event `1`", None),
            stopping(),
        ];
        for (index, heavier) in by_weight.iter().enumerate() {
            for lighter in &by_weight[..index] {
                assert_eq!(&combine([lighter.clone(), heavier.clone()]), heavier);
                assert_eq!(&combine([heavier.clone(), lighter.clone()]), heavier);
            }
        }
    }

    #[test]
    fn nothing_to_report_is_streaming() {
        assert_eq!(combine([]), State::Streaming);
    }

    #[test]
    fn every_reason_of_the_state_in_force_is_named_once() {
        let states = [blocked("topic `a`"), blocked("topic `b`"), blocked("topic `a`")];
        assert_eq!(combine(states), blocked("topic `a`; topic `b`"));
        let states = [halted("event `1`", None), halted("no grant", Some("GRANT …"))];
        assert_eq!(combine(states), halted("event `1`; no grant", Some("GRANT …")));
    }

    #[test]
    fn only_streaming_and_standby_are_ready() {
        assert!(State::Streaming.is_ready() && standby().is_ready());
        for state in [State::default(), blocked("x"), halted("x", None), stopping()] {
            assert!(!state.is_ready(), "{}", state.name());
        }
    }

    #[test]
    fn status_shows_positions_and_times_as_text() {
        let status = RelayStatus {
            state: halted("event `1` is too large", Some("run --skip 1")),
            confirmed: Lsn::new(0x16_B374_D848),
            started_at: Timestamp::from_micros(1_767_323_045_000_000),
            ..RelayStatus::default()
        };
        let json = serde_json::to_value(status).unwrap();
        assert_eq!(json["state"], "halted");
        assert_eq!(json["reason"], "event `1` is too large");
        assert_eq!(json["hint"], "run --skip 1");
        assert_eq!(json["confirmed"], "16/B374D848");
        assert_eq!(json["started_at"], "2026-01-02T03:04:05.000000Z");
    }
}
