//! The least relay that keeps the sink's contract.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pgoutbox::config::KafkaConfig;
use pgoutbox::failure::Failure;
use pgoutbox::metrics::Metrics;
use pgoutbox::outbox::{OutboxEvent, RoleSource, Shape, Transaction, Tuple};
use pgoutbox::routing::{Destination, Headers, RoutedEvent, SinkIndex};
use pgoutbox::sink::kafka::{KafkaSink, Start, Window};
use pgoutbox::sink::{DeliveryId, Lane, Mailbox, Outcome, Pace, Report};

use super::broker::{Broker, Topic};

/// What becomes of a poison event.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Policy {
    /// Its lane is held until the test settles it.
    Halt,
    /// It is settled.
    Drop,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Waiting,
    Out,
    Settled,
    Poison,
}

pub(crate) struct Relay {
    sink: KafkaSink,
    mailbox: Mailbox,
    events: Vec<(RoutedEvent, State)>,
    pace: Pace,
    warm: HashSet<Lane>,
    blocked: BTreeMap<Option<String>, String>,
    pub(crate) policy: Policy,
    pub(crate) poison: Vec<(u64, Failure)>,
}

impl Relay {
    pub(crate) async fn start(broker: &Broker, topics: &[&Topic]) -> Self {
        Self::try_start(broker, topics).await.expect("the sink starts")
    }

    pub(crate) async fn try_start(broker: &Broker, topics: &[&Topic]) -> Result<Self, Failure> {
        let config = broker.config();
        Self::with(&config, topics).await
    }

    pub(crate) async fn with(config: &KafkaConfig, topics: &[&Topic]) -> Result<Self, Failure> {
        let topics: Vec<String> = topics.iter().map(ToString::to_string).collect();
        let mailbox = Mailbox::default();
        let metrics = Metrics::new("test", ["kafka"]).expect("metrics");
        let sink = KafkaSink::start(Start {
            config,
            name: "kafka",
            client_id: "pgoutbox:test",
            window: Window { events: 1_000, bytes: 1 << 20 },
            max_event_size: 1 << 20,
            topics: &topics,
            is_trial: false,
            mailbox: mailbox.clone(),
            metrics: metrics.sink("kafka").expect("sink").clone(),
        })
        .await?;
        Ok(Self {
            sink,
            mailbox,
            events: Vec::new(),
            pace: Pace::SlowStart,
            warm: HashSet::new(),
            blocked: BTreeMap::new(),
            policy: Policy::Halt,
            poison: Vec::new(),
        })
    }

    pub(crate) fn push(&mut self, events: impl IntoIterator<Item = RoutedEvent>) {
        self.events.extend(events.into_iter().map(|event| (event, State::Waiting)));
        self.send();
    }

    pub(crate) fn settle(&mut self, id: u64) {
        self.events[id as usize].1 = State::Settled;
        self.send();
    }

    pub(crate) fn blocked(&self, topic: &Topic) -> Option<String> {
        self.blocked.get(&Some(topic.to_string())).cloned()
    }

    pub(crate) fn any_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    pub(crate) async fn run_to_end(&mut self) {
        self.run_until(|relay| relay.events.iter().all(|(_, state)| *state == State::Settled))
            .await;
    }

    pub(crate) async fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        let limit = Duration::from_secs(90);
        let run = async {
            while !done(self) {
                self.step().await;
            }
        };
        let finished = tokio::time::timeout(limit, run).await.is_ok();
        let waiting = self.events.iter().filter(|(_, state)| *state != State::Settled).count();
        assert!(finished, "{waiting} unsettled after {limit:?}; blocked: {:?}", self.blocked);
    }

    pub(crate) async fn run_for(&mut self, duration: Duration) {
        let run = async {
            loop {
                self.step().await;
            }
        };
        tokio::time::timeout(duration, run).await.ok();
    }

    pub(crate) async fn stop(self) {
        self.sink.stop(Duration::from_secs(5)).await;
    }

    async fn step(&mut self) {
        self.mailbox.arrived().await;
        let mut reports = Vec::new();
        self.mailbox.take(&mut reports);
        for report in reports {
            self.take(report);
        }
        self.send();
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Outcome(DeliveryId(id), outcome) => self.settle_by(id, outcome),
            Report::Reset(pace) => {
                self.pace = pace;
                self.warm.clear();
                for (_, state) in &mut self.events {
                    if *state == State::Out {
                        *state = State::Waiting;
                    }
                }
            }
            Report::Room | Report::Relane(_) => {}
            Report::Blocked { destination, failure } => {
                let code = failure.peer_code().unwrap_or("?").to_owned();
                self.blocked.insert(destination, code);
            }
            Report::Unblocked { destination } => {
                self.blocked.remove(&destination);
            }
        }
    }

    fn settle_by(&mut self, id: u64, outcome: Outcome) {
        let (event, state) = &mut self.events[id as usize];
        match outcome {
            Outcome::Acknowledged => {
                *state = State::Settled;
                let lane = self.sink.lane(event);
                self.warm.insert(lane);
            }
            Outcome::Rejected(failure) => {
                *state = match self.policy {
                    Policy::Drop => State::Settled,
                    Policy::Halt => State::Poison,
                };
                self.poison.push((id, failure));
            }
            Outcome::Returned(_) | Outcome::Unknown => {}
        }
    }

    fn send(&mut self) {
        let mut out: HashMap<Lane, usize> = HashMap::new();
        let mut closed: HashSet<Lane> = HashSet::new();
        for (id, (event, state)) in self.events.iter_mut().enumerate() {
            if *state == State::Settled {
                continue;
            }
            let lane = self.sink.lane(event);
            let sent = out.entry(lane).or_default();
            match state {
                State::Out => *sent += 1,
                State::Waiting if !closed.contains(&lane) => {
                    let single = self.pace == Pace::OneByOne || !self.warm.contains(&lane);
                    if !self.sink.is_open(lane) || (single && *sent > 0) {
                        closed.insert(lane);
                        continue;
                    }
                    if !self.sink.enqueue(DeliveryId(id as u64), event) {
                        return;
                    }
                    *state = State::Out;
                    *sent += 1;
                }
                _ => {
                    closed.insert(lane);
                }
            }
        }
    }
}

/// An event of `topic` with this key and value, and one header.
pub(crate) fn event(topic: &Topic, key: &str, value: Vec<u8>) -> RoutedEvent {
    let missing = || RoleSource::Missing;
    RoutedEvent {
        id: Bytes::from_static(b"id"),
        sink: SinkIndex(0),
        destination: Destination::Topic(Arc::clone(topic)),
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::from(value)),
        headers: Headers {
            names: Arc::new([Box::from("id")]),
            values: [(0, Some(Bytes::from_static(b"id")))].into_iter().collect(),
        },
        event: OutboxEvent {
            shape: Arc::new(Shape {
                schema: String::new(),
                table: String::new(),
                columns: Vec::new(),
                roles: [missing(), missing(), missing(), missing(), missing()],
                created_at: None,
            }),
            tuple: Tuple::from_values([]),
        },
        transaction: Transaction {
            commit_time_micros: 1_700_000_000_000_000,
            ..Default::default()
        },
        ordering_key: None,
    }
}
