//! A store in memory that answers as it is told, and a clock that follows tokio's paused time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::clock::{Clock, Timestamp};
use staging::store::{Error, ObjectMeta, Operation, Page, Put, Store};

/// What becomes of one conditional put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It stores.
    Store,
    /// It stores after so many seconds.
    Pause(u64),
    /// A 409, a throttle: nothing is done.
    Refuse,
    /// Nothing is done, and nobody knows.
    LoseBefore,
    /// It is done, and nobody knows.
    LoseAfter,
    /// No answer ever comes.
    Hang,
    /// No grant.
    Deny,
}

#[derive(Debug)]
struct State {
    objects: BTreeMap<String, Bytes>,
    script: VecDeque<Answer>,
    otherwise: Answer,
    ahead_seconds: i64,
}

#[derive(Debug)]
pub(crate) struct Memory {
    state: Mutex<State>,
    clock: Arc<TokioClock>,
}

impl Memory {
    pub(crate) fn new(clock: Arc<TokioClock>) -> Self {
        let state =
            State { objects: BTreeMap::new(), script: VecDeque::new(), otherwise: Answer::Store, ahead_seconds: 0 };
        Self { state: Mutex::new(state), clock }
    }

    /// The answers to the next puts.
    pub(crate) fn script(&self, answers: Vec<Answer>) {
        self.state.lock().unwrap().script = answers.into();
    }

    /// The answer to every put that is not in the script.
    pub(crate) fn always(&self, answer: Answer) {
        self.state.lock().unwrap().otherwise = answer;
    }

    /// How far the store's clock is ahead.
    pub(crate) fn ahead(&self, seconds: i64) {
        self.state.lock().unwrap().ahead_seconds = seconds;
    }

    /// Objects by key.
    pub(crate) fn under(&self, prefix: &str) -> BTreeMap<String, Bytes> {
        let state = self.state.lock().unwrap();
        state.objects.iter().filter(|(k, _)| k.starts_with(prefix)).map(|(k, b)| (k.clone(), b.clone())).collect()
    }

    fn store(&self, key: &str, body: Bytes) -> Put {
        let mut state = self.state.lock().unwrap();
        let date = self.clock.now().plus_micros(state.ahead_seconds * 1_000_000);
        if state.objects.contains_key(key) {
            return Put::AlreadyStored { date };
        }
        state.objects.insert(key.to_owned(), body);
        Put::Stored { date }
    }
}

#[async_trait]
impl Store for Memory {
    async fn put_new(&self, key: &str, body: Bytes) -> Result<Put, Error> {
        let answer = {
            let mut state = self.state.lock().unwrap();
            let otherwise = state.otherwise;
            state.script.pop_front().unwrap_or(otherwise)
        };
        let (operation, key) = (Operation::PutNew, key.to_owned());
        let (message, source) = (format!("{answer:?}"), None);
        match answer {
            Answer::Store => Ok(self.store(&key, body)),
            Answer::Pause(seconds) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(self.store(&key, body))
            }
            Answer::Refuse => Err(Error::Retry { operation, key, message, source }),
            Answer::LoseBefore => Err(Error::OutcomeUnknown { operation, key, message, source }),
            Answer::LoseAfter => {
                self.store(&key, body);
                Err(Error::OutcomeUnknown { operation, key, message, source })
            }
            Answer::Hang => std::future::pending().await,
            Answer::Deny => Err(Error::Misconfigured { operation, key, message, source }),
        }
    }

    async fn put(&self, key: &str, _: Bytes) -> Result<Timestamp, Error> {
        panic!("ingest overwrites nothing: {key}")
    }

    async fn get(&self, key: &str) -> Result<Bytes, Error> {
        panic!("ingest reads nothing: {key}")
    }

    async fn get_range(&self, key: &str, _: Range<u64>) -> Result<Bytes, Error> {
        panic!("ingest reads nothing: {key}")
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, Error> {
        panic!("ingest looks nothing up: {key}")
    }

    async fn list(&self, prefix: &str, _: Option<&str>, _: Option<&str>) -> Result<Page, Error> {
        panic!("ingest lists nothing: {prefix}")
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        panic!("ingest removes nothing: {key}")
    }
}

/// A time, and how far tokio's clock has gone since.
#[derive(Debug)]
pub(crate) struct TokioClock {
    start: Timestamp,
    began: tokio::time::Instant,
}

impl TokioClock {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self { start, began: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.start.plus_micros(i64::try_from(self.began.elapsed().as_micros()).unwrap())
    }
}
