//! Starting: a connection that answers, the topics that routes name, then the two threads.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdkafka::producer::Producer as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::admin::{self, Admin, Seen};
use super::context::Producer;
use super::driver::{self, Driver};
use super::error;
use super::inspector::Inspector;
use super::settings::Settings;
use super::shared::Shared;
use super::topic::Phase;
use super::{KafkaSink, Start};
use crate::failure::{Class, Failure};
use crate::sink::Pace;

/// How long brokers may take to answer for the first time.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a topic may take to spread through a cluster, or to be created by it.
const CREATE: Duration = Duration::from_secs(5);

pub(super) async fn start(start: Start<'_>) -> Result<KafkaSink, Failure> {
    let Start { config, name, client_id, window, max_event_size, topics, .. } = start;
    let Start { is_trial, mailbox, metrics, .. } = start;
    let settings = Settings::new(config, client_id, window, max_event_size)?;
    let settings = if is_trial { settings.creating_nothing() } else { settings };
    let admin = Admin::new(settings.admin(), Handle::current());
    let shared = Arc::new(Shared::new(name, settings, mailbox, metrics, admin));
    let topics: Vec<Arc<str>> = topics.iter().map(|topic| Arc::from(topic.as_str())).collect();
    let connecting = Arc::clone(&shared);
    let connected =
        tokio::task::spawn_blocking(move || connect(&connecting, &topics, is_trial)).await;
    let producer = connected.map_err(|_| Failure::transient("connecting was interrupted"))??;
    *shared.producer() = Some(Arc::clone(&producer));
    let driver = spawn(&shared, producer)?;
    Ok(KafkaSink {
        shared,
        window,
        views: Vec::new(),
        indexes: HashMap::default(),
        driver: Some(driver),
    })
}

type DriverThread = (thread::JoinHandle<()>, oneshot::Receiver<()>);

fn spawn(shared: &Arc<Shared>, producer: Arc<Producer>) -> Result<DriverThread, Failure> {
    let failed = |error| Failure::transient("cannot start a thread").cause(error);
    let (done, is_done) = oneshot::channel();
    let driver = Driver::new(Arc::clone(shared));
    let run = move || {
        driver.run(producer);
        // Whoever waited no longer may have given up.
        done.send(()).ok();
    };
    let [driver_slot, inspector_slot] = &shared.threads;
    let driver =
        thread::Builder::new().name("kafka-driver".to_owned()).spawn(run).map_err(failed)?;
    driver_slot.get_or_init(|| driver.thread().clone());
    let inspector = Inspector::new(Arc::clone(shared));
    let inspector = thread::Builder::new()
        .name("kafka-inspector".to_owned())
        .spawn(move || inspector.run())
        .map_err(|error| {
            shared.stop(Instant::now());
            failed(error)
        })?;
    inspector_slot.get_or_init(|| inspector.thread().clone());
    Ok((driver, is_done))
}

/// A producer whose batches suit the named topics, on brokers that answer.
fn connect(
    shared: &Arc<Shared>,
    topics: &[Arc<str>],
    is_trial: bool,
) -> Result<Arc<Producer>, Failure> {
    let batch_size = shared.batch_size();
    let producer = driver::make(shared, Pace::SlowStart, batch_size)?;
    wait_for_brokers(shared, &producer)?;
    let would_create = LazyCell::new(|| is_trial && shared.admin.creates_topics(&producer));
    for name in topics {
        find_topic(shared, &producer, name, &would_create)?;
    }
    let fitting = shared.fit_batch_size();
    if fitting == batch_size {
        return Ok(producer);
    }
    drop(producer);
    driver::make(shared, Pace::SlowStart, fitting)
}

fn wait_for_brokers(shared: &Shared, producer: &Producer) -> Result<(), Failure> {
    let deadline = Instant::now() + CONNECT;
    loop {
        producer.poll(Duration::ZERO);
        if producer.client().fetch_cluster_id(Duration::from_millis(50)).is_some() {
            shared.is_connected();
            return Ok(());
        }
        let failure = shared.client_failure();
        if let Some(failure) = failure.clone().filter(|failure| failure.class() == Class::Fixable) {
            return Err(failure);
        }
        if Instant::now() >= deadline {
            let brokers = &shared.settings.site.brokers;
            return Err(failure.unwrap_or_else(|| {
                Failure::transient(format!("no broker of `{brokers}` answers")).code("_TIMED_OUT")
            }));
        }
    }
}

/// Waits for a topic. One that is missing is left for later where the brokers `would_create` it.
fn find_topic(
    shared: &Shared,
    producer: &Producer,
    name: &Arc<str>,
    would_create: &LazyCell<bool, impl FnOnce() -> bool>,
) -> Result<(), Failure> {
    let deadline = Instant::now() + CREATE;
    let topic = shared.topics.add(name);
    loop {
        let is_late = Instant::now() >= deadline;
        match admin::look(producer, name) {
            Ok(Seen::There(partitions)) => {
                if let Some(limit) = shared.admin.describe(name).max_message_bytes {
                    topic.set_limit(limit);
                }
                topic.learn_partitions(u32::try_from(partitions.len()).unwrap_or(u32::MAX));
                topic.tell_by(0);
                topic.set_phase(Phase::Open);
                return Ok(());
            }
            Ok(Seen::Refused(code)) if error::is_missing(code) && **would_create => return Ok(()),
            Ok(Seen::Refused(code)) if is_late || !error::is_missing(code) => {
                return Err(shared.settings.site.topic(name, code));
            }
            // The inspector goes on waiting.
            Ok(Seen::Pending) if is_late => return Ok(()),
            Err(code) if is_late => {
                return Err(shared.settings.site.client(code, &code.to_string()));
            }
            _ => producer.poll(Duration::from_millis(100)),
        }
    }
}
