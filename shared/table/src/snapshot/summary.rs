//! A snapshot's counters: what it added, and totals rolled forward from its parent. Names and rules of Iceberg's
//! `SnapshotSummary`; all values are decimal text.

use std::collections::{BTreeMap, HashSet};

use iceberg::spec::{DataContentType, DataFile, Struct, Summary};

/// Total, what adds to it, what takes from it.
const TOTALS: [(&str, &str, &str); 6] = [
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
];

const OTHERS: [&str; 14] = [
    "operation",
    "added-equality-delete-files",
    "removed-equality-delete-files",
    "added-position-delete-files",
    "removed-position-delete-files",
    "added-dvs",
    "removed-dvs",
    "changed-partition-count",
    "manifests-created",
    "manifests-kept",
    "manifests-replaced",
    "entries-processed",
    "deleted-duplicate-files",
    "partition-summaries-included",
];

/// Whether a summary key is one Iceberg counts, which a caller may not give.
#[must_use]
pub fn is_counter(key: &str) -> bool {
    OTHERS.contains(&key)
        || key.starts_with("partitions.")
        || TOTALS.iter().any(|(total, added, removed)| [total, added, removed].contains(&&key))
}

/// What the files of one commit add.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    data_files: u64,
    records: u64,
    bytes: u64,
    partitions: HashSet<(i32, Struct)>,
}

/// What became of the manifests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manifests {
    /// Written for this snapshot.
    pub(super) created: usize,
    /// Of the parent's, those that stay.
    pub(super) kept: usize,
    /// Of the parent's, those whose entries stand in others now.
    pub(super) replaced: usize,
    /// The entries that moved.
    pub(super) entries: u64,
}

impl Counts {
    /// Counts a data file.
    pub(super) fn add(&mut self, spec_id: i32, file: &DataFile) {
        debug_assert_eq!(file.content_type(), DataContentType::Data);
        self.data_files = self.data_files.saturating_add(1);
        self.records = self.records.saturating_add(file.record_count());
        self.bytes = self.bytes.saturating_add(file.file_size_in_bytes());
        self.partitions.insert((spec_id, file.partition().clone()));
    }

    /// The summary of a snapshot on `parent` that adds these files.
    ///
    /// A total that the parent does not carry, or carries as something else than a number, is unknown and stays so.
    pub(super) fn summary(
        &self,
        parent: Option<&Summary>,
        manifests: &Manifests,
        extra: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let added =
            [("added-data-files", self.data_files), ("added-records", self.records), ("added-files-size", self.bytes)];
        let mut summary = extra;
        let mut put = |key: &str, value: String| summary.insert(key.to_owned(), value);
        for (key, value) in added.into_iter().filter(|(_, value)| *value > 0) {
            put(key, value.to_string());
        }
        put("changed-partition-count", self.partitions.len().to_string());
        put("manifests-created", manifests.created.to_string());
        put("manifests-kept", manifests.kept.to_string());
        put("manifests-replaced", manifests.replaced.to_string());
        put("entries-processed", manifests.entries.to_string());
        for (total, adds, _) in TOTALS {
            let before = match parent {
                None => Some(0),
                Some(parent) => parent.additional_properties.get(total).and_then(|text| text.parse::<u64>().ok()),
            };
            let more = added.iter().find(|(key, _)| *key == adds).map_or(0, |(_, value)| *value);
            if let Some(after) = before.and_then(|n| n.checked_add(more)) {
                put(total, after.to_string());
            }
        }
        summary
    }
}
