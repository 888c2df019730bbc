//! Publishes what is handed over on one channel, and reports how it ended.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lapin::{Error, Event};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::connect::{Events, Link};
use super::driver::{Driver, End};
use super::error;
use super::exchanges::Way;
use super::flow::Flow;
use super::message::Message;
use super::patience::Age;
use super::trial::{Trial, Tried, attempt};
use crate::failure::Failure;
use crate::sink::{Outcome, Report};

/// How often it is looked at what nobody tells.
const LOOK: Duration = Duration::from_secs(1);

/// How long the reason of an end may take to be told.
const REASON: Duration = Duration::from_millis(500);

/// What a stop keeps of its time for the goodbye.
const GOODBYE: Duration = Duration::from_millis(1200);

impl Driver {
    /// Publishes on the link's channel until that ends.
    pub(super) async fn serve(&mut self, link: &mut Link) -> End {
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
        match self.way(&message, now) {
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

    fn way(&self, message: &Message, now: Instant) -> Way {
        let may_try = self.trial.is_none();
        match self.exchanges.way(&message.address.exchange, may_try, now) {
            Way::Open | Way::Try { .. } if self.suspects.has(message.id) => match may_try {
                true => Way::Try { publishes: true },
                false => Way::Wait,
            },
            way => way,
        }
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
                self.told.trouble(Failure::transient(message).code("connection.blocked"));
                None
            }
            Some(Event::ConnectionUnblocked) => {
                self.patience.hold(Instant::now());
                self.told.no_trouble();
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
        let slow = oldest.filter(|_| age != Age::Fine).map(|sent| &sent.address);
        if self.told.slow(slow) && slow.is_none() {
            self.patience.restore();
        }
        let unconfirmed = || {
            let message = format!("RabbitMQ at `{}` does not confirm", site.server);
            Failure::transient(message).code("unconfirmed")
        };
        (age == Age::Hopeless).then(unconfirmed)
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
