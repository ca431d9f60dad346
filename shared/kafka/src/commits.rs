//! Commits of offsets that are under way. The client's own way to wait for the answer to one has no bound: while the cluster is
//! away it waits. So a thread of its own waits, one commit after another, and whoever asked can look, or wait as long as it likes.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::consumer::Place;
use crate::error::Error;

/// The offsets that come next.
type Next = BTreeMap<Place, i64>;

/// Commits that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    thread: OnceLock<(Sender<Next>, JoinHandle<()>)>,
    state: Arc<State>,
}

/// Its thread ends with it, and the client whose last owner that is; but for one that waits for an answer: it stays as it is, until the
/// process ends.
impl Drop for Commits {
    fn drop(&mut self) {
        let Some((to, thread)) = self.thread.take() else { return };
        drop(to);
        if self.state.locked().open == 0 && thread.join().is_err() {
            tracing::warn!("the thread that commits offsets had panicked");
        }
    }
}

#[derive(Debug, Default)]
struct State {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    /// Not answered yet.
    open: u64,
    /// How the last that failed did.
    failed: Option<Error>,
}

impl State {
    fn locked(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commits {
    /// Has offsets committed by `commit`, after those that were asked for before; of several that wait the last of each partition.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn ask<C>(&self, next: Next, commit: impl FnOnce() -> C) -> Result<(), Error>
    where
        C: Fn(&Next) -> Result<(), Error> + Send + 'static,
    {
        if self.thread.get().is_none() {
            let (to, asked) = channel();
            let (state, commit) = (Arc::clone(&self.state), commit());
            let thread = std::thread::Builder::new().spawn(move || carry_out(&asked, &commit, &state));
            let thread = thread.map_err(|error| Error::Other(format!("no thread could be started: {error}")))?;
            self.thread.get_or_init(|| (to, thread));
        }
        self.state.locked().open += 1;
        if self.thread.get().is_some_and(|(to, _)| to.send(next).is_ok()) {
            return Ok(());
        }
        self.state.locked().open -= 1;
        Err(Error::Other("the thread that commits offsets has ended".to_owned()))
    }

    /// Waits until all are answered, for a while. Whether they are.
    pub(crate) fn wait(&self, wait: Duration) -> bool {
        let counts = self.state.locked();
        let waited = self.state.changed.wait_timeout_while(counts, wait, |counts| counts.open > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.open == 0
    }

    /// Why the last one that failed did, once.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.state.locked().failed.take()
    }
}

fn carry_out(asked: &Receiver<Next>, commit: &impl Fn(&Next) -> Result<(), Error>, state: &State) {
    while let Ok(mut next) = asked.recv() {
        let mut count = 1;
        while let Ok(later) = asked.try_recv() {
            next.extend(later);
            count += 1;
        }
        let answer = commit(&next);
        let mut counts = state.locked();
        counts.open = counts.open.saturating_sub(count);
        if let Err(error) = answer {
            counts.failed = Some(error);
        }
        state.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(partition: i32, offset: i64) -> Next {
        [(Place { topic: "t".to_owned(), partition }, offset)].into()
    }

    #[test]
    fn commits_are_answered_in_order_and_never_wait_for_each_other_in_the_callers_thread() {
        let commits = Commits::default();
        let (release, held) = channel::<()>();
        let (done, seen) = channel();
        let held = Mutex::new(held);
        let commit = || {
            move |next: &Next| {
                held.lock().unwrap().recv().unwrap();
                done.send(next.clone()).unwrap();
                if next.values().any(|offset| *offset == 9) { Err(Error::Other("no".to_owned())) } else { Ok(()) }
            }
        };
        commits.ask(next(0, 1), commit).unwrap();
        // The first is under way, or waits with the others; either way nobody is kept.
        let again = || |_: &Next| -> Result<(), Error> { unreachable!("there is a thread") };
        for (partition, offset) in [(0, 2), (1, 5), (0, 3)] {
            commits.ask(next(partition, offset), again).unwrap();
        }
        assert!(!commits.wait(Duration::ZERO));
        for _ in 0..4 {
            release.send(()).unwrap();
        }
        assert!(commits.wait(Duration::from_secs(60)));
        let mut last = Next::new();
        seen.try_iter().for_each(|next| last.extend(next));
        assert_eq!(last, next(0, 3).into_iter().chain(next(1, 5)).collect());
        assert_eq!(commits.take_failure(), None);
        release.send(()).unwrap();
        commits.ask(next(0, 9), again).unwrap();
        assert!(commits.wait(Duration::from_secs(60)));
        assert_eq!((commits.take_failure(), commits.take_failure()), (Some(Error::Other("no".to_owned())), None));
        // What commits has ended with it: the other end of its channel is gone.
        drop(commits);
        assert_eq!(seen.try_iter().count(), 1);
        assert!(seen.recv().is_err());
        // One that is never answered keeps nobody either.
        let never = Commits::default();
        let (_kept, none) = channel::<()>();
        let none = Mutex::new(none);
        let commit = || move |_: &Next| none.lock().unwrap().recv().map_err(|_| Error::Other("dropped".to_owned()));
        never.ask(next(0, 10), commit).unwrap();
        assert!(!never.wait(Duration::from_millis(1)));
    }
}
