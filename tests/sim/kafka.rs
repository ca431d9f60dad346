//! Kafka as it is to its consumers: logs with holes, and what each record truly is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::coordinate::SourceId;

use crate::fault::Fault;
use crate::world::{START, World};

/// The one topic's name, in every cluster.
pub(crate) const TOPIC: &str = "orders";

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// It makes a row.
    Row,
    /// Nobody can decode it.
    Bad,
    /// A null value.
    Tombstone,
}

/// One record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Unlike any other record's; in the row, too.
    pub(crate) id: i64,
    /// What rows are compared by in mode `dedup`.
    pub(crate) key: i64,
    /// What names its table, where the pipeline has many: the same for equal keys.
    pub(crate) shard: Option<i64>,
    /// Its event time, in microseconds since the epoch.
    pub(crate) at_micros: i64,
    /// Kafka's timestamp, in milliseconds since the epoch.
    pub(crate) timestamp_ms: i64,
    pub(crate) nature: Nature,
}

/// Where a record is. The incarnation counts how often the topic was made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) cluster: usize,
    pub(crate) incarnation: usize,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// What stands at an offset.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A record.
    Record(Record),
    /// A transaction's marker, or a record that compaction took.
    Nothing,
}

/// One cluster's topic.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) number: usize,
    pub(crate) arn: String,
    pub(crate) source: SourceId,
    /// Whether its records say which of many tables they are for.
    is_sharded: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether there is no record of the last shard yet.
    pub(crate) is_held_back: bool,
    /// By incarnation, then partition.
    pub(crate) logs: Vec<Vec<Vec<Entry>>>,
}

impl Cluster {
    pub(crate) fn new(number: usize, partitions: usize, is_sharded: bool) -> Arc<Self> {
        let arn = format!(
            "arn:aws:kafka:eu-west-1:123456789012:cluster/orders-{number}/{number:08x}-0000-4000-8000-000000000000-1"
        );
        let state = State { is_held_back: false, logs: vec![vec![Vec::new(); partitions]] };
        Arc::new(Self { number, source: SourceId::of(&arn), arn, is_sharded, state: Mutex::new(state) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many times the topic was made again.
    pub(crate) fn incarnation(&self) -> usize {
        self.state().logs.len() - 1
    }

    pub(crate) fn partitions(&self) -> usize {
        self.state().logs.first().map_or(0, Vec::len)
    }

    /// The topic is deleted and made again.
    pub(crate) fn recreate(&self) {
        let partitions = self.partitions();
        self.state().logs.push(vec![Vec::new(); partitions]);
    }

    /// The entry of an offset.
    pub(crate) fn entry(&self, at: Place) -> Option<Entry> {
        let state = self.state();
        let log = state.logs.get(at.incarnation)?.get(usize::try_from(at.partition).ok()?)?;
        log.get(usize::try_from(at.offset).ok()?).cloned()
    }

    /// Sends some records. `next_id` counts over all clusters.
    pub(crate) fn produce(&self, world: &World, next_id: &mut i64, keys: u64) -> Vec<(Place, Record)> {
        let mut sent = Vec::new();
        let now_ms = world.now().millis();
        let records = world.between(1, 12);
        let mut state = self.state();
        let incarnation = state.logs.len() - 1;
        for _ in 0..records {
            let partition = usize::try_from(world.below(partitions(&state))).unwrap_or(0);
            let key = i64::try_from(world.below(keys)).unwrap_or(0);
            let key = if state.is_held_back && shard(key) == LAST_SHARD { key + 2 } else { key };
            let early = i64::try_from(world.below(40 * 60_000)).unwrap_or(0);
            let nature = if world.happens(Fault::Bad) {
                Nature::Bad
            } else if world.happens(Fault::Tombstone) {
                Nature::Tombstone
            } else {
                Nature::Row
            };
            let marker = world.happens(Fault::Marker);
            let Some(log) = state.logs.get_mut(incarnation).and_then(|logs| logs.get_mut(partition)) else { continue };
            // No two records of one offset have one timestamp, though clocks and incarnations differ.
            let timestamp_ms = now_ms - (*next_id % 7);
            let record = Record {
                id: *next_id,
                key,
                shard: self.is_sharded.then(|| shard(key)),
                at_micros: (now_ms - early).max(START.millis() - 3_600_000) * 1000,
                timestamp_ms,
                nature,
            };
            let offset = i64::try_from(log.len()).unwrap_or(i64::MAX);
            let place = Place { cluster: self.number, incarnation, partition: partition as i32, offset };
            sent.push((place, record.clone()));
            log.push(Entry::Record(record));
            *next_id += 1;
            if marker {
                log.push(Entry::Nothing);
            }
        }
        sent
    }
}

fn partitions(state: &State) -> u64 {
    state.logs.first().map_or(1, |logs| logs.len() as u64)
}

const LAST_SHARD: i64 = 2;

/// The shard of a key. The last one is of a single key, which may come late, and seldom.
const fn shard(key: i64) -> i64 {
    match key {
        0 => LAST_SHARD,
        key if key % 5 == 1 => 1,
        _ => 0,
    }
}

/// A record's value on the wire: `message Order { int64 id = 1; int64 key = 2; google.protobuf.Timestamp at = 3; }`, with
/// `int64 shard = 4` where there are many tables.
pub(crate) fn value(record: &Record) -> Option<Vec<u8>> {
    match record.nature {
        Nature::Tombstone => None,
        // A length beyond the end.
        Nature::Bad => Some(vec![0x1a, 0x7f, 0x01]),
        Nature::Row => {
            let mut out = Vec::new();
            varint(&mut out, 0x08);
            varint(&mut out, record.id.cast_unsigned());
            varint(&mut out, 0x10);
            varint(&mut out, record.key.cast_unsigned());
            let mut at = Vec::new();
            varint(&mut at, 0x08);
            varint(&mut at, record.at_micros.div_euclid(1_000_000).cast_unsigned());
            varint(&mut at, 0x10);
            varint(&mut at, (record.at_micros.rem_euclid(1_000_000) * 1000).cast_unsigned());
            varint(&mut out, 0x1a);
            varint(&mut out, at.len() as u64);
            out.extend(at);
            if let Some(shard) = record.shard {
                varint(&mut out, 0x20);
                varint(&mut out, shard.cast_unsigned());
            }
            Some(out)
        }
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
