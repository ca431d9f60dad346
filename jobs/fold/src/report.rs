//! What a fold did.

use std::collections::{BTreeMap, BTreeSet};

use model::coverage::Filtered;
use model::failure::Kind;
use serde::Serialize;

/// One run, or several together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many runs this was.
    pub runs: u64,
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
    /// Of a pipeline's many tables those that may have rows in what one table's fold saw by itself.
    #[serde(skip)]
    pub others: BTreeSet<String>,
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
    /// What the commit changed of the table's columns, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub column_changes: Vec<String>,
    /// What the pipeline file says and a table that others made says otherwise, at the first fold into it: the table's own wins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Rows inserted.
    pub rows_added: u64,
    /// Rows removed.
    pub rows_deleted: u64,
    /// Rows replaced.
    pub rows_updated: u64,
    /// Records that deleted a row, or marked one as deleted (mode `upsert`).
    #[serde(skip_serializing_if = "is_zero")]
    pub deletes: u64,
    /// Records without effect, for there is a newer version of their key (mode `upsert`).
    #[serde(skip_serializing_if = "is_zero")]
    pub superseded: u64,
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
    /// Of `dead_letters`, records at offsets of which nothing retained says whether they had been settled or passed over.
    pub stale: u64,
    /// Data files written.
    pub data_files: u64,
    /// Why it was not folded, where it is one of many and the others were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<TableFailure>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Why one of many tables was not folded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableFailure {
    /// What happens next.
    pub kind: Kind,
    /// A dotted, stable name.
    pub code: String,
    /// What a person needs to know.
    pub message: String,
    /// What a person can do about it, where that is not "run it again".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Report {
    /// Adds the run that came next.
    pub(crate) fn add(&mut self, next: Self) {
        let Self {
            runs,
            tables,
            staged_objects,
            objects_left,
            staged_bytes,
            conflicts_retried,
            quarantined,
            foreign_keys,
            others,
        } = next;
        self.others.extend(others);
        self.runs += runs;
        for table in tables {
            match self.tables.iter_mut().find(|known| known.name == table.name) {
                Some(known) => known.add(table),
                None => self.tables.push(table),
            }
        }
        self.staged_objects += staged_objects;
        self.staged_bytes += staged_bytes;
        self.conflicts_retried += conflicts_retried;
        // What is found anew in each run.
        self.objects_left = objects_left;
        self.quarantined = quarantined;
        self.foreign_keys = foreign_keys;
    }
}

impl Report {
    /// Adds what came of another table in the same run. Of the objects, which are the same, one table may have used more.
    pub(crate) fn beside(&mut self, table: Self) {
        self.tables.extend(table.tables);
        self.staged_objects = self.staged_objects.max(table.staged_objects);
        self.staged_bytes = self.staged_bytes.max(table.staged_bytes);
        self.objects_left = self.objects_left.max(table.objects_left);
        self.conflicts_retried += table.conflicts_retried;
        self.quarantined.extend(table.quarantined);
        self.foreign_keys = self.foreign_keys.max(table.foreign_keys);
        self.others.extend(table.others);
    }

    /// The tables that were not folded, with the reason of each.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &TableFailure)> {
        self.tables.iter().filter_map(|table| Some((table.name.as_str(), table.failure.as_ref()?)))
    }
}

impl TableReport {
    fn add(&mut self, next: Self) {
        let Self {
            name: _,
            committed,
            snapshot_id,
            metadata_location,
            column_changes,
            differences,
            rows_added,
            rows_deleted,
            rows_updated,
            deletes,
            superseded,
            duplicates,
            deduplicated,
            late,
            late_dropped,
            late_dead,
            filtered,
            undelivered,
            dead_letters,
            stale,
            data_files,
            failure,
        } = next;
        self.failure = failure;
        // The newest of those that there are.
        self.snapshot_id = snapshot_id.or(self.snapshot_id);
        self.metadata_location = metadata_location.or_else(|| self.metadata_location.take());
        self.committed |= committed;
        self.column_changes.extend(column_changes);
        self.differences.extend(differences);
        self.rows_added += rows_added;
        self.rows_deleted += rows_deleted;
        self.rows_updated += rows_updated;
        self.deletes += deletes;
        self.superseded += superseded;
        self.duplicates += duplicates;
        self.deduplicated += deduplicated;
        self.late += late;
        self.late_dropped += late_dropped;
        self.late_dead += late_dead;
        for (why, records) in filtered {
            *self.filtered.entry(why).or_default() += records;
        }
        self.undelivered = self.undelivered.saturating_add(undelivered);
        self.dead_letters += dead_letters;
        self.stale += stale;
        self.data_files += data_files;
    }
}
