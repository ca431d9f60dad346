//! What one seed decides: time, chance, which faults happen, and the trace of all that happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::clock::{Clock, Timestamp};
use model::id::{Ids, SeededIds};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fault::Fault;

/// When every history begins: 2026-11-29T14:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_795_960_800_000_000);

/// What is wrong, by the invariant's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// `I1` to `I5`, or `stuck`.
    pub(crate) invariant: &'static str,
    /// What was seen.
    pub(crate) what: String,
}

/// Which histories are of a pipeline with many tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    /// A quarter of them.
    Drawn,
    Always,
    Never,
}

/// One history.
#[derive(Debug)]
pub(crate) struct World {
    started: Instant,
    chance: SeededIds,
    /// How often each kind of fault is drawn, in a thousand; absent for never.
    rates: BTreeMap<Fault, u64>,
    has_many: bool,
    has_late_table: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Faults are over.
    quiet: bool,
    trace: Vec<String>,
    faults: BTreeMap<Fault, u64>,
    violations: BTreeSet<Violation>,
}

impl World {
    /// A history of a seed. Must be made inside a runtime whose time stands still unless everybody waits.
    #[must_use]
    pub(crate) fn new(seed: u64, without: &BTreeSet<Fault>, many: Many) -> Arc<Self> {
        let chance = SeededIds::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        // Drawn apart, so that the other histories are what they are without it.
        let apart = SeededIds::new(seed ^ 0x2545_f491_4f6c_dd1d);
        let has_many = match many {
            Many::Drawn => apart.next_u64().is_multiple_of(4),
            Many::Always => true,
            Many::Never => false,
        };
        let mut rates = BTreeMap::new();
        for &fault in Fault::ALL {
            if fault.is_of_many() && !has_many {
                continue;
            }
            // Some kinds stay away from a history, so that the others are met alone as well.
            let draw = if fault.is_of_many() { apart.next_u64() } else { chance.next_u64() };
            let (often, rarely) = fault.per_mille();
            let rate = match draw % 8 {
                0..=2 => 0,
                3..=5 => rarely,
                _ => often,
            };
            if rate > 0 && !without.contains(&fault) {
                rates.insert(fault, rate);
            }
        }
        // A reset tells the old topic's objects from the new by their minutes, from the first on that has other records at
        // offsets which the ledger remembers. That takes clocks that are right, delivery in order from the new topic's start,
        // and a ledger that stays where it is until the reset is done.
        if rates.contains_key(&Fault::Recreated) {
            for fault in [Fault::IngestClock, Fault::Skipped, Fault::Rollback, Fault::RollForward, Fault::OwnRollback] {
                rates.remove(&fault);
            }
        }
        let has_late_table = has_many && apart.next_u64().is_multiple_of(3);
        Arc::new(Self { started: Instant::now(), chance, rates, has_many, has_late_table, inner: Mutex::default() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the servers.
    pub(crate) fn now(&self) -> Timestamp {
        START.plus_micros(i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    /// Seconds since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// A number below `n`.
    pub(crate) fn below(&self, n: u64) -> u64 {
        self.chance.next_u64() % n.max(1)
    }

    /// A number from `least` to `most`, both included.
    pub(crate) fn between(&self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// A sequence of ids of its own.
    pub(crate) fn ids(&self) -> Arc<SeededIds> {
        Arc::new(SeededIds::new(self.chance.next_u64()))
    }

    /// Whether each pipeline feeds many tables.
    pub(crate) const fn has_many(&self) -> bool {
        self.has_many
    }

    /// Whether one of many tables comes once the others' listings have left the first objects behind.
    pub(crate) const fn has_late_table(&self) -> bool {
        self.has_late_table
    }

    /// Whether a kind of fault belongs to this history at all.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.rates.contains_key(&fault)
    }

    /// Whether a fault happens now. Draws in any case, so that a history without a kind of fault stays like the one with it.
    pub(crate) fn happens(&self, fault: Fault) -> bool {
        let draw = self.below(1000);
        let happens = !self.is_quiet() && self.rates.get(&fault).is_some_and(|rate| draw < *rate);
        if happens {
            *self.inner().faults.entry(fault).or_default() += 1;
        }
        happens
    }

    /// From now on no fault happens.
    pub(crate) fn quiet(&self) {
        self.inner().quiet = true;
    }

    /// Whether faults are over.
    pub(crate) fn is_quiet(&self) -> bool {
        self.inner().quiet
    }

    /// Waits between two numbers of milliseconds.
    pub(crate) async fn wait_ms(&self, least: u64, most: u64) {
        let ms = self.between(least, most);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        let ms = self.started.elapsed().as_millis();
        let line = format!("{:>4}:{:02}.{:03} {}", ms / 60_000, ms / 1000 % 60, ms % 1000, line());
        self.inner().trace.push(line);
    }

    /// An invariant does not hold.
    pub(crate) fn violated(&self, invariant: &'static str, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("VIOLATED {invariant}: {what}"));
        self.inner().violations.insert(Violation { invariant, what });
    }

    /// What was found wrong so far.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.inner().violations.iter().cloned().collect()
    }

    /// All that happened, in order.
    pub(crate) fn trace(&self) -> Vec<String> {
        self.inner().trace.clone()
    }

    /// How often each fault happened.
    pub(crate) fn faults(&self) -> BTreeMap<Fault, u64> {
        self.inner().faults.clone()
    }
}

/// One process on one machine: it may be killed at any of its calls, and its clock may be wrong.
#[derive(Debug)]
pub(crate) struct Process {
    /// What it is, for the trace.
    pub(crate) name: String,
    pub(crate) world: Arc<World>,
    ahead_micros: i64,
    kill_at: Option<u64>,
    state: Mutex<(u64, bool)>,
    died: Notify,
}

impl Process {
    /// A process whose clock is ahead by so much, killed around its `kill_at`th call.
    pub(crate) fn new(world: &Arc<World>, name: String, ahead_micros: i64, kill_at: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            name,
            world: Arc::clone(world),
            ahead_micros,
            kill_at,
            state: Mutex::new((0, false)),
            died: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, (u64, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn die(&self) {
        self.state().1 = true;
        self.world.note(|| format!("{}: killed", self.name));
        self.died.notify_one();
        std::future::pending::<()>().await;
    }

    /// On the way to a service: takes time, and may be where the process ends.
    pub(crate) async fn call(&self) {
        self.world.wait_ms(1, 60).await;
        if self.state().1 {
            std::future::pending::<()>().await;
        }
        if self.world.happens(Fault::Frozen) {
            self.world.note(|| format!("{}: frozen", self.name));
            self.world.wait_ms(60_000, 25 * 60_000).await;
        }
        let (calls, _) = {
            let mut state = self.state();
            state.0 += 1;
            *state
        };
        // Every second kill comes before the call, the others after it.
        if self.kill_at.is_some_and(|at| at % 2 == 0 && calls > at / 2) {
            self.die().await;
        }
    }

    /// On the way back.
    pub(crate) async fn answered(&self) {
        let calls = self.state().0;
        if self.kill_at.is_some_and(|at| at % 2 == 1 && calls > at / 2) {
            self.die().await;
        }
        self.world.wait_ms(0, 20).await;
    }

    /// Runs work until it ends, the process is killed (nothing), or time is up (nothing).
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        work: impl Future<Output = T> + Send + 'static,
        abandoned: bool,
    ) -> Option<T> {
        let mut task = tokio::spawn(work);
        tokio::select! {
            biased;
            done = &mut task => match done {
                Ok(done) => Some(done),
                Err(failed) => {
                    if failed.is_panic() {
                        self.world.violated("stuck", format!("{} panicked", self.name));
                    }
                    None
                }
            },
            () = self.died.notified() => {
                task.abort();
                None
            }
            () = tokio::time::sleep(limit) => {
                // Most are ended then; one that was abandoned goes on, though nobody waits for it any more.
                let goes_on = abandoned || self.world.happens(Fault::Zombie);
                self.world.note(|| format!("{}: timed out{}", self.name, if goes_on { ", and goes on" } else { "" }));
                if !goes_on {
                    task.abort();
                }
                None
            }
        }
    }
}

impl Clock for Process {
    fn now(&self) -> Timestamp {
        self.world.now().plus_micros(self.ahead_micros)
    }
}
