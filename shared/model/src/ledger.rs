//! What a table has settled, for one pipeline. It travels in the table's own commit, as the property
//! `frazil.ledger.<pipeline-id>`, so rows and the record of them change together (I3).

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::clock::{Minute, Timestamp};
use crate::coordinate::{Sample, SourceId, TopicPartition};
use crate::coverage::{self, Coverage, Filtered};
use crate::id::CommitId;
use crate::interval::Intervals;
use crate::stored::{self, Contract, Tag};
use crate::verdict::{Judgement, Settled};
use crate::watermark::{Seen, Watermark};

/// How many commit ids a ledger remembers: enough to find an attempt of ours whose answer was lost, few enough to keep
/// the property small.
pub const COMMITS_MAX: usize = 32;

/// Samples kept for one partition: the first settled offset, the last, and log-spaced ones between.
pub const SAMPLES_MAX: usize = 6;

/// Bytes of ledger JSON that may stand in a table property; a larger one is stored as an object that the property names.
pub const PROPERTY_BYTES_MAX: usize = 16 * 1024;

/// How the table properties that hold ledgers begin; the pipeline's id follows.
pub const PROPERTIES: &str = "frazil.ledger.";

/// The table property that holds a pipeline's ledger, or names the object that does.
#[must_use]
pub fn property(pipeline: &crate::id::PipelineId) -> String {
    format!("{PROPERTIES}{pipeline}")
}

/// Coordinates counted by what became of them, since the first settled offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows added to the table.
    #[serde(default)]
    pub rows_added: u64,
    /// Rows replaced by a newer version.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rows_updated: u64,
    /// Rows removed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rows_deleted: u64,
    /// Records that removed rows, or marked them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deletes: u64,
    /// Records without effect, for there is a newer version of their key, in the table or in the same fold (ordered modes).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub superseded: u64,
    /// Records that made no row by choice, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filtered: BTreeMap<Filtered, u64>,
    /// Coordinates that came again after they were settled, or in two staged objects of one fold.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicates: u64,
    /// Rows left out because a row of their key was there, in the table or in the same fold (mode `dedup`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deduplicated: u64,
    /// Rows dropped as late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Rows that came late and were taken all the same; counted among the others, too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_kept: u64,
    /// Records that went to dead letters because a row of theirs came late; counted in `dead`, too, until a row is admitted
    /// in their place.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_dead: u64,
    /// Records in dead letters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dead: u64,
    /// Records that came again at offsets of which nothing retained says whether they had been settled or passed over: each
    /// has a letter, and the ledger is as it was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stale: u64,
    /// Offsets never handed to us.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undelivered: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Counts {
    /// Adds another count to this one.
    pub fn add(&mut self, other: &Self) {
        // Offsets go up to 2^63: gaps of a few partitions together may be more than a count holds.
        let sum = |to: &mut u64, n: u64| *to = to.saturating_add(n);
        sum(&mut self.rows_added, other.rows_added);
        sum(&mut self.rows_updated, other.rows_updated);
        sum(&mut self.rows_deleted, other.rows_deleted);
        sum(&mut self.deletes, other.deletes);
        sum(&mut self.superseded, other.superseded);
        for (reason, n) in &other.filtered {
            sum(self.filtered.entry(*reason).or_default(), *n);
        }
        sum(&mut self.duplicates, other.duplicates);
        sum(&mut self.deduplicated, other.deduplicated);
        sum(&mut self.late, other.late);
        sum(&mut self.late_kept, other.late_kept);
        sum(&mut self.late_dead, other.late_dead);
        sum(&mut self.dead, other.dead);
        sum(&mut self.stale, other.stale);
        sum(&mut self.undelivered, other.undelivered);
    }
}

/// How far one partition has got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionLedger {
    /// Offsets that the pipeline has passed: settled, dead or undelivered. Normally one interval.
    pub reached: Intervals,
    /// Those of `reached` whose record lies in dead letters: a row for one of them is still admitted, once.
    #[serde(default, skip_serializing_if = "Intervals::is_empty")]
    pub dead: Intervals,
    /// What became of the coordinates. `counts.undelivered` counts offsets whose exact lists stand in settlements.
    pub counts: Counts,
    /// Evidence that the topic is still the same topic, by offset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// How far its event time has come, where the pipeline tells late rows from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time: Option<Seen>,
}

/// A pipeline's ledger for one table. Contract `frazil.stored.ledger/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// `frazil.stored.ledger/<version>`.
    pub schema: Tag,
    /// The newest commit ids, newest first, at most [`COMMITS_MAX`]; the first is the commit that wrote this ledger.
    pub commits: VecDeque<CommitId>,
    /// Folds list staged objects from this minute on; everything staged before it is settled.
    pub low_minute: Minute,
    /// Server time of the commit that wrote this ledger.
    pub settled_at: Timestamp,
    /// Staged objects that could not be read. While there is one, holes stay open instead of counting as undelivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<String>,
    /// How far event time has come, where the pipeline tells late rows from others.
    #[serde(default, rename = "event_time", skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
    /// The snapshot that the newest commit made: once it is expired, what stands on it still shows that main was not moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<i64>,
    /// Topics that were deleted and made again, in the order in which that was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub epochs: Vec<Epoch>,
    /// Progress by source, topic and partition.
    pub sources: BTreeMap<SourceId, BTreeMap<String, BTreeMap<i32, PartitionLedger>>>,
}

/// A topic that was deleted and made again: from a minute on its offsets count anew. They do so under a source of their
/// own, so that a coordinate goes on meaning one record, and what the old topic settled stays settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The source as staged objects name it.
    pub source: SourceId,
    /// The topic.
    pub topic: String,
    /// The partition; every one of the topic when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Objects staged in this minute and later are of the new topic.
    pub since: Minute,
    /// The source that the new topic's coordinates have in the ledger.
    pub counts_as: SourceId,
}

impl Epoch {
    /// An epoch of a topic, or of one of its partitions.
    #[must_use]
    pub fn new(source: &SourceId, topic: &str, partition: Option<i32>, since: Minute) -> Self {
        let counts_as = SourceId::of(&format!("{source}@{since}"));
        Self { source: source.clone(), topic: topic.to_owned(), partition, since, counts_as }
    }

    fn holds(&self, at: &TopicPartition, minute: Minute) -> bool {
        self.source == at.source
            && self.topic == at.topic
            && self.partition.is_none_or(|partition| partition == at.partition)
            && self.since <= minute
    }
}

impl Contract for Ledger {
    const NAME: &'static str = "frazil.stored.ledger";
    const VERSION: u32 = 1;
}

/// The table property where a ledger is too large for one: an immutable object and its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// The ledger's tag.
    pub schema: Tag,
    /// The object's key in the store.
    pub object: String,
    /// sha256 of the object's bytes, hexadecimal.
    pub sha256: String,
}

/// Why a ledger can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON of the right shape.
    #[error("the ledger is not readable: {0}")]
    Shape(#[from] serde_json::Error),
    /// Another version or another document.
    #[error(transparent)]
    Refused(#[from] stored::Refused),
    /// The next ledger would forget something the last one had settled (I4).
    #[error("{at}: the next ledger would forget {lost}")]
    Forgets { at: TopicPartition, lost: Intervals },
}

impl Error {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> crate::failure::Kind {
        match self {
            Self::Shape(_) | Self::Refused(stored::Refused::Foreign { .. }) => crate::failure::Kind::Corrupt,
            Self::Refused(stored::Refused::Newer { .. }) => crate::failure::Kind::Misconfigured,
            Self::Forgets { .. } => crate::failure::Kind::Bug,
        }
    }
}

impl Ledger {
    /// A ledger before the first commit.
    #[must_use]
    pub fn empty(low_minute: Minute) -> Self {
        Self {
            schema: Tag::of::<Self>(),
            commits: VecDeque::new(),
            low_minute,
            settled_at: low_minute.start(),
            quarantined: Vec::new(),
            watermark: None,
            anchor: None,
            epochs: Vec::new(),
            sources: BTreeMap::new(),
        }
    }

    /// Reads a ledger from its JSON.
    ///
    /// # Errors
    /// When it is not one, or was written by a newer version.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Tagged {
            schema: Tag,
        }
        // The tag first: a newer version may well have another shape, and "upgrade" is the better advice.
        serde_json::from_str::<Tagged>(text)?.schema.check::<Self>()?;
        Ok(serde_json::from_str(text)?)
    }

    /// One partition's progress.
    #[must_use]
    pub fn partition(&self, at: &TopicPartition) -> Option<&PartitionLedger> {
        self.sources.get(&at.source)?.get(&at.topic)?.get(&at.partition)
    }

    fn partition_mut(&mut self, at: &TopicPartition) -> &mut PartitionLedger {
        self.sources
            .entry(at.source.clone())
            .or_default()
            .entry(at.topic.clone())
            .or_default()
            .entry(at.partition)
            .or_default()
    }

    /// Adds an object's rows of one partition to how far its event time has come.
    pub fn see(&mut self, at: &TopicPartition, greatest: Timestamp, minute: Minute) {
        let partition = self.partition_mut(at);
        partition.event_time = Some(Seen::with(partition.event_time, greatest, minute));
    }

    pub(crate) fn set_seen(&mut self, at: &TopicPartition, seen: Seen) {
        self.partition_mut(at).event_time = Some(seen);
    }

    /// Every partition with its progress.
    pub fn partitions(&self) -> impl Iterator<Item = (TopicPartition, &PartitionLedger)> {
        self.sources.iter().flat_map(|(source, topics)| {
            topics.iter().flat_map(move |(topic, partitions)| {
                partitions.iter().map(move |(partition, ledger)| {
                    let at = TopicPartition { source: source.clone(), topic: topic.clone(), partition: *partition };
                    (at, ledger)
                })
            })
        })
    }

    /// Where the ledger counts a partition of an object staged in `minute`: under the newest epoch that holds it.
    #[must_use]
    pub fn counted(&self, at: &TopicPartition, minute: Minute) -> TopicPartition {
        let newest = self.epochs.iter().filter(|epoch| epoch.holds(at, minute)).max_by_key(|epoch| epoch.since);
        let source = newest.map_or(&at.source, |epoch| &epoch.counts_as);
        TopicPartition { source: source.clone(), ..at.clone() }
    }

    /// The coverage of an object staged in `minute`, its partitions as the ledger counts them.
    ///
    /// # Errors
    /// When two of them are counted as one.
    pub fn counted_coverage(&self, coverage: &Coverage, minute: Minute) -> Result<Coverage, coverage::Fault> {
        coverage.renamed(|at| self.counted(at, minute))
    }

    /// The source as staged objects name it, of one that the ledger counts under.
    #[must_use]
    pub fn origin<'a>(&'a self, source: &'a SourceId) -> &'a SourceId {
        self.epochs.iter().find(|epoch| epoch.counts_as == *source).map_or(source, |epoch| &epoch.source)
    }

    /// Which log of its topic a source that the ledger counts under is: 0 is the first, and each that was made again is the next.
    #[must_use]
    pub fn log_number(&self, source: &SourceId) -> u32 {
        let Some(of) = self.epochs.iter().find(|epoch| epoch.counts_as == *source) else { return 0 };
        let before = self.epochs.iter().filter(|epoch| epoch.source == of.source && epoch.since < of.since);
        1 + u32::try_from(before.count()).unwrap_or(u32::MAX - 1)
    }

    /// All counts together.
    #[must_use]
    pub fn totals(&self) -> Counts {
        let mut all = Counts::default();
        for (_, ledger) in self.partitions() {
            all.add(&ledger.counts);
        }
        all
    }

    /// Whether one of the remembered commits is this one.
    #[must_use]
    pub fn knows(&self, commit: &CommitId) -> bool {
        self.commits.contains(commit)
    }

    /// The ledger after a commit: what `judgement` settles, with the rows that reading the objects has counted.
    ///
    /// # Errors
    /// [`Error::Forgets`] when the result would not hold everything this ledger holds (I4): a fault of our own code.
    pub fn settle(
        &self,
        judgement: &Judgement,
        commit: &CommitId,
        low_minute: Minute,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let mut next = self.clone();
        next.schema = Tag::of::<Self>();
        next.commits.push_front(commit.clone());
        next.commits.truncate(COMMITS_MAX);
        next.low_minute = low_minute;
        next.settled_at = now;
        for (at, settled) in &judgement.partitions {
            next.partition_mut(at).settle(settled);
        }
        let found = judgement.partitions.iter().map(|(at, s)| (at.clone(), s.found.clone())).collect();
        self.included_in(&next, &found)?;
        Ok(next)
    }

    /// Old ⊆ new (I4): everything reached stays reached, and nothing settled becomes dead again. A coordinate of `found`
    /// was counted as never delivered; it alone may turn into a dead letter.
    ///
    /// # Errors
    /// [`Error::Forgets`] with the first partition that would lose something.
    pub fn included_in(&self, next: &Self, found: &BTreeMap<TopicPartition, Intervals>) -> Result<(), Error> {
        let nothing = PartitionLedger::default();
        let none = Intervals::new();
        for (at, old) in self.partitions() {
            let new = next.partition(&at).unwrap_or(&nothing);
            let settled = |l: &PartitionLedger| l.reached.subtract(&l.dead);
            let undone = settled(old).subtract(&settled(new)).subtract(found.get(&at).unwrap_or(&none));
            let lost = old.reached.subtract(&new.reached).union(&undone);
            if !lost.is_empty() {
                return Err(Error::Forgets { at, lost });
            }
        }
        Ok(())
    }
}

impl PartitionLedger {
    fn settle(&mut self, settled: &Settled) {
        let revived = self.dead.intersect(&settled.decided);
        self.reached = self.reached.union(&settled.decided).union(&settled.dead).union(&settled.undelivered);
        if crate::mutation::on(crate::mutation::Mutation::ReplayedTwice) {
            self.dead = self.dead.union(&settled.dead);
        } else {
            self.dead = self.dead.subtract(&settled.decided).union(&settled.dead);
        }
        self.counts.add(&settled.counts);
        // A record that was dead and now has a row is no longer counted as dead; likewise an undelivered one.
        self.counts.dead = self.counts.dead.saturating_sub(revived.count());
        self.counts.undelivered = self.counts.undelivered.saturating_sub(settled.found.count());
        for sample in &settled.samples {
            self.samples.push(*sample);
        }
        thin(&mut self.samples);
    }
}

/// Keeps at most [`SAMPLES_MAX`] samples: the first, the last, and between them those nearest to half, a quarter, an
/// eighth … of the way back from the last, so that recent history is covered most densely.
fn thin(samples: &mut Vec<Sample>) {
    samples.sort_unstable();
    samples.dedup_by_key(|s| s.offset);
    let (Some(first), Some(last)) = (samples.first().copied(), samples.last().copied()) else { return };
    if samples.len() <= SAMPLES_MAX {
        return;
    }
    let mut kept = vec![first];
    let mut span = last.offset - first.offset;
    let mut between: Vec<Sample> = Vec::new();
    for _ in 0..SAMPLES_MAX - 2 {
        span /= 2;
        let wanted = last.offset - span;
        let near = samples
            .iter()
            .filter(|s| s.offset > first.offset && s.offset < last.offset && !between.contains(s))
            .min_by_key(|s| s.offset.abs_diff(wanted));
        between.extend(near.copied());
    }
    kept.extend(between);
    kept.push(last);
    kept.sort_unstable();
    *samples = kept;
}
