//! Folds beside the pollers, on the pipeline's triggers.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::time::{Duration, Instant};

use fold::Fold;
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
                    folded.folds += report.runs;
                    folded.rows_added += report.tables.iter().map(|table| table.rows_added).sum::<u64>();
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
