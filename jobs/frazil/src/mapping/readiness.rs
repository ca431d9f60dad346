//! Whether a mapping does its work, and if not, what keeps it.

#![expect(clippy::disallowed_methods, reason = "real brokers are waited for in real time; no simulation comes here")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::endpoint::one_line;
use crate::host::Signals;

/// How old the brokers' last answer may be. They are asked every few seconds; one that hangs takes a minute to be given up.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(20);

/// What keeps a mapping from its work, part by part.
#[derive(Debug)]
pub(crate) struct Readiness {
    signals: Signals,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cluster: Option<String>,
    /// When that was last seen.
    looked: Option<Instant>,
    /// By the pollers' numbers; none before there are any.
    pollers: Vec<Option<String>>,
    folds: Option<String>,
}

impl Readiness {
    pub(crate) fn new(signals: Signals) -> Self {
        Self { signals, state: Mutex::default() }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many pollers begin, which have no partitions yet.
    pub(super) fn begin(&self, pollers: usize) {
        let mut state = self.locked();
        state.pollers = vec![Some("it has no partitions yet".to_owned()); pollers];
        state.cluster = Some("no broker has answered yet".to_owned());
    }

    /// What keeps everybody from reading, if anything does.
    pub(super) fn cluster(&self, why: Option<String>) {
        let mut state = self.locked();
        state.cluster = why;
        state.looked = Some(Instant::now());
    }

    /// A poller has its partitions.
    pub(super) fn reads(&self, poller: usize) {
        self.delivery(poller, None);
    }

    /// What keeps a poller from handing its event over, if anything does.
    pub(super) fn delivery(&self, poller: usize, why: Option<String>) {
        if let Some(poller) = self.locked().pollers.get_mut(poller) {
            *poller = why;
        }
    }

    /// What keeps folds from the table, if anything does.
    pub(super) fn folds(&self, why: Option<String>) {
        self.locked().folds = why;
    }

    /// The first of what keeps the mapping from its work, in one line.
    pub(super) fn why_not(&self) -> Option<String> {
        self.why_not_at(Instant::now())
    }

    fn why_not_at(&self, now: Instant) -> Option<String> {
        if self.signals.asked() {
            return Some("it was told to end".to_owned());
        }
        let state = self.locked();
        if state.pollers.is_empty() {
            return Some("it is only starting".to_owned());
        }
        let of_poller = |(n, why): (usize, &Option<String>)| Some(format!("poller {n}: {}", why.as_ref()?));
        let silent =
            state.looked.map(|looked| now.saturating_duration_since(looked)).filter(|age| *age > ANSWER_AGE_MAX);
        let silent = silent.map(|age| format!("no broker has answered for {} s", age.as_secs()));
        let cluster = state.cluster.clone().or(silent);
        let why = cluster.or_else(|| state.pollers.iter().enumerate().find_map(of_poller));
        why.or_else(|| state.folds.as_ref().map(|why| format!("folds: {why}"))).map(|why| one_line(&why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_nothing_keeps_it_and_never_after_it_was_told_to_end() {
        let signals = Signals::default();
        let readiness = Readiness::new(signals.clone());
        let check = |expected: Option<&str>| {
            let why = readiness.why_not();
            assert_eq!(why.is_some(), expected.is_some(), "{why:?}");
            assert!(expected.is_none_or(|expected| why.as_ref().unwrap().contains(expected)), "{why:?}");
        };
        check(Some("starting"));
        readiness.begin(2);
        check(Some("no broker has answered yet"));
        readiness.cluster(None);
        check(Some("poller 0: it has no partitions yet"));
        readiness.reads(0);
        check(Some("poller 1: it has no partitions yet"));
        readiness.reads(1);
        check(None);
        readiness.cluster(Some("no broker of b:1 answers".to_owned()));
        check(Some("no broker of b:1"));
        readiness.cluster(None);
        let later = |seconds| readiness.why_not_at(Instant::now() + Duration::from_secs(seconds));
        assert_eq!(
            (later(19), later(22).is_some_and(|why| why.starts_with("no broker has answered for 2"))),
            (None, true)
        );
        readiness.folds(Some("the table\nis gone".to_owned()));
        check(Some("folds: the table is gone"));
        readiness.delivery(1, Some("paused".to_owned()));
        check(Some("poller 1: paused"));
        readiness.delivery(1, None);
        readiness.folds(None);
        check(None);
        signals.drain();
        assert!(signals.ask());
        check(Some("told to end"));
    }
}
