//! The last outcome of a stage, `runs/<pipeline-id>/<stage>.json`: what an operator sees first.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::failure::Kind;
use crate::stored::{Contract, Tag};

/// A run still marked running after this long was killed, in microseconds: Lambda ends every run after 15 minutes.
const MICROS_MAX: i64 = 15 * 60 * 1_000_000;

/// A stage of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Kafka to staged objects.
    Ingest,
    /// Staged objects to snapshots.
    Fold,
    /// Compaction, expiry, repair.
    Maintain,
}

impl Stage {
    /// The name in object keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Fold => "fold",
            Self::Maintain => "maintain",
        }
    }
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Started. Past its `until` it was killed.
    Running,
    /// Ended well.
    Done,
    /// Ended with an error.
    Failed,
}

/// Why a run failed. `message` never holds payload bytes or secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happens next.
    pub kind: Kind,
    /// A dotted, stable name.
    pub code: String,
    /// What a person needs to know.
    pub message: String,
}

/// The last run of a stage. Contract `frazil.stored.run/1`; overwritten by the next run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// `frazil.stored.run/<version>`.
    pub schema: Tag,
    /// The stage.
    pub stage: Stage,
    /// How it stands.
    pub state: State,
    /// When it started.
    pub started: Timestamp,
    /// When a run still `running` must be taken for killed.
    pub until: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// Bytes of staged objects that the run allowed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What it did, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, u64>,
    /// Of a pipeline's many tables those that were not brought up to date, as `namespace.name`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub behind: BTreeSet<String>,
}

impl Run {
    /// A run that starts now.
    #[must_use]
    pub fn begun(stage: Stage, now: Timestamp, budget_bytes: Option<u64>) -> Self {
        Self {
            schema: Tag::of::<Self>(),
            stage,
            state: State::Running,
            started: now,
            until: now.plus_micros(MICROS_MAX),
            finished: None,
            budget_bytes,
            failure: None,
            figures: BTreeMap::new(),
            behind: BTreeSet::new(),
        }
    }

    /// The same run, ended: with its figures, or with why it failed.
    #[must_use]
    pub fn ended(self, now: Timestamp, outcome: Result<BTreeMap<String, u64>, Failure>) -> Self {
        let (state, figures, failure) = match outcome {
            Ok(figures) => (State::Done, figures, None),
            Err(failure) => (State::Failed, BTreeMap::new(), Some(failure)),
        };
        Self { state, finished: Some(now), failure, figures, ..self }
    }
}

impl Contract for Run {
    const NAME: &'static str = "frazil.stored.run";
    const VERSION: u32 = 1;
}
