//! An event source mapping for machines without Lambda. Pollers read a topic's partitions, form events as AWS does (batch
//! size, window, 6 MB of JSON, order within a partition), invoke the ingest function, and commit offsets once it has
//! answered. What fails comes again, whole, cut in two or as far as an answer says; nothing is ever skipped.
//!
//! Offsets are committed to a consumer group so that the next run goes on from there. They are no truth: what comes twice
//! enters the table once, whatever they say.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kafka::consumer::Place;

pub(crate) mod endpoint;
mod ends;
mod folds;
mod function;
mod listen;
mod part;
mod partitions;
mod poller;
mod readiness;
mod work;

pub(crate) use listen::Listening;
pub(crate) use readiness::Readiness;
pub(crate) use work::{Outcome, Read, Work};

/// How events are formed and tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Records of an event at most.
    pub(crate) batch: usize,
    /// How long an event may be filled.
    pub(crate) window: Duration,
    /// Whether an event that fails is cut in two.
    pub(crate) bisect: bool,
    /// End once nothing came for so long.
    pub(crate) idle: Option<Duration>,
    /// Fail once nothing went on for so long; never where absent.
    pub(crate) wait: Option<Duration>,
    /// Whether an answer may name records that were not stored.
    pub(crate) partial: bool,
}

/// What pollers tell those beside them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) records: AtomicU64,
    pub(crate) invocations: AtomicU64,
    pub(crate) failed_invocations: AtomicU64,
    /// Nanoseconds spent waiting for records, forming events, and in ingest.
    pub(crate) fetch: AtomicU64,
    pub(crate) form: AtomicU64,
    pub(crate) ingest: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Partitions that topics got meanwhile, by the number of the poller that is to read them.
    added: Mutex<BTreeMap<usize, Vec<(Place, i64)>>>,
    /// Pollers that have ended.
    ended: AtomicUsize,
    /// Who is told what keeps the mapping from its work, where somebody asks.
    readiness: Option<Arc<Readiness>>,
}

/// What is staged and not folded, as far as this process has staged it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// Since when.
    pub(crate) since: Option<Instant>,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Shared {
    fn new(readiness: Option<Arc<Readiness>>) -> Self {
        Self { readiness, ..Self::default() }
    }

    /// What keeps folds from the table, if anything does.
    fn say_folds(&self, why: Option<String>) {
        if let Some(readiness) = &self.readiness {
            readiness.folds(why);
        }
    }

    /// Takes what waits for a fold: the fold that follows will find it.
    pub(crate) fn take_waiting(&self) -> Waiting {
        std::mem::take(&mut *self.locked())
    }

    /// What waits for a fold.
    pub(crate) fn waiting(&self) -> Waiting {
        *self.locked()
    }

    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A poller is to read one more partition, from an offset on.
    fn add(&self, poller: usize, place: Place, from: i64) {
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        added.entry(poller).or_default().push((place, from));
    }

    /// What a poller is to read besides.
    fn take_added(&self, poller: usize) -> Vec<(Place, i64)> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner).remove(&poller).unwrap_or_default()
    }

    fn staged(&self, rows: u64, bytes: u64) {
        let mut waiting = self.locked();
        waiting.since.get_or_insert_with(Instant::now);
        waiting.rows += rows;
        waiting.bytes += bytes;
    }

    /// How many pollers have ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }
}
