//! The JSON event of a Kafka topic, as an event source mapping hands it over (AWS Lambda developer guide, "Using Lambda
//! with Amazon MSK" and "… with self-managed Apache Kafka"), put together record by record.

use std::ops::Range;

const TAIL: &[u8] = b"}}";

/// About what one record takes, with its base64 value.
const RECORD_BYTES: u64 = 270;

/// A record to put in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) offset: i64,
    /// Milliseconds since the epoch; -1 is Kafka's way of saying that there are none.
    pub(crate) timestamp_ms: i64,
    /// Whether the broker gave the timestamp, and not the producer.
    pub(crate) log_append: bool,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

/// The records of one event, kept so that the same records can be cut into other events.
#[derive(Debug)]
pub(crate) struct Records {
    /// Everything up to the records.
    head: String,
    bytes: usize,
    partitions: Vec<Partition>,
    /// The partition of the last record: most often that of the next.
    last: usize,
}

/// The records of one partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// Of each record, in order.
    pub(crate) offsets: Vec<i64>,
    /// `"<topic>-<partition>":[`
    key: String,
    /// What each of its records begins with, up to the offset.
    head: String,
    /// Its records, with a comma between each two.
    bytes: Vec<u8>,
    /// Where each record stands there.
    records: Vec<Range<usize>>,
}

impl Records {
    /// No records yet. `source` is what comes before them: members of the event's object, each with a comma behind it.
    pub(crate) fn new(source: &str) -> Self {
        Self { head: format!("{{{source}\"records\":{{"), bytes: 0, partitions: Vec::new(), last: 0 }
    }

    /// Bytes of records so far.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn partition(&mut self, topic: &str, partition: i32, capacity: u64) -> Option<&mut Partition> {
        let is = |p: &Partition| p.partition == partition && p.topic == topic;
        if !self.partitions.get(self.last).is_some_and(is) {
            self.last = match self.partitions.iter().position(is) {
                Some(at) => at,
                None => {
                    let bytes = usize::try_from(capacity.saturating_mul(RECORD_BYTES)).unwrap_or(0);
                    self.partitions.push(Partition {
                        topic: topic.to_owned(),
                        partition,
                        offsets: Vec::new(),
                        key: format!("\"{topic}-{partition}\":["),
                        head: format!("{{\"topic\":\"{topic}\",\"partition\":{partition},\"offset\":"),
                        bytes: Vec::with_capacity(bytes),
                        records: Vec::new(),
                    });
                    self.partitions.len() - 1
                }
            };
        }
        self.partitions.get_mut(self.last)
    }

    /// Makes room for a partition's records.
    pub(crate) fn expect(&mut self, topic: &str, partition: i32, records: u64) {
        self.partition(topic, partition, records);
    }

    /// Puts a record behind those of its partition. A topic's name needs no escapes: Kafka allows letters, digits, `.`, `_`
    /// and `-`.
    pub(crate) fn push<'h>(
        &mut self,
        topic: &str,
        partition: i32,
        record: &Record<'_>,
        headers: impl IntoIterator<Item = (&'h str, Option<&'h [u8]>)>,
    ) {
        let Some(to) = self.partition(topic, partition, 0) else { return };
        let before = to.bytes.len();
        let out = &mut to.bytes;
        if !to.records.is_empty() {
            out.push(b',');
        }
        let start = out.len();
        out.extend_from_slice(to.head.as_bytes());
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(digits.format(record.offset).as_bytes());
        out.extend_from_slice(b",\"timestamp\":");
        out.extend_from_slice(digits.format(record.timestamp_ms).as_bytes());
        out.extend_from_slice(match record.log_append {
            true => b",\"timestampType\":\"LOG_APPEND_TIME\"".as_slice(),
            false => b",\"timestampType\":\"CREATE_TIME\"",
        });
        // A member that is not there is how Lambda says that there is no key.
        for (member, bytes) in [(b",\"key\":\"".as_slice(), record.key), (b",\"value\":\"", record.value)] {
            if let Some(bytes) = bytes {
                out.extend_from_slice(member);
                base64_simd::STANDARD.encode_append(bytes, &mut *out);
                out.push(b'"');
            }
        }
        out.extend_from_slice(b",\"headers\":[");
        for (n, (name, value)) in headers.into_iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            header(name, value, out);
        }
        out.extend_from_slice(b"]}");
        to.records.push(start..out.len());
        to.offsets.push(record.offset);
        self.bytes += to.bytes.len() - before;
    }

    /// The event of all records, and how many they are.
    pub(crate) fn whole(&self) -> (Vec<u8>, u64) {
        self.event(|_, partition| 0..partition.offsets.len())
    }

    /// The same records as two events, each partition cut in its middle.
    pub(crate) fn halves(&self) -> [(Vec<u8>, u64); 2] {
        let middle = |partition: &Partition| partition.offsets.len() / 2;
        [self.event(|_, p| 0..middle(p)), self.event(|_, p| middle(p)..p.offsets.len())]
    }

    /// An event of the part of each partition, by its place among them, that `part` chooses.
    pub(crate) fn event(&self, part: impl Fn(usize, &Partition) -> Range<usize>) -> (Vec<u8>, u64) {
        let separators: usize = self.partitions.iter().map(|p| p.key.len() + p.records.len() + 2).sum();
        let mut out = Vec::with_capacity(self.head.len() + self.bytes + separators + TAIL.len());
        out.extend_from_slice(self.head.as_bytes());
        let mut count = 0_u64;
        let mut first_partition = true;
        for (n, partition) in self.partitions.iter().enumerate() {
            let records = partition.records.get(part(n, partition)).unwrap_or_default();
            let (Some(first), Some(last)) = (records.first(), records.last()) else { continue };
            if !first_partition {
                out.push(b',');
            }
            first_partition = false;
            out.extend_from_slice(partition.key.as_bytes());
            // Commas stand between the records in the buffer already, so a run of records is one copy.
            out.extend_from_slice(partition.bytes.get(first.start..last.end).unwrap_or_default());
            out.push(b']');
            count += records.len() as u64;
        }
        out.extend_from_slice(TAIL);
        (out, count)
    }
}

/// What a mapping needs beside a generator.
#[cfg(any(test, feature = "kafka"))]
impl Records {
    /// Forgets the records, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        for partition in &mut self.partitions {
            partition.offsets.clear();
            partition.bytes.clear();
            partition.records.clear();
        }
    }

    /// The partitions, those without a record among them.
    pub(crate) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The most bytes that a record without headers may take in an event, with everything around it.
    pub(crate) fn bytes_of(topic: &str, record: &Record<'_>) -> usize {
        let text = |bytes: Option<&[u8]>| bytes.map_or(0, |bytes| bytes.len().div_ceil(3) * 4);
        200 + 2 * topic.len() + text(record.key) + text(record.value)
    }
}

/// `{"<name>":[<byte>,…]}`, its bytes signed as Java writes them; a header without a value is null.
fn header(name: &str, value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(b'{');
    out.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
    out.push(b':');
    match value {
        None => out.extend_from_slice(b"null"),
        Some(bytes) => {
            out.push(b'[');
            let mut digits = itoa::Buffer::new();
            for (n, byte) in bytes.iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(digits.format(byte.cast_signed()).as_bytes());
            }
            out.push(b']');
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use ingest::event::{Reader, TimestampType};

    use super::*;

    #[test]
    fn ingest_reads_what_was_put_in() {
        let mut records = Records::new("\"eventSource\":\"SelfManagedKafka\",\"bootstrapServers\":\"b:1\",");
        let plain = Record { offset: 7, timestamp_ms: 1000, log_append: false, key: None, value: Some(b"x") };
        records.push("a-b", 0, &plain, []);
        let bare = Record { offset: 8, timestamp_ms: -1, log_append: false, key: Some(b""), value: None };
        records.push("t.2", 3, &bare, [("h\"1", Some(&b"\x00\xff"[..])), ("h2", None), ("h2", Some(&b""[..]))]);
        records.push("a-b", 0, &Record { offset: 9, log_append: true, key: Some(b"k"), ..plain }, []);
        let (body, count) = records.whole();
        assert_eq!((count, records.partitions().len()), (3, 2));
        let mut reader = Reader::default();
        let event = reader.read(&body).unwrap();
        let seen: Vec<_> = event
            .records()
            .map(|r| {
                (
                    r.topic().to_owned(),
                    r.partition(),
                    r.offset(),
                    r.timestamp_ms(),
                    r.key().map(<[u8]>::to_vec),
                    r.value().map(<[u8]>::to_vec),
                )
            })
            .collect();
        let text = |s: &str| Some(s.as_bytes().to_vec());
        assert_eq!(
            seen,
            [
                ("a-b".to_owned(), 0, 7, Some(1000), None, text("x")),
                ("a-b".to_owned(), 0, 9, Some(1000), text("k"), text("x")),
                ("t.2".to_owned(), 3, 8, None, text(""), None),
            ]
        );
        let types: Vec<_> = event.records().map(|r| r.timestamp_type()).collect();
        assert_eq!(types[1], Some(TimestampType::LogAppendTime));
        // Cut as a retry cuts it: from offset 9 of the first partition on, and nothing of the other.
        let (rest, count) = records.event(|n, p| if n == 0 { 1..p.offsets.len() } else { 0..0 });
        assert_eq!(count, 1);
        assert_eq!(reader.read(&rest).unwrap().records().map(|r| r.offset()).collect::<Vec<_>>(), [9]);
        records.clear();
        assert_eq!((records.whole().1, records.bytes()), (0, 0));
    }
}
