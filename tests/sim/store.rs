//! An object store: strongly consistent, as S3 is, and at the other end of a network.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::clock::Timestamp;
use staging::store::{Error, ObjectMeta, Operation, Page, Put, Store, check_key};

use crate::fault::Fault;
use crate::oracle::Oracle;
use crate::world::{Process, World};

/// What is stored.
#[derive(Debug)]
pub(crate) struct Bucket {
    objects: Mutex<BTreeMap<String, Bytes>>,
    world: Arc<World>,
}

impl Bucket {
    pub(crate) fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self { objects: Mutex::default(), world: Arc::clone(world) })
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object's body, for the oracle.
    pub(crate) fn body(&self, key: &str) -> Option<Bytes> {
        self.objects().get(key).cloned()
    }

    /// Keys under a prefix, for the oracle.
    pub(crate) fn under(&self, prefix: &str) -> Vec<String> {
        let objects = self.objects();
        objects.range(prefix.to_owned()..).map(|(k, _)| k.clone()).take_while(|k| k.starts_with(prefix)).collect()
    }

    /// Stores an object unless its key is taken.
    pub(crate) fn put_new(&self, key: &str, body: Bytes) -> Put {
        let date = self.world.now();
        let mut objects = self.objects();
        if objects.contains_key(key) {
            return Put::AlreadyStored { date };
        }
        objects.insert(key.to_owned(), body);
        Put::Stored { date }
    }
}

/// The bucket as one process reaches it.
#[derive(Debug)]
pub(crate) struct RemoteStore {
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) process: Arc<Process>,
    pub(crate) oracle: Arc<Oracle>,
}

fn refused(operation: Operation, key: &str, message: &str) -> Error {
    Error::Retry { operation, key: key.to_owned(), message: message.to_owned(), source: None }
}

fn unknown(operation: Operation, key: &str) -> Error {
    Error::OutcomeUnknown { operation, key: key.to_owned(), message: "no answer".to_owned(), source: None }
}

impl RemoteStore {
    fn note(&self, what: &str, key: &str, outcome: &str) {
        self.process.world.note(|| format!("{}: {what} {key}: {outcome}", self.process.name));
    }

    /// What both kinds of put have in common. `store` is the effect.
    async fn send<T: Send + 'static>(
        &self,
        operation: Operation,
        key: &str,
        store: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let world = &self.process.world;
        self.process.call().await;
        if world.happens(Fault::PutRefused) {
            self.note("put", key, "503");
            return Err(refused(operation, key, "503 slow down"));
        }
        if operation == Operation::PutNew && world.happens(Fault::Put409) {
            self.note("put", key, "409");
            return Err(refused(operation, key, "409 a conditional put of this key is under way"));
        }
        if world.happens(Fault::PutLate) {
            let (name, owned, world) = (self.process.name.clone(), key.to_owned(), Arc::clone(world));
            let later = Duration::from_millis(world.between(100, 240_000));
            self.note("put", key, "no answer");
            drop(tokio::spawn(async move {
                tokio::time::sleep(later).await;
                store();
                world.note(|| format!("{name}: put {owned}: arrived late"));
            }));
            return Err(unknown(operation, key));
        }
        let done = store();
        self.note("put", key, "stored");
        self.process.answered().await;
        if world.happens(Fault::PutAnswerLost) {
            self.note("put", key, "its answer was lost");
            return Err(unknown(operation, key));
        }
        Ok(done)
    }

    async fn read(&self, operation: Operation, key: &str) -> Result<Bytes, Error> {
        check_key(key)?;
        self.process.call().await;
        if self.process.world.happens(Fault::GetRefused) {
            return Err(refused(operation, key, "503 slow down"));
        }
        let body = self.bucket.body(key);
        self.process.answered().await;
        body.ok_or_else(|| Error::NotFound { key: key.to_owned() })
    }
}

#[async_trait]
impl Store for RemoteStore {
    async fn put_new(&self, key: &str, body: Bytes) -> Result<Put, Error> {
        check_key(key)?;
        let (bucket, oracle, owned) = (Arc::clone(&self.bucket), Arc::clone(&self.oracle), key.to_owned());
        let store = move || {
            oracle.staged(&owned, &body);
            bucket.put_new(&owned, body)
        };
        self.send(Operation::PutNew, key, store).await
    }

    async fn put(&self, key: &str, body: Bytes) -> Result<Timestamp, Error> {
        check_key(key)?;
        let (bucket, owned) = (Arc::clone(&self.bucket), key.to_owned());
        let store = move || {
            bucket.objects().insert(owned, body);
            bucket.world.now()
        };
        self.send(Operation::Put, key, store).await
    }

    async fn get(&self, key: &str) -> Result<Bytes, Error> {
        self.read(Operation::Get, key).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, Error> {
        let body = self.read(Operation::GetRange, key).await?;
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(body.len());
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
        Ok(body.slice(start..end))
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, Error> {
        match self.read(Operation::Head, key).await {
            Ok(body) => Ok(Some(ObjectMeta { key: key.to_owned(), size: body.len() as u64 })),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, prefix: &str, start_after: Option<&str>, continuation: Option<&str>) -> Result<Page, Error> {
        self.process.call().await;
        let world = &self.process.world;
        if world.happens(Fault::GetRefused) {
            return Err(refused(Operation::List, prefix, "503 slow down"));
        }
        // Meanwhile records are handed over whose predecessors' pages are past.
        if continuation.is_some() && world.happens(Fault::PageSlow) {
            world.wait_ms(5_000, 120_000).await;
        }
        let most = if world.happens(Fault::PagesShort) { world.between(0, 3) } else { 1000 };
        let most = usize::try_from(most).unwrap_or(1000);
        // A continuation is the last key given, or where the listing began.
        let after = continuation.or(start_after).filter(|after| *after >= prefix);
        let page = {
            let objects = self.bucket.objects();
            let from = match after {
                Some(after) => Bound::Excluded(after),
                None => Bound::Included(prefix),
            };
            let mut found = objects
                .range::<str, _>((from, Bound::Unbounded))
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(|(key, body)| ObjectMeta { key: key.clone(), size: body.len() as u64 });
            // Behind the newest object: what is stored until the next page is asked for may come before it or after it.
            let ends_now = continuation.is_none() && world.happens(Fault::PageEndsNow);
            let page: Vec<ObjectMeta> = found.by_ref().take(most).collect();
            let last = page.last().map(|o| o.key.as_str()).or(after).unwrap_or(prefix);
            // Whether anything follows is for the next page to say.
            let next = (found.next().is_some() || ends_now).then(|| last.to_owned());
            Page { objects: page, next, date: world.now() }
        };
        self.note("list", prefix, &format!("{} after {after:?}, {:?}", page.objects.len(), page.next));
        self.process.answered().await;
        Ok(page)
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        check_key(key)?;
        self.process.call().await;
        self.oracle.removed(key);
        self.bucket.objects().remove(key);
        self.note("delete", key, "removed");
        self.process.answered().await;
        Ok(())
    }
}
