//! An independent reader of RabbitMQ: every message of some queues, in the order of each queue.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lapin::message::DeliveryResult;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ConsumerDelegate};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::rabbit_message::{MARK, Message};
use super::{Rabbit, SHORT, wait_until};

/// Messages that may be under way to a reader.
const PREFETCH: u16 = 1000;

/// A broker that does not answer within this time is asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// A stream that brings nothing for this long is read anew: RabbitMQ 3.10 can forget a consumer that
/// came while the stream was starting.
const SILENCE: Duration = Duration::from_secs(10);

/// Reads queues from their beginnings and takes the messages out, but for streams.
///
/// It comes back by itself after the broker was away. What it had not acknowledged by then comes
/// again and looks like a duplicate: equal, and so harmless.
pub(crate) struct RabbitReader {
    url: String,
    queues: Vec<Place>,
    open: Option<Open>,
    inbox: Arc<Inbox>,
    messages: Vec<Message>,
    /// When it connected, or something came.
    heard: Instant,
}

/// A queue, and how far it has been read.
struct Place {
    queue: String,
    /// Next offset to read, where the queue is a stream.
    next: Option<i64>,
    /// The last of our own messages that came through it.
    mark: Option<String>,
}

struct Open {
    channel: Channel,
    connection: Connection,
}

/// Where the client's own thread leaves what comes.
#[derive(Default)]
struct Inbox {
    messages: Mutex<Vec<Message>>,
    /// A consumer was cancelled, or its connection is gone.
    is_over: AtomicBool,
}

impl RabbitReader {
    /// Begins to read these queues; they must be there.
    pub(crate) async fn new(rabbit: &Rabbit, queues: &[&str]) -> Self {
        let place = |&queue: &&str| Place {
            queue: queue.to_owned(),
            next: rabbit.is_stream(queue).then_some(0),
            mark: None,
        };
        let mut this = Self {
            url: rabbit.admin_url(),
            queues: queues.iter().map(place).collect(),
            open: None,
            inbox: Arc::default(),
            messages: Vec::new(),
            heard: Instant::now(),
        };
        this.connect().await.unwrap_or_else(|error| panic!("reader of {queues:?}: {error}"));
        this
    }

    /// Whether it reads this queue.
    pub(crate) fn reads(&self, queue: &str) -> bool {
        self.queues.iter().any(|place| place.queue == queue)
    }

    /// Reads until the messages so far satisfy a condition.
    pub(crate) async fn read_until(
        &mut self,
        what: &str,
        deadline: Duration,
        mut condition: impl FnMut(&[Message]) -> bool,
    ) -> &[Message] {
        wait_until(what, deadline, async || {
            self.poll().await;
            condition(&self.messages).then_some(())
        })
        .await;
        &self.messages
    }

    /// Reads until there are `count` messages.
    pub(crate) async fn read_count(&mut self, count: usize, deadline: Duration) -> &[Message] {
        let what = format!("{count} messages");
        self.read_until(&what, deadline, |messages| messages.len() >= count).await
    }

    /// Reads all that is in the queues now.
    pub(crate) async fn read_to_end(&mut self) -> &[Message] {
        let mark = Uuid::new_v4().to_string();
        let mut marked = HashSet::new();
        wait_until("the ends of the queues", SHORT, async || {
            self.poll().await;
            let mut left = 0;
            for place in &self.queues {
                if place.mark.as_ref() == Some(&mark) {
                    continue;
                }
                let channel = &self.open.as_ref()?.channel;
                if let Some(next) = place.next {
                    left += usize::from(depth(channel, &place.queue).await? != next);
                } else {
                    left += 1;
                    // A queue may refuse it while it is full.
                    if !marked.contains(&place.queue)
                        && put_mark(channel, &place.queue, &mark).await.unwrap_or(false)
                    {
                        marked.insert(place.queue.clone());
                    }
                }
            }
            (left == 0).then_some(())
        })
        .await;
        &self.messages
    }

    /// What has been read so far.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Ends it, so that another one has the queues for itself. A reader that is only dropped may
    /// take a few messages more.
    pub(crate) async fn close(mut self) {
        self.disconnect().await;
    }

    async fn disconnect(&mut self) {
        if let Some(open) = self.open.take() {
            // A broker that is away does not answer, and has lost us anyway.
            let close = open.connection.close(200, "the test is over".into());
            let _closed = timeout(PATIENCE / 5, close).await;
        }
    }

    /// Fetches what has come, and connects again where that is needed and possible.
    async fn poll(&mut self) {
        self.fetch();
        // The consumers are not told of every end of a connection.
        let is_connected =
            self.open.as_ref().is_some_and(|open| open.connection.status().connected());
        let is_silent =
            self.heard.elapsed() > SILENCE && self.queues.iter().any(|place| place.next.is_some());
        if is_silent {
            eprintln!("reader: reads anew, after {} messages", self.messages.len());
        }
        let is_over = self.inbox.is_over.load(Ordering::SeqCst) || !is_connected || is_silent;
        if is_over && let Err(error) = self.connect().await {
            // The deadline tells if the broker does not come back.
            eprintln!("reader: {error}");
        }
    }

    fn fetch(&mut self) {
        for message in self.inbox.messages.lock().unwrap().drain(..) {
            self.heard = Instant::now();
            let place = self.queues.iter_mut().find(|place| place.queue == message.queue).unwrap();
            if let Some(offset) = message.offset {
                place.next = Some(offset + 1);
            }
            if message.is_mark() {
                place.mark = message.id().map(str::to_owned);
            } else {
                self.messages.push(message);
            }
        }
    }

    /// What comes before it fails is kept: it is acknowledged.
    async fn connect(&mut self) -> Result<(), String> {
        self.disconnect().await;
        self.fetch();
        self.inbox.is_over.store(false, Ordering::SeqCst);
        let open = timeout(PATIENCE, self.consume()).await.map_err(|_| "no answer".to_owned())?;
        self.open = Some(open.map_err(|error| error.to_string())?);
        self.heard = Instant::now();
        Ok(())
    }

    async fn consume(&self) -> lapin::Result<Open> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        for place in &self.queues {
            let mut arguments = FieldTable::default();
            if let Some(next) = place.next {
                arguments.insert("x-stream-offset".into(), AMQPValue::LongLongInt(next));
            }
            let queue = place.queue.as_str();
            let options = BasicConsumeOptions::default();
            let consumer =
                channel.basic_consume(queue.into(), queue.into(), options, arguments).await?;
            let inbox = Arc::clone(&self.inbox);
            consumer.set_delegate(Collector { queue: queue.to_owned(), inbox });
        }
        Ok(Open { channel, connection })
    }
}

/// Number of messages in a stream, which is the offset behind the last one as long as nothing was
/// thrown away.
async fn depth(channel: &Channel, queue: &str) -> Option<i64> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(queue.into(), options, FieldTable::default()).await.ok()?;
    Some(queue.message_count().into())
}

/// Puts a message of our own behind what is in a queue, unless the queue refuses it.
async fn put_mark(channel: &Channel, queue: &str, mark: &str) -> lapin::Result<bool> {
    let properties = BasicProperties::default()
        .with_type(MARK.into())
        .with_message_id(mark.into())
        .with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    let confirm = channel.basic_publish("".into(), queue.into(), options, b"", properties).await?;
    Ok(confirm.await?.is_ack())
}

/// Collects one queue. The client calls it message by message, in order; what it returns to the
/// client may run in any order.
struct Collector {
    queue: String,
    inbox: Arc<Inbox>,
}

impl ConsumerDelegate for Collector {
    fn on_new_delivery(
        &self,
        delivery: DeliveryResult,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Ok(Some(delivery)) = delivery else {
            self.inbox.is_over.store(true, Ordering::SeqCst);
            return Box::pin(std::future::ready(()));
        };
        let acker = delivery.acker.clone();
        self.inbox.messages.lock().unwrap().push(Message::new(&self.queue, delivery));
        Box::pin(async move {
            // Where it fails, the connection is gone and the message comes again.
            let _acknowledged = acker.ack(BasicAckOptions::default()).await;
        })
    }
}
