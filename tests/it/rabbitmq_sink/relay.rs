//! The least relay that keeps the sink's contract: one event a key, again after a return.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pgoutbox::config::{AmqpUrl, RabbitMqConfig, Sasl, TlsFiles};
use pgoutbox::failure::Failure;
use pgoutbox::metrics::{Metrics, SinkMetrics};
use pgoutbox::outbox::{OutboxEvent, RoleSource, Shape, Transaction, Tuple};
use pgoutbox::routing::{Destination, Headers, RoutedEvent, SinkIndex};
use pgoutbox::sink::rabbitmq::{RabbitMqSink, Start};
use pgoutbox::sink::{DeliveryId, Lane, Mailbox, Outcome, Report};
use tokio::time::{Instant, sleep_until};

/// The pause after a return.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Out,
    /// Came back, and waits for its time.
    Back(Instant),
    Settled,
    /// Never to be sent again.
    Poison,
}

/// How a delivery came back.
#[derive(Clone, Debug)]
pub(crate) struct Returned {
    pub(crate) id: u64,
    pub(crate) code: String,
    pub(crate) failure: Failure,
}

pub(crate) struct Relay {
    sink: RabbitMqSink,
    mailbox: Mailbox,
    events: Vec<(RoutedEvent, State)>,
    blocked: BTreeMap<Option<String>, String>,
    pub(crate) metrics: SinkMetrics,
    pub(crate) poison: Vec<(u64, Failure)>,
    pub(crate) returned: Vec<Returned>,
    pub(crate) resets: usize,
    pub(crate) acked: usize,
    /// Most events of one key that are out.
    per_key: usize,
    /// Whether what comes back is sent again.
    pub(crate) tries_again: bool,
}

/// A sink's settings for these servers.
pub(crate) fn config(urls: &[String]) -> RabbitMqConfig {
    RabbitMqConfig {
        servers: urls.iter().map(|url| AmqpUrl::parse(url).expect("a URL")).collect(),
        sasl: Sasl::Plain,
        tls: TlsFiles::default(),
        heartbeat: Duration::from_secs(10),
        max_unsettled_per_key: 1,
        max_message_size: None,
        management: None,
    }
}

impl Relay {
    pub(crate) async fn start(url: String) -> Self {
        Self::with(&config(&[url]), &[]).await.expect("the sink starts")
    }

    pub(crate) async fn with(config: &RabbitMqConfig, exchanges: &[&str]) -> Result<Self, Failure> {
        let exchanges: Vec<String> = exchanges.iter().map(ToString::to_string).collect();
        let mailbox = Mailbox::default();
        let metrics = Metrics::new("test", ["rabbit"]).expect("metrics");
        let metrics = metrics.sink("rabbit").expect("sink").clone();
        let sink = RabbitMqSink::start(Start {
            config,
            name: "rabbit",
            connection_name: "pgoutbox:test",
            exchanges: &exchanges,
            mailbox: mailbox.clone(),
            metrics: metrics.clone(),
        })
        .await?;
        Ok(Self {
            sink,
            mailbox,
            events: Vec::new(),
            blocked: BTreeMap::new(),
            metrics,
            poison: Vec::new(),
            returned: Vec::new(),
            resets: 0,
            acked: 0,
            per_key: config.max_unsettled_per_key,
            tries_again: true,
        })
    }

    pub(crate) fn push(&mut self, events: impl IntoIterator<Item = RoutedEvent>) {
        self.events.extend(events.into_iter().map(|event| (event, State::Waiting)));
        self.send();
    }

    /// Why a destination, or with `None` the sink, does not move.
    pub(crate) fn blocked(&self, destination: Option<&str>) -> Option<&str> {
        self.blocked.get(&destination.map(str::to_owned)).map(String::as_str)
    }

    /// Deliveries that are not settled, and not poison.
    pub(crate) fn unsettled(&self) -> usize {
        let is_open = |state: &State| !matches!(state, State::Settled | State::Poison);
        self.events.iter().filter(|(_, state)| is_open(state)).count()
    }

    /// How often deliveries came back with this code.
    pub(crate) fn returns(&self, code: &str) -> usize {
        self.returned.iter().filter(|returned| returned.code == code).count()
    }

    pub(crate) fn is_acked(&self, id: u64) -> bool {
        self.events[id as usize].1 == State::Settled
    }

    pub(crate) async fn run_to_end(&mut self) {
        self.run_until("all are settled", |relay| relay.unsettled() == 0).await;
    }

    pub(crate) async fn run_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let limit = Duration::from_secs(60);
        let run = async {
            while !done(self) {
                self.step().await;
            }
        };
        let finished = tokio::time::timeout(limit, run).await.is_ok();
        let (left, blocked) = (self.unsettled(), &self.blocked);
        assert!(finished, "waited {limit:?} until {what}: {left} unsettled, blocked: {blocked:?}");
    }

    pub(crate) async fn run_for(&mut self, duration: Duration) {
        let run = async {
            loop {
                self.step().await;
            }
        };
        tokio::time::timeout(duration, run).await.ok();
    }

    pub(crate) async fn stop(self, grace: Duration) -> Mailbox {
        self.sink.stop(grace).await;
        self.mailbox
    }

    async fn step(&mut self) {
        let back = self.events.iter().filter_map(|(_, state)| match state {
            State::Back(until) => Some(*until),
            _ => None,
        });
        let due = back.min();
        tokio::select! {
            () = self.mailbox.arrived() => {}
            () = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            } => {}
        }
        let mut reports = Vec::new();
        self.mailbox.take(&mut reports);
        for report in reports {
            self.take(report);
        }
        let now = Instant::now();
        for (_, state) in &mut self.events {
            if matches!(state, State::Back(until) if *until <= now) {
                *state = State::Waiting;
            }
        }
        self.send();
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Outcome(DeliveryId(id), outcome) => self.end(id, outcome),
            Report::Reset(_) => {
                self.resets += 1;
                for (_, state) in &mut self.events {
                    if *state == State::Out {
                        *state = State::Waiting;
                    }
                }
            }
            Report::Room => {}
            Report::Relane(_) => panic!("lanes never change"),
            Report::Blocked { destination, failure } => {
                let code = failure.peer_code().unwrap_or("?").to_owned();
                self.blocked.insert(destination, code);
            }
            Report::Unblocked { destination } => {
                self.blocked.remove(&destination);
            }
        }
    }

    fn end(&mut self, id: u64, outcome: Outcome) {
        let state = &mut self.events[id as usize].1;
        assert_eq!(*state, State::Out, "{id}: {outcome:?}");
        match outcome {
            Outcome::Acknowledged => {
                *state = State::Settled;
                self.acked += 1;
            }
            Outcome::Rejected(failure) => {
                *state = State::Poison;
                self.poison.push((id, failure));
            }
            Outcome::Returned(failure) => {
                *state = match self.tries_again {
                    true => State::Back(Instant::now() + PAUSE),
                    false => State::Poison,
                };
                let code = failure.peer_code().unwrap_or("?").to_owned();
                self.returned.push(Returned { id, code, failure });
            }
            Outcome::Unknown => panic!("a reset says it for all"),
        }
    }

    fn send(&mut self) {
        let mut busy: HashMap<Lane, usize> = HashMap::new();
        let mut sent = false;
        for (id, (event, state)) in self.events.iter_mut().enumerate() {
            if matches!(state, State::Settled | State::Poison) {
                continue;
            }
            let before = busy.entry(self.sink.lane(event)).or_default();
            *before += 1;
            let is_free = *before <= self.per_key;
            if *state == State::Waiting && is_free {
                if !self.sink.enqueue(DeliveryId(id as u64), event) {
                    break;
                }
                *state = State::Out;
                sent = true;
            }
        }
        if sent {
            self.sink.seal();
        }
    }
}

/// An event with this id, key and body.
pub(crate) fn event(
    exchange: &str,
    routing_key: &str,
    id: &str,
    key: Option<u64>,
    body: impl Into<Bytes>,
) -> RoutedEvent {
    let missing = || RoleSource::Missing;
    RoutedEvent {
        id: Bytes::copy_from_slice(id.as_bytes()),
        sink: SinkIndex(0),
        destination: Destination::Exchange {
            exchange: Arc::from(exchange),
            routing_key: Arc::from(routing_key),
        },
        key: None,
        value: Some(body.into()),
        headers: Headers {
            names: Arc::new([Box::from("id")]),
            values: [(0, Some(Bytes::copy_from_slice(id.as_bytes())))].into_iter().collect(),
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
        ordering_key: key,
    }
}
