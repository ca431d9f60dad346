//! A store in memory: what tests and simulation keep objects in.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use model::clock::{Clock, Timestamp};
use staging::store::{Error, ObjectMeta, Page, Put, Store, check_key};

/// Objects in a map. Its dates are the given clock's.
#[derive(Debug)]
pub struct MemoryStore {
    objects: Mutex<BTreeMap<String, Bytes>>,
    clock: Arc<dyn Clock>,
    page_objects: usize,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { objects: Mutex::default(), clock, page_objects: 1000 }
    }

    /// The same store with smaller pages (at least one object each).
    #[must_use]
    pub fn with_page_objects(self, objects: usize) -> Self {
        Self { page_objects: objects.max(1), ..self }
    }

    /// Everything in it, for a test's own look.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Bytes> {
        self.locked().clone()
    }

    /// Puts an object there whatever is there, for a test that damages one.
    pub fn insert(&self, key: &str, body: Bytes) {
        self.locked().insert(key.to_owned(), body);
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn put_new(&self, key: &str, body: Bytes) -> Result<Put, Error> {
        check_key(key)?;
        let date = self.clock.now();
        let mut objects = self.locked();
        if objects.contains_key(key) {
            return Ok(Put::AlreadyStored { date });
        }
        objects.insert(key.to_owned(), body);
        Ok(Put::Stored { date })
    }

    async fn put(&self, key: &str, body: Bytes) -> Result<Timestamp, Error> {
        check_key(key)?;
        self.insert(key, body);
        Ok(self.clock.now())
    }

    async fn get(&self, key: &str) -> Result<Bytes, Error> {
        check_key(key)?;
        self.locked().get(key).cloned().ok_or_else(|| Error::NotFound { key: key.to_owned() })
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, Error> {
        let body = self.get(key).await?;
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(body.len());
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
        Ok(body.slice(start..end))
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, Error> {
        check_key(key)?;
        Ok(self.locked().get(key).map(|body| ObjectMeta { key: key.to_owned(), size: body.len() as u64 }))
    }

    async fn list(&self, prefix: &str, start_after: Option<&str>, continuation: Option<&str>) -> Result<Page, Error> {
        // A continuation is the last key given.
        let after = continuation.or(start_after);
        let objects = self.locked();
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut found = objects
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, body)| ObjectMeta { key: key.clone(), size: body.len() as u64 });
        let page: Vec<ObjectMeta> = found.by_ref().take(self.page_objects).collect();
        let next = if found.next().is_some() { page.last().map(|o| o.key.clone()) } else { None };
        Ok(Page { objects: page, next, date: self.clock.now() })
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        check_key(key)?;
        self.locked().remove(key);
        Ok(())
    }
}
