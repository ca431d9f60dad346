//! How much one run takes: oldest first, cut by offset, never between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use model::clock::Timestamp;
use model::coordinate::TopicPartition;
use model::interval::{Interval, Intervals};
use model::ledger::Ledger;
use model::run::{Run, Stage, State};
use staging::key;
use staging::list;
use staging::store;

use crate::error::Error;
use crate::intake::{Found, Intake};
use crate::run::Fold;

/// Less than this is not worth a run: a budget that was halved often stays here. One object is always taken.
const BYTES_MIN: u64 = 1024 * 1024;
/// Staged bytes folded in a second, before a run has shown its own figure: a slow core's.
const BYTES_PER_SECOND: u64 = 8 * 1024 * 1024;
/// The share of the time left that reading and writing rows may take, in percent: the rest is for listing, commit and its
/// attempts.
const TIME_PERCENT: u64 = 40;
/// Memory that a row may cost while a run holds it, in bytes: its key's hash and its place.
const BYTES_PER_ROW: u64 = 64;

/// What a run may take. Nothing given, everything that is staged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of staged objects.
    pub bytes: Option<u64>,
    /// Rows.
    pub rows: Option<u64>,
}

impl Budget {
    /// The budget of a machine: its memory, and the time that is left to the run. `last` is the run before, whose speed
    /// is taken for this one's.
    #[must_use]
    pub fn of(memory_bytes: u64, left: std::time::Duration, last: Option<&Run>) -> Self {
        let seconds = left.as_secs().saturating_mul(TIME_PERCENT) / 100;
        let bytes = speed(last).unwrap_or(BYTES_PER_SECOND).saturating_mul(seconds).max(BYTES_MIN);
        Self { bytes: Some(bytes), rows: Some((memory_bytes / BYTES_PER_ROW).max(1)) }
    }

    fn holds(self, bytes: u64, rows: u64) -> bool {
        self.bytes.is_none_or(|max| bytes <= max) && self.rows.is_none_or(|max| rows <= max)
    }
}

/// Staged bytes that a run folded in a second, where it did enough to tell.
fn speed(last: Option<&Run>) -> Option<u64> {
    let run = last.filter(|run| run.state == State::Done)?;
    let micros = u64::try_from(run.finished?.micros() - run.started.micros()).ok().filter(|micros| *micros > 0)?;
    let bytes = run.figures.get("staged_bytes").copied().filter(|bytes| *bytes >= BYTES_MIN)?;
    Some((u128::from(bytes) * 1_000_000 / u128::from(micros)).try_into().unwrap_or(u64::MAX))
}

/// The bytes that the next run may take, after the one before. One that is still running past its time was killed: half of
/// what it took is tried. One that ended well brings the full budget back.
fn next_bytes(last: Option<&Run>, full: Option<u64>, staged: u64, now: Timestamp) -> Option<u64> {
    let last = last?;
    let before = last.budget_bytes.or(full);
    match last.state {
        State::Running if last.until < now => {
            let half = (before.unwrap_or(staged) / 2).max(BYTES_MIN);
            Some(full.map_or(half, |full| full.min(half)))
        }
        State::Done => full,
        State::Running | State::Failed => match (before, full) {
            (Some(before), Some(full)) => Some(before.min(full)),
            (before, _) => before,
        },
    }
}

impl Fold {
    /// What this run may take, given how the last one ended.
    pub(crate) async fn budget(&self) -> Result<Budget, Error> {
        let full = self.settings.budget;
        let last = self.last_run().await?;
        let killed = last.as_ref().is_some_and(|run| run.state == State::Running && run.until < self.clock.now());
        // What an unbounded run was killed over is not known; what is staged is no less.
        let staged = if killed {
            let listing = list::list_all(self.store.as_ref(), &self.id, None).await?;
            listing.objects.iter().map(|object| object.size).sum()
        } else {
            0
        };
        let bytes = match &last {
            None => full.bytes,
            last => next_bytes(last.as_ref(), full.bytes, staged, self.clock.now()),
        };
        if killed {
            tracing::warn!(bytes, "the last run was killed: this one takes less");
        }
        Ok(Budget { bytes, ..full })
    }

    /// The note of the run before. One that can't be read says nothing.
    pub(crate) async fn last_run(&self) -> Result<Option<Run>, Error> {
        match self.store.get(&key::run(&self.id, Stage::Fold.as_str())).await {
            Ok(body) => Ok(read(&body)),
            Err(store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn read(body: &Bytes) -> Option<Run> {
    let run: Run = serde_json::from_slice(body).ok()?;
    run.schema.check::<Run>().is_ok().then_some(run)
}

/// Leaves in an intake what a run may take; gives how many objects wait for the next one.
///
/// Objects are taken in order of their keys, but none before what holds lower offsets of its partitions. Of what is taken
/// nothing counts at or above an offset that only a waiting object holds: offsets passed over would be taken for never
/// delivered.
pub(crate) fn cut(intake: &mut Intake, ledger: Option<&Ledger>, table: &str, budget: Budget) -> usize {
    let rows = |found: &Found| found.footer.table(table).map_or(0, |t| t.rows);
    let total = intake.objects.iter().fold((0u64, 0u64), |(b, r), f| (b + f.size, r + rows(f)));
    if budget.holds(total.0, total.1) {
        return 0;
    }
    // Objects that bring no new offset would be taken first again and again, and nothing behind them ever.
    let known = |found: &Found| {
        found.footer.coverage.iter().all(|(at, covered)| {
            ledger
                .and_then(|ledger| ledger.partition(at))
                .is_some_and(|known| known.reached.contains_all(&covered.delivered))
        })
    };
    let mut taken: BTreeSet<usize> =
        intake.objects.iter().enumerate().filter(|(_, found)| known(found)).map(|(n, _)| n).collect();
    let mut sums = (0u64, 0u64);
    for n in in_order(&intake.objects, ledger) {
        let Some(found) = intake.objects.get(n).filter(|_| !taken.contains(&n)) else { continue };
        let next = (sums.0 + found.size, sums.1 + rows(found));
        if sums != (0, 0) && !budget.holds(next.0, next.1) {
            break;
        }
        sums = next;
        taken.insert(n);
    }
    let all = std::mem::take(&mut intake.objects);
    let (kept, waiting): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(n, _)| taken.contains(n));
    let mut kept: Vec<Found> = kept.into_iter().map(|(_, found)| found).collect();
    let first_open = first_open(&kept, waiting.iter().map(|(_, found)| found), ledger);
    for found in &mut kept {
        limit(found, &first_open);
    }
    let count = waiting.len();
    intake.later.extend(waiting.into_iter().map(|(_, found)| found.minute));
    intake.objects = kept;
    count
}

/// By partition, the lowest offset that waits.
fn first_open<'a>(
    kept: &'a [Found],
    waiting: impl Iterator<Item = &'a Found>,
    ledger: Option<&Ledger>,
) -> BTreeMap<TopicPartition, i64> {
    let mut open: BTreeMap<&TopicPartition, Intervals> = BTreeMap::new();
    for (at, covered) in waiting.flat_map(|found| found.footer.coverage.iter()) {
        let all = open.entry(at).or_default();
        *all = all.union(&covered.delivered);
    }
    for found in kept {
        for (at, covered) in found.footer.coverage.iter() {
            if let Some(all) = open.get_mut(at) {
                let usable = match &found.limits {
                    None => covered.delivered.clone(),
                    Some(limits) => limits
                        .get(at)
                        .and_then(|last| Interval::new(0, *last).ok())
                        .map(|span| covered.delivered.intersect(&Intervals::from(span)))
                        .unwrap_or_default(),
                };
                *all = all.subtract(&usable);
            }
        }
    }
    let mut first = BTreeMap::new();
    for (at, all) in open {
        let reached = ledger.and_then(|ledger| ledger.partition(at)).map(|p| &p.reached);
        let left = reached.map_or_else(|| all.clone(), |reached| all.subtract(reached));
        if let Some(offset) = left.first() {
            first.insert(at.clone(), offset);
        }
    }
    first
}

/// Limits an object to what lies below the offsets that wait.
fn limit(found: &mut Found, first_open: &BTreeMap<TopicPartition, i64>) {
    let reaches = |(at, covered): (&TopicPartition, &model::coverage::PartitionCoverage)| {
        first_open.get(at).is_some_and(|open| covered.last.offset >= *open)
    };
    if !found.footer.coverage.iter().any(reaches) {
        return;
    }
    let mut limits = BTreeMap::new();
    for (at, covered) in found.footer.coverage.iter() {
        let before = match &found.limits {
            None => i64::MAX,
            Some(limits) => match limits.get(at) {
                Some(last) => *last,
                None => continue,
            },
        };
        let last = first_open.get(at).map_or(before, |open| before.min(open - 1));
        if covered.first.offset <= last {
            limits.insert(at.clone(), last);
        }
    }
    found.limits = Some(limits);
}

/// By partition, the lowest offset of an object that the ledger has not passed.
fn opens<'a>(found: &'a Found, ledger: Option<&Ledger>) -> BTreeMap<&'a TopicPartition, i64> {
    let first = |at: &TopicPartition, delivered: &Intervals| match ledger.and_then(|ledger| ledger.partition(at)) {
        None => delivered.first(),
        Some(known) => delivered.subtract(&known.reached).first(),
    };
    found.footer.coverage.iter().filter_map(|(at, covered)| Some((at, first(at, &covered.delivered)?))).collect()
}

/// Positions of objects in the order in which they are taken: by key, each after those that hold lower offsets of its
/// partitions. Where they wait for each other in a circle, the first that holds the lowest offset of some partition goes on.
fn in_order(objects: &[Found], ledger: Option<&Ledger>) -> Vec<usize> {
    let open: Vec<BTreeMap<&TopicPartition, i64>> = objects.iter().map(|found| opens(found, ledger)).collect();
    let mut queues: BTreeMap<&TopicPartition, Vec<(i64, usize)>> = BTreeMap::new();
    for (n, parts) in open.iter().enumerate() {
        for (at, first) in parts {
            queues.entry(at).or_default().push((*first, n));
        }
    }
    let mut queues: BTreeMap<&TopicPartition, VecDeque<usize>> = queues
        .into_iter()
        .map(|(at, mut queue)| {
            queue.sort_unstable();
            (at, queue.into_iter().map(|(_, n)| n).collect())
        })
        .collect();
    let mut fronts = vec![0usize; objects.len()];
    for front in queues.values().filter_map(|queue| queue.front()) {
        if let Some(count) = fronts.get_mut(*front) {
            *count += 1;
        }
    }
    let is_ready = |n: usize, fronts: &[usize]| fronts.get(n).copied() == open.get(n).map(BTreeMap::len);
    let mut ready: BTreeSet<usize> = (0..objects.len()).filter(|n| is_ready(*n, &fronts)).collect();
    let mut done = vec![false; objects.len()];
    let mut order = Vec::with_capacity(objects.len());
    loop {
        let next = ready.pop_first().or_else(|| queues.values().filter_map(|queue| queue.front()).min().copied());
        let Some(next) = next else { return order };
        let Some(parts) = open.get(next) else { return order };
        if let Some(done) = done.get_mut(next) {
            *done = true;
        }
        order.push(next);
        for at in parts.keys() {
            let Some(queue) = queues.get_mut(at) else { continue };
            if queue.front() != Some(&next) {
                continue;
            }
            while queue.front().is_some_and(|n| done.get(*n).copied().unwrap_or(true)) {
                queue.pop_front();
            }
            let Some(front) = queue.front().copied() else { continue };
            if let Some(count) = fronts.get_mut(front) {
                *count += 1;
            }
            if is_ready(front, &fronts) {
                ready.insert(front);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::stored::Tag;

    fn run(state: State, budget_bytes: Option<u64>, until: i64) -> Run {
        Run {
            schema: Tag::of::<Run>(),
            stage: Stage::Fold,
            state,
            started: Timestamp::from_micros(0),
            until: Timestamp::from_micros(until),
            finished: Some(Timestamp::from_micros(2_000_000)),
            budget_bytes,
            failure: None,
            figures: [("staged_bytes".to_owned(), 20 << 20)].into(),
        }
    }

    #[test]
    fn a_killed_run_halves_the_next_and_a_good_one_restores_it() {
        let now = Timestamp::from_micros(100);
        let (full, staged) = (Some(64 << 20), 10 << 20);
        for (last, full, want) in [
            (run(State::Running, full, 50), full, Some(32 << 20)),
            (run(State::Running, Some(8 << 20), 50), full, Some(4 << 20)),
            (run(State::Running, Some(1), 50), full, Some(BYTES_MIN)),
            (run(State::Running, None, 50), None, Some(5 << 20)),
            (run(State::Running, Some(8 << 20), 150), full, Some(8 << 20)),
            (run(State::Running, None, 150), None, None),
            (run(State::Failed, Some(8 << 20), 50), full, Some(8 << 20)),
            (run(State::Failed, Some(128 << 20), 50), full, full),
            (run(State::Done, Some(8 << 20), 50), full, full),
            (run(State::Done, Some(8 << 20), 50), None, None),
        ] {
            assert_eq!(next_bytes(Some(&last), full, staged, now), want, "{last:?} {full:?}");
        }
    }

    #[test]
    fn memory_and_time_bound_a_run() {
        let minute = std::time::Duration::from_secs(100);
        let first = Budget::of(64 << 20, minute, None);
        assert_eq!(first, Budget { bytes: Some(40 * BYTES_PER_SECOND), rows: Some(1 << 20) });
        let after = Budget::of(64 << 20, minute, Some(&run(State::Done, None, 0)));
        assert_eq!(after.bytes, Some(40 * (10 << 20)), "the last one folded 10 MiB in a second");
    }
}
