//! What a fold in mode `append` asks of the object store and of the catalog, for whoever works out what it costs. The tests hold these
//! figures to folds whose requests are counted; a change of them is a change of what people pay.
//!
//! Not in it: dead letters (a PUT for some thousands of them), runs that met others, and what modes `dedup` and `upsert` read of the
//! table's own files.

use crate::intake::FOOTERS_AT_ONCE;
use crate::plan::LOW_MINUTE_LAG_MINUTES;
use crate::state::SKIP_SETTLEMENTS_MAX;

/// Keys of a page of S3's.
pub const PAGE_OBJECTS: f64 = 1000.0;
/// Manifests of a table are put together once there are so many, unless its properties say otherwise: each was written by one
/// commit and is read once more.
const MANIFESTS_TO_MERGE: f64 = 100.0;

/// What one fold finds and writes, on average over many that commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Tables that get rows.
    pub tables: u64,
    /// Whether the pipeline routes records to tables.
    pub has_many: bool,
    /// Staged objects that are new.
    pub objects: f64,
    /// Staged objects that a listing pass shows, the new ones among them.
    pub listed: f64,
    /// Minutes between two folds.
    pub minutes_between: f64,
    /// PUTs of all data files together: one a file, and more where a file is sent in parts.
    pub data_puts: f64,
}

/// Requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// PUTs of objects, and what is charged like them.
    pub puts: f64,
    /// GETs and HEADs.
    pub gets: f64,
    /// Pages of listings.
    pub lists: f64,
}

/// Minutes of staged objects that a listing pass shows: folds list from some time behind the fold before, for what may land late.
#[must_use]
pub fn listed_minutes(minutes_between: f64) -> f64 {
    LOW_MINUTE_LAG_MINUTES as f64 + minutes_between + 1.0
}

/// Settlements that a fold reads of one table, newest first: those of the minutes that it lists, and the one that lies before them.
#[must_use]
pub fn settlements_read(minutes_between: f64) -> f64 {
    let read = (LOW_MINUTE_LAG_MINUTES as f64 / minutes_between).floor() + 2.0;
    read.min(SKIP_SETTLEMENTS_MAX as f64)
}

/// What a fold asks of the store.
#[must_use]
pub fn of(work: &Work) -> Asked {
    let tables = work.tables as f64;
    // The run's note as it begins and as it ends; of many tables also the marks by which runs see each other.
    let (run_puts, run_gets, run_lists) = if work.has_many { (4.0, 3.0, 3.0) } else { (2.0, 2.0, 0.0) };
    // Settlement, manifest, manifest list, metadata file. Merged manifests are written once more, a hundredth of the time.
    let table_puts = 4.0 + 1.0 / MANIFESTS_TO_MERGE;
    // Metadata file, manifest list, settlements, and each commit's manifest once more when a hundred are merged. Of many tables the
    // settlements are read to find which tables have something to do, and again by each table's fold.
    let settlements = settlements_read(work.minutes_between) * if work.has_many { 2.0 } else { 1.0 };
    let table_gets = 2.0 + settlements + 1.0;
    let pages = (work.listed / PAGE_OBJECTS).ceil().max(1.0);
    Asked {
        puts: run_puts + tables * table_puts + work.data_puts,
        // Of an object its footer once, and the whole of it for each table that it has rows for: all of them, at worst.
        gets: run_gets + tables * table_gets + work.objects * (1.0 + tables),
        lists: run_lists + 2.0 * pages,
    }
}

/// How many of a fold's requests are waited for one after the other; the rest travel beside others.
#[must_use]
pub fn in_turn(work: &Work) -> f64 {
    let without = of(&Work { objects: 0.0, ..*work });
    without.puts + without.gets + without.lists + (work.objects / FOOTERS_AT_ONCE as f64).ceil()
}

/// Requests of the Glue Data Catalog for each table and fold: the table's entry is read, read again before it is swapped, and swapped.
pub const GLUE_A_TABLE: u64 = 3;
