//! Folds beside the pollers, on the pipeline's triggers.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fold::{Fold, Report};
use model::coverage::Filtered;
use model::failure::Kind;

use super::Shared;
use crate::command;
use crate::manners::failure::Failure;

/// How often the triggers of a fold are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// The first wait after a fold that failed, and the longest.
const BACKOFF_FIRST: Duration = Duration::from_secs(5);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// What the folds came to.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) folds: u64,
    pub(crate) rows_added: u64,
    pub(crate) time: Duration,
    pub(crate) failure: Option<Failure>,
    /// What made no row, by table.
    without: BTreeMap<String, Without>,
}

/// Records that made no row of a table, or none any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Without {
    /// By choice, by reason.
    pub(crate) filtered: BTreeMap<Filtered, u64>,
    pub(crate) dead_letters: u64,
    /// Records whose coordinate had come before, and rows whose key was there.
    pub(crate) duplicates: u64,
}

impl Folded {
    fn add(&mut self, report: &Report) {
        self.folds += report.runs;
        for table in &report.tables {
            self.rows_added += table.rows_added;
            let without = self.without.entry(table.name.clone()).or_default();
            for (why, records) in &table.filtered {
                *without.filtered.entry(*why).or_default() += records;
            }
            without.dead_letters += table.dead_letters;
            without.duplicates += table.duplicates;
        }
    }

    /// What made no row. Of such records the ledgers of several tables tell the same, and one that was made late tells less.
    pub(crate) fn without(&self) -> Without {
        let mut most = Without::default();
        for table in self.without.values() {
            for (why, records) in &table.filtered {
                let known = most.filtered.entry(*why).or_default();
                *known = (*known).max(*records);
            }
            most.dead_letters = most.dead_letters.max(table.dead_letters);
            most.duplicates = most.duplicates.max(table.duplicates);
        }
        most
    }
}

/// Folds on the pipeline's triggers until all pollers have ended, and then what is left.
/// `elsewhere` says that a function of another process stores what is folded here.
pub(super) fn folds(fold: &Fold, shared: &Shared, pollers: usize, elsewhere: bool) -> Result<Folded, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::of(Kind::Retry, "runtime.start", &e))?;
    let triggers = &fold.pipeline.fold;
    let mut folded = Folded::default();
    // What an earlier process staged may wait, too.
    let begun = Instant::now();
    let mut is_first = true;
    let mut not_before = Instant::now();
    // When a table that could not be folded is tried again, the others being well.
    let mut again: Option<Instant> = None;
    let mut backoff = BACKOFF_FIRST;
    loop {
        let has_ended = shared.ended() == pollers;
        let waiting = shared.waiting();
        let age = waiting.since.or(is_first.then_some(begun)).map(|since| since.elapsed());
        let is_due = age.is_some_and(|age| age.as_secs() >= triggers.max_age_seconds)
            || waiting.rows >= triggers.max_rows
            || waiting.bytes >= triggers.max_bytes
            || again.is_some_and(|again| Instant::now() >= again);
        if has_ended || (is_due && Instant::now() >= not_before) {
            let taken = shared.take_waiting();
            is_first = false;
            let started = Instant::now();
            let outcome = runtime.block_on(fold.drain(|_| {}));
            folded.time += started.elapsed();
            let (failure, is_partial) = match &outcome {
                Ok(report) => {
                    folded.add(report);
                    let is_partial = report.tables.iter().any(|table| table.failure.is_none());
                    (command::fold::failed_table(report), is_partial)
                }
                Err(error) => (Some(command::fold::failed(error)), false),
            };
            again = None;
            if let Some(failure) = failure {
                tracing::warn!(
                    rows = taken.rows,
                    "a fold failed, and what is staged waits: {}{}; {}",
                    failure.place.as_ref().map_or_else(String::new, |table| format!("{table}: ")),
                    failure.message,
                    failure.advice().unwrap_or("it is tried again")
                );
                shared.say_folds(Some(failure.message.clone()));
                folded.failure = Some(failure);
                let next = Instant::now() + backoff;
                backoff = (backoff * 2).min(BACKOFF_MAX);
                if is_partial {
                    // The other tables do not wait for it.
                    again = Some(next);
                } else {
                    is_first = true;
                    not_before = next;
                }
            } else {
                if elsewhere && taken.rows > 0 && outcome.is_ok_and(|report| report.staged_objects == 0) {
                    tracing::warn!(
                        records = taken.rows,
                        "the function took records, and nothing is staged here: see that it stores in this environment's store, \
                         under this pipeline's id"
                    );
                }
                shared.say_folds(None);
                folded.failure = None;
                backoff = BACKOFF_FIRST;
            }
            if has_ended {
                return Ok(folded);
            }
        }
        std::thread::park_timeout(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use fold::TableReport;

    use super::*;

    #[test]
    fn what_made_no_row_is_added_up_and_counted_once_for_all_tables() {
        let table = |name: &str, tombstones, dead_letters| TableReport {
            name: name.to_owned(),
            filtered: BTreeMap::from([(Filtered::Tombstone, tombstones), (Filtered::Filter, 1)]),
            dead_letters,
            duplicates: 2,
            rows_added: 5,
            ..TableReport::default()
        };
        let mut folded = Folded::default();
        folded.add(&Report { runs: 1, tables: vec![table("a", 3, 1)], ..Report::default() });
        folded.add(&Report { runs: 1, tables: vec![table("a", 1, 0), table("b", 2, 4)], ..Report::default() });
        assert_eq!((folded.folds, folded.rows_added), (2, 15));
        let filtered = BTreeMap::from([(Filtered::Tombstone, 4), (Filtered::Filter, 2)]);
        assert_eq!(folded.without(), Without { filtered, dead_letters: 4, duplicates: 4 });
    }
}
