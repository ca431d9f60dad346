//! One run, and the note it leaves.

use std::collections::BTreeMap;

use bytes::Bytes;
use fold::Fold;
use model::clock::Timestamp;
use model::run::{Failure, Run, Stage};
use staging::key;

use crate::error::Error;
use crate::report::Report;

/// What may be set of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Say what would be removed, and remove nothing.
    pub dry_run: bool,
}

/// Maintenance of one pipeline.
#[derive(Clone, Debug)]
pub struct Maintain {
    /// The pipeline with its store and table.
    pub fold: Fold,
    /// What may be set.
    pub settings: Settings,
}

impl Maintain {
    /// Removes what is not needed any more. Leaves the outcome in `runs/<pipeline-id>/maintain.json`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn run(&self) -> Result<Report, Error> {
        if self.settings.dry_run {
            return self.staging().await;
        }
        let run = Run::begun(Stage::Maintain, self.fold.clock.now(), None);
        // What frees room must not need any first.
        if let Err(error) = self.note(&run).await {
            tracing::warn!(%error, "the run's beginning could not be noted");
        }
        let outcome = self.staging().await;
        let failure =
            |error: &Error| Failure { kind: error.kind(), code: error.code().to_owned(), message: error.to_string() };
        let run = run.ended(self.fold.clock.now(), outcome.as_ref().map(figures).map_err(failure));
        // The work is done or has failed for its own reason: that this note could not be left must not hide it.
        if let Err(error) = self.note(&run).await {
            tracing::warn!(%error, "the run's outcome could not be noted");
        }
        outcome
    }

    async fn note(&self, run: &Run) -> Result<(), Error> {
        let body = Bytes::from(serde_json::to_vec(run)?);
        self.fold.store.put(&key::run(&self.fold.id, Stage::Maintain.as_str()), body).await?;
        Ok(())
    }

    /// The time before which a snapshot must have settled what is removed: by the store's clock, as everything is.
    pub(crate) fn before(&self, date: Timestamp) -> Timestamp {
        let retention = i64::try_from(self.fold.pipeline.staging.retention_seconds).unwrap_or(i64::MAX);
        date.plus_micros(-retention.saturating_mul(1_000_000))
    }
}

fn figures(report: &Report) -> BTreeMap<String, u64> {
    [
        ("files_removed".to_owned(), report.files_removed),
        ("bytes".to_owned(), report.bytes),
        ("unsettled".to_owned(), report.unsettled),
        ("unproved".to_owned(), report.unproved),
        ("overlooked".to_owned(), report.overlooked.len() as u64),
    ]
    .into()
}
