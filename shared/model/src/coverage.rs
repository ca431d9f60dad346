//! What one staged object accounts for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::coordinate::{Sample, SourceId, TopicPartition};
use crate::interval::Intervals;

/// Why a delivered record made no row, by choice rather than by fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filtered {
    /// The pipeline's filter did not match.
    Filter,
    /// An explode of an empty or absent list.
    Explode,
    /// A null value, in a mode without deletes.
    Tombstone,
}

/// One partition's part of a [`Coverage`]. `delivered` is never empty; `filtered` and `dead` lie inside it and are disjoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionCoverage {
    /// Every offset handed to the invocation.
    pub delivered: Intervals,
    /// Those that made no row by choice, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filtered: BTreeMap<Filtered, Intervals>,
    /// Those that went to dead letters.
    #[serde(default, skip_serializing_if = "Intervals::is_empty")]
    pub dead: Intervals,
    /// The lowest delivered offset and its timestamp.
    pub first: Sample,
    /// The highest delivered offset and its timestamp.
    pub last: Sample,
}

impl PartitionCoverage {
    /// Offsets between the delivered ones that were never handed over: transaction markers, compacted records, records
    /// the mapping skipped.
    #[must_use]
    pub fn undelivered(&self) -> Intervals {
        self.delivered.gaps()
    }

    /// All filtered offsets, whatever the reason.
    #[must_use]
    pub fn filtered_any(&self) -> Intervals {
        self.filtered.values().fold(Intervals::new(), |all, some| all.union(some))
    }

    /// Offsets with a decision other than a dead letter: a row, or filtered.
    #[must_use]
    pub fn decided(&self) -> Intervals {
        self.delivered.subtract(&self.dead)
    }
}

/// What one staged object accounts for, partition by partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Coverage(BTreeMap<TopicPartition, PartitionCoverage>);

/// The stored form of one partition's coverage.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    source: SourceId,
    topic: String,
    partition: i32,
    #[serde(flatten)]
    covered: PartitionCoverage,
}

/// Why a coverage is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The same partition twice.
    #[error("{0} is listed twice")]
    Twice(TopicPartition),
    /// Nothing delivered, or first and last are not the ends of what was.
    #[error("{0}: first and last are not the ends of what was delivered")]
    Ends(TopicPartition),
    /// Filtered or dead offsets that were not delivered, or both at once.
    #[error("{0}: filtered and dead offsets must be apart and among the delivered ones")]
    Parts(TopicPartition),
}

impl Coverage {
    /// Adds a partition.
    ///
    /// # Errors
    /// When it is there already or its parts contradict each other; nothing is added then.
    pub fn insert(&mut self, at: TopicPartition, covered: PartitionCoverage) -> Result<(), Fault> {
        if self.0.contains_key(&at) {
            return Err(Fault::Twice(at));
        }
        if covered.delivered.first() != Some(covered.first.offset)
            || covered.delivered.last() != Some(covered.last.offset)
        {
            return Err(Fault::Ends(at));
        }
        let mut parts = covered.dead.clone();
        for some in covered.filtered.values() {
            if !parts.intersect(some).is_empty() {
                return Err(Fault::Parts(at));
            }
            parts = parts.union(some);
        }
        if !covered.delivered.contains_all(&parts) {
            return Err(Fault::Parts(at));
        }
        self.0.insert(at, covered);
        Ok(())
    }

    /// The partitions with what is covered of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &PartitionCoverage)> {
        self.0.iter()
    }

    /// One partition's part.
    #[must_use]
    pub fn get(&self, at: &TopicPartition) -> Option<&PartitionCoverage> {
        self.0.get(at)
    }

    /// The same coverage of partitions under other names.
    ///
    /// # Errors
    /// When two of them get one name.
    pub fn renamed(&self, name: impl Fn(&TopicPartition) -> TopicPartition) -> Result<Self, Fault> {
        let mut renamed = Self::default();
        for (at, covered) in &self.0 {
            renamed.insert(name(at), covered.clone())?;
        }
        Ok(renamed)
    }

    /// How many coordinates were delivered.
    #[must_use]
    pub fn delivered_count(&self) -> u64 {
        self.0.values().map(|c| c.delivered.count()).sum()
    }

    /// Whether it accounts for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Vec<Entry>> for Coverage {
    type Error = Fault;
    fn try_from(entries: Vec<Entry>) -> Result<Self, Fault> {
        let mut coverage = Self::default();
        for Entry { source, topic, partition, covered } in entries {
            coverage.insert(TopicPartition { source, topic, partition }, covered)?;
        }
        Ok(coverage)
    }
}

impl From<Coverage> for Vec<Entry> {
    fn from(coverage: Coverage) -> Self {
        coverage
            .0
            .into_iter()
            .map(|(at, covered)| Entry { source: at.source, topic: at.topic, partition: at.partition, covered })
            .collect()
    }
}
