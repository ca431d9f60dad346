//! How staged objects are read: many at once, told in order.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use staging::store::{Error as StoreError, ObjectMeta, Operation, Page, Put};

use super::*;

/// Takes 20 milliseconds for each read and counts how many are under way; later keys are answered first.
#[derive(Debug)]
struct Slow {
    inner: Arc<MemoryStore>,
    under_way: AtomicUsize,
    most: AtomicUsize,
    reads: Mutex<Vec<String>>,
    /// Keys whose read fails.
    failing: BTreeSet<String>,
    /// Keys that are listed and gone.
    gone: BTreeSet<String>,
}

impl Slow {
    fn new(inner: Arc<MemoryStore>) -> Self {
        Self {
            inner,
            under_way: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            reads: Mutex::default(),
            failing: BTreeSet::new(),
            gone: BTreeSet::new(),
        }
    }

    async fn read(&self, key: &str) -> Result<(), StoreError> {
        let staged = key.starts_with("staging/");
        if staged {
            self.reads.lock().unwrap().push(key.to_owned());
            let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            // The first asked is the last to answer.
            tokio::time::sleep(Duration::from_millis(20 - now.min(19) as u64 / 2)).await;
            self.under_way.fetch_sub(1, Ordering::SeqCst);
        }
        if self.gone.contains(key) {
            return Err(StoreError::NotFound { key: key.to_owned() });
        }
        if self.failing.contains(key) {
            let (key, message) = (key.to_owned(), "no answer".to_owned());
            return Err(StoreError::Retry { operation: Operation::Get, key, message, source: None });
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Slow {
    async fn put_new(&self, key: &str, body: bytes::Bytes) -> Result<Put, StoreError> {
        self.inner.put_new(key, body).await
    }
    async fn put(&self, key: &str, body: bytes::Bytes) -> Result<Timestamp, StoreError> {
        self.inner.put(key, body).await
    }
    async fn get(&self, key: &str) -> Result<bytes::Bytes, StoreError> {
        self.read(key).await?;
        self.inner.get(key).await
    }
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<bytes::Bytes, StoreError> {
        self.read(key).await?;
        self.inner.get_range(key, range).await
    }
    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, StoreError> {
        self.inner.head(key).await
    }
    async fn list(&self, prefix: &str, after: Option<&str>, next: Option<&str>) -> Result<Page, StoreError> {
        self.inner.list(prefix, after, next).await
    }
    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }
}

/// A store with a large backlog: every page and every footer takes a while.
#[derive(Debug)]
struct Long {
    inner: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
}

#[async_trait]
impl Store for Long {
    async fn put_new(&self, key: &str, body: bytes::Bytes) -> Result<Put, StoreError> {
        self.inner.put_new(key, body).await
    }
    async fn put(&self, key: &str, body: bytes::Bytes) -> Result<Timestamp, StoreError> {
        self.inner.put(key, body).await
    }
    async fn get(&self, key: &str) -> Result<bytes::Bytes, StoreError> {
        self.inner.get(key).await
    }
    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<bytes::Bytes, StoreError> {
        self.clock.advance_micros(100_000_000);
        self.inner.get_range(key, range).await
    }
    async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, StoreError> {
        self.inner.head(key).await
    }
    async fn list(&self, prefix: &str, after: Option<&str>, next: Option<&str>) -> Result<Page, StoreError> {
        let page = self.inner.list(prefix, after, next).await;
        self.clock.advance_micros(100_000_000);
        page
    }
    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }
}

/// Minutes of listing and reading footers were taken for a clock that is minutes off.
#[tokio::test]
async fn a_backlog_that_takes_minutes_to_take_in_says_nothing_of_the_clock() {
    let (world, _) = world(3);
    let store = Arc::new(Long { inner: world.store.clone(), clock: world.clock.clone() });
    let report = world.fold_with(store, world.catalog.clone(), storage::local()).run().await.unwrap();
    assert_eq!(report.tables[0].rows_added, 9);
}

/// A world with objects of one partition, minute by minute.
fn world(objects: i64) -> (World, Vec<String>) {
    let world = World::new(71);
    let stage = |n: i64| {
        let key = world.stage(&[&format!("0:{}:rrr", n * 3)]);
        world.wait(1);
        key
    };
    let keys = (0..objects).map(stage).collect();
    (world, keys)
}

#[tokio::test(start_paused = true)]
async fn footers_and_objects_are_read_many_at_once_and_told_in_order() {
    let (world, keys) = world(100);
    let store = Arc::new(Slow::new(world.store.clone()));
    let started = tokio::time::Instant::now();
    let report = world.fold_with(store.clone(), world.catalog.clone(), storage::local()).run().await.unwrap();
    assert_eq!((report.staged_objects, report.tables[0].rows_added), (100, 300));
    let reads = store.reads.lock().unwrap().clone();
    assert_eq!(reads, [keys.clone(), keys].concat(), "each footer once, then each object once");
    assert_eq!(store.most.load(Ordering::SeqCst), 32);
    assert!(started.elapsed() < Duration::from_millis(1000), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn few_bytes_are_read_ahead_where_memory_is_short() {
    let (world, keys) = world(12);
    let size = world.store.objects()[&keys[0]].len() as u64;
    // A sixteenth of the memory: two objects and a bit.
    let budget = Budget { memory_bytes: (2 * size + size / 2) * 16, ..Budget::default() };
    let store = Arc::new(Slow::new(world.store.clone()));
    let (folded, damaged) = (BTreeSet::new(), BTreeMap::new());
    let intake = crate::intake::take(world.store.as_ref(), &world.id, None, &folded, &damaged, None, None);
    let found = intake.await.unwrap().objects;
    for (memory_bytes, most) in [(budget.memory_bytes, 2), (1, 1), (u64::MAX, 8)] {
        store.most.store(0, Ordering::SeqCst);
        let bytes_max = crate::ahead::bytes_max(memory_bytes);
        let objects = crate::ahead::read(store.as_ref(), found.iter().zip(0..), bytes_max);
        let read: Vec<(String, i32)> = objects
            .map(|(found, n, object)| {
                assert_eq!(object.unwrap().footer(), &found.footer);
                (found.key.clone(), n)
            })
            .collect()
            .await;
        assert_eq!(read, keys.iter().cloned().zip(0..).collect::<Vec<_>>());
        assert_eq!(store.most.load(Ordering::SeqCst), most, "{memory_bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn faults_in_the_middle_mean_what_they_meant() {
    let (world, keys) = world(10);
    let fold = |store: Slow| world.fold_with(Arc::new(store), world.catalog.clone(), storage::local());
    // Of several failures the first key's is told, though later ones answer sooner.
    let failing = [keys[4].clone(), keys[7].clone()].into();
    let error = fold(Slow { failing, ..Slow::new(world.store.clone()) }).run().await.unwrap_err();
    assert_eq!(error.kind(), model::failure::Kind::Retry);
    assert!(error.to_string().contains(&keys[4]) || format!("{error:?}").contains(&keys[4]), "{error:?}");
    assert!(world.catalog.load(&world.pipeline.table.name).await.unwrap().is_none());
    // One that is gone was settled by another run; one that is damaged waits for a person, and what it held stays open.
    let body = world.store.objects()[&keys[3]].slice(..100);
    world.store.insert(&keys[3], body);
    let gone = [keys[9].clone()].into();
    let report = fold(Slow { gone, ..Slow::new(world.store.clone()) }).run().await.unwrap();
    assert_eq!(report.quarantined.keys().collect::<Vec<_>>(), [&keys[3]]);
    assert_eq!((report.staged_objects, report.tables[0].rows_added), (8, 24));
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_rows_are_damaged_is_left_out_wherever_it_stands() {
    let (world, keys) = world(10);
    // Its footer is whole, its rows are not.
    let mut body = world.store.objects()[&keys[5]].to_vec();
    body[8] ^= 1;
    world.store.insert(&keys[5], body.into());
    let store = Arc::new(Slow::new(world.store.clone()));
    let report = world.fold_with(store, world.catalog.clone(), storage::local()).run().await.unwrap();
    assert_eq!(report.quarantined.keys().collect::<Vec<_>>(), [&keys[5]]);
    assert_eq!(report.tables[0].rows_added, 27);
    assert_eq!(world.ledger().await.totals().undelivered, 0);
}
