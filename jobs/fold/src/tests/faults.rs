//! Answers that are lost, writers that come between, objects that can't be read.

use std::collections::HashSet;

use bytes::Bytes;
use model::failure::Kind;
use testkit::catalog::faulty::{Fault, FaultyCatalog};

use super::*;

/// Paths of the live data files, repeats included.
async fn live(world: &World) -> Vec<String> {
    testkit::catalog::contract::live_files(&world.loaded().await, &storage::local()).await
}

async fn check(name: &str, faults: &[(u64, Fault)], foreign_files: usize) {
    let world = World::new(3);
    world.stage(&["0:0:rrrrrrrrrr"]);
    let mut catalog = FaultyCatalog::new(world.catalog.clone(), storage::local(), world.ids.clone());
    for (n, fault) in faults {
        catalog = catalog.at_commit(*n, *fault);
    }
    let fold = world.fold_with(world.store.clone(), Arc::new(catalog.clone()), storage::local());
    let outcome = fold.run().await;
    // A commit that nobody heard of may land long after; and the next run goes on from whatever is there.
    catalog.arrive().await;
    if let Err(error) = &outcome {
        assert!(matches!(error.kind(), Kind::Retry | Kind::OutcomeUnknown | Kind::Conflict), "{name}: {error:?}");
    }
    world.fold().run().await.unwrap();
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrrrrr"]), "{name}");
    let files = live(&world).await;
    let distinct: HashSet<&String> = files.iter().collect();
    assert_eq!(distinct.len(), files.len(), "{name}: a file is referenced twice");
    // Bucket 2 makes two files; none of them may be missing from the disk.
    assert_eq!(files.len(), 2 + foreign_files, "{name}");
    for file in files.iter().filter(|f| !f.contains("overtaken")) {
        if foreign_files == 0 {
            assert!(storage::path_of(file).unwrap().exists(), "{name}: {file}");
        }
    }
}

/// Case: the commit landed and its answer was lost.
#[tokio::test]
async fn a_lost_answer_doubles_nothing_and_deletes_nothing() {
    check("applied, then no answer", &[(0, Fault::AnswerLost)], 0).await;
    check("applied, sent again by a layer between, answered with a conflict", &[(0, Fault::AnsweredTwice)], 0).await;
    check("not applied, no answer", &[(0, Fault::Lost)], 0).await;
    check("not applied, and it arrives much later", &[(0, Fault::Late)], 0).await;
    check("a conflict out of nothing", &[(0, Fault::Conflict)], 0).await;
    check("refused", &[(0, Fault::Refused)], 0).await;
    check("three in a row", &[(0, Fault::Lost), (1, Fault::Conflict), (2, Fault::AnswerLost)], 0).await;
}

#[tokio::test]
async fn an_answer_lost_behind_another_writers_commit_is_found_in_the_history() {
    let world = World::new(3);
    world.stage(&["0:0:rrr"]);
    let catalog = FaultyCatalog::new(world.catalog.clone(), storage::local(), world.ids.clone())
        .at_commit(0, Fault::AnswerLostThenOvertaken);
    let report = world.fold_with(world.store.clone(), Arc::new(catalog), storage::local()).run().await.unwrap();
    assert!(report.tables[0].committed);
    let loaded = world.loaded().await;
    assert_eq!(loaded.metadata.snapshots().len(), 2, "ours and the other writer's");
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
    assert_eq!(world.rows().await, wanted(&["0:0:rrr"]));
}

/// Case: a coordinator reads old messages again after another took over. Here nobody's memory counts: two folds that both
/// planned from the same state commit one after the other, and the second finds the first's work.
#[tokio::test]
async fn progress_never_goes_back() {
    let world = World::new(5);
    for n in 0..3 {
        world.stage(&[&format!("0:{}:rrr", n * 3)]);
    }
    world.fold().run().await.unwrap();
    let ledger = |loaded: &Loaded| loaded.metadata.properties()[&model::ledger::property(&world.id)].clone();
    let before = model::ledger::Ledger::from_json(&ledger(&world.loaded().await)).unwrap();
    // The store still shows everything; some of it comes again under other names.
    world.stage(&["0:0:rrr"]);
    world.stage(&["0:2:rrrr"]);
    world.stage(&["0:9:r"]);
    let (left, right) = (world.fold(), world.fold());
    let (left, right) = tokio::join!(left.run(), right.run());
    let added: u64 = [left.unwrap(), right.unwrap()].iter().map(|r| r.tables[0].rows_added).sum();
    assert_eq!(added, 1);
    let after = model::ledger::Ledger::from_json(&ledger(&world.loaded().await)).unwrap();
    before.included_in(&after, &BTreeMap::new()).unwrap();
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrrrrr"]));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_waits_and_the_rest_goes_on() {
    let world = World::new(7);
    let cut = world.stage(&["0:0:rrr"]);
    let changed = world.stage(&["1:0:rrr"]);
    world.stage(&["2:0:rrr", "0:3:rr"]);
    let whole = world.store.objects();
    world.store.insert(&cut, whole[&cut].slice(..whole[&cut].len() - 10));
    let mut bytes = whole[&changed].to_vec();
    bytes[100] ^= 1;
    world.store.insert(&changed, Bytes::from(bytes));
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.quarantined.keys().collect::<HashSet<_>>(), HashSet::from([&cut, &changed]));
    assert_eq!(world.rows().await, wanted(&["2:0:rrr", "0:3:rr"]));
    // Long after, they are still waited for, and taken once they can be read: nothing was counted as never delivered.
    world.clock.advance_micros(3 * 3_600_000_000);
    world.stage(&["2:3:r"]);
    world.fold().run().await.unwrap();
    world.store.insert(&cut, whole[&cut].clone());
    world.store.insert(&changed, whole[&changed].clone());
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables[0].rows_added, 6);
    assert!(report.quarantined.is_empty());
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrr", "1:0:rrr", "2:0:rrrr"]));
}

#[tokio::test]
async fn an_object_of_a_newer_version_stops_the_fold_and_says_upgrade() {
    let world = World::new(7);
    world.stage(&["0:0:rrr"]);
    let minute = world.clock.now().minute();
    let (mut footer, rows) = invocation(&world.id, minute, &["0:3:r"]);
    footer.schema = serde_json::from_str("\"frazil.stored.footer/2\"").unwrap();
    let key = format!("staging/{}/{minute}/{:032x}.parquet", world.id, 1);
    world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    let error = world.fold().run().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misconfigured);
    assert!(error.to_string().contains("upgrade"), "{error}");
    assert!(world.rows().await.is_empty());
}

#[tokio::test]
async fn a_clock_far_off_the_stores_refuses_to_run() {
    let world = World::new(7);
    world.stage(&["0:0:rrr"]);
    let fold = Fold { clock: Arc::new(ManualClock::new(START.plus_micros(2 * 3_600_000_000))), ..world.fold() };
    let error = fold.run().await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("fold.clock", Kind::Misconfigured));
    assert!(error.to_string().contains("7200 s"), "{error}");
}

#[tokio::test]
async fn a_copy_of_another_object_settles_nothing() {
    let world = World::new(7);
    let hash = |n| ObjectHash::new(n);
    let key = |n| StagedKey { pipeline: world.id.clone(), minute: world.clock.now().minute(), hash: hash(n) };
    let body = |n, parts: &[&str]| {
        let (mut footer, rows) = invocation(&world.id, key(n).minute, parts);
        footer.hash = Some(hash(n));
        object::encode(&footer, &[rows]).unwrap()
    };
    world.store.insert(&key(1).to_string(), body(1, &["0:0:rrr"]));
    world.store.insert(&key(2).to_string(), body(1, &["0:0:rrr"]));
    // The same under another minute, from a writer that does not say its hash.
    let later = StagedKey { minute: world.clock.now().plus_micros(60_000_000).minute(), ..key(3) };
    let (footer, rows) = invocation(&world.id, key(3).minute, &["0:3:r"]);
    world.store.insert(&later.to_string(), object::encode(&footer, &[rows]).unwrap());
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.quarantined.keys().cloned().collect::<Vec<_>>(), [key(2).to_string(), later.to_string()]);
    assert!(report.quarantined.values().all(|why| why.ends_with("it is a copy of another object")));
    assert_eq!(world.rows().await, wanted(&["0:0:rrr"]));
    // The real one comes back: nothing of it was settled.
    world.store.insert(&key(2).to_string(), body(2, &["0:3:rr"]));
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables[0].rows_added, 2);
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrr"]));
}

/// Protocol, Ingest 5: what a mapping passed over comes another way, or never; nobody decides that for it.
#[tokio::test]
async fn where_the_mapping_may_skip_holes_stay_open() {
    for (may_skip, undelivered) in [(false, 3), (true, 0)] {
        let world = World::new(8);
        world.stage(&["0:0:rr"]);
        world.stage(&["0:5:r"]);
        let fold = || Fold { settings: Settings { may_skip, ..Settings::default() }, ..world.fold() };
        assert_eq!(fold().run().await.unwrap().tables[0].rows_added, 3);
        assert_eq!(world.ledger().await.totals().undelivered, undelivered);
        world.wait(1);
        world.stage(&["0:2:rrr"]);
        assert_eq!(fold().run().await.unwrap().tables[0].rows_added, 3, "may_skip: {may_skip}");
        assert_eq!(world.rows().await, wanted(&["0:0:rrrrrr"]));
        assert_eq!(world.ledger().await.totals().undelivered, 0);
    }
}
