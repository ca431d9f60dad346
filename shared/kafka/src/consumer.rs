//! A consumer of partitions that its owner chooses. Which offsets were handled is committed to a group, so that the next
//! one goes on from there; the group shares nothing out, so a process that died holds no partition back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message, Timestamp};
use rdkafka::util::Timeout;

use crate::client::{self, Context, HEAR, HEAR_TIMES, Tokens, config};
use crate::commits::Commits;
use crate::error::Error;
use crate::settings::Settings;

impl ConsumerContext for Context {}

/// How long a question to the cluster may take.
const ASK: Duration = Duration::from_secs(20);
/// How often a group's coordinator is asked again while it is being found, and how long after the last answer.
const COORDINATOR_TRIES: u32 = 40;
const COORDINATOR_WAIT: Duration = Duration::from_millis(500);

/// How long a question may take that is asked again and again.
const GLANCE: Duration = Duration::from_secs(5);

/// What a consumer says beside its records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Says {
    /// Where a partition's records end: see [`Next::End`].
    pub ends: bool,
    /// What it is asked of a partition's end holds for records of transactions that are still open, too.
    pub open_transactions: bool,
}

/// Where reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest record there is.
    Earliest,
    /// What is sent from now on.
    Latest,
    /// The first record of this time or later, in milliseconds since the epoch.
    Time(i64),
}

/// A topic's partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
}

/// Who gave a record its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer.
    Create,
    /// The broker.
    LogAppend,
}

/// A record in the client's own buffer.
pub struct Record<'a>(BorrowedMessage<'a>);

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}@{}", self.topic(), self.partition(), self.offset())
    }
}

impl Record<'_> {
    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.0.topic()
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.0.partition()
    }

    /// The offset.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.0.offset()
    }

    /// Milliseconds since the epoch and whose they are; none where the record has none.
    #[must_use]
    pub fn timestamp(&self) -> Option<(i64, TimestampType)> {
        match self.0.timestamp() {
            Timestamp::NotAvailable => None,
            Timestamp::CreateTime(ms) => Some((ms, TimestampType::Create)),
            Timestamp::LogAppendTime(ms) => Some((ms, TimestampType::LogAppend)),
        }
    }

    /// The key; none is not the same as zero bytes.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    /// The value; none is a tombstone.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.0.payload()
    }

    /// Headers in order: name, and value where there is one.
    pub fn headers(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.0.headers().into_iter().flat_map(|headers| headers.iter().map(|header| (header.key, header.value)))
    }
}

/// What comes next.
#[derive(Debug)]
pub enum Next<'a> {
    /// A record.
    Record(Record<'a>),
    /// There is no further record of this partition now. Said where [`Says::ends`] asks for it, of one topic: the client does
    /// not say which one's partition it is.
    End(i32),
    /// Nothing came in time.
    Nothing,
}

/// A consumer. Its position moves with [`Consumer::poll`] alone.
pub struct Consumer {
    inner: Arc<BaseConsumer<Context>>,
    servers: String,
    /// Whose thread holds the client too: one that is kept by a commit is not waited for, and ends with the process.
    commits: Commits,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Consumer {
    /// A consumer that commits to a group, and reads nothing yet. `buffer_bytes` bounds what it fetches ahead.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub fn new(
        settings: &Settings,
        group: &str,
        buffer_bytes: u64,
        tokens: Option<Arc<dyn Tokens>>,
    ) -> Result<Self, Error> {
        Self::saying(Says::default(), settings, group, buffer_bytes, tokens)
    }

    /// The same, which says more than its records.
    ///
    /// # Errors
    /// As [`Consumer::new`].
    pub fn saying(
        says: Says,
        settings: &Settings,
        group: &str,
        buffer_bytes: u64,
        tokens: Option<Arc<dyn Tokens>>,
    ) -> Result<Self, Error> {
        let context = Context::new(settings, tokens)?;
        let mut config = config(settings.for_consumer());
        let kilobytes = (buffer_bytes / 1024).max(1).to_string();
        if config.get("queued.max.messages.kbytes").is_none() {
            config.set("queued.max.messages.kbytes", kilobytes);
        }
        if config.get("client.id").is_none() {
            config.set("client.id", "frazil");
        }
        if says.open_transactions {
            config.set("isolation.level", "read_uncommitted");
        }
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", says.ends.to_string());
        let servers = settings.bootstrap_servers().to_owned();
        let inner = config.create_with_context(context).map_err(|e| Error::creating(&e, &config, &servers))?;
        Ok(Self { inner: Arc::new(inner), servers, commits: Commits::default() })
    }

    /// The partitions of a topic.
    ///
    /// # Errors
    /// [`Error::NoTopic`], and why nobody could be asked.
    pub fn partitions(&self, topic: &str) -> Result<Vec<i32>, Error> {
        let context = self.inner.context();
        let mut partitions = client::partitions(self.inner.client(), context, topic, || self.hear())?;
        partitions.sort_unstable();
        Ok(partitions)
    }

    /// The topics of the cluster that this client may see, in order of their names.
    ///
    /// # Errors
    /// Why nobody could be asked.
    pub fn topics(&self) -> Result<Vec<String>, Error> {
        let mut topics = client::topics(self.inner.client(), self.inner.context(), || self.hear())?;
        topics.sort_unstable();
        Ok(topics)
    }

    /// The first offset that there is, and the one that the next record will have.
    ///
    /// # Errors
    /// Why nobody could be asked.
    pub fn bounds(&self, place: &Place) -> Result<(i64, i64), Error> {
        self.ask(|inner| inner.fetch_watermarks(&place.topic, place.partition, Timeout::After(ASK)))
    }

    /// What the group has committed for these partitions: the offset that comes next. Those without are left out.
    ///
    /// # Errors
    /// Why nobody could be asked.
    pub fn committed(&self, places: &[Place]) -> Result<BTreeMap<Place, i64>, Error> {
        let mut list = TopicPartitionList::with_capacity(places.len());
        for place in places {
            list.add_partition(&place.topic, place.partition);
        }
        let committed = self.ask(|inner| inner.committed_offsets(list.clone(), Timeout::After(ASK)))?;
        Ok(offsets_of(&committed))
    }

    /// The first offset of a time or later, for each of these partitions; the next offset where all records are older.
    ///
    /// # Errors
    /// Why nobody could be asked.
    pub fn at(&self, places: &[Place], time_ms: i64) -> Result<BTreeMap<Place, i64>, Error> {
        let list = self.list(places.iter().map(|place| (place, time_ms)))?;
        let found = self.ask(|inner| inner.offsets_for_times(list.clone(), Timeout::After(ASK)))?;
        let mut offsets = offsets_of(&found);
        for place in places {
            if !offsets.contains_key(place) {
                offsets.insert(place.clone(), self.bounds(place)?.1);
            }
        }
        Ok(offsets)
    }

    /// Reads these partitions from these offsets on, and nothing else.
    ///
    /// # Errors
    /// When the client does not take them.
    pub fn read(&self, from: &BTreeMap<Place, i64>) -> Result<(), Error> {
        let list = self.list(from.iter().map(|(place, offset)| (place, *offset)))?;
        self.inner.assign(&list).map_err(|e| Error::from_kafka(&e, &self.servers))
    }

    /// Reads one more partition from this offset on.
    ///
    /// # Errors
    /// When the client does not take it.
    pub fn read_also(&self, place: &Place, from: i64) -> Result<(), Error> {
        let list = self.list([(place, from)])?;
        self.inner.incremental_assign(&list).map_err(|e| Error::from_kafka(&e, &self.servers))
    }

    /// The next record, if one comes within a time.
    ///
    /// # Errors
    /// As [`Consumer::next`].
    pub fn poll(&self, wait: Duration) -> Result<Option<Record<'_>>, Error> {
        Ok(match self.next(wait)? {
            Next::Record(record) => Some(record),
            Next::End(_) | Next::Nothing => None,
        })
    }

    /// What comes within a time.
    ///
    /// # Errors
    /// What the cluster said of a partition. Connections that fail are tried again for ever; [`Consumer::trouble`] says so.
    pub fn next(&self, wait: Duration) -> Result<Next<'_>, Error> {
        match self.inner.poll(Timeout::After(wait)) {
            None => Ok(Next::Nothing),
            Some(Ok(message)) => {
                self.inner.context().well();
                Ok(Next::Record(Record(message)))
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(Next::End(partition)),
            Some(Err(error)) => match Error::from_kafka(&error, &self.servers) {
                // It was said to the context, too.
                Error::Unreachable { .. } | Error::Refused { .. } => Ok(Next::Nothing),
                error => Err(error),
            },
        }
    }

    /// What keeps records from coming, as far as the client says.
    #[must_use]
    pub fn trouble(&self) -> Option<Error> {
        self.inner.context().last()
    }

    /// The partitions of a topic that nobody can read now, because they have no leader. A question of one try, for a consumer that
    /// reads nothing.
    ///
    /// # Errors
    /// Why nobody could be asked.
    pub fn leaderless(&self, topic: &str) -> Result<Vec<i32>, Error> {
        let metadata = self.inner.fetch_metadata(Some(topic), Timeout::After(GLANCE)).map_err(|error| {
            self.hear();
            self.inner.context().error(&error)
        })?;
        let found = metadata.topics().iter().filter(|found| found.name() == topic).flat_map(|found| found.partitions());
        Ok(found.filter(|partition| partition.leader() < 0).map(|partition| partition.id()).collect())
    }

    /// The offset before which everything of a partition is decided: the first of a transaction that is still open, else the one
    /// that the next record will have. With `isolation.level=read_uncommitted` always the latter.
    ///
    /// # Errors
    /// Why nobody could be asked. Nothing is read meanwhile.
    pub fn decided(&self, place: &Place) -> Result<i64, Error> {
        let asked = self.inner.fetch_watermarks(&place.topic, place.partition, Timeout::After(ASK));
        asked.map(|(_, end)| end).map_err(|e| self.inner.context().error(&e))
    }

    /// Commits the offsets that come next, durably.
    ///
    /// # Errors
    /// Why they could not be committed, or that no answer came.
    pub fn commit(&self, next: &BTreeMap<Place, i64>) -> Result<(), Error> {
        self.commit_later(next)?;
        self.settle(ASK)
    }

    /// Has the offsets that come next committed, in the order of the calls, and does not wait for it.
    ///
    /// # Errors
    /// When that can't be begun.
    pub fn commit_later(&self, next: &BTreeMap<Place, i64>) -> Result<(), Error> {
        if next.is_empty() {
            return Ok(());
        }
        self.commits.ask(next.clone(), || {
            let inner = Arc::clone(&self.inner);
            move |next| {
                let list = list(next.iter().map(|(place, offset)| (place, *offset)));
                let answer = list.and_then(|list| inner.commit(&list, CommitMode::Sync));
                answer.map_err(|error| inner.context().error(&error))
            }
        })
    }

    /// Why offsets could not be committed, since this was last asked: their records come again, unless later offsets were
    /// committed.
    #[must_use]
    pub fn uncommitted(&self) -> Option<Error> {
        self.commits.take_failure()
    }

    /// Waits for the answers to all commits, for a while.
    ///
    /// # Errors
    /// Why offsets could not be committed, or that no answer came.
    pub fn settle(&self, wait: Duration) -> Result<(), Error> {
        if !self.commits.wait(wait) {
            let why = format!("a commit of offsets has had no answer for {} s", wait.as_secs());
            return Err(Error::Unreachable { servers: self.servers.clone(), why });
        }
        self.uncommitted().map_or(Ok(()), Err)
    }

    /// Partitions with a number each, as the client takes them.
    fn list<'p>(&self, places: impl IntoIterator<Item = (&'p Place, i64)>) -> Result<TopicPartitionList, Error> {
        list(places).map_err(|e| Error::from_kafka(&e, &self.servers))
    }

    /// Asks the cluster, and listens meanwhile to what is said of the connections.
    fn ask<T>(&self, question: impl Fn(&BaseConsumer<Context>) -> rdkafka::error::KafkaResult<T>) -> Result<T, Error> {
        let mut left = COORDINATOR_TRIES;
        let error = loop {
            match question(&self.inner) {
                Ok(answer) => return Ok(answer),
                Err(error) if is_settling(&error) && left > 0 => left -= 1,
                Err(error) => break error,
            }
            drop(self.inner.poll(Timeout::After(COORDINATOR_WAIT)));
        };
        self.hear();
        Err(self.inner.context().error(&error))
    }

    /// Has what was said of the connections handed over, which polling alone does. No partition is read yet: there is no
    /// record that could be lost.
    fn hear(&self) {
        for _ in 0..HEAR_TIMES {
            drop(self.inner.poll(Timeout::After(HEAR)));
        }
    }
}

fn list<'p>(places: impl IntoIterator<Item = (&'p Place, i64)>) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for (place, number) in places {
        list.add_partition_offset(&place.topic, place.partition, Offset::Offset(number))?;
    }
    Ok(list)
}

/// Whether a group's coordinator is only just being found: after a broker's start, or with a group's first question.
fn is_settling(error: &KafkaError) -> bool {
    use rdkafka::types::RDKafkaErrorCode::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    matches!(error.rdkafka_error_code(), Some(NotCoordinator | CoordinatorNotAvailable | CoordinatorLoadInProgress))
}

fn offsets_of(list: &TopicPartitionList) -> BTreeMap<Place, i64> {
    let elements = list.elements();
    let known = elements.iter().filter_map(|element| match element.offset() {
        Offset::Offset(offset) => {
            Some((Place { topic: element.topic().to_owned(), partition: element.partition() }, offset))
        }
        _ => None,
    });
    known.collect()
}
