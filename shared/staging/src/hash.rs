//! The hash in a staged object's key: the same records under the same pipeline file give the same key, so a repeated
//! delivery finds its object stored already.
//!
//! It is the xxh3-128 (seed 0) of the bytes below, all numbers little-endian. Every variable part carries its length, so
//! no two inputs share a text. The layout is a contract: an installation that spelled it differently would store a
//! repeated delivery twice (which the fold drops as settled, at a cost).
//!
//! ```text
//! text(T)      = u64 bytes of T, then T
//! payload(P)   = u64 bytes of P, then P; a null is u64 2^64-1 and nothing else
//! intervals(I) = u64 count, then i64 first and i64 last of each
//!
//! "frazil.object-hash/1"                          20 bytes, without a length
//! text(source) text(pipeline-file hash)
//! 0x04 text(origin)                               "backfill" or "replay"; nothing for the stream's
//! for each record, in the order of the event:
//!   0x01 text(topic) i32 partition                only when either differs from the record before
//!   0x02 i64 offset  i64 timestamp                milliseconds; i64 minimum where the record has none
//!        payload(key) payload(value)
//!        u64 headers, then text(name) payload(value) of each
//! 0x03 u64 partitions covered, then of each, in order of source, topic, partition:
//!        text(source) text(topic) i32 partition
//!        intervals(delivered) intervals(dead)
//!        u64 reasons, then text(reason) intervals(filtered) of each, in order of the reasons' text:
//!        "explode", "filter", "tombstone"
//! ```
//!
//! Samples are not covered: first and last follow from the records.

use model::coordinate::SourceId;
use model::coverage::{Coverage, Filtered};
use model::interval::Intervals;
use model::verdict::Origin;
use xxhash_rust::xxh3::Xxh3;

use crate::key::ObjectHash;

const LAYOUT: &[u8] = b"frazil.object-hash/1";
const NULL: u64 = u64::MAX;
/// Small parts are gathered before they are hashed: the hash works best on kilobytes, and records are tens of bytes.
const GATHER_BYTES: usize = 8 * 1024;

/// One record as Kafka handed it over.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a, H> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Milliseconds since the epoch; absent where the record has none.
    pub timestamp_ms: Option<i64>,
    /// The key's bytes, or null.
    pub key: Option<&'a [u8]>,
    /// The value's bytes, or null.
    pub value: Option<&'a [u8]>,
    /// Names and values, in the order of the record: `IntoIterator<Item = (&str, Option<&[u8]>)>` that knows its length.
    pub headers: H,
}

/// Hashes an invocation's records in one pass.
#[derive(Clone)]
pub struct ObjectHasher {
    hash: Xxh3,
    gathered: Vec<u8>,
    topic: String,
    partition: Option<i32>,
}

impl std::fmt::Debug for ObjectHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectHasher").field("topic", &self.topic).field("partition", &self.partition).finish()
    }
}

impl ObjectHasher {
    /// Starts the hash of one object.
    #[must_use]
    pub fn new(source: &SourceId, pipeline_file_hash: &str) -> Self {
        let mut hasher = Self {
            hash: Xxh3::new(),
            gathered: Vec::with_capacity(GATHER_BYTES),
            topic: String::new(),
            partition: None,
        };
        hasher.bytes(LAYOUT);
        hasher.text(source.as_str());
        hasher.text(pipeline_file_hash);
        hasher
    }

    /// Says how the records came, before the first of them: what a stream's object says of the offsets between its records,
    /// another's does not.
    pub fn origin(&mut self, origin: Origin) {
        let name = match origin {
            Origin::Stream => return,
            Origin::Backfill => "backfill",
            Origin::Replay => "replay",
        };
        self.bytes(&[4]);
        self.text(name);
    }

    /// Adds the next record of the event.
    pub fn record<'a, H>(&mut self, record: RawRecord<'a, H>)
    where
        H: IntoIterator<Item = (&'a str, Option<&'a [u8]>), IntoIter: ExactSizeIterator>,
    {
        if self.partition != Some(record.partition) || self.topic != record.topic {
            self.partition = Some(record.partition);
            self.topic.clear();
            self.topic.push_str(record.topic);
            self.bytes(&[1]);
            self.text(record.topic);
            self.bytes(&record.partition.to_le_bytes());
        }
        let mut fixed = [2; 17];
        let (_, numbers) = fixed.split_at_mut(1);
        let (offset, timestamp) = numbers.split_at_mut(8);
        offset.copy_from_slice(&record.offset.to_le_bytes());
        timestamp.copy_from_slice(&record.timestamp_ms.unwrap_or(i64::MIN).to_le_bytes());
        self.bytes(&fixed);
        self.payload(record.key);
        self.payload(record.value);
        let headers = record.headers.into_iter();
        self.number(headers.len() as u64);
        for (name, value) in headers {
            self.text(name);
            self.payload(value);
        }
    }

    /// Ends with what the object accounts for.
    #[must_use]
    pub fn finish(mut self, coverage: &Coverage) -> ObjectHash {
        self.bytes(&[3]);
        self.number(coverage.iter().count() as u64);
        for (at, covered) in coverage.iter() {
            self.text(at.source.as_str());
            self.text(&at.topic);
            self.bytes(&at.partition.to_le_bytes());
            self.intervals(&covered.delivered);
            self.intervals(&covered.dead);
            let mut reasons: Vec<_> = covered.filtered.iter().map(|(why, which)| (reason(*why), which)).collect();
            reasons.sort_unstable_by_key(|(why, _)| *why);
            self.number(reasons.len() as u64);
            for (why, which) in reasons {
                self.text(why);
                self.intervals(which);
            }
        }
        self.hash.update(&self.gathered);
        ObjectHash::new(self.hash.digest128())
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        if self.gathered.len() + bytes.len() > GATHER_BYTES {
            self.hash.update(&self.gathered);
            self.gathered.clear();
            if bytes.len() > GATHER_BYTES {
                self.hash.update(bytes);
                return;
            }
        }
        self.gathered.extend_from_slice(bytes);
    }

    #[inline]
    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    #[inline]
    fn text(&mut self, text: &str) {
        self.payload(Some(text.as_bytes()));
    }

    #[inline]
    fn payload(&mut self, payload: Option<&[u8]>) {
        match payload {
            Some(bytes) => {
                self.number(bytes.len() as u64);
                self.bytes(bytes);
            }
            None => self.number(NULL),
        }
    }

    fn intervals(&mut self, intervals: &Intervals) {
        self.number(intervals.as_slice().len() as u64);
        for interval in intervals.as_slice() {
            self.bytes(&interval.first().to_le_bytes());
            self.bytes(&interval.last().to_le_bytes());
        }
    }
}

const fn reason(why: Filtered) -> &'static str {
    match why {
        Filtered::Filter => "filter",
        Filtered::Explode => "explode",
        Filtered::Tombstone => "tombstone",
    }
}

/// The hash of an object that is named by its bytes alone: letters that a fold writes.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> ObjectHash {
    ObjectHash::new(xxhash_rust::xxh3::xxh3_128(bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::coordinate::{Sample, TopicPartition};
    use model::coverage::PartitionCoverage;
    use model::interval::Interval;
    use proptest::prelude::*;

    use super::*;

    type Header = (&'static str, Option<&'static [u8]>);

    fn record(partition: i32, offset: i64) -> RawRecord<'static, Vec<Header>> {
        RawRecord {
            topic: "orders.v1-eu",
            partition,
            offset,
            timestamp_ms: Some(1_764_424_000_123),
            key: Some(b"k"),
            value: Some(b"value"),
            headers: vec![("trace", Some(b"\x00\xff")), ("empty", None)],
        }
    }

    fn coverage(dead: &[i64], filtered: &[(Filtered, i64)]) -> Coverage {
        let mut filtered_sets: BTreeMap<Filtered, Intervals> = BTreeMap::new();
        for (why, offset) in filtered {
            filtered_sets.entry(*why).or_default().push(*offset);
        }
        let mut coverage = Coverage::default();
        let at = TopicPartition { source: SourceId::of("cluster"), topic: "orders.v1-eu".to_owned(), partition: 3 };
        let covered = PartitionCoverage {
            delivered: Interval::new(7, 12).unwrap().into(),
            filtered: filtered_sets,
            dead: dead.iter().map(|o| Interval::new(*o, *o).unwrap()).collect(),
            first: Sample { offset: 7, timestamp_ms: None },
            last: Sample { offset: 12, timestamp_ms: None },
        };
        coverage.insert(at, covered).unwrap();
        coverage
    }

    fn hash<'a>(
        source: &str,
        file: &str,
        records: impl IntoIterator<Item = RawRecord<'a, Vec<(&'a str, Option<&'a [u8]>)>>>,
        coverage: &Coverage,
    ) -> String {
        let mut hasher = ObjectHasher::new(&SourceId::of(source), file);
        for record in records {
            hasher.record(record);
        }
        hasher.finish(coverage).to_string()
    }

    /// The layout once more, written plainly from its description.
    fn plain(source: &str, file: &str, records: &[RawRecord<'_, Vec<Header>>], coverage: &Coverage) -> String {
        let mut out = b"frazil.object-hash/1".to_vec();
        let text = |out: &mut Vec<u8>, t: &[u8]| {
            out.extend((t.len() as u64).to_le_bytes());
            out.extend(t);
        };
        let payload = |out: &mut Vec<u8>, p: Option<&[u8]>| match p {
            Some(p) => text(out, p),
            None => out.extend([0xff; 8]),
        };
        let intervals = |out: &mut Vec<u8>, i: &Intervals| {
            out.extend((i.as_slice().len() as u64).to_le_bytes());
            i.as_slice().iter().for_each(|i| {
                out.extend(i.first().to_le_bytes());
                out.extend(i.last().to_le_bytes());
            });
        };
        text(&mut out, SourceId::of(source).as_str().as_bytes());
        text(&mut out, file.as_bytes());
        let mut before = None;
        for r in records {
            if before != Some((r.topic, r.partition)) {
                out.push(1);
                text(&mut out, r.topic.as_bytes());
                out.extend(r.partition.to_le_bytes());
                before = Some((r.topic, r.partition));
            }
            out.push(2);
            out.extend(r.offset.to_le_bytes());
            out.extend(r.timestamp_ms.unwrap_or(i64::MIN).to_le_bytes());
            payload(&mut out, r.key);
            payload(&mut out, r.value);
            out.extend((r.headers.len() as u64).to_le_bytes());
            for (name, value) in &r.headers {
                text(&mut out, name.as_bytes());
                payload(&mut out, *value);
            }
        }
        out.push(3);
        out.extend((coverage.iter().count() as u64).to_le_bytes());
        for (at, c) in coverage.iter() {
            text(&mut out, at.source.as_str().as_bytes());
            text(&mut out, at.topic.as_bytes());
            out.extend(at.partition.to_le_bytes());
            intervals(&mut out, &c.delivered);
            intervals(&mut out, &c.dead);
            out.extend((c.filtered.len() as u64).to_le_bytes());
            for (why, name) in
                [(Filtered::Explode, "explode"), (Filtered::Filter, "filter"), (Filtered::Tombstone, "tombstone")]
            {
                if let Some(which) = c.filtered.get(&why) {
                    text(&mut out, name.as_bytes());
                    intervals(&mut out, which);
                }
            }
        }
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&out))
    }

    #[test]
    fn the_layout_is_the_one_described_and_its_values_are_kept() {
        let covered = coverage(&[9], &[(Filtered::Tombstone, 10), (Filtered::Explode, 11), (Filtered::Filter, 12)]);
        let mut records = vec![record(3, 7), record(3, 8), record(4, 0), record(3, 9)];
        records[1].key = None;
        records[2].value = Some(b"");
        records[3].timestamp_ms = None;
        records[3].headers.clear();
        let value = hash("cluster", "file", records.clone(), &covered);
        assert_eq!(value, plain("cluster", "file", &records, &covered));
        // Golden: a change here breaks the contract with every object stored before.
        assert_eq!(value, GOLDEN);
        assert_eq!(hash("", "", [], &Coverage::default()), GOLDEN_EMPTY);
    }

    const GOLDEN: &str = "43e615009c56379522d4e7fb0466cbe1";
    const GOLDEN_EMPTY: &str = "30adcc714375af16b78ffefba65f56c6";

    #[test]
    fn whatever_differs_gives_another_hash() {
        let none = coverage(&[], &[]);
        let with = |change: fn(&mut RawRecord<'static, Vec<Header>>)| {
            let mut changed = record(3, 7);
            change(&mut changed);
            hash("c", "f", [changed], &none)
        };
        let hashes = [
            with(|_| ()),
            with(|r| r.topic = "orders"),
            with(|r| r.partition = 4),
            with(|r| r.offset = 8),
            with(|r| r.timestamp_ms = None),
            with(|r| r.timestamp_ms = Some(-1)),
            with(|r| r.key = None),
            with(|r| r.key = Some(b"")),
            with(|r| (r.key, r.value) = (Some(&b"kv"[..]), Some(&b"alue"[..]))),
            with(|r| r.value = None),
            with(|r| r.headers = vec![]),
            with(|r| r.headers.reverse()),
            with(|r| r.headers[1].1 = Some(b"")),
            hash("d", "f", [record(3, 7)], &none),
            hash("c", "g", [record(3, 7)], &none),
            hash("cf", "", [record(3, 7)], &none),
            hash("c", "f", [record(3, 7), record(3, 8)], &none),
            hash("c", "f", [record(3, 8), record(3, 7)], &none),
            hash("c", "f", [record(3, 7)], &coverage(&[7], &[])),
            hash("c", "f", [record(3, 7)], &coverage(&[8], &[])),
            hash("c", "f", [record(3, 7)], &coverage(&[], &[(Filtered::Filter, 7)])),
            hash("c", "f", [record(3, 7)], &coverage(&[], &[(Filtered::Explode, 7)])),
            hash("c", "f", [record(3, 7)], &Coverage::default()),
        ];
        let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }

    proptest! {
        #[test]
        fn gathering_changes_nothing(sizes in prop::collection::vec(0usize..20_000, 0..8)) {
            let big = vec![0x5a; 20_000];
            let body: &'static [u8] = Box::leak(big.into_boxed_slice());
            let records: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(n, size)| RawRecord { offset: n as i64, value: body.get(..*size), ..record(0, 0) })
                .collect();
            let none = Coverage::default();
            prop_assert_eq!(hash("c", "f", records.clone(), &none), plain("c", "f", &records, &none));
        }
    }
}
