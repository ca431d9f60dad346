//! What becomes of each coordinate. Staged objects may overlap: a batch comes again, cut elsewhere, decoded under another
//! schema or another pipeline file. [`judge`] decides per coordinate, from coverage alone, which object speaks for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::coordinate::{Sample, TopicPartition};
use crate::coverage::{Coverage, PartitionCoverage};
use crate::interval::{Interval, Intervals};
use crate::ledger::{Counts, Ledger};
use crate::mutation::{self, Mutation};

/// What one object says about one coordinate, weakest first: a stronger verdict replaces a weaker one, never the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Never handed to us.
    Undelivered,
    /// In dead letters.
    Dead,
    /// A row, or filtered, or another table's.
    Decided,
}

/// How records reached a staged object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The event source mapping, in order.
    #[default]
    Stream,
    /// A bounded read of older offsets.
    Backfill,
    /// Dead letters or raw staged bytes, decoded again.
    Replay,
}

/// Which of two decisions about a coordinate holds: the higher one; on a tie the object with the earlier key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Precedence {
    /// The pipeline file's apply sequence number.
    pub apply_sequence: u64,
    /// The highest registry version among the schemas used.
    pub registry_version: u64,
}

/// One staged object as [`judge`] sees it.
#[derive(Clone, Debug)]
pub struct Staged<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its rank.
    pub precedence: Precedence,
    /// How its records came.
    pub origin: Origin,
    /// What it accounts for.
    pub coverage: &'a Coverage,
    /// `None`: all of it may be used. Otherwise only these partitions, up to and including these offsets.
    pub limits: Option<BTreeMap<TopicPartition, i64>>,
}

impl Staged<'_> {
    /// The offsets of a partition that may be used now.
    fn window(&self, at: &TopicPartition) -> Option<Intervals> {
        match &self.limits {
            None => Interval::new(0, i64::MAX).ok().map(Intervals::from),
            Some(limits) => limits.get(at).and_then(|last| Interval::new(0, *last).ok()).map(Intervals::from),
        }
    }

    /// The offsets of a partition for which the object may be used now, whether it has them or not.
    #[must_use]
    pub fn usable(&self, at: &TopicPartition) -> Intervals {
        self.window(at).unwrap_or_default()
    }

    /// The coordinates of a partition about which the object has decided, as far as it may be used now.
    #[must_use]
    pub fn decided(&self, at: &TopicPartition) -> Intervals {
        let covered = self.coverage.get(at).map(PartitionCoverage::decided).unwrap_or_default();
        covered.intersect(&self.usable(at))
    }
}

/// What a judgement settles in one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Coordinates settled now with a row or by a filter.
    pub decided: Intervals,
    /// Coordinates now known to lie in dead letters.
    pub dead: Intervals,
    /// Coordinates now counted as never delivered.
    pub undelivered: Intervals,
    /// Of `decided` and `dead`, those that an earlier commit had counted as never delivered.
    pub found: Intervals,
    /// Coordinates of rows of which nothing retained says whether they were settled or passed over: the ledger stays as it
    /// is, and the rows go to dead letters.
    pub stale: Intervals,
    /// What to add to the ledger's counts. `rows_added` is left 0: only reading the rows tells it.
    pub counts: Counts,
    /// Evidence to keep.
    pub samples: Vec<Sample>,
}

/// The outcome of [`judge`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// By partition, what is settled. Partitions in which nothing is new and nothing came again are absent.
    pub partitions: BTreeMap<TopicPartition, Settled>,
    /// By object, in the order given: the coordinates for which this object speaks. Its rows there enter the table.
    pub admitted: Vec<BTreeMap<TopicPartition, Intervals>>,
    /// By object, in the order given: the stale coordinates for which this object speaks.
    pub stale: Vec<BTreeMap<TopicPartition, Intervals>>,
}

impl Judgement {
    /// Whether a commit would change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions
            .values()
            .all(|s| s.decided.is_empty() && s.dead.is_empty() && s.undelivered.is_empty() && s.stale.is_empty())
    }

    /// Makes dead letters of coordinates that were taken for decided: reading their rows has shown that the table does not
    /// take them. Those that lay in dead letters before the judgement stay there, and came again, nothing more.
    pub fn bury(&mut self, at: &TopicPartition, dead: &Intervals, ledger: &Ledger) {
        let Some(settled) = self.partitions.get_mut(at) else { return };
        let dead = settled.decided.intersect(dead);
        let before = ledger.partition(at).map(|known| &known.dead);
        let again = before.map(|before| dead.intersect(before)).unwrap_or_default();
        let fresh = dead.subtract(&again);
        settled.decided = settled.decided.subtract(&dead);
        settled.dead = settled.dead.union(&fresh);
        settled.counts.dead += fresh.count();
        settled.counts.duplicates += again.count();
    }

    /// The counts of all partitions together.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for settled in self.partitions.values() {
            all.add(&settled.counts);
        }
        all
    }
}

/// The offsets behind a ledger's `undelivered` counts, where objects cover what it has reached: the ledger counts them, and
/// settlements list them, as long as they are retained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// Offsets that were passed over, by the settlements' lists.
    pub listed: BTreeMap<TopicPartition, Intervals>,
    /// Offsets that a settlement which is gone may have listed.
    pub unlisted: BTreeMap<TopicPartition, Intervals>,
    /// Keys of objects that a settlement read on the way names as settled whole: nothing of them is stale.
    pub settled: BTreeSet<String>,
}

/// What is known before a judgement.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The table's ledger.
    pub ledger: &'a Ledger,
    /// What the settlements of the ledger's line say of the offsets behind its `undelivered` counts.
    pub undelivered: &'a Undelivered,
    /// Whether offsets missing between objects may still come (an object is quarantined, or the mapping may skip):
    /// then they stay open instead of counting as never delivered.
    pub open_holes: bool,
}

/// Decides, for every coordinate the objects speak of, what becomes of it.
///
/// A coordinate settled before is dropped and counted as a duplicate; so is a second object's word for it. A row at a
/// coordinate that was dead or undelivered is admitted once; where nothing retained tells an undelivered one from a settled
/// one, it is stale. Offsets missing above everything reached so far, between
/// objects or inside one, were never handed over: delivery is in order and nothing is acknowledged before it is durable (I1).
#[must_use]
pub fn judge(known: &Known<'_>, objects: &[Staged<'_>]) -> Judgement {
    let mut order: Vec<usize> = (0..objects.len()).collect();
    order.sort_by_key(|&n| objects.get(n).map(|o| (Reverse(o.precedence), o.key)));
    let mut partitions: BTreeMap<&TopicPartition, Vec<(usize, Part)>> = BTreeMap::new();
    for n in order {
        let Some(object) = objects.get(n) else { continue };
        let is_settled = known.undelivered.settled.contains(object.key);
        for (at, covered) in object.coverage.iter() {
            let Some(window) = object.window(at) else { continue };
            if let Some(part) = Part::of(covered, &window, object, is_settled) {
                partitions.entry(at).or_default().push((n, part));
            }
        }
    }
    let nothing = vec![BTreeMap::new(); objects.len()];
    let mut judgement = Judgement { partitions: BTreeMap::new(), admitted: nothing.clone(), stale: nothing };
    for (at, parts) in partitions {
        let (settled, spoken) = judge_partition(known, at, &parts);
        for (n, spoken) in spoken {
            let of_all = [&mut judgement.admitted, &mut judgement.stale];
            for (of_all, offsets) in of_all.into_iter().zip([spoken.admitted, spoken.stale]) {
                if let Some(mine) = of_all.get_mut(n).filter(|_| !offsets.is_empty()) {
                    mine.insert(at.clone(), offsets);
                }
            }
        }
        judgement.partitions.insert(at.clone(), settled);
    }
    judgement
}

/// The usable part of one object in one partition.
struct Part {
    is_settled: bool,
    delivered: Intervals,
    decided: Intervals,
    dead: Intervals,
    gaps: Intervals,
    filtered: Vec<(crate::coverage::Filtered, Intervals)>,
    ends: Vec<Sample>,
    /// Whether what lies between its records was passed over.
    in_order: bool,
    /// Whether what lies between it and others like it was, too. A backfill is read beside the stream: what it has not come to
    /// yet lies below what the stream has.
    goes_on: bool,
}

impl Part {
    fn of(covered: &PartitionCoverage, window: &Intervals, object: &Staged<'_>, is_settled: bool) -> Option<Self> {
        let delivered = covered.delivered.intersect(window);
        let hull = Intervals::from(delivered.hull()?);
        Some(Self {
            is_settled,
            decided: covered.decided().intersect(window),
            dead: covered.dead.intersect(window),
            gaps: hull.subtract(&delivered),
            filtered: covered.filtered.iter().map(|(why, offsets)| (*why, offsets.intersect(window))).collect(),
            ends: [covered.first, covered.last].into_iter().filter(|s| window.contains(s.offset)).collect(),
            // A replay hands over single records from anywhere: what lies between them says nothing.
            in_order: object.origin != Origin::Replay,
            goes_on: object.origin == Origin::Stream,
            delivered,
        })
    }
}

/// The coordinates of one partition for which one object speaks.
struct Spoken {
    admitted: Intervals,
    stale: Intervals,
}

fn judge_partition(known: &Known<'_>, at: &TopicPartition, parts: &[(usize, Part)]) -> (Settled, Vec<(usize, Spoken)>) {
    let before = known.ledger.partition(at).cloned().unwrap_or_default();
    let was_undelivered = known.undelivered.listed.get(at).cloned().unwrap_or_default();
    let unlisted = known.undelivered.unlisted.get(at).cloned().unwrap_or_default();
    let unlisted = unlisted.intersect(&before.reached).subtract(&before.dead).subtract(&was_undelivered);
    let mut was_settled = before.reached.subtract(&before.dead).subtract(&was_undelivered);
    if mutation::on(Mutation::LedgerUnchecked) {
        was_settled = Intervals::new();
    }
    if mutation::on(Mutation::UndeliveredSwallowed) {
        was_settled = before.reached.subtract(&before.dead);
    }

    let mut claimed = Intervals::new();
    let mut all_decided = Intervals::new();
    let mut all_dead = Intervals::new();
    let mut counts = Counts::default();
    let mut spoken = Vec::new();
    let mut stale = Intervals::new();
    let mut handed_over = 0;
    for (n, part) in parts {
        let mut mine = part.decided.subtract(&was_settled).subtract(&claimed);
        if mutation::on(Mutation::DeadOverRow) {
            mine = parts.iter().fold(mine, |mine, (_, other)| mine.subtract(&other.dead));
        }
        for (why, offsets) in &part.filtered {
            let filtered = offsets.intersect(&mine).count();
            if filtered > 0 {
                *counts.filtered.entry(*why).or_default() += filtered;
            }
        }
        claimed = claimed.union(&mine);
        all_decided = all_decided.union(&part.decided);
        all_dead = all_dead.union(&part.dead);
        handed_over += part.delivered.count();
        let mut stale_mine = Intervals::new();
        if !part.is_settled && !unlisted.is_empty() {
            // What was filtered has no row that could be missed.
            let rows = part.filtered.iter().fold(part.decided.clone(), |rows, (_, offsets)| rows.subtract(offsets));
            stale_mine = rows.intersect(&unlisted).subtract(&stale);
            stale = stale.union(&stale_mine);
        }
        if !mine.is_empty() || !stale_mine.is_empty() {
            spoken.push((*n, Spoken { admitted: mine, stale: stale_mine }));
        }
    }
    let decided = claimed;
    if mutation::on(Mutation::DeadOverRow) {
        all_decided = all_decided.subtract(&all_dead);
    }
    let dead = all_dead.subtract(&all_decided).subtract(&was_settled).subtract(&before.dead);
    let missing = missing(known, &before.reached, parts);
    let undelivered = missing.subtract(&all_decided).subtract(&all_dead).subtract(&before.reached);
    let found = was_undelivered.intersect(&decided.union(&dead));

    counts.duplicates = handed_over - decided.count() - dead.count() - stale.count();
    counts.dead = dead.count();
    counts.stale = stale.count();
    counts.undelivered = undelivered.count();
    let news = decided.union(&dead);
    let samples = parts.iter().flat_map(|(_, p)| &p.ends).filter(|s| news.contains(s.offset)).copied().collect();
    (Settled { decided, dead, undelivered, found, stale, counts, samples }, spoken)
}

/// Offsets that in-order delivery has passed without handing them over.
fn missing(known: &Known<'_>, reached: &Intervals, parts: &[(usize, Part)]) -> Intervals {
    let mut inside = Intervals::new();
    let mut passed = reached.clone();
    for (_, part) in parts.iter().filter(|(_, p)| p.in_order) {
        inside = inside.union(&part.gaps);
        if part.goes_on {
            passed = passed.union(&part.delivered).union(&part.gaps);
        }
    }
    if known.open_holes {
        return inside;
    }
    // Only above what was reached: below it lie rewinds and backfills, where a hole may be filled by a later object.
    let above = match reached.last() {
        None => passed.gaps(),
        Some(i64::MAX) => Intervals::new(),
        Some(last) => {
            passed.gaps().intersect(&Interval::new(last + 1, i64::MAX).map(Intervals::from).unwrap_or_default())
        }
    };
    inside.union(&above)
}

/// Which objects of two listing passes may be used together. Everything of the first pass; of an object that only the
/// second pass saw, just what lies below the highest offset that the first pass holds of the same partition: the rest may
/// itself have an acknowledged predecessor that neither pass saw.
///
/// Returns, for each object of the second pass, its [`Staged::limits`], or `None` where nothing of it may be used now.
#[must_use]
pub fn limits(first_pass: &[&Coverage], second_pass: &[&Coverage]) -> Vec<Option<BTreeMap<TopicPartition, i64>>> {
    let mut highest: BTreeMap<&TopicPartition, i64> = BTreeMap::new();
    for (at, covered) in first_pass.iter().flat_map(|c| c.iter()) {
        let high = highest.entry(at).or_insert(covered.last.offset);
        *high = (*high).max(covered.last.offset);
    }
    second_pass
        .iter()
        .map(|coverage| {
            let mine: BTreeMap<TopicPartition, i64> = coverage
                .iter()
                .filter_map(|(at, covered)| {
                    let high = *highest.get(at)?;
                    (covered.first.offset < high).then(|| (at.clone(), high))
                })
                .collect();
            (!mine.is_empty()).then_some(mine)
        })
        .collect()
}

#[cfg(test)]
mod tests;
