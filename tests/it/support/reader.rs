//! An independent reader of Kafka: every record of some topics as it stands in the log.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::time::Instant;

use super::{SHORT, Topics};

/// How long one question to the broker may take.
const STEP: Duration = Duration::from_secs(10);

/// One record, with nothing left out: null is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970.
    pub(crate) timestamp: Option<i64>,
}

impl Record {
    /// The text of the first header with this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(header, _)| header == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }

    /// The value as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.value.as_deref().expect("a value")).unwrap()
    }
}

/// Texts of the records in their order, each id once: what a consumer sees that drops duplicates.
/// For one partition, since there is no order between several.
pub(crate) fn first_texts(records: &[Record]) -> Vec<&str> {
    let mut seen = HashSet::new();
    records
        .iter()
        .filter(|record| seen.insert(record.header("id").expect("an id")))
        .map(Record::text)
        .collect()
}

/// Reads all topics of a prefix from their beginnings, those created later too.
///
/// Reading blocks the thread that a test runs on; what a test has spawned goes on.
pub(crate) struct Reader {
    consumer: BaseConsumer,
    prefix: String,
    /// Next offset to read of each partition.
    next: HashMap<(String, i32), i64>,
    records: Vec<Record>,
    /// When it was last looked for new partitions, among those of all tests.
    looked: Option<Instant>,
}

impl Reader {
    /// Begins at the beginning of the topics.
    pub(crate) fn new(topics: &Topics) -> Self {
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", topics.brokers())
            // Demanded by the client; no group is ever joined, since partitions are assigned.
            .set("group.id", "pgoutbox-tests")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("topic.metadata.refresh.interval.ms", "1000")
            .set("allow.auto.create.topics", "false")
            .create()
            .unwrap();
        let prefix = topics.prefix().to_owned();
        Self { consumer, prefix, next: HashMap::new(), records: Vec::new(), looked: None }
    }

    /// Reads on until `done` says so of all records so far, and returns them.
    ///
    /// # Panics
    ///
    /// Where it does not before the deadline.
    pub(crate) fn read_until(
        &mut self,
        what: &str,
        deadline: Duration,
        mut done: impl FnMut(&[Record]) -> bool,
    ) -> &[Record] {
        let begin = Instant::now();
        while !done(&self.records) {
            assert!(
                begin.elapsed() < deadline,
                "waited {deadline:?} for {what}; {} records so far",
                self.records.len()
            );
            tokio::task::block_in_place(|| {
                if self.looked.is_none_or(|at| at.elapsed() > Duration::from_millis(500)) {
                    // A broker may be away for a while on purpose.
                    let _found = self.find_partitions();
                    self.looked = Some(Instant::now());
                }
                self.poll();
            });
        }
        &self.records
    }

    /// Reads until there are `count` records.
    pub(crate) fn read_count(&mut self, count: usize, deadline: Duration) -> &[Record] {
        let what = format!("{count} records of {}*", self.prefix);
        self.read_until(&what, deadline, |records| records.len() >= count)
    }

    /// Reads all that is in the log now. Records of transactions are not counted with: a commit
    /// marker at the end of a partition would be waited for until the deadline.
    pub(crate) fn read_to_end(&mut self) -> &[Record] {
        let begin = Instant::now();
        // A broker that has only just come back may not know its partitions' ends yet.
        let ends = loop {
            match tokio::task::block_in_place(|| self.find_partitions().and_then(|()| self.ends()))
            {
                Ok(ends) => break ends,
                Err(error) => {
                    assert!(begin.elapsed() < SHORT, "no ends of {}*: {error}", self.prefix);
                    tokio::task::block_in_place(|| self.poll());
                }
            }
        };
        while ends.iter().any(|(partition, end)| self.next[partition] < *end) {
            assert!(begin.elapsed() < SHORT, "waited {SHORT:?} for the end of {}*", self.prefix);
            tokio::task::block_in_place(|| self.poll());
        }
        &self.records
    }

    /// What has been read so far, which is forgotten here: for what is too much to be kept.
    pub(crate) fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// What has been read so far.
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    fn poll(&mut self) {
        let Some(polled) = self.consumer.poll(Duration::from_millis(50)) else { return };
        match polled {
            Ok(message) => {
                let record = copy(&message);
                self.next.insert((record.topic.clone(), record.partition), record.offset + 1);
                self.records.push(record);
            }
            // The client tries again by itself; the deadline tells if that does not help.
            Err(error) => eprintln!("reader: {error}"),
        }
    }

    /// Adds partitions that have appeared since the last look.
    fn find_partitions(&mut self) -> KafkaResult<()> {
        let metadata = self.consumer.fetch_metadata(None, STEP)?;
        let before = self.next.len();
        for topic in metadata.topics().iter().filter(|t| t.name().starts_with(&self.prefix)) {
            for partition in topic.partitions() {
                self.next.entry((topic.name().to_owned(), partition.id())).or_insert(0);
            }
        }
        if self.next.len() > before {
            let mut list = TopicPartitionList::new();
            for ((topic, partition), next) in &self.next {
                list.add_partition_offset(topic, *partition, Offset::Offset(*next)).unwrap();
            }
            self.consumer.assign(&list)?;
        }
        Ok(())
    }

    fn ends(&self) -> KafkaResult<Vec<((String, i32), i64)>> {
        let end = |(topic, partition): &(String, i32)| {
            let (_low, high) = self.consumer.fetch_watermarks(topic, *partition, STEP)?;
            Ok(((topic.clone(), *partition), high))
        };
        self.next.keys().map(end).collect()
    }
}

fn copy(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    Record {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect(),
        timestamp: message.timestamp().to_millis(),
    }
}
