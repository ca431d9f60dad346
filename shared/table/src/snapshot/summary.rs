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

/// What the files of one commit add and take away.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    added: Tally,
    removed: Tally,
    partitions: HashSet<(i32, Struct)>,
}

/// Files of one kind or the other.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    data_files: u64,
    records: u64,
    bytes: u64,
    position_delete_files: u64,
    position_deletes: u64,
    equality_delete_files: u64,
    equality_deletes: u64,
}

/// The names of a [`Tally`]'s figures where it is of what is added, in the order of [`Tally::figures`].
const ADDED: [&str; 8] = [
    "added-data-files",
    "added-records",
    "added-files-size",
    "added-delete-files",
    "added-position-delete-files",
    "added-position-deletes",
    "added-equality-delete-files",
    "added-equality-deletes",
];

/// The same of what is removed.
const REMOVED: [&str; 8] = [
    "deleted-data-files",
    "deleted-records",
    "removed-files-size",
    "removed-delete-files",
    "removed-position-delete-files",
    "removed-position-deletes",
    "removed-equality-delete-files",
    "removed-equality-deletes",
];

impl Tally {
    fn add(&mut self, file: &DataFile) {
        let (files, rows) = match file.content_type() {
            DataContentType::Data => (&mut self.data_files, &mut self.records),
            DataContentType::PositionDeletes => (&mut self.position_delete_files, &mut self.position_deletes),
            DataContentType::EqualityDeletes => (&mut self.equality_delete_files, &mut self.equality_deletes),
        };
        *files = files.saturating_add(1);
        *rows = rows.saturating_add(file.record_count());
        self.bytes = self.bytes.saturating_add(file.file_size_in_bytes());
    }

    const fn delete_files(&self) -> u64 {
        self.position_delete_files.saturating_add(self.equality_delete_files)
    }

    const fn figures(&self) -> [u64; 8] {
        [
            self.data_files,
            self.records,
            self.bytes,
            self.delete_files(),
            self.position_delete_files,
            self.position_deletes,
            self.equality_delete_files,
            self.equality_deletes,
        ]
    }
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
    /// Counts a file that is added.
    pub(super) fn add(&mut self, spec_id: i32, file: &DataFile) {
        self.added.add(file);
        self.partitions.insert((spec_id, file.partition().clone()));
    }

    /// The same with files, by partition spec, that are removed.
    pub(super) fn without(mut self, removed: &[(i32, DataFile)]) -> Self {
        for (spec_id, file) in removed {
            self.removed.add(file);
            self.partitions.insert((*spec_id, file.partition().clone()));
        }
        self
    }

    /// What the specification calls a commit of this kind with these files.
    pub(super) fn operation(&self, operation: super::Operation) -> iceberg::spec::Operation {
        use iceberg::spec::Operation::{Append, Delete, Overwrite, Replace};
        let adds = self.added.data_files > 0;
        let takes_rows = self.added.delete_files() > 0 || self.removed.data_files > 0;
        match operation {
            super::Operation::Append => Append,
            super::Operation::Rewrite { .. } => Replace,
            super::Operation::RowDelta | super::Operation::Overwrite => match (adds, takes_rows) {
                (_, false) => Append,
                (false, true) => Delete,
                (true, true) => Overwrite,
            },
        }
    }

    /// The summary of a snapshot on `parent` that adds and removes these files.
    ///
    /// A total that the parent does not carry, or carries as something else than a number, is unknown and stays so.
    pub(super) fn summary(
        &self,
        parent: Option<&Summary>,
        manifests: &Manifests,
        extra: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let figures = |names: [&'static str; 8], tally: &Tally| names.into_iter().zip(tally.figures());
        let changes: BTreeMap<&str, u64> =
            figures(ADDED, &self.added).chain(figures(REMOVED, &self.removed)).filter(|(_, n)| *n > 0).collect();
        let mut summary = extra;
        let mut put = |key: &str, value: String| summary.insert(key.to_owned(), value);
        for (key, value) in &changes {
            put(key, value.to_string());
        }
        put("changed-partition-count", self.partitions.len().to_string());
        put("manifests-created", manifests.created.to_string());
        put("manifests-kept", manifests.kept.to_string());
        put("manifests-replaced", manifests.replaced.to_string());
        put("entries-processed", manifests.entries.to_string());
        for (total, adds, takes) in TOTALS {
            let before = match parent {
                None => Some(0),
                Some(parent) => parent.additional_properties.get(total).and_then(|text| text.parse::<u64>().ok()),
            };
            let change = |key| changes.get(key).copied().unwrap_or(0);
            let after = before.and_then(|n| n.checked_add(change(adds))).and_then(|n| n.checked_sub(change(takes)));
            if let Some(after) = after {
                put(total, after.to_string());
            }
        }
        summary
    }
}
