use model::clock::SystemClock;
use model::id::SeededIds;

use super::*;

fn local() -> (tempfile::TempDir, Arc<LocalStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path(), Arc::new(SystemClock)).unwrap();
    (folder, Arc::new(store))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

#[test]
fn an_id_is_made_once_and_then_read() {
    let (_folder, store) = local();
    let first = block_on(pipeline_id(store.as_ref(), "orders", &SeededIds::new(1))).unwrap();
    let second = block_on(pipeline_id(store.as_ref(), "orders", &SeededIds::new(2))).unwrap();
    assert_eq!(first, second);
    assert!(first.as_str().starts_with("orders-"));
    let other = block_on(pipeline_id(store.as_ref(), "orders2", &SeededIds::new(1))).unwrap();
    assert_ne!(first, other);
}

#[test]
fn a_lost_id_is_not_made_anew_over_what_is_stored_under_it() {
    for root in ["staging", "dead-letters", "settled"] {
        let (_folder, store) = local();
        let put = |key: String| block_on(store.put_new(&key, "x".into())).unwrap();
        // Other pipelines, whose names begin alike or end alike.
        put(format!("{root}/orders-eu-00000001/2026-11-02/08/00/a.parquet"));
        put(format!("{root}/orders-0000000g/2026-11-02/08/00/a.parquet"));
        put(format!("{root}/all-orders-00000001/2026-11-02/08/00/a.parquet"));
        assert!(block_on(known_id(store.as_ref(), "orders", &SeededIds::new(1))).is_ok(), "{root}");
        put(format!("{root}/orders-0badcafe/2026-11-02/08/00/a.parquet"));
        for failure in [
            block_on(known_id(store.as_ref(), "orders", &SeededIds::new(1))).unwrap_err(),
            block_on(pipeline_id(store.as_ref(), "orders", &SeededIds::new(1))).unwrap_err(),
        ] {
            assert_eq!(failure.kind, Kind::Misconfigured);
            assert!(failure.message.contains("objects of orders-0badcafe:"), "{}", failure.message);
        }
        block_on(store.put_new("pipelines/orders/id", "orders-0badcafe\n".into())).unwrap();
        let id = block_on(pipeline_id(store.as_ref(), "orders", &SeededIds::new(1))).unwrap();
        assert_eq!(id.as_str(), "orders-0badcafe");
    }
}

#[test]
fn an_id_of_another_pipeline_or_no_id_at_all_is_corrupt() {
    for body in ["", "other-12345678", "orders-1234567", "orders", "\u{0}"] {
        let (_folder, store) = local();
        block_on(store.put_new("pipelines/orders/id", body.into())).unwrap();
        let failure = block_on(pipeline_id(store.as_ref(), "orders", &SeededIds::new(1))).unwrap_err();
        assert_eq!(failure.kind, Kind::Corrupt, "{body:?}");
    }
}

#[test]
fn paths_are_made_absolute_without_dots() {
    let check = |path: &str, expected: &str| {
        assert_eq!(absolute(Path::new("/a/b"), Path::new(path)).unwrap(), PathBuf::from(expected));
    };
    check("c/./d", "/a/b/c/d");
    check("../c", "/a/c");
    check("/c/../../d", "/d");
    check("", "/a/b");
}
