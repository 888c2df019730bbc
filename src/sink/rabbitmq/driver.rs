//! Owns the connection: publishes what is handed over, reports how it ended, and connects again.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lapin::{Error, Event};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::connect::{Connector, Events, Link};
use super::error;
use super::exchanges::{Exchanges, Way};
use super::flow::Flow;
use super::mend::Suspects;
use super::message::{Address, Message};
use super::patience::{Age, Patience};
use super::shared::Shared;
use super::trial::{Trial, Tried, attempt};
use crate::failure::{Class, Failure};
use crate::metrics::SinkMetrics;
use crate::routing::Destination;
use crate::sink::{DeliveryId, Outcome, Report};

/// How often it is looked at what nobody tells.
const LOOK: Duration = Duration::from_secs(1);

/// How long the reason of an end may take to be told.
const REASON: Duration = Duration::from_millis(500);

/// First pause before another attempt, and the longest: while the fault goes away by itself, and
/// while an operator is waited for.
const PAUSES: (Duration, Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(5), Duration::from_secs(30));

/// What a stop keeps of its time for the goodbye.
const GOODBYE: Duration = Duration::from_millis(1200);

/// The driver's task.
pub(super) struct Driver {
    pub(super) name: String,
    shared: Arc<Shared>,
    metrics: SinkMetrics,
    connector: Connector,
    pub(super) exchanges: Exchanges,
    pub(super) suspects: Suspects,
    patience: Patience,
    trial: Option<Trial>,
    /// Why the whole sink does not move, as the relay knows it.
    trouble: Option<Failure>,
    /// The destination that the relay knows to be slow.
    slow: Option<String>,
    /// Ends of channels and connections since the last acknowledgement.
    pub(super) fruitless: u32,
    inbox: Vec<Message>,
    /// Wait for the trial under way.
    waiting: VecDeque<Message>,
    /// Whether what comes later waits behind them.
    keeps_behind: bool,
    reports: Vec<Report>,
}

/// Why a channel is published on no longer.
enum End {
    /// The sink was stopped.
    Stopped,
    /// Only the channel ended; what was out on it.
    Channel(Error, Vec<(DeliveryId, Address)>),
    /// The connection ended.
    Connection(Failure),
}

impl Driver {
    pub(super) fn new(
        name: &str,
        shared: Arc<Shared>,
        metrics: SinkMetrics,
        connector: Connector,
        max_unsettled_per_key: usize,
    ) -> Self {
        Self {
            name: name.to_owned(),
            shared,
            metrics,
            connector,
            exchanges: Exchanges::default(),
            suspects: Suspects::default(),
            patience: Patience::new(Instant::now()),
            trial: None,
            trouble: None,
            slow: None,
            fruitless: 0,
            inbox: Vec::new(),
            waiting: VecDeque::new(),
            keeps_behind: max_unsettled_per_key > 1,
            reports: Vec::new(),
        }
    }

    /// Runs until the sink is stopped.
    pub(super) async fn run(mut self, mut link: Link) {
        self.metrics.connected.set(1);
        loop {
            let end = self.serve(&mut link).await;
            self.trial = None;
            self.waiting.clear();
            let failure = match end {
                End::Stopped => break,
                End::Connection(failure) => failure,
                End::Channel(error, lost) => {
                    self.shared.close();
                    let shared = Arc::clone(&self.shared);
                    let mended = tokio::select! {
                        mended = self.mend(&mut link, &error, lost) => mended,
                        _ = shared.stopped() => break,
                    };
                    match mended {
                        Ok(reports) => {
                            self.shared.reopen(link.limits, reports);
                            continue;
                        }
                        Err(failure) => failure,
                    }
                }
            };
            drop(link);
            match self.reconnect(failure).await {
                Some(fresh) => link = fresh,
                None => return,
            }
        }
        self.metrics.connected.set(0);
        link.close().await;
    }

    /// Publishes on the link's channel until that ends.
    async fn serve(&mut self, link: &mut Link) -> End {
        let shared = Arc::clone(&self.shared);
        let mut flow = Flow::new(&link.channel, &shared.bell);
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = pin!(shared.stopped());
        let mut deadline = None;
        loop {
            self.publish_new(link, &mut flow);
            if let Err(error) = self.settle(&mut flow) {
                return self.end(link, error, flow).await;
            }
            let is_idle = flow.is_idle() && self.trial.is_none() && self.waiting.is_empty();
            if deadline.is_some() && is_idle {
                return End::Stopped;
            }
            tokio::select! {
                () = shared.bell.notified() => {}
                event = next(&mut link.events) => {
                    if let Some(error) = self.event(link, event) {
                        return self.end(link, error, flow).await;
                    }
                }
                tried = under_way(&mut self.trial) => self.tried(tried, &mut flow),
                at = &mut stopped, if deadline.is_none() => deadline = Some(before_goodbye(at)),
                () = late(deadline) => return End::Stopped,
                _ = looks.tick() => {
                    if let Some(failure) = self.look(link, &flow) {
                        self.settle(&mut flow).err();
                        return End::Connection(failure);
                    }
                }
            }
        }
    }

    /// Publishes what was handed over, but for exchanges that take nothing.
    fn publish_new(&mut self, link: &Link, flow: &mut Flow) {
        let now = Instant::now();
        while let Some(message) = self.waiting.pop_front() {
            if let Some(message) = self.pass(message, link, flow, now) {
                self.waiting.push_front(message);
                break;
            }
        }
        let mut inbox = std::mem::take(&mut self.inbox);
        self.shared.take(&mut inbox);
        for message in inbox.drain(..) {
            // Where a key has several events out, nothing may overtake what waits.
            let is_behind = self.keeps_behind && !self.waiting.is_empty();
            let kept = if is_behind { Some(message) } else { self.pass(message, link, flow, now) };
            self.waiting.extend(kept);
        }
        self.inbox = inbox;
    }

    /// Sends a message on its way; gives back one that has to wait.
    fn pass(
        &mut self,
        message: Message,
        link: &Link,
        flow: &mut Flow,
        now: Instant,
    ) -> Option<Message> {
        let may_try = self.trial.is_none();
        let way = self.suspects.way(message.id, may_try);
        let exchange = &message.address.exchange;
        match way.unwrap_or_else(|| self.exchanges.way(exchange, may_try, now)) {
            Way::Open => flow.publish(message, now),
            Way::Try { publishes } => {
                let session = Arc::clone(&link.session);
                self.trial = Some(Box::pin(attempt(session, message, publishes)));
            }
            Way::Wait => return Some(message),
            Way::Back(failure) => {
                self.reports.push(Report::Outcome(message.id, Outcome::Returned(failure)));
            }
        }
        None
    }

    /// Reports what has ended.
    fn settle(&mut self, flow: &mut Flow) -> Result<(), Error> {
        let mut reports = std::mem::take(&mut self.reports);
        let outcome = flow.settle(&mut reports);
        self.report(&mut reports);
        self.reports = reports;
        outcome
    }

    /// Reports how deliveries ended.
    fn report(&mut self, reports: &mut Vec<Report>) {
        if reports.is_empty() {
            return;
        }
        let is_ack = |report: &Report| matches!(report, Report::Outcome(_, Outcome::Acknowledged));
        if self.fruitless > 0 && reports.iter().any(is_ack) {
            self.fruitless = 0;
        }
        let room = self.shared.done(reports.len());
        self.shared.mailbox.put_all(reports.drain(..).chain(room));
    }

    /// What a trial found out.
    fn tried(&mut self, tried: Tried, flow: &mut Flow) {
        self.trial = None;
        let (id, outcome) = match tried {
            Tried::Exists(message) => {
                tracing::info!(
                    sink = self.name,
                    exchange = &*message.address.exchange,
                    "exchange takes messages"
                );
                self.exchanges.open(&message.address.exchange);
                return flow.publish(*message, Instant::now());
            }
            Tried::Takes(id, address, outcome) => {
                self.exchanges.open(&address.exchange);
                self.suspects.clear(id);
                (id, outcome)
            }
            Tried::Closed(id, address, failure) => {
                self.exchanges.close(&address.exchange, failure.clone(), Instant::now());
                (id, Outcome::Returned(failure))
            }
        };
        self.reports.push(Report::Outcome(id, outcome));
    }

    /// What the connection tells; an error is the end of it, or of the channel.
    fn event(&mut self, link: &Link, event: Option<Event>) -> Option<Error> {
        match event {
            Some(Event::ConnectionBlocked(reason)) => {
                let message = format!("RabbitMQ takes nothing: {reason}");
                self.trouble(Some(Failure::transient(message).code("connection.blocked")));
                None
            }
            Some(Event::ConnectionUnblocked) => {
                self.patience.hold(Instant::now());
                self.trouble(None);
                None
            }
            // Channels beside ours tell theirs as well.
            Some(Event::Error(error)) => {
                let has_ended = !link.session.is_connected() || !link.channel.status().connected();
                has_ended.then_some(error)
            }
            Some(_) => None,
            None => Some(std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()),
        }
    }

    /// Looks at what nobody tells: a connection that ended without a word, confirms that do not come.
    fn look(&mut self, link: &Link, flow: &Flow) -> Option<Failure> {
        let (site, now) = (&link.session.site, Instant::now());
        if !link.session.is_connected() || !link.channel.status().connected() {
            let message = format!("the connection to RabbitMQ at `{}` is gone", site.server);
            return Some(Failure::transient(message).code("connection"));
        }
        if link.session.is_worn() {
            let message =
                format!("the connection to RabbitMQ at `{}` has no channel left", site.server);
            return Some(Failure::transient(message).code("channels"));
        }
        if link.session.is_blocked() {
            self.patience.hold(now);
            return None;
        }
        let oldest = flow.oldest();
        let age = self.patience.look(oldest.map(|sent| sent.at), now);
        let address = oldest.filter(|_| age != Age::Fine).map(|sent| &sent.address);
        self.tell_slow(address);
        let unconfirmed = || {
            let message = format!("RabbitMQ at `{}` does not confirm", site.server);
            Failure::transient(message).code("unconfirmed")
        };
        (age == Age::Hopeless).then(unconfirmed)
    }

    /// Tells which destination does not move, or that none does not.
    fn tell_slow(&mut self, address: Option<&Address>) {
        let slow = address.map(name);
        if slow == self.slow {
            return;
        }
        if let Some(destination) = self.slow.take() {
            self.shared.mailbox.put(Report::Unblocked { destination: Some(destination) });
        }
        match &slow {
            None => self.patience.restore(),
            Some(destination) => {
                let failure = Failure::transient("RabbitMQ does not confirm for a long time")
                    .code("unconfirmed")
                    .hint("has the queue's leader, or a majority of its members, gone?");
                let destination = Some(destination.clone());
                self.shared.mailbox.put(Report::Blocked { destination, failure });
            }
        }
        self.slow = slow;
    }

    /// What kind of end `error` is.
    async fn end(&mut self, link: &mut Link, error: Error, mut flow: Flow) -> End {
        let error = reason(link, error).await;
        // What was acknowledged to the last need not be sent again.
        self.settle(&mut flow).err();
        if let Some(code) = error::reply_code(&error) {
            self.metrics.failed(&code.to_string());
        }
        if error::is_channels(&error) && link.session.is_connected() {
            return End::Channel(error, flow.into_lost());
        }
        End::Connection(link.session.site.connection(&error))
    }

    /// Connects again, however long it takes. `None`: the sink was stopped.
    async fn reconnect(&mut self, failure: Failure) -> Option<Link> {
        self.shared.close();
        self.metrics.connected.set(0);
        tracing::warn!(sink = self.name, %failure, "connecting again");
        self.connector.turn();
        let (shared, mut failure) = (Arc::clone(&self.shared), failure);
        let mut stopped = pin!(shared.stopped());
        loop {
            self.fruitless = self.fruitless.saturating_add(1);
            tokio::select! {
                () = sleep(pause(self.fruitless, failure.class())) => {}
                _ = &mut stopped => return None,
            }
            let connected = tokio::select! {
                connected = self.connector.connect() => connected,
                _ = &mut stopped => return None,
            };
            match connected {
                Ok(link) => {
                    self.reconnected(&link);
                    return Some(link);
                }
                Err(failed) => {
                    failure = failed;
                    self.trouble(Some(failure.clone()));
                }
            }
        }
    }

    fn reconnected(&mut self, link: &Link) {
        self.metrics.connected.set(1);
        self.metrics.reconnects.inc();
        self.trouble(None);
        self.tell_slow(None);
        self.shared.reopen(link.limits, Vec::new());
    }

    /// Tells why the whole sink does not move, or that it does.
    fn trouble(&mut self, failure: Option<Failure>) {
        let text = |failure: &Option<Failure>| failure.as_ref().map(ToString::to_string);
        if text(&failure) == text(&self.trouble) {
            return;
        }
        let destination = None;
        self.shared.mailbox.put(match &failure {
            Some(failure) => Report::Blocked { destination, failure: failure.clone() },
            None => Report::Unblocked { destination },
        });
        self.trouble = failure;
    }
}

/// The next thing that the connection tells; `None` once it tells nothing more.
async fn next(events: &mut Events) -> Option<Event> {
    poll_fn(|context| events.as_mut().poll_next(context)).await
}

/// The end of the trial that is under way, if one is.
async fn under_way(trial: &mut Option<Trial>) -> Tried {
    match trial {
        Some(trial) => trial.await,
        None => std::future::pending().await,
    }
}

async fn late(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// When to stop waiting for confirms, so that a goodbye is over `at` that time.
fn before_goodbye(at: Instant) -> Instant {
    at.checked_sub(GOODBYE).unwrap_or(at).max(Instant::now())
}

/// Why a channel ended: who publishes on one that is being closed is not told, its events do.
async fn reason(link: &mut Link, error: Error) -> Error {
    if error::reply_code(&error).is_some() {
        return error;
    }
    let told = async {
        while let Some(event) = next(&mut link.events).await {
            if let Event::Error(error) = event {
                return Some(error);
            }
        }
        None
    };
    timeout(REASON, told).await.ok().flatten().unwrap_or(error)
}

/// How long to wait before the next of so many attempts.
pub(super) fn pause(attempts: u32, class: Class) -> Duration {
    let longest = if class == Class::Transient { PAUSES.1 } else { PAUSES.2 };
    let pause = PAUSES.0.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(longest);
    // Relays that lost one server must not all come back at one moment.
    pause.mul_f64(rand::random_range(0.5..1.0))
}

/// What an operator knows an address by.
fn name(address: &Address) -> String {
    let Address { exchange, routing_key, .. } = address;
    let (exchange, routing_key) = (Arc::clone(exchange), Arc::clone(routing_key));
    Destination::Exchange { exchange, routing_key }.name().into_owned()
}
