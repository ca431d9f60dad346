//! What a fold asks of the object store, counted.

use staging::store::Operation;
use testkit::catalog::files::FaultyStorage;
use testkit::store_faulty::{FaultyStore, Process, Rates};

use super::many::{stage, world as many};
use super::*;
use crate::requests::{Asked, Work, listed_minutes, of, settlements_read};

/// One fold with everything counted that would be a request of the object store: what goes to the store, and the files of the
/// table, the catalog's metadata file among them.
async fn counted(world: &World, catalog: &MemoryCatalog) -> (Report, Asked) {
    let files = FaultyStorage::new(Arc::new(storage::Local));
    let catalog = Arc::new(catalog.with_io(files.io()));
    let store = FaultyStore::new(world.store.clone(), Process::immortal(), world.ids.clone(), Rates::default());
    let store = Arc::new(store);
    let report = world.fold_with(store.clone(), catalog, files.io()).run().await.unwrap();
    let mut asked = Asked { puts: files.writes() as f64, gets: files.reads() as f64, lists: 0.0 };
    for done in store.trace() {
        match done.operation {
            Operation::PutNew | Operation::Put => asked.puts += 1.0,
            Operation::Get | Operation::GetRange | Operation::Head => asked.gets += 1.0,
            Operation::List => asked.lists += 1.0,
            // S3 asks nothing for it.
            Operation::Delete => {}
        }
    }
    (report, asked)
}

/// Folds so many times, three objects each, and gives what the last `steady` of them asked in all, and the data files they wrote.
async fn folds(is_many: bool, minutes: i64, rounds: i64, steady: i64) -> (Asked, f64) {
    let mut world = if is_many { many(1) } else { World::new(1) };
    world.store = Arc::new(MemoryStore::new(world.clock.clone()));
    let warehouse = storage::location_of(world._folder.path()).unwrap();
    let catalog = MemoryCatalog::new(&warehouse, storage::local(), world.clock.clone(), world.ids.clone());
    let (mut sum, mut files) = (Asked::default(), 0.0);
    for round in 0..rounds {
        for object in 0..3 {
            let first = round * 12 + object * 4;
            match is_many {
                true => stage(&world, &[&format!("0:{first}:abac"), &format!("1:{first}:bcca")]),
                false => world.stage(&[&format!("0:{first}:rrrr"), &format!("1:{first}:rrrr")]),
            };
        }
        let (report, asked) = counted(&world, &catalog).await;
        assert!(report.tables.iter().all(|table| table.committed), "{report:?}");
        if round >= rounds - steady {
            sum = Asked { puts: sum.puts + asked.puts, gets: sum.gets + asked.gets, lists: sum.lists + asked.lists };
            files += report.tables.iter().map(|table| table.data_files as f64).sum::<f64>();
        }
        world.wait(minutes);
    }
    (sum, files)
}

async fn check(is_many: bool, minutes: i64, rounds: i64, steady: i64) {
    let (sum, files) = folds(is_many, minutes, rounds, steady).await;
    let (folds, minutes_between) = (steady as f64, minutes as f64);
    let work = Work {
        tables: if is_many { 3 } else { 1 },
        has_many: is_many,
        objects: 3.0,
        listed: 3.0 * listed_minutes(minutes_between) / minutes_between,
        minutes_between,
        data_puts: files / folds,
    };
    let said = of(&work);
    // Merging of manifests comes once in a hundred folds: in fewer there is none.
    let (merging_puts, merging_gets) = match steady {
        100 => (0.0, 0.0),
        _ => (work.tables as f64 / 100.0, work.tables as f64),
    };
    let expected = Asked {
        puts: (said.puts - merging_puts) * folds,
        gets: (said.gets - merging_gets) * folds,
        lists: said.lists * folds,
    };
    let close = |a: f64, b: f64| (a - b).abs() < 1.01;
    let alike = close(sum.puts, expected.puts) && close(sum.gets, expected.gets) && sum.lists == expected.lists;
    assert!(alike, "many {is_many}, every {minutes} minutes: {sum:?} were asked, {expected:?} are said");
}

#[tokio::test]
async fn a_fold_asks_as_much_of_the_store_as_is_said() {
    for minutes in [1, 5, 19, 60] {
        for is_many in [false, true] {
            check(is_many, minutes, 5 + 19 / minutes, 3).await;
        }
    }
}

#[tokio::test]
async fn manifests_that_are_merged_are_read_once_more() {
    check(false, 5, 120, 100).await;
}

#[test]
fn a_listing_page_has_a_thousand_keys_and_settlements_read_have_a_bound() {
    let work = Work { tables: 1, has_many: false, objects: 0.0, listed: 0.0, minutes_between: 1.0, data_puts: 0.0 };
    for (listed, lists) in [(0.0, 2.0), (1000.0, 2.0), (1000.5, 4.0), (25_000.0, 50.0)] {
        assert_eq!(of(&Work { listed, ..work }).lists, lists);
    }
    for (minutes, read) in [(1.0, 21.0), (5.0, 5.0), (19.0, 3.0), (60.0, 2.0), (0.05, 180.0)] {
        assert_eq!(settlements_read(minutes), read);
    }
}
