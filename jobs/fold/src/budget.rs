//! How much one run takes: oldest first, cut by offset, never between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use model::clock::Timestamp;
use model::coordinate::TopicPartition;
use model::interval::{Interval, Intervals};
use model::ledger::Ledger;
use model::run::{Run, Stage, State};
use model::verdict::{self, Known, Origin};
use pipeline::resolved::{Mode, Table};
use staging::key;
use staging::list;
use staging::store;

use crate::error::Error;
use crate::intake::{Found, Intake};
use crate::run::Fold;
use crate::{dedup, upsert};

/// Less than this is not worth a run: a budget that was halved often stays here. One object is always taken.
const BYTES_MIN: u64 = 1024 * 1024;
/// Staged bytes folded in a second, before a run has shown its own figure: a slow core's.
const BYTES_PER_SECOND: u64 = 8 * 1024 * 1024;
/// The share of the time left that reading and writing rows may take, in percent: the rest is for listing, commit and its
/// attempts.
const TIME_PERCENT: u64 = 40;
/// Memory that a run takes however few its rows are, in bytes: the program, its catalog, table rows that are compared, the
/// encoders of a file in the making. With it, folds of a million rows kept below 256 and 512 MiB; with 128 MiB, which is
/// hardly more, they came to 200.
const FIXED_BYTES: u64 = 96 * 1024 * 1024;
/// The share of the rest that rows may take while they are held, in percent. A writer that makes room copies half of them,
/// so that they are there one and a half times.
const ROWS_PERCENT: u64 = 65;
/// The part of all memory that a row group in the making may take. Wide rows fill one to the table's own limit, 128 MiB unless
/// its properties say otherwise, and closing it holds it twice.
const ROW_GROUP_PART: u64 = 16;
/// The part of all memory that rows may take where there is next to none beside what is fixed.
const ROWS_PART_MIN: u64 = 8;
/// Memory of a run, where nobody says how much: half of a small machine.
const MEMORY_BYTES: u64 = 512 * 1024 * 1024;
/// Bytes of a row's value in memory, where an object does not say what its rows take: the widest there is of a fixed width,
/// and a view of text.
const VALUE_BYTES: u64 = 16;
/// How much smaller staged text may be than in memory: LZ4 on plain text seldom does better.
const COMPRESSION: u64 = 4;
/// Columns that every staged object has beside those its footer names.
const RECORD_COLUMNS: u64 = 7;

/// What a run may take and hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of memory that the run's process may come to; with less than 256 MiB it may come to more. What is not needed for
    /// the work itself is for rows: in mode `dedup`, which holds all rows that it takes, no more are taken; in mode `append`
    /// rows are written out before they take more.
    pub memory_bytes: u64,
    /// Bytes of staged objects; all that are staged when absent.
    pub bytes: Option<u64>,
    /// Rows; all that are staged when absent.
    pub rows: Option<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { memory_bytes: MEMORY_BYTES, bytes: None, rows: None }
    }
}

impl Budget {
    /// The budget of a machine: its memory, and the time that is left to the run, where there is an end to it. `last` is
    /// the run before, whose speed is taken for this one's.
    #[must_use]
    pub fn of(memory_bytes: u64, left: Option<Duration>, last: Option<&Run>) -> Self {
        let bytes = left.map(|left| {
            let micros = left.as_micros() * u128::from(TIME_PERCENT) / 100;
            let bytes = u128::from(speed(last).unwrap_or(BYTES_PER_SECOND)).saturating_mul(micros) / 1_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX).max(BYTES_MIN)
        });
        Self { memory_bytes, bytes, rows: None }
    }

    /// Bytes that a row group in the making may take.
    pub(crate) const fn row_group_bytes(self) -> u64 {
        self.memory_bytes / ROW_GROUP_PART
    }

    /// Bytes that rows may take in memory.
    pub(crate) fn rows_bytes(self) -> u64 {
        let beside = self.memory_bytes.saturating_sub(FIXED_BYTES) / 100 * ROWS_PERCENT;
        beside.max(self.memory_bytes / ROWS_PART_MIN)
    }
}

/// What objects cost a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    bytes: u64,
    rows: u64,
    /// Bytes held in memory until the run commits.
    memory: u64,
}

impl Cost {
    const fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            rows: self.rows.saturating_add(other.rows),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    fn within(self, budget: Budget) -> bool {
        budget.bytes.is_none_or(|max| self.bytes <= max)
            && budget.rows.is_none_or(|max| self.rows <= max)
            && self.memory <= budget.rows_bytes()
    }
}

/// Tells what an object costs.
struct Costs {
    table: String,
    /// Bytes that are held for a row beside its values; nothing where rows are not held.
    row_bytes: Option<u64>,
}

impl Costs {
    fn new(table: &Table, intake: &Intake) -> Self {
        let row_bytes = match table.mode {
            // The writer keeps to its own bound.
            Mode::Append => None,
            Mode::Dedup => Some(dedup::row_bytes(table, intake)),
            Mode::Upsert => Some(upsert::row_bytes(table, intake)),
        };
        Self { table: table.name.to_string(), row_bytes }
    }

    fn of(&self, found: &Found) -> Cost {
        let staged = found.footer.table(&self.table);
        let rows = staged.map_or(0, |staged| staged.rows);
        let memory = match (self.row_bytes, staged) {
            (Some(row_bytes), Some(staged)) => {
                let values = staged.memory_bytes.unwrap_or_else(|| {
                    let columns = found.footer.columns.len() as u64 + RECORD_COLUMNS;
                    let fixed = rows.saturating_mul(columns * VALUE_BYTES);
                    fixed.saturating_add(found.size.saturating_mul(COMPRESSION))
                });
                values.saturating_add(rows.saturating_mul(row_bytes))
            }
            _ => 0,
        };
        Cost { bytes: found.size, rows, memory }
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
    pub(crate) async fn budget(&self, last: Option<&Run>) -> Result<Budget, Error> {
        let full = self.settings.budget;
        let killed = last.is_some_and(|run| run.state == State::Running && run.until < self.clock.now());
        // What an unbounded run was killed over is not known; what is staged is no less. Where rows are held, they were no
        // more than memory is: rows take no less there than staged.
        let staged = if killed {
            let listing = list::list_all(self.store.as_ref(), &self.id, None).await?;
            let staged = listing.objects.iter().map(|object| object.size).sum::<u64>();
            if self.pipeline.table.mode != Mode::Append { staged.min(full.memory_bytes) } else { staged }
        } else {
            0
        };
        let bytes = match last {
            None => full.bytes,
            last => next_bytes(last, full.bytes, staged, self.clock.now()),
        };
        if killed {
            tracing::warn!(bytes, "the last run was killed: this one takes less");
        }
        Ok(Budget { bytes, ..full })
    }

    /// The note of the run before, whose speed [`Budget::of`] asks for. One that can't be read says nothing.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn last_run(&self) -> Result<Option<Run>, Error> {
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

/// Whether an intake is more than a run may take.
pub(crate) fn is_exceeded(intake: &Intake, table: &Table, budget: Budget) -> bool {
    let costs = Costs::new(table, intake);
    !intake.objects.iter().map(|found| costs.of(found)).fold(Cost::default(), Cost::and).within(budget)
}

/// Leaves in an intake what a run may take; gives how many objects wait for the next one.
///
/// Objects are taken in order of their keys, but none before what holds lower offsets of its partitions. Of what is taken
/// nothing counts at or above an offset that only a waiting object holds: offsets passed over would be taken for never
/// delivered. One object is always taken, whatever it costs; those that hold nothing new are not read, and cost nothing.
pub(crate) fn cut(intake: &mut Intake, known: &Known<'_>, table: &Table, budget: Budget) -> usize {
    let costs = Costs::new(table, intake);
    let ledger = known.ledger;
    let mut taken = BTreeSet::new();
    let mut sum: Option<Cost> = None;
    for n in in_order(&intake.objects, ledger) {
        let Some(found) = intake.objects.get(n) else { continue };
        // What lies where the ledger has been may settle nothing: its rows may be dead, and become dead again. It is taken
        // beside the others, and what stands behind it is not held up.
        if !is_behind(ledger, found) && holds_news(known, found) {
            let next = sum.unwrap_or_default().and(costs.of(found));
            if sum.is_some() && !next.within(budget) {
                break;
            }
            sum = Some(next);
        }
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

/// Whether the ledger has been at every offset of an object.
fn is_behind(ledger: &Ledger, found: &Found) -> bool {
    let mut coverage = found.footer.coverage.iter();
    coverage.all(|(at, covered)| ledger.partition(at).is_some_and(|p| p.reached.contains_all(&covered.delivered)))
}

/// Whether an object alone would settle something. One that would not, taken alone, would be taken for ever.
fn holds_news(known: &Known<'_>, found: &Found) -> bool {
    let judgement = verdict::judge(known, &[found.staged()]);
    judgement
        .partitions
        .values()
        .any(|settled| !settled.decided.is_empty() || !settled.dead.is_empty() || !settled.stale.is_empty())
}

/// By partition, the lowest offset that waits.
fn first_open<'a>(
    kept: &'a [Found],
    waiting: impl Iterator<Item = &'a Found>,
    ledger: &Ledger,
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
        let reached = ledger.partition(at).map(|p| &p.reached);
        let left = reached.map_or_else(|| all.clone(), |reached| all.subtract(reached));
        if let Some(offset) = left.first() {
            first.insert(at.clone(), offset);
        }
    }
    first
}

/// Limits an object to what lies below the offsets that wait.
pub(crate) fn limit(found: &mut Found, first_open: &BTreeMap<TopicPartition, i64>) {
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
fn opens<'a>(found: &'a Found, ledger: &Ledger) -> BTreeMap<&'a TopicPartition, i64> {
    let first = |at: &TopicPartition, delivered: &Intervals| match ledger.partition(at) {
        None => delivered.first(),
        Some(known) => delivered.subtract(&known.reached).first(),
    };
    found.footer.coverage.iter().filter_map(|(at, covered)| Some((at, first(at, &covered.delivered)?))).collect()
}

/// Positions of objects in the order in which they are taken: by key, each after those that hold lower offsets of its
/// partitions. Where they wait for each other in a circle, the first that holds the lowest offset of some partition goes on.
fn in_order(objects: &[Found], ledger: &Ledger) -> Vec<usize> {
    let open: Vec<BTreeMap<&TopicPartition, i64>> = objects.iter().map(|found| opens(found, ledger)).collect();
    // Of two that begin at one offset the stream's comes first: a replay has single records of it, and taken before it they would
    // hide what the stream had passed over in front of them.
    let mut queues: BTreeMap<&TopicPartition, Vec<(i64, bool, usize)>> = BTreeMap::new();
    for (n, (parts, found)) in open.iter().zip(objects).enumerate() {
        let is_replay = found.footer.origin == Origin::Replay;
        for (at, first) in parts {
            queues.entry(at).or_default().push((*first, is_replay, n));
        }
    }
    let mut queues: BTreeMap<&TopicPartition, VecDeque<usize>> = queues
        .into_iter()
        .map(|(at, mut queue)| {
            queue.sort_unstable();
            (at, queue.into_iter().map(|(.., n)| n).collect())
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
            behind: BTreeSet::new(),
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
    fn what_an_object_does_not_say_of_memory_is_taken_from_above() {
        let golden = |text| staging::footer::Footer::from_json(text).unwrap();
        let [unsaid, said] = [
            golden(include_str!("../../../tests/golden/footer/v1.json")),
            golden(include_str!("../../../tests/golden/footer/v1-memory.json")),
        ]
        .map(|footer| Found {
            key: "k".to_owned(),
            minute: footer.minute,
            size: 300_000,
            footer,
            limits: None,
        });
        let costs = |row_bytes| Costs { table: "bigdata.employee".to_owned(), row_bytes };
        let held = said.footer.tables[0].memory_bytes.unwrap();
        let cost = Cost { bytes: 300_000, rows: 10_000, memory: held + 10_000 * 100 };
        assert_eq!(costs(Some(100)).of(&said), cost);
        let estimate = costs(Some(100)).of(&unsaid);
        assert_eq!(Cost { memory: cost.memory, ..estimate }, cost);
        assert!(estimate.memory > cost.memory, "{estimate:?}");
        // Rows that are not held cost no memory, nor do those of another table.
        assert_eq!(costs(None).of(&said).memory, 0);
        let other = Costs { table: "bigdata.other".to_owned(), row_bytes: Some(100) };
        assert_eq!(other.of(&said), Cost { bytes: 300_000, rows: 0, memory: 0 });
    }

    #[test]
    fn memory_and_time_bound_a_run() {
        let left = Some(Duration::from_secs(100));
        let memory_bytes = 64 << 20;
        let none = Budget { memory_bytes, bytes: None, rows: None };
        assert_eq!(Budget::of(memory_bytes, None, Some(&run(State::Done, None, 0))), none, "by hand there is time");
        assert_eq!(Budget::of(memory_bytes, left, None), Budget { bytes: Some(40 * BYTES_PER_SECOND), ..none });
        let after = Budget::of(memory_bytes, left, Some(&run(State::Done, None, 0)));
        assert_eq!(after.bytes, Some(40 * (10 << 20)), "the last one folded 10 MiB in a second");
        let short = Budget::of(memory_bytes, Some(Duration::from_millis(500)), Some(&run(State::Done, None, 0)));
        assert_eq!(short.bytes, Some(2 << 20), "parts of a second count");
        assert_eq!(Budget::of(memory_bytes, Some(Duration::ZERO), None).bytes, Some(BYTES_MIN));
        assert_eq!(Budget::of(u64::MAX, Some(Duration::MAX), None).bytes, Some(u64::MAX));
        let rows = |memory_bytes| Budget::of(memory_bytes, None, None).rows_bytes();
        assert_eq!([rows(800), rows(512 << 20)], [100, (416 << 20) / 100 * 65]);
        assert!(rows(u64::MAX) > u64::MAX / 2);
        // A run that did next to nothing says nothing of its speed, nor does one that failed.
        for last in [Run { figures: BTreeMap::new(), ..run(State::Done, None, 0) }, run(State::Failed, None, 0)] {
            assert_eq!(Budget::of(memory_bytes, left, Some(&last)).bytes, Some(40 * BYTES_PER_SECOND));
        }
    }
}
