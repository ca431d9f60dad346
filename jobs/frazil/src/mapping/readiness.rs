//! Whether a mapping does its work, and if not, what keeps it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::endpoint::one_line;
use crate::host::Signals;

/// What keeps a mapping from its work, part by part.
#[derive(Debug)]
pub(crate) struct Readiness {
    signals: Signals,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the pollers' numbers; none before there are any.
    pollers: Vec<Poller>,
    folds: Option<String>,
}

/// What keeps one poller.
#[derive(Clone, Debug)]
struct Poller {
    reading: Option<String>,
    delivery: Option<String>,
}

impl Readiness {
    pub(crate) fn new(signals: Signals) -> Self {
        Self { signals, state: Mutex::default() }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many pollers begin to read.
    pub(super) fn begin(&self, pollers: usize) {
        let waits = Poller { reading: Some("no broker has answered yet".to_owned()), delivery: None };
        self.locked().pollers = vec![waits; pollers];
    }

    /// What keeps a poller from its records, if anything does.
    pub(super) fn reading(&self, poller: usize, why: Option<String>) {
        if let Some(poller) = self.locked().pollers.get_mut(poller) {
            poller.reading = why;
        }
    }

    /// What keeps a poller from handing its event over, if anything does.
    pub(super) fn delivery(&self, poller: usize, why: Option<String>) {
        if let Some(poller) = self.locked().pollers.get_mut(poller) {
            poller.delivery = why;
        }
    }

    /// What keeps folds from the table, if anything does.
    pub(super) fn folds(&self, why: Option<String>) {
        self.locked().folds = why;
    }

    /// The first of what keeps the mapping from its work, in one line.
    pub(super) fn why_not(&self) -> Option<String> {
        if self.signals.asked() {
            return Some("it was told to end".to_owned());
        }
        let state = self.locked();
        if state.pollers.is_empty() {
            return Some("it is only starting".to_owned());
        }
        let of_poller = |(n, poller): (usize, &Poller)| {
            let why = poller.reading.as_ref().or(poller.delivery.as_ref())?;
            Some(format!("poller {n}: {why}"))
        };
        let why = state.pollers.iter().enumerate().find_map(of_poller);
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
        check(Some("poller 0: no broker"));
        readiness.reading(0, None);
        check(Some("poller 1: no broker"));
        readiness.reading(1, None);
        check(None);
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
