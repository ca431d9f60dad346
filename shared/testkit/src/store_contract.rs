//! What every [`Store`] must do. Run against the fakes and the real ones alike, so that a fake can't drift from what it
//! stands for.

#![expect(clippy::unwrap_used, reason = "a contract suite is a test: it fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use model::failure::Kind;
use staging::store::{ObjectMeta, Put, Store};

/// Holds a store to the whole contract, under `prefix` (which ends with a slash and has nothing below it yet). Removes
/// what it has stored.
///
/// # Panics
/// With the first promise that is not kept.
pub async fn check(store: Arc<dyn Store>, prefix: &str) {
    objects_are_stored_once_and_read_back(&*store, prefix).await;
    some_objects_are_overwritten(&*store, prefix).await;
    ranges_are_cut_at_the_end(&*store, prefix).await;
    keys_may_hold_what_tables_put_in_them(&*store, prefix).await;
    bad_keys_are_refused(&*store).await;
    listings_are_complete_and_in_byte_order(&*store, prefix).await;
    one_of_many_puts_stores(&store, prefix).await;
    assert_eq!(listed(&*store, prefix, None).await, Vec::<ObjectMeta>::new(), "something was not deleted");
}

/// Every object of a listing, page by page.
///
/// # Panics
/// When the store fails or its pages never end.
pub async fn listed(store: &dyn Store, prefix: &str, start_after: Option<&str>) -> Vec<ObjectMeta> {
    let (mut all, mut continuation) = (Vec::new(), None);
    for _ in 0..100_000 {
        let page = store.list(prefix, start_after, continuation.as_deref()).await.unwrap();
        all.extend(page.objects);
        match page.next {
            Some(next) => continuation = Some(next),
            None => return all,
        }
    }
    unreachable!("a listing without end");
}

async fn keys(store: &dyn Store, prefix: &str, start_after: Option<&str>) -> Vec<String> {
    listed(store, prefix, start_after).await.into_iter().map(|o| o.key).collect()
}

async fn objects_are_stored_once_and_read_back(store: &dyn Store, prefix: &str) {
    for (name, body) in [("once", Bytes::from_static(b"body\0\xff")), ("empty", Bytes::new())] {
        let key = format!("{prefix}{name}");
        assert_eq!(store.head(&key).await.unwrap(), None);
        let missing = store.get(&key).await.unwrap_err();
        assert!(missing.is_not_found() && missing.kind() == Kind::Conflict, "{missing}");
        assert!(store.get_range(&key, 0..1).await.unwrap_err().is_not_found());

        let first = store.put_new(&key, body.clone()).await.unwrap();
        assert!(matches!(first, Put::Stored { .. }), "{first:?}");
        let again = store.put_new(&key, Bytes::from_static(b"something else")).await.unwrap();
        assert!(matches!(again, Put::AlreadyStored { .. }), "{again:?}");
        assert!(again.date() >= first.date());
        assert_eq!(store.get(&key).await.unwrap(), body);
        let meta = ObjectMeta { key: key.clone(), size: body.len() as u64 };
        assert_eq!(store.head(&key).await.unwrap(), Some(meta.clone()));
        assert_eq!(listed(store, &key, None).await, [meta]);

        store.delete(&key).await.unwrap();
        assert_eq!(store.head(&key).await.unwrap(), None);
        store.delete(&key).await.unwrap();
        let after = store.put_new(&key, Bytes::from_static(b"new")).await.unwrap();
        assert!(matches!(after, Put::Stored { .. }), "a deleted key is free again");
        store.delete(&key).await.unwrap();
    }
}

async fn some_objects_are_overwritten(store: &dyn Store, prefix: &str) {
    let key = format!("{prefix}runs/fold.json");
    for body in [&b"running, with a long text"[..], b"done"] {
        store.put(&key, Bytes::from_static(body)).await.unwrap();
        assert_eq!(store.get(&key).await.unwrap(), body);
    }
    assert!(matches!(store.put_new(&key, Bytes::new()).await.unwrap(), Put::AlreadyStored { .. }));
    assert_eq!(listed(store, &key, None).await.len(), 1);
    store.delete(&key).await.unwrap();
}

async fn ranges_are_cut_at_the_end(store: &dyn Store, prefix: &str) {
    let key = format!("{prefix}ranged");
    store.put_new(&key, Bytes::from_static(b"0123456789")).await.unwrap();
    for (range, want) in [
        (0..10, "0123456789"),
        (0..1, "0"),
        (3..7, "3456"),
        (8..1000, "89"),
        (9..u64::MAX, "9"),
        (10..11, ""),
        (500..600, ""),
        (4..4, ""),
    ] {
        assert_eq!(store.get_range(&key, range.clone()).await.unwrap(), want, "{range:?}");
    }
    store.delete(&key).await.unwrap();
}

async fn keys_may_hold_what_tables_put_in_them(store: &dyn Store, prefix: &str) {
    let names =
        ["team=a b/x", "team=a%20b/x", "100%", "plus+and&?#", "ключ", "a.b-c_d~e", "'quoted\"", "..x/...", "a:b@c"];
    for name in names {
        let key = format!("{prefix}{name}");
        assert!(matches!(store.put_new(&key, Bytes::from(name)).await.unwrap(), Put::Stored { .. }), "{name}");
    }
    for name in names {
        let key = format!("{prefix}{name}");
        assert_eq!(store.get(&key).await.unwrap(), name);
        assert_eq!(keys(store, &key, None).await, [key.as_str()]);
    }
    let want: BTreeSet<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
    assert_eq!(keys(store, prefix, None).await, want.into_iter().collect::<Vec<_>>());
    for name in names {
        store.delete(&format!("{prefix}{name}")).await.unwrap();
    }
}

async fn bad_keys_are_refused(store: &dyn Store) {
    for key in ["", "/absolute", "a//b", "a/../b", "..", "a/", "nul\0"] {
        assert_eq!(store.put_new(key, Bytes::new()).await.unwrap_err().kind(), Kind::Bug, "{key}");
        assert_eq!(store.put(key, Bytes::new()).await.unwrap_err().kind(), Kind::Bug, "{key}");
        assert_eq!(store.get(key).await.unwrap_err().kind(), Kind::Bug, "{key}");
        assert_eq!(store.get_range(key, 0..1).await.unwrap_err().kind(), Kind::Bug, "{key}");
        assert_eq!(store.head(key).await.unwrap_err().kind(), Kind::Bug, "{key}");
        assert_eq!(store.delete(key).await.unwrap_err().kind(), Kind::Bug, "{key}");
    }
}

async fn listings_are_complete_and_in_byte_order(store: &dyn Store, prefix: &str) {
    // Chosen so that order by folder and order by bytes differ: `-`, `.` and `!` sort before `/`, `0` after it.
    let names =
        ["b", "a/1", "a-b", "a.b", "a!/z", "a0", "a/10", "a/2/x", "a/2-x", "a/2.y", "B", "a/1-", "é", "a/\u{10000}"];
    for name in names {
        store.put_new(&format!("{prefix}{name}"), Bytes::from(name)).await.unwrap();
    }
    let mut all: Vec<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
    all.sort();
    let objects = listed(store, prefix, None).await;
    assert!(objects.iter().all(|o| o.size == (o.key.len() - prefix.len()) as u64), "{objects:?}");

    let some = |wanted: &dyn Fn(&str) -> bool| all.iter().filter(|k| wanted(k)).cloned().collect::<Vec<_>>();
    for part in ["", "a", "a/", "a/2", "a/2/", "a/1", "B", "nothing", "a/2/x/y", "é"] {
        let part = format!("{prefix}{part}");
        assert_eq!(keys(store, &part, None).await, some(&|k| k.starts_with(&part)), "{part}");
        for after in ["a", "a/", "a/1", "a/2/", "a/2/w", "a/2/x", "a/3", "b", "zz", "!", "a/2/x/more", "a!/"] {
            let after = format!("{prefix}{after}");
            let want = some(&|k| k.starts_with(&part) && k > after.as_str());
            assert_eq!(keys(store, &part, Some(&after)).await, want, "{part} after {after}");
        }
    }
    // An object that is stored while pages are read appears if it lies ahead, and nothing else is lost or doubled.
    let first = store.list(prefix, None, None).await.unwrap();
    let late = format!("{prefix}\u{10ffff}");
    store.put_new(&late, Bytes::new()).await.unwrap();
    if let Some(next) = &first.next {
        let mut rest: Vec<String> = first.objects.into_iter().map(|o| o.key).collect();
        let mut continuation = Some(next.clone());
        while let Some(next) = continuation {
            let page = store.list(prefix, None, Some(&next)).await.unwrap();
            rest.extend(page.objects.into_iter().map(|o| o.key));
            continuation = page.next;
        }
        assert_eq!(rest, [&all[..], std::slice::from_ref(&late)].concat());
    }
    for key in all.iter().chain([&late]) {
        store.delete(key).await.unwrap();
    }
}

async fn one_of_many_puts_stores(store: &Arc<dyn Store>, prefix: &str) {
    for round in 0..5 {
        let key = format!("{prefix}raced/{round}/object");
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..16u8 {
            let (store, key) = (Arc::clone(store), key.clone());
            tasks.spawn(async move {
                let body = Bytes::from(vec![n; 1000 + n as usize]);
                loop {
                    match store.put_new(&key, body.clone()).await {
                        Ok(put) => return (matches!(put, Put::Stored { .. }), body),
                        // A 409: not stored, so the same is tried again.
                        Err(e) => assert_eq!(e.kind(), Kind::Retry, "{e}"),
                    }
                }
            });
        }
        let winners: Vec<Bytes> =
            tasks.join_all().await.into_iter().filter(|(stored, _)| *stored).map(|(_, b)| b).collect();
        assert_eq!(winners.len(), 1, "exactly one of many stores");
        assert_eq!(store.get(&key).await.unwrap(), winners[0]);
        store.delete(&key).await.unwrap();
    }
}

#[cfg(test)]
mod tests {
    use model::clock::{Clock, ManualClock, Timestamp};
    use model::id::SeededIds;
    use staging::local::LocalStore;

    use super::*;
    use crate::store_faulty::{FaultyStore, Process, Rates};
    use crate::store_memory::MemoryStore;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(ManualClock::new(Timestamp::from_micros(1)))
    }

    #[tokio::test]
    async fn the_store_in_memory_keeps_the_contract() {
        for page in [1, 3, 1000] {
            check(Arc::new(MemoryStore::new(clock()).with_page_objects(page)), "contract/").await;
        }
    }

    #[tokio::test]
    async fn the_store_in_a_folder_keeps_the_contract() {
        for page in [1, 3, 1000] {
            let folder = tempfile::tempdir().unwrap();
            let store = LocalStore::open(folder.path(), clock()).unwrap().with_page_objects(page);
            check(Arc::new(store), "contract/").await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn faults_that_change_no_answer_keep_the_contract() {
        for seed in 0..20 {
            let ids = Arc::new(SeededIds::new(seed));
            let rates = Rates { delay: 300, split_pages: 500, ..Rates::default() };
            let store = FaultyStore::new(Arc::new(MemoryStore::new(clock())), Process::immortal(), ids, rates);
            check(Arc::new(store), "contract/").await;
        }
    }
}
