//! A store that fails: by chance under a seed, by script, or because its process dies at a chosen step.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::clock::Timestamp;
use model::id::Ids;
use staging::store::{Error, ObjectMeta, Operation, Page, Put, Store};

/// What every operation answers once its process is dead.
pub const KILLED: &str = "the process was killed";

/// The life of one simulated process, counted in steps. Give one to everything the process talks to (stores, a catalog),
/// and "die at the k-th step" counts over all of them.
#[derive(Debug)]
pub struct Process {
    steps: AtomicU64,
    dead: AtomicBool,
    death: Option<(u64, Death)>,
}

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Before its step is done.
    Before,
    /// After its step is done, before it hears of it.
    After,
}

/// What becomes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is done.
    Go,
    /// It is done, and the process dies before the answer.
    GoAndDie,
    /// It is not done: the process is dead.
    Dead,
}

impl Process {
    /// One that never dies.
    #[must_use]
    pub fn immortal() -> Arc<Self> {
        Arc::new(Self { steps: AtomicU64::new(0), dead: AtomicBool::new(false), death: None })
    }

    /// One that dies at a step, counted from 1.
    #[must_use]
    pub fn dying_at(step: u64, death: Death) -> Arc<Self> {
        Arc::new(Self { steps: AtomicU64::new(0), dead: AtomicBool::new(false), death: Some((step, death)) })
    }

    /// Takes a step. Whoever gets [`Step::Dead`] does nothing and answers [`KILLED`]; after [`Step::GoAndDie`] it does
    /// its work and answers the same.
    pub fn step(&self) -> Step {
        if self.is_dead() {
            return Step::Dead;
        }
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        match self.death {
            Some((at, death)) if step >= at => {
                self.dead.store(true, Ordering::SeqCst);
                if death == Death::After && step == at { Step::GoAndDie } else { Step::Dead }
            }
            _ => Step::Go,
        }
    }

    /// Steps taken, the deadly one included.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    /// Whether it has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }
}

/// What happens to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is done after a while, in tokio's time: other tasks run meanwhile.
    Delay(Duration),
    /// It is not done, and says so.
    FailBefore,
    /// It is done, and its answer is lost.
    LoseAnswer,
    /// Its answer is lost, and it is done a while later. A read is only lost.
    LandLate(Duration),
    /// A 409: another conditional put of the key was under way. Nothing is stored. Means [`Fault::FailBefore`] for other
    /// operations.
    NotStored,
}

/// How often each fault is drawn, in thousandths of operations. The faults that end an operation are drawn first, in this
/// order; a delay or a split page is drawn beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// [`Fault::FailBefore`]
    pub fail_before: u64,
    /// [`Fault::LoseAnswer`], of operations that write.
    pub lose_answer: u64,
    /// [`Fault::LandLate`], of operations that write.
    pub land_late: u64,
    /// [`Fault::NotStored`], of conditional puts.
    pub not_stored: u64,
    /// [`Fault::Delay`], up to [`DELAY_MAX`].
    pub delay: u64,
    /// Listings of which only a part of a page is given, down to nothing.
    pub split_pages: u64,
}

/// The longest delay that is drawn.
pub const DELAY_MAX: Duration = Duration::from_secs(5);

/// One operation as it went: a line of the logical trace, which a seed repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// From 1, in the order of the calls.
    pub number: u64,
    /// What was asked.
    pub operation: Operation,
    /// The key, or the prefix of a listing.
    pub key: String,
    /// What happened to it.
    pub fault: Option<Fault>,
}

/// A store around another one.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    process: Arc<Process>,
    ids: Arc<dyn Ids>,
    rates: Rates,
    script: Mutex<BTreeMap<u64, Fault>>,
    trace: Mutex<Vec<Done>>,
}

/// How a call goes on after its faults were drawn.
enum Plan {
    Do,
    DoAndLose,
    DoLater(Duration),
}

impl FaultyStore {
    /// Wraps a store for one process. Chance is drawn from `ids`, one draw per rate that is not 0.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, process: Arc<Process>, ids: Arc<dyn Ids>, rates: Rates) -> Self {
        Self { inner, process, ids, rates, script: Mutex::default(), trace: Mutex::default() }
    }

    /// Lets a fault happen to this store's n-th operation from now on counted from its start (the first is 1), instead of
    /// what is drawn.
    pub fn script(&self, number: u64, fault: Fault) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).insert(number, fault);
    }

    /// How many operations were asked of it while its process lived.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    /// Every operation so far.
    #[must_use]
    pub fn trace(&self) -> Vec<Done> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The store behind it, which never fails.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn happens(&self, per_thousand: u64) -> bool {
        per_thousand > 0 && self.ids.next_u64() % 1000 < per_thousand
    }

    fn some_time(&self) -> Duration {
        let millis = u64::try_from(DELAY_MAX.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.ids.next_u64() % millis)
    }

    fn draw(&self, operation: Operation) -> Option<Fault> {
        let writes = operation.writes();
        if self.happens(self.rates.fail_before) {
            Some(Fault::FailBefore)
        } else if writes && self.happens(self.rates.lose_answer) {
            Some(Fault::LoseAnswer)
        } else if writes && self.happens(self.rates.land_late) {
            Some(Fault::LandLate(self.some_time()))
        } else if operation == Operation::PutNew && self.happens(self.rates.not_stored) {
            Some(Fault::NotStored)
        } else if self.happens(self.rates.delay) {
            Some(Fault::Delay(self.some_time()))
        } else {
            None
        }
    }

    /// Counts an operation and decides how it goes.
    async fn begin(&self, operation: Operation, key: &str) -> Result<Plan, Error> {
        let step = self.process.step();
        if step == Step::Dead {
            return Err(killed(operation, key));
        }
        let fault = {
            let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
            let number = trace.len() as u64 + 1;
            let scripted = self.script.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            let fault = scripted.or_else(|| self.draw(operation));
            trace.push(Done { number, operation, key: key.to_owned(), fault });
            fault
        };
        if step == Step::GoAndDie {
            return Ok(Plan::DoAndLose);
        }
        let not_done =
            |message: &str| Error::Retry { operation, key: key.to_owned(), message: message.to_owned(), source: None };
        match fault {
            None => Ok(Plan::Do),
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                // It may have died while it waited.
                if self.process.is_dead() { Err(killed(operation, key)) } else { Ok(Plan::Do) }
            }
            Some(Fault::FailBefore) => Err(not_done("slow down (simulated)")),
            Some(Fault::NotStored) => Err(not_done("409: another put of this key was under way (simulated)")),
            // A read whose answer is lost has changed nothing: it is simply asked again.
            Some(Fault::LoseAnswer | Fault::LandLate(_)) if !operation.writes() => {
                Err(not_done("the connection was lost (simulated)"))
            }
            Some(Fault::LoseAnswer) => Ok(Plan::DoAndLose),
            Some(Fault::LandLate(time)) => Ok(Plan::DoLater(time)),
        }
    }

    /// Runs a call as planned. `call` is given the store behind.
    async fn run<T, F>(
        &self,
        operation: Operation,
        key: &str,
        call: impl FnOnce(Arc<dyn Store>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
        T: Send + 'static,
    {
        let lost = || Error::OutcomeUnknown {
            operation,
            key: key.to_owned(),
            message: if self.process.is_dead() { KILLED } else { "the answer was lost (simulated)" }.to_owned(),
            source: None,
        };
        match self.begin(operation, key).await? {
            Plan::Do => call(Arc::clone(&self.inner)).await,
            Plan::DoAndLose => {
                drop(call(Arc::clone(&self.inner)).await);
                Err(lost())
            }
            Plan::DoLater(time) => {
                let work = call(Arc::clone(&self.inner));
                // The request is under way whether or not its process still lives.
                #[expect(
                    clippy::disallowed_methods,
                    reason = "what lands late is awaited by nobody: that is the fault"
                )]
                drop(tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    drop(work.await);
                }));
                Err(lost())
            }
        }
    }
}

fn killed(operation: Operation, key: &str) -> Error {
    Error::OutcomeUnknown { operation, key: key.to_owned(), message: KILLED.to_owned(), source: None }
}

#[async_trait]
impl Store for FaultyStore {
    async fn put_new(&self, key: &str, body: Bytes) -> Result<Put, Error> {
        let owned = key.to_owned();
        self.run(Operation::PutNew, key, |inner| async move { inner.put_new(&owned, body).await }).await
    }

    async fn put(&self, key: &str, body: Bytes) -> Result<Timestamp, Error> {
        let owned = key.to_owned();
        self.run(Operation::Put, key, |inner| async move { inner.put(&owned, body).await }).await
    }

    async fn get(&self, key: &str) -> Result<Bytes, Error> {
        let owned = key.to_owned();
        self.run(Operation::Get, key, |inner| async move { inner.get(&owned).await }).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, Error> {
        let owned = key.to_owned();
        self.run(Operation::GetRange, key, |inner| async move { inner.get_range(&owned, range).await }).await
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, Error> {
        let owned = key.to_owned();
        self.run(Operation::Head, key, |inner| async move { inner.head(&owned).await }).await
    }

    async fn list(&self, prefix: &str, start_after: Option<&str>, continuation: Option<&str>) -> Result<Page, Error> {
        // A continuation is the one of the store behind, or, after a page that was cut here, the key to go on after.
        let (after, inner_continuation) = match continuation.map(|c| (c, c.strip_prefix(CUT))) {
            Some((_, Some(after))) => (Some(after.to_owned()), None),
            Some((theirs, None)) => (None, Some(theirs.to_owned())),
            None => (start_after.map(str::to_owned), None),
        };
        let (owned, at) = (prefix.to_owned(), after.clone());
        let call = |inner: Arc<dyn Store>| async move {
            inner.list(&owned, at.as_deref(), inner_continuation.as_deref()).await
        };
        let mut page = self.run(Operation::List, prefix, call).await?;
        // An empty part is given only where the next call does not begin at the same place for ever.
        let least = usize::from(continuation.is_some());
        if page.objects.len() > least && self.happens(self.rates.split_pages) {
            let span = (page.objects.len() - least) as u64;
            page.objects.truncate(least + usize::try_from(self.ids.next_u64() % span).unwrap_or(0));
            let on = page.objects.last().map(|o| o.key.clone()).or(after).unwrap_or_default();
            page.next = Some(format!("{CUT}{on}"));
        }
        Ok(page)
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        let owned = key.to_owned();
        self.run(Operation::Delete, key, |inner| async move { inner.delete(&owned).await }).await
    }
}

/// Begins the continuation of a page that was cut here. No key holds a control character.
const CUT: &str = "\u{1}";

#[cfg(test)]
mod tests {
    use model::clock::ManualClock;
    use model::failure::Kind;
    use model::id::SeededIds;

    use super::*;
    use crate::store_memory::MemoryStore;

    fn faulty(process: Arc<Process>, seed: u64, rates: Rates) -> FaultyStore {
        let memory = MemoryStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(0))));
        FaultyStore::new(Arc::new(memory), process, Arc::new(SeededIds::new(seed)), rates)
    }

    async fn stored(store: &FaultyStore, key: &str) -> bool {
        store.inner().head(key).await.unwrap().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn each_fault_does_what_it_says() {
        let late = Duration::from_secs(3);
        for (fault, kind, stored_then, stored_later) in [
            (None, None, true, true),
            (Some(Fault::Delay(late)), None, true, true),
            (Some(Fault::FailBefore), Some(Kind::Retry), false, false),
            (Some(Fault::NotStored), Some(Kind::Retry), false, false),
            (Some(Fault::LoseAnswer), Some(Kind::OutcomeUnknown), true, true),
            (Some(Fault::LandLate(late)), Some(Kind::OutcomeUnknown), false, true),
        ] {
            let store = faulty(Process::immortal(), 1, Rates::default());
            if let Some(fault) = fault {
                store.script(1, fault);
            }
            let put = store.put_new("k", Bytes::new()).await;
            assert_eq!(put.as_ref().err().map(Error::kind), kind, "{fault:?}");
            assert_eq!(stored(&store, "k").await, stored_then, "{fault:?}");
            tokio::time::sleep(2 * late).await;
            assert_eq!(stored(&store, "k").await, stored_later, "{fault:?}");
            let want = Done { number: 1, operation: Operation::PutNew, key: "k".to_owned(), fault };
            assert_eq!(store.trace(), [want]);
        }
    }

    #[tokio::test]
    async fn a_process_dies_once_and_for_all_its_stores() {
        for (death, stored_at_death) in [(Death::Before, false), (Death::After, true)] {
            let process = Process::dying_at(3, death);
            let a = faulty(Arc::clone(&process), 1, Rates::default());
            let b = faulty(Arc::clone(&process), 2, Rates::default());
            a.put_new("1", Bytes::new()).await.unwrap();
            b.put_new("2", Bytes::new()).await.unwrap();
            assert!(!process.is_dead());
            for (n, store) in [&a, &b, &a].into_iter().enumerate() {
                let fault = store.put_new("3", Bytes::new()).await.unwrap_err();
                assert!(fault.to_string().contains(KILLED), "{fault}");
                assert_eq!(stored(store, "3").await, stored_at_death && n != 1);
            }
            assert!(process.is_dead());
            assert_eq!(process.steps(), 3);
            assert_eq!((a.operations(), b.operations()), (1 + u64::from(stored_at_death), 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_seed_repeats_its_trace() {
        let rates =
            Rates { fail_before: 100, lose_answer: 100, land_late: 100, not_stored: 100, delay: 200, split_pages: 300 };
        let run = async |seed| {
            let store = faulty(Process::immortal(), seed, rates);
            for n in 0..200 {
                drop(store.put_new(&format!("k/{n}"), Bytes::new()).await);
                drop(store.list("k/", None, None).await);
            }
            store.trace()
        };
        let (one, again, other) = (run(1).await, run(1).await, run(2).await);
        assert_eq!(one, again);
        assert_ne!(one, other);
        let faults =
            |wanted: fn(&Fault) -> bool| one.iter().filter_map(|d| d.fault.as_ref()).filter(|f| wanted(f)).count();
        for count in [
            faults(|f| matches!(f, Fault::FailBefore)),
            faults(|f| matches!(f, Fault::LoseAnswer)),
            faults(|f| matches!(f, Fault::LandLate(_))),
            faults(|f| matches!(f, Fault::NotStored)),
            faults(|f| matches!(f, Fault::Delay(_))),
        ] {
            assert!(count > 5, "{count}");
        }
    }
}
