//! The record of one commit, written beside the table before the commit: what was folded and what it settled.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::coordinate::{SourceId, TopicPartition};
use crate::id::{CommitId, PipelineId, TableUuid};
use crate::interval::Intervals;
use crate::ledger::{Counts, Ledger};
use crate::stored::{self, Contract, Tag};

/// How the summary keys of all pipelines' commits begin.
pub const SUMMARY_KEYS: &str = "frazil.commit.";

/// The summary key of a snapshot that carries a pipeline's commit: `<commit-id> <settlement key>`.
#[must_use]
pub fn summary_key(pipeline: &PipelineId) -> String {
    format!("{SUMMARY_KEYS}{pipeline}")
}

/// Exact offsets of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offsets {
    /// The cluster.
    pub source: SourceId,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offsets.
    pub offsets: Intervals,
}

impl Offsets {
    /// The offsets of a partition.
    #[must_use]
    pub fn new(at: &TopicPartition, offsets: Intervals) -> Self {
        Self { source: at.source.clone(), topic: at.topic.clone(), partition: at.partition, offsets }
    }

    /// Whether these are offsets of that partition.
    #[must_use]
    pub fn is_at(&self, at: &TopicPartition) -> bool {
        self.source == at.source && self.topic == at.topic && self.partition == at.partition
    }
}

/// One commit's record. Contract `frazil.stored.settlement/1`. Written with If-None-Match, never changed. It settles
/// something only if a snapshot on main's ancestry names it: the commit it was written for may have failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// `frazil.stored.settlement/<version>`.
    pub schema: Tag,
    /// The pipeline.
    pub pipeline: PipelineId,
    /// The table's name, `namespace.name`.
    pub table: String,
    /// The table's UUID.
    pub table_uuid: TableUuid,
    /// The attempt.
    pub commit: CommitId,
    /// The snapshot that the plan was made from; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_snapshot: Option<i64>,
    /// Server time when it was written.
    pub at: Timestamp,
    /// Keys of the staged objects that are settled whole by this commit, in order.
    pub objects: Vec<String>,
    /// Offsets that this commit counts as never delivered, exactly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undelivered: Vec<Offsets>,
    /// Offsets of earlier settlements' `undelivered` whose record has come after all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Offsets>,
    /// What this commit adds to the ledger's counts.
    pub counts: Counts,
    /// The ledger after the commit.
    pub ledger: Ledger,
}

impl Contract for Settlement {
    const NAME: &'static str = "frazil.stored.settlement";
    const VERSION: u32 = 1;
}

impl Settlement {
    /// Reads a settlement from its JSON.
    ///
    /// # Errors
    /// When it is not one, or was written by a newer version.
    pub fn from_json(bytes: &[u8]) -> Result<Self, crate::ledger::Error> {
        #[derive(Deserialize)]
        struct Tagged {
            schema: Tag,
        }
        serde_json::from_slice::<Tagged>(bytes)?.schema.check::<Self>().map_err(|e: stored::Refused| e)?;
        Ok(serde_json::from_slice(bytes)?)
    }
}
