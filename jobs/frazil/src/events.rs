//! The JSON event of Amazon MSK's event source mapping, written straight into one buffer.

use std::ops::Range;

/// A self-made ARN of the documented form: it names no account and no cluster.
const HEAD: &str = concat!(
    r#"{"eventSource":"aws:kafka","#,
    r#""eventSourceArn":"arn:aws:kafka:eu-west-1:000000000000:cluster/frazil-demo/00000000-0000-4000-8000-000000000000-1","#,
    r#""bootstrapServers":"b-1.demo.invalid:9098,b-2.demo.invalid:9098","records":{"#
);
const TAIL: &[u8] = b"}}";

/// About what one record takes, with its base64 value.
const RECORD_BYTES: u64 = 270;

/// The records of one event, kept so that the same records can be cut into other events.
#[derive(Debug)]
pub(super) struct Recorded {
    bytes: Vec<u8>,
    partitions: Vec<Partition>,
}

#[derive(Debug)]
struct Partition {
    /// `"<topic>-<partition>":[`
    key: String,
    /// What each of its records begins with, up to the offset.
    head: String,
    /// Where each record stands in the buffer.
    records: Vec<Range<usize>>,
}

impl Recorded {
    pub(super) fn with_capacity(records: u64) -> Self {
        let bytes = usize::try_from(records.saturating_mul(RECORD_BYTES)).unwrap_or(0);
        Self { bytes: Vec::with_capacity(bytes), partitions: Vec::new() }
    }

    /// Bytes of records so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The records that follow belong to this partition.
    pub(super) fn partition(&mut self, topic: &str, partition: usize) {
        self.partitions.push(Partition {
            key: format!("\"{topic}-{partition}\":["),
            head: format!("{{\"topic\":\"{topic}\",\"partition\":{partition},\"offset\":"),
            records: Vec::new(),
        });
    }

    /// Appends a record without a key.
    pub(super) fn record(&mut self, offset: i64, timestamp_ms: i64, value: &[u8]) {
        let Some(partition) = self.partitions.last_mut() else { return };
        if !partition.records.is_empty() {
            self.bytes.push(b',');
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(partition.head.as_bytes());
        let mut digits = itoa::Buffer::new();
        self.bytes.extend_from_slice(digits.format(offset).as_bytes());
        self.bytes.extend_from_slice(b",\"timestamp\":");
        self.bytes.extend_from_slice(digits.format(timestamp_ms).as_bytes());
        self.bytes.extend_from_slice(b",\"timestampType\":\"CREATE_TIME\",\"value\":\"");
        base64_simd::STANDARD.encode_append(value, &mut self.bytes);
        self.bytes.extend_from_slice(b"\",\"headers\":[]}");
        partition.records.push(start..self.bytes.len());
    }

    /// The event of all records, and how many they are.
    pub(super) fn whole(&self) -> (Vec<u8>, u64) {
        self.event(|records| 0..records)
    }

    /// The same records as two events, each partition cut in its middle.
    pub(super) fn halves(&self) -> [(Vec<u8>, u64); 2] {
        [self.event(|records| 0..records / 2), self.event(|records| records / 2..records)]
    }

    /// An event of the part of each partition that `part` makes of its number of records.
    fn event(&self, part: impl Fn(usize) -> Range<usize>) -> (Vec<u8>, u64) {
        let separators: usize = self.partitions.iter().map(|p| p.key.len() + p.records.len() + 2).sum();
        let mut out = Vec::with_capacity(HEAD.len() + self.bytes.len() + separators + TAIL.len());
        out.extend_from_slice(HEAD.as_bytes());
        let mut count = 0_u64;
        let mut first_partition = true;
        for partition in &self.partitions {
            let records = partition.records.get(part(partition.records.len())).unwrap_or_default();
            let (Some(first), Some(last)) = (records.first(), records.last()) else { continue };
            if !first_partition {
                out.push(b',');
            }
            first_partition = false;
            out.extend_from_slice(partition.key.as_bytes());
            // Commas stand between the records in the buffer already, so a run of records is one copy.
            out.extend_from_slice(self.bytes.get(first.start..last.end).unwrap_or_default());
            out.push(b']');
            count += records.len() as u64;
        }
        out.extend_from_slice(TAIL);
        (out, count)
    }
}
