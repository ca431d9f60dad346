//! What a fold did.

use std::collections::BTreeMap;

use model::coverage::Filtered;
use serde::Serialize;

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The tables of the pipeline.
    pub tables: Vec<TableReport>,
    /// Staged objects that the run found and used.
    pub staged_objects: u64,
    /// Staged objects that the run's budget left for the next one.
    pub objects_left: u64,
    /// Bytes of the objects used.
    pub staged_bytes: u64,
    /// Attempts that others' commits made vain.
    pub conflicts_retried: u32,
    /// Objects that could not be read, with the reason: they stay, and wait for a person.
    pub quarantined: BTreeMap<String, String>,
    /// Keys under the pipeline's prefix that are no staged objects.
    pub foreign_keys: u64,
}

/// One table's part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableReport {
    /// `namespace.name`.
    pub name: String,
    /// Whether a snapshot was committed.
    pub committed: bool,
    /// The snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<i64>,
    /// Where the table's metadata is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_location: Option<String>,
    /// Rows inserted.
    pub rows_added: u64,
    /// Rows removed.
    pub rows_deleted: u64,
    /// Rows replaced.
    pub rows_updated: u64,
    /// Rows left out as known: coordinates that had come before, and `deduplicated`.
    pub duplicates: u64,
    /// Of `duplicates`, rows whose key was there (mode `dedup`).
    pub deduplicated: u64,
    /// Rows that came late, whatever was done with them.
    pub late: u64,
    /// Of `late`, rows that were left out.
    pub late_dropped: u64,
    /// Of `late`, records that went to dead letters.
    pub late_dead: u64,
    /// Records that made no row by choice, by reason.
    pub filtered: BTreeMap<Filtered, u64>,
    /// Offsets counted as never delivered.
    pub undelivered: u64,
    /// Records that lie in dead letters.
    pub dead_letters: u64,
    /// Data files written.
    pub data_files: u64,
}
