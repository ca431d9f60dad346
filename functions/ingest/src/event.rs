//! The Lambda event of a Kafka topic, read straight from its bytes.
//!
//! What AWS sends (developer guide, "Using Lambda with Amazon MSK" and "… with self-managed Kafka"): an object with
//! `eventSource`, for MSK also `eventSourceArn`, and `records`, a map from `<topic>-<partition>` to an array of records.
//! A record has `topic`, `partition`, `offset`, `timestamp` (milliseconds), `timestampType`, `key` and `value` in
//! standard base64, `headers` as a list of `{name: [byte, …]}`, and, where the mapping knows a schema registry,
//! `keySchemaMetadata` and `valueSchemaMetadata`.
//!
//! The reading is tolerant where senders differ and exact where guessing would lose something:
//! - members come in any order, unknown ones are skipped at every level, of a repeated member the last one counts;
//! - an absent or null key or value is `None`, which is not the same as zero bytes;
//! - a timestamp of -1 is Kafka's way of saying that there is none;
//! - header bytes are accepted signed (as Java writes them) and unsigned; headers keep order and repeated names;
//! - topic names hold hyphens, so the last one ends the topic in a list's name; a record that names another topic or
//!   partition than its list makes the event contradictory, and nothing of it is used;
//! - a coordinate that comes twice with the same contents is one record; with different contents the event is refused.
//!
//! All of the event is read before any record is handed out: an event is used whole or not at all.

mod json;
mod members;
mod read;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use model::failure::Kind;

pub use read::Reader;

/// The largest body read. Lambda's own bound is 6 MB; the rest is room for events put together on a laptop.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// The most records of one event. A mapping sends at most 10,000; the bound keeps the index of a body full of tiny
/// records within a fraction of a gigabyte.
pub const RECORDS_MAX: usize = 1 << 20;

/// How many members one header object may have. It has one on the wire; the bound keeps looking for repeated names cheap.
const HEADER_MEMBERS_MAX: usize = 16;

/// Why an event can't be used. No record of such an event is known well enough to be set aside on its own, so none is
/// acknowledged: the invocation fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Larger than [`BODY_BYTES_MAX`].
    #[error("the event has {bytes} bytes; at most {max} are read")]
    TooLarge {
        /// The body's size.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// JSON, but of another kind of event.
    #[error("this is not an event of a Kafka topic (`aws:kafka` or `SelfManagedKafka`): {found}")]
    NotKafka {
        /// What it is instead, as far as it says.
        found: String,
    },
    /// The body ends inside a value.
    #[error("the event is cut short: it ends at byte {at}, where {expected} should follow")]
    Truncated {
        /// The body's length.
        at: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// Not JSON (RFC 8259).
    #[error("the event is not JSON: at byte {at}, {fault}")]
    NotJson {
        /// Position in the body.
        at: usize,
        /// What is wrong there.
        fault: &'static str,
    },
    /// JSON of a Kafka event whose parts are not what they should be.
    #[error("the event can't be used: at byte {at}, {fault}")]
    Malformed {
        /// Position in the body.
        at: usize,
        /// What is wrong there.
        fault: Cow<'static, str>,
    },
    /// The same coordinate with different contents.
    #[error("the event holds offset {offset} of {topic}-{partition} twice, with different contents")]
    Contradiction {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
    },
}

impl Error {
    /// What happens next. None of these is `Poison`: a poisoned record is set aside under its coordinate, and here no
    /// coordinate can be trusted. None is `Retry`: the same bytes read the same way next time. An event of another kind,
    /// or one beyond every limit of Lambda, means that the function is attached to the wrong thing (`Misconfigured`);
    /// broken bytes mean that something stored or sent is not what it should be (`Corrupt`). Both bring it to a person.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::TooLarge { .. } | Self::NotKafka { .. } => Kind::Misconfigured,
            Self::Truncated { .. } | Self::NotJson { .. } | Self::Malformed { .. } | Self::Contradiction { .. } => {
                Kind::Corrupt
            }
        }
    }
}

/// Which of the two mappings sent the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSource {
    /// `aws:kafka`: Amazon MSK.
    Msk,
    /// `SelfManagedKafka`.
    SelfManaged,
}

/// Who gave a record its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// `CREATE_TIME`: the producer.
    CreateTime,
    /// `LOG_APPEND_TIME`: the broker.
    LogAppendTime,
}

/// What a mapping with a schema registry says about a key or value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaMetadata {
    /// `AVRO`, `PROTOBUF` or `JSON`.
    pub data_format: Option<String>,
    /// The registry's id: a UUID (Glue) or a number as text (Confluent).
    pub schema_id: Option<String>,
}

/// A stretch of the reader's arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// Positions fit: the arena never outgrows a body, and a body has at most [`BODY_BYTES_MAX`] bytes.
    fn between(start: usize, end: usize) -> Self {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { start: narrow(start), len: narrow(end.saturating_sub(start)) }
    }

    fn of<T>(self, all: &[T]) -> &[T] {
        let start = self.start as usize;
        all.get(start..start + self.len as usize).unwrap_or_default()
    }

    fn of_text(self, all: &str) -> &str {
        let start = self.start as usize;
        all.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// One record as the reader indexes it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: i64,
    timestamp_ms: Option<i64>,
    timestamp_type: Option<TimestampType>,
    key: Option<Span>,
    value: Option<Span>,
    headers: Span,
    key_schema: Option<u32>,
    value_schema: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct HeaderEntry {
    name: Span,
    value: Option<Span>,
}

/// The records of one partition.
#[derive(Clone, Debug)]
struct List {
    topic: String,
    partition: i32,
    records: Span,
    duplicates: u64,
}

/// An event, read whole. Borrows the reader's buffers, not the body.
#[derive(Clone, Copy, Debug)]
pub struct Event<'r> {
    reader: &'r Reader,
    source: EventSource,
}

impl<'r> Event<'r> {
    /// Which mapping sent it.
    #[must_use]
    pub const fn source(&self) -> EventSource {
        self.source
    }

    /// `eventSourceArn`, where there is one: the cluster's ARN, with its UUID.
    #[must_use]
    pub fn source_arn(&self) -> Option<&'r str> {
        self.reader.arn.as_deref()
    }

    /// The partitions, in the order of the event. No partition comes twice; one may be empty.
    pub fn partitions(&self) -> impl Iterator<Item = Partition<'r>> + use<'r> {
        let reader = self.reader;
        reader.lists.iter().map(move |list| Partition { reader, list })
    }

    /// All records, in the order of the event.
    pub fn records(&self) -> impl Iterator<Item = Record<'r>> + use<'r> {
        self.partitions().flat_map(|p| p.records())
    }

    /// Whether the mapping's schema registry says something of any key or value.
    #[must_use]
    pub const fn names_schemas(&self) -> bool {
        !self.reader.schemas.is_empty()
    }

    /// How many records, each coordinate once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.reader.lists.iter().map(|list| list.records.len as usize).sum()
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many records were left out because their coordinate had come before, with the same contents.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.reader.lists.iter().map(|list| list.duplicates).sum()
    }
}

/// One partition's records.
#[derive(Clone, Copy, Debug)]
pub struct Partition<'r> {
    reader: &'r Reader,
    list: &'r List,
}

impl<'r> Partition<'r> {
    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &'r str {
        &self.list.topic
    }

    /// The partition's number, at least 0.
    #[must_use]
    pub const fn partition(&self) -> i32 {
        self.list.partition
    }

    /// How many records, each coordinate once.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.list.records.len as usize
    }

    /// Whether there is no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.list.records.len == 0
    }

    /// The records in the order of the event, which is normally, but not necessarily, that of their offsets.
    pub fn records(&self) -> impl ExactSizeIterator<Item = Record<'r>> + use<'r> {
        let (reader, list) = (self.reader, self.list);
        list.records.of(&reader.entries).iter().map(move |entry| Record { reader, list, entry })
    }
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    reader: &'r Reader,
    list: &'r List,
    entry: &'r Entry,
}

impl<'r> Record<'r> {
    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &'r str {
        &self.list.topic
    }

    /// The partition's number, at least 0.
    #[must_use]
    pub const fn partition(&self) -> i32 {
        self.list.partition
    }

    /// The offset, at least 0.
    #[must_use]
    pub const fn offset(&self) -> i64 {
        self.entry.offset
    }

    /// Milliseconds since the epoch; `None` where the record has no timestamp.
    #[must_use]
    pub const fn timestamp_ms(&self) -> Option<i64> {
        self.entry.timestamp_ms
    }

    /// Who gave the timestamp; `None` where the event does not say, or not in a known word.
    #[must_use]
    pub const fn timestamp_type(&self) -> Option<TimestampType> {
        self.entry.timestamp_type
    }

    /// The key's bytes; `None` for a record without a key.
    #[must_use]
    pub fn key(&self) -> Option<&'r [u8]> {
        self.entry.key.map(|span| span.of(&self.reader.bytes))
    }

    /// The value's bytes; `None` for a tombstone.
    #[must_use]
    pub fn value(&self) -> Option<&'r [u8]> {
        self.entry.value.map(|span| span.of(&self.reader.bytes))
    }

    /// Name and bytes of each header, in order, repeated names and all; `None` where Kafka's header value is null.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&'r str, Option<&'r [u8]>)> + Clone + use<'r> {
        let reader = self.reader;
        let entries = self.entry.headers.of(&reader.headers).iter();
        entries.map(|h| (h.name.of_text(&reader.text), h.value.map(|span| span.of(&reader.bytes))))
    }

    /// What the mapping's schema registry says about the key.
    #[must_use]
    pub fn key_schema(&self) -> Option<&'r SchemaMetadata> {
        self.reader.schemas.get(self.entry.key_schema? as usize)
    }

    /// What the mapping's schema registry says about the value.
    #[must_use]
    pub fn value_schema(&self) -> Option<&'r SchemaMetadata> {
        self.reader.schemas.get(self.entry.value_schema? as usize)
    }

    /// Whether two records hold the same timestamp, key, value and headers.
    fn same_contents(&self, other: &Self) -> bool {
        self.timestamp_ms() == other.timestamp_ms()
            && self.key() == other.key()
            && self.value() == other.value()
            && self.headers().eq(other.headers())
    }
}
