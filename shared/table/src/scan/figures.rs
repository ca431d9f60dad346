//! What reading a plan's files has left out so far.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was read of a plan's files, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Row groups that were read.
    pub row_groups_read: u64,
    /// Row groups left out by their statistics.
    pub row_groups_pruned: u64,
    /// Row groups left out by their bloom filters.
    pub row_groups_filtered: u64,
    /// Bloom filters that were read.
    pub filters_read: u64,
    /// Bytes of bloom filters that were read.
    pub filter_bytes_read: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    row_groups_read: AtomicU64,
    row_groups_pruned: AtomicU64,
    row_groups_filtered: AtomicU64,
    filters_read: AtomicU64,
    filter_bytes_read: AtomicU64,
}

fn add(counter: &AtomicU64, n: usize) {
    // Nothing is ordered by these: they are looked at when all is read.
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn read(&self, row_groups: usize) {
        add(&self.row_groups_read, row_groups);
    }

    pub(super) fn pruned(&self, row_groups: usize) {
        add(&self.row_groups_pruned, row_groups);
    }

    pub(super) fn filtered(&self) {
        add(&self.row_groups_filtered, 1);
    }

    pub(super) fn asked(&self, filters: &[Range<u64>]) {
        add(&self.filters_read, filters.len());
        let bytes: u64 = filters.iter().map(|range| range.end - range.start).sum();
        self.filter_bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> Figures {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            row_groups_read: value(&self.row_groups_read),
            row_groups_pruned: value(&self.row_groups_pruned),
            row_groups_filtered: value(&self.row_groups_filtered),
            filters_read: value(&self.filters_read),
            filter_bytes_read: value(&self.filter_bytes_read),
        }
    }
}
