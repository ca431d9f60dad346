use std::sync::Arc;

use async_trait::async_trait;
use iceberg::io::FileIO;
use model::clock::{ManualClock, Timestamp};
use model::failure::Kind;
use model::id::SeededIds;
use table::catalog::sqlite::SqliteCatalog;
use table::catalog::{Catalog, Error, Loaded, TableName};
use table::snapshot::{self, Change};
use table::storage;

use super::contract::{self, Bench, commit, creation, file, live_files, terms};
use super::faulty::{Fault, FaultyCatalog};
use super::files::{self, FaultyStorage};
use super::memory::MemoryCatalog;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)))
}

struct Memory(MemoryCatalog, FileIO);

#[async_trait]
impl Bench for Memory {
    async fn open(&self) -> Arc<dyn Catalog> {
        Arc::new(self.0.clone())
    }

    fn io(&self) -> FileIO {
        self.1.clone()
    }

    async fn forget(&self, table: &TableName) -> bool {
        self.0.forget(table);
        true
    }
}

fn memory() -> Memory {
    let io = FileIO::new_with_memory();
    Memory(MemoryCatalog::new("memory:/w", io.clone(), clock(), Arc::new(SeededIds::new(1))), io)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_catalog_in_memory_keeps_the_contract() {
    contract::kept(&memory(), "memory").await;
}

fn name() -> TableName {
    TableName { namespace: "ns".to_owned(), name: "t".to_owned() }
}

/// A writer as the protocol asks for: after a conflict or an unknown outcome it looks for its own mark along main before
/// anything else, keeps its data file, and never assumes.
async fn append_once(catalog: &dyn Catalog, io: &FileIO, ids: &SeededIds, path: &str) -> Result<u32, Error> {
    let marked = |table: &Loaded| {
        snapshot::ancestry(&table.metadata)
            .any(|s| s.summary().additional_properties.get("mark").is_some_and(|mark| mark == path))
    };
    for attempt in 1..=5 {
        let base = catalog.load(&name()).await?.unwrap();
        if marked(&base) {
            return Ok(attempt - 1);
        }
        let mut says = terms(&base);
        says.summary.insert("mark".to_owned(), path.to_owned());
        let change = Change::append(vec![file(path.to_owned(), 10)]);
        let prepared = snapshot::prepare(&base, change, says, io, ids).await.unwrap();
        match commit(catalog, &base, &prepared).await {
            Ok(_) => return Ok(attempt),
            Err(e) if matches!(e.kind(), Kind::Conflict | Kind::OutcomeUnknown | Kind::Retry) => {}
            Err(e) => return Err(e),
        }
    }
    panic!("no end of attempts");
}

#[tokio::test]
async fn whatever_the_answer_a_file_is_in_the_table_once() {
    let check = async |fault: Option<Fault>, attempts: u32, snapshots: usize| {
        let Memory(inner, io) = memory();
        inner.create(&name(), creation()).await.unwrap();
        let ids = Arc::new(SeededIds::new(2));
        let mut catalog = FaultyCatalog::new(Arc::new(inner.clone()), io.clone(), ids.clone());
        if let Some(fault) = fault {
            catalog = catalog.at_commit(0, fault);
        }
        assert_eq!(append_once(&catalog, &io, &ids, "memory:/f").await.unwrap(), attempts, "{fault:?}");
        // A second coordinator with the same file adds nothing.
        append_once(&catalog, &io, &ids, "memory:/f").await.unwrap();
        catalog.arrive().await;
        let table = inner.load(&name()).await.unwrap().unwrap();
        assert_eq!(live_files(&table, &io).await, ["memory:/f"], "{fault:?}");
        assert_eq!(snapshot::ancestry(&table.metadata).count(), snapshots, "{fault:?}");
        let total = &table.metadata.current_snapshot().unwrap().summary().additional_properties["total-records"];
        assert_eq!(total, "10", "{fault:?}");
    };
    check(None, 1, 1).await;
    check(Some(Fault::AnswerLost), 1, 1).await;
    check(Some(Fault::AnsweredTwice), 1, 1).await;
    check(Some(Fault::Lost), 2, 1).await;
    check(Some(Fault::AnswerLostThenOvertaken), 1, 2).await;
    check(Some(Fault::Conflict), 2, 1).await;
    check(Some(Fault::Refused), 2, 1).await;
    check(Some(Fault::Delayed(3)), 1, 1).await;
    // The late commit arrives before the second attempt's, which the swap then refuses.
    check(Some(Fault::Late), 2, 1).await;
}

#[tokio::test]
async fn a_seed_repeats_its_faults() {
    let run = async |seed| {
        let Memory(inner, io) = memory();
        inner.create(&name(), creation()).await.unwrap();
        let ids = Arc::new(SeededIds::new(seed));
        let catalog = FaultyCatalog::new(Arc::new(inner.clone()), io.clone(), ids.clone()).with_chance(400);
        for n in 0..20 {
            append_once(&catalog, &io, &ids, &format!("memory:/f{n}")).await.unwrap();
        }
        catalog.arrive().await;
        let table = inner.load(&name()).await.unwrap().unwrap();
        assert_eq!(live_files(&table, &io).await.len(), 20);
        (catalog.trace(), table.metadata)
    };
    let (trace, table) = run(5).await;
    assert_eq!((trace.clone(), table), run(5).await);
    assert!(trace.iter().any(|line| line.contains("Some")), "{trace:?}");
    assert_ne!(trace, run(6).await.0);
}

#[tokio::test]
async fn killed_at_any_call_the_table_is_whole_and_the_next_run_ends_it() {
    let mut killed = 0;
    for k in 0..4 {
        let Memory(inner, io) = memory();
        inner.create(&name(), creation()).await.unwrap();
        let ids = Arc::new(SeededIds::new(2));
        let catalog = FaultyCatalog::new(Arc::new(inner.clone()), io.clone(), ids.clone()).kill_at(k);
        let first = catalog.load(&name()).await.is_ok() && append_once(&catalog, &io, &ids, "memory:/f").await.is_ok();
        assert_eq!(first, !catalog.is_dead());
        killed += u32::from(catalog.is_dead());
        append_once(&inner, &io, &ids, "memory:/f").await.unwrap();
        let table = inner.load(&name()).await.unwrap().unwrap();
        assert_eq!(live_files(&table, &io).await, ["memory:/f"], "killed at {k}");
    }
    assert_eq!(killed, 3, "load, load, commit");
}

#[tokio::test]
async fn a_failed_or_killed_write_leaves_the_table_as_it_was() {
    let mut outcomes = Vec::new();
    for (n, fault) in (0..5)
        .flat_map(|n| [files::Fault::Refused, files::Fault::AnswerLost, files::Fault::Killed].map(|fault| (n, fault)))
    {
        let dir = tempfile::tempdir().unwrap();
        let ids = Arc::new(SeededIds::new(1));
        let faulty = FaultyStorage::new(Arc::new(storage::Local)).at_write(n, fault);
        let warehouse = storage::location_of(&dir.path().join("w")).unwrap();
        let path = dir.path().join("catalog.db");
        let whole = SqliteCatalog::open(&path, &warehouse, storage::local(), clock(), ids.clone()).await.unwrap();
        let base = whole.create(&name(), creation()).await.unwrap();
        let catalog = SqliteCatalog::open(&path, &warehouse, faulty.io(), clock(), ids.clone()).await.unwrap();

        let data = format!("{warehouse}/f.parquet");
        let first = match snapshot::prepare(
            &base,
            Change::append(vec![file(data.clone(), 10)]),
            terms(&base),
            &faulty.io(),
            ids.as_ref(),
        )
        .await
        {
            Ok(prepared) => commit(&catalog, &base, &prepared).await.map_err(|e| e.kind()),
            Err(e) => Err(e.kind()),
        };
        let now = whole.load(&name()).await.unwrap().unwrap();
        match first {
            Ok(after) => assert_eq!(now.metadata_location, after.metadata_location),
            Err(kind) => {
                assert_eq!(kind, Kind::Retry, "{fault:?} at {n}");
                assert_eq!(now.metadata_location, base.metadata_location, "{fault:?} at {n}");
                let again = snapshot::prepare(
                    &base,
                    Change::append(vec![file(data.clone(), 10)]),
                    terms(&base),
                    &storage::local(),
                    ids.as_ref(),
                )
                .await
                .unwrap();
                commit(&whole, &base, &again).await.unwrap();
            }
        }
        let table = whole.load(&name()).await.unwrap().unwrap();
        assert_eq!(live_files(&table, &storage::local()).await, [data]);
        outcomes.push((n, first_failed(&base, &now)));
    }
    // Manifest, manifest list, metadata: three writes, each of which stops the commit.
    assert_eq!(outcomes.iter().filter(|(_, failed)| *failed).count(), 9, "{outcomes:?}");
}

fn first_failed(base: &Loaded, now: &Loaded) -> bool {
    base.metadata_location == now.metadata_location
}
