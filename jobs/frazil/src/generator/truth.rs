//! What the table must hold, as a few numbers that do not depend on who reads it.
//!
//! The definition is that of `tests/interop/checksum.py`, which computes the same of a table read by another engine:
//! a value's 64-bit hash is `mix` of its two's complement number (integers; timestamps in microseconds) or of the
//! xxh3-64 of its UTF-8 bytes; a column's sum adds the hashes of its values modulo 2^64; `row_sum` mixes each row's
//! hashes in the order of the columns' names, and adds the rows modulo 2^64.

use std::collections::BTreeMap;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::employee::{ADDRESS, Employee, NAMES, ROLE, TEAM};
use super::{PARTITIONS, TOPIC};

/// The columns of the demo's table that the generator knows, by name; `_ingested_at` is the reader's, not the sender's.
pub const COLUMNS: [&str; 11] = [
    "_kafka_offset",
    "_kafka_partition",
    "_kafka_timestamp",
    "_kafka_topic",
    "address",
    "age",
    "employee_id",
    "name",
    "role",
    "start_date",
    "team",
];

/// Running sums over the good records, each counted once.
#[derive(Clone, Debug)]
pub struct Truth {
    rows: u64,
    sums: [u64; COLUMNS.len()],
    row_sum: u64,
    hashes: Hashes,
}

/// Hashes of the values that there are few of.
#[derive(Clone, Debug)]
struct Hashes {
    topic: u64,
    partitions: [u64; PARTITIONS],
    address: u64,
    names: Vec<u64>,
    role: u64,
    team: u64,
}

/// The truth as a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fingerprint {
    /// Rows.
    pub rows: u64,
    /// By column.
    pub columns: BTreeMap<&'static str, Column>,
    /// The sum over whole rows, of these columns. Decimal text: JSON readers lose digits beyond 2^53.
    pub row_sum: String,
}

/// One column's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Values that are not null.
    pub values: u64,
    /// The sum of their hashes modulo 2^64, as decimal text.
    pub sum: String,
}

/// The finaliser of SplitMix64.
const fn mix(mut z: u64) -> u64 {
    z ^= z >> 30;
    z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 27;
    z = z.wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const fn number(value: i64) -> u64 {
    mix(value.cast_unsigned())
}

fn text(value: &str) -> u64 {
    mix(xxh3_64(value.as_bytes()))
}

impl Default for Truth {
    fn default() -> Self {
        let hashes = Hashes {
            topic: text(TOPIC),
            partitions: std::array::from_fn(|n| mix(n as u64)),
            address: text(ADDRESS),
            names: (0..NAMES).map(|n| text(&format!("Dummy{n}"))).collect(),
            role: text(ROLE),
            team: text(TEAM),
        };
        Self { rows: 0, sums: [0; COLUMNS.len()], row_sum: 0, hashes }
    }
}

impl Truth {
    /// Adds one good record.
    pub(super) fn add(&mut self, employee: &Employee, partition: usize, offset: i64, timestamp_ms: i64) {
        let hashes = &self.hashes;
        let row = [
            number(offset),
            hashes.partitions.get(partition).copied().unwrap_or_default(),
            number(timestamp_ms * 1000),
            hashes.topic,
            hashes.address,
            number(i64::from(employee.age)),
            number(i64::from(employee.id)),
            hashes.names.get(usize::from(employee.name)).copied().unwrap_or_default(),
            hashes.role,
            number(employee.start_ms * 1000),
            hashes.team,
        ];
        let mut whole = 0;
        for (sum, hash) in self.sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(hash);
            whole = mix(whole ^ hash);
        }
        self.row_sum = self.row_sum.wrapping_add(whole);
        self.rows += 1;
    }

    /// Good records so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The sums so far. No column of the demo is ever null.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let column = |sum: &u64| Column { values: self.rows, sum: sum.to_string() };
        Fingerprint {
            rows: self.rows,
            columns: COLUMNS.into_iter().zip(self.sums.iter().map(column)).collect(),
            row_sum: self.row_sum.to_string(),
        }
    }
}
