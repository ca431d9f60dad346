//! Processes that die at any step, and processes that run at once.

use model::failure::Kind;
use testkit::catalog::faulty::FaultyCatalog;
use testkit::catalog::files::{self, FaultyStorage};
use testkit::store_faulty::{Death, FaultyStore, Process, Rates};

use super::*;

const PARTS: [&[&str]; 4] =
    [&["0:0:rrdr", "1:0:r.r"], &["0:4:rrr", "1:3:rrrr"], &["0:2:drrrr"], &["0:7:rr", "1:7:fr", "2:100:rrr"]];

fn all() -> Vec<(i32, i64)> {
    wanted(&PARTS.concat())
}

/// What must hold at the end, whatever happened: every row once, and the ledger's figures are the table's.
async fn every_row_once(world: &World, what: &str) {
    assert_eq!(world.rows().await, all(), "{what}");
    let loaded = world.loaded().await;
    let text = &loaded.metadata.properties()[&model::ledger::property(&world.id)];
    let counts = model::ledger::Ledger::from_json(text).unwrap().totals();
    assert_eq!(counts.rows_added, all().len() as u64, "{what}");
    assert_eq!((counts.dead, counts.undelivered), (1, 1), "{what}");
}

/// How a fold dies: at the n-th call of one of the things it talks to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Where {
    Store(Death),
    Catalog,
    File,
}

#[tokio::test]
async fn a_fold_killed_at_any_step_leaves_nothing_lost_and_nothing_doubled() {
    for place in [Where::Store(Death::Before), Where::Store(Death::After), Where::Catalog, Where::File] {
        for seed in 0..50 {
            let world = World::new(seed);
            // Half of the runs die in the middle of a table's life, half at its beginning.
            let (before, after) = PARTS.split_at(if seed % 2 == 0 { 2 } else { 0 });
            for parts in before {
                world.stage(parts);
            }
            if !before.is_empty() {
                world.fold().run().await.unwrap();
                world.clock.advance_micros(60_000_000);
            }
            for parts in after {
                world.stage(parts);
            }
            let what = format!("{place:?}, seed {seed}");
            let step = seed / 2;
            let (dead, outcome) = die(&world, place, step).await;
            if dead {
                assert!(outcome.is_err(), "{what}");
            } else {
                assert!(outcome.is_ok(), "{what}: {outcome:?}");
            }
            world.fold().run().await.unwrap_or_else(|e| panic!("{what}: {e}"));
            every_row_once(&world, &what).await;
        }
    }
}

pub(super) async fn die(world: &World, place: Where, step: u64) -> (bool, Result<Report, Error>) {
    match place {
        Where::Store(death) => {
            let process = Process::dying_at(step + 1, death);
            let store = FaultyStore::new(world.store.clone(), process.clone(), world.ids.clone(), Rates::default());
            let outcome = world.fold_with(Arc::new(store), world.catalog.clone(), storage::local()).run().await;
            // The last note of a run's outcome may be lost without the run having failed.
            let last_note = outcome.is_ok();
            (process.is_dead() && !last_note, outcome)
        }
        Where::Catalog => {
            let catalog = FaultyCatalog::new(world.catalog.clone(), storage::local(), world.ids.clone()).kill_at(step);
            let fold = world.fold_with(world.store.clone(), Arc::new(catalog.clone()), storage::local());
            let outcome = fold.run().await;
            (catalog.is_dead(), outcome)
        }
        Where::File => {
            let files = FaultyStorage::new(Arc::new(storage::Local)).at_write(step, files::Fault::Killed);
            let outcome = world.fold_with(world.store.clone(), world.catalog.clone(), files.io()).run().await;
            (files.is_dead(), outcome)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_folds_at_once_enter_every_row_once() {
    let mut raced = 0;
    for seed in 0..50 {
        let world = World::new(seed);
        let rates = Rates { delay: 300, fail_before: 20, lose_answer: 20, ..Rates::default() };
        let chance: Arc<dyn Ids> = Arc::new(SeededIds::new(seed ^ 0x5eed));
        for parts in &PARTS {
            world.stage(parts);
            let one = || {
                let store = FaultyStore::new(world.store.clone(), Process::immortal(), chance.clone(), rates);
                let catalog =
                    FaultyCatalog::new(world.catalog.clone(), storage::local(), chance.clone()).with_chance(150);
                world.fold_with(Arc::new(store), Arc::new(catalog), storage::local())
            };
            let (left, right) = (one(), one());
            let (left, right) = tokio::join!(left.run(), right.run());
            for outcome in [&left, &right] {
                match outcome {
                    Ok(report) => raced += report.conflicts_retried,
                    // A lost race or a lost answer says "again", never anything worse.
                    Err(e) => assert!(
                        matches!(e.kind(), Kind::Retry | Kind::Conflict | Kind::OutcomeUnknown),
                        "seed {seed}: {e:?}"
                    ),
                }
            }
            world.clock.advance_micros(30_000_000);
        }
        world.fold().run().await.unwrap();
        every_row_once(&world, &format!("seed {seed}")).await;
    }
    assert!(raced > 0, "no two of the folds ever met");
}
