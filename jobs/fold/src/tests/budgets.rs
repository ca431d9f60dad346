//! Runs that may not take everything that is staged.

use std::collections::BTreeSet;

use model::run::{Run, Stage, State};

use super::*;

fn bounded(world: &World, rows: u64) -> Fold {
    let settings = Settings { budget: Budget { rows: Some(rows), ..Budget::default() }, ..Settings::default() };
    Fold { settings, ..world.fold() }
}

/// Folds under a budget until nothing is left, and gives how many rows each run added.
async fn drain(world: &World, rows: u64) -> Vec<u64> {
    let mut added = Vec::new();
    for _ in 0..100 {
        let report = bounded(world, rows).run().await.unwrap();
        added.push(report.tables[0].rows_added);
        if report.objects_left == 0 {
            return added;
        }
        assert!(report.tables[0].rows_added > 0, "a run with work to do does some: {report:?}");
    }
    panic!("it does not end: {added:?}");
}

#[tokio::test]
async fn a_backlog_is_taken_oldest_first_and_nothing_is_passed_over() {
    let world = World::new(31);
    for n in 0..6 {
        world.stage(&[&format!("0:{}:rrrr", n * 4), &format!("1:{}:rr", n * 2)]);
        world.wait(n % 2);
    }
    assert_eq!(drain(&world, 13).await, [12, 12, 12]);
    assert_eq!(world.ledger().await.totals().undelivered, 0);
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrrrrrrrrrrrrrrrrrrr", "1:0:rrrrrrrrrrrr"]));
}

#[tokio::test]
async fn within_a_minute_offsets_are_the_order_whatever_the_keys() {
    // Keys of one minute are in the order of hashes: over many worlds every order of four objects comes.
    for seed in 0..40 {
        let world = World::new(seed);
        for n in 0..4 {
            world.stage(&[&format!("0:{}:rrr", n * 3)]);
        }
        assert_eq!(drain(&world, 3).await, [3, 3, 3, 3], "seed {seed}");
        assert_eq!(world.ledger().await.totals().undelivered, 0, "seed {seed}");
        assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrrrrrrr"]), "seed {seed}");
    }
}

#[tokio::test]
async fn objects_that_wait_for_each_other_are_cut_by_offset() {
    for seed in 0..20 {
        let world = World::new(seed);
        world.stage(&["0:0:rrr", "1:3:rrr"]);
        world.stage(&["0:3:rrr", "1:0:rrr"]);
        let added = drain(&world, 6).await;
        assert_eq!(added.iter().sum::<u64>(), 12, "seed {seed}");
        assert_eq!(added[0], 3, "one partition of the first object: {added:?}");
        assert_eq!(world.ledger().await.totals().undelivered, 0, "seed {seed}");
        assert_eq!(world.rows().await, wanted(&["0:0:rrrrrr", "1:0:rrrrrr"]), "seed {seed}");
    }
}

#[tokio::test]
async fn what_comes_again_does_not_hold_up_what_it_repeats() {
    let world = World::new(37);
    world.stage(&["0:0:rrrr"]);
    world.wait(1);
    world.stage(&["0:2:rrrr"]);
    world.wait(1);
    world.stage(&["0:6:r.r"]);
    assert_eq!(drain(&world, 4).await, [4, 2, 2]);
    let totals = world.ledger().await.totals();
    assert_eq!((totals.undelivered, totals.duplicates), (1, 2));
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrr.r"]));
}

/// I5: a replayed dead letter was taken while the stream's object around it waited, and the marker before both stayed a hole.
#[tokio::test]
async fn a_replay_waits_for_what_the_stream_handed_over_around_it() {
    let world = World::new(47);
    world.stage(&["0:0:rr"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    world.stage(&["0:2:r"]);
    world.wait(1);
    world.stage(&["0:4:drrrrrrr"]);
    let minute = world.clock.now().minute();
    let (mut footer, rows) = invocation(&world.id, minute, &["0:4:r"]);
    footer.origin = Origin::Replay;
    // The first of its minute.
    let key = StagedKey { pipeline: world.id.clone(), minute, hash: ObjectHash::new(1) };
    world.store.insert(&key.to_string(), object::encode(&footer, &[rows]).unwrap());
    assert_eq!(drain(&world, 2).await, [1, 7, 1]);
    let ledger = world.ledger().await;
    assert_eq!(ledger.partition(&at(0)).unwrap().reached, Interval::new(0, 11).unwrap().into());
    assert_eq!((ledger.totals().undelivered, ledger.totals().dead), (1, 0));
    assert_eq!(world.rows().await, wanted(&["0:0:rrr.rrrrrrrr"]));
}

#[tokio::test]
async fn one_object_is_taken_however_small_the_budget() {
    let world = World::new(41);
    world.stage(&["0:0:rrrrrr"]);
    assert_eq!(drain(&world, 1).await, [6]);
}

async fn note(world: &World) -> Run {
    serde_json::from_slice(&world.store.objects()[&staging::key::run(&world.id, "fold")]).unwrap()
}

#[tokio::test]
async fn after_a_run_that_was_killed_less_is_tried_and_then_all_again() {
    let world = World::new(43);
    for n in 0..3 {
        world.stage(&[&format!("0:{}:rrr", n * 3)]);
        world.wait(1);
    }
    let started = world.clock.now();
    let killed = Run {
        schema: Tag::of::<Run>(),
        stage: Stage::Fold,
        state: State::Running,
        started,
        until: started.plus_micros(900_000_000),
        finished: None,
        budget_bytes: None,
        failure: None,
        figures: BTreeMap::new(),
        behind: BTreeSet::new(),
    };
    let key = staging::key::run(&world.id, "fold");
    world.store.insert(&key, serde_json::to_vec(&killed).unwrap().into());
    world.fold().run().await.unwrap();
    assert_eq!(note(&world).await.budget_bytes, None, "it may be running still");

    world.store.insert(&key, serde_json::to_vec(&killed).unwrap().into());
    world.wait(16);
    world.stage(&["0:9:r"]);
    world.fold().run().await.unwrap();
    let run = note(&world).await;
    assert_eq!((run.state, run.budget_bytes), (State::Done, Some(1 << 20)));
    world.stage(&["0:10:r"]);
    world.fold().run().await.unwrap();
    assert_eq!(note(&world).await.budget_bytes, None);
    // What can't be read says nothing.
    world.store.insert(&key, bytes::Bytes::from_static(b"{"));
    world.fold().run().await.unwrap();
}

fn holding(world: &World, memory_bytes: u64) -> Fold {
    let settings = Settings { budget: Budget { memory_bytes, ..Budget::default() }, ..Settings::default() };
    Fold { settings, ..world.fold() }
}

/// Folds with so much memory until nothing is left; gives each run's (rows added, rows that were there).
async fn fold_all(world: &World, memory_bytes: u64) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    let fold = holding(world, memory_bytes);
    let sum = fold.drain(|run| runs.push((run.tables[0].rows_added, run.tables[0].deduplicated))).await.unwrap();
    assert_eq!((sum.runs, sum.objects_left), (runs.len() as u64, 0));
    assert_eq!(sum.tables[0].rows_added, runs.iter().map(|run| run.0).sum::<u64>());
    runs
}

/// A world in mode `dedup` by `id`, and objects of 100 rows of which each begins with the second half of the one before.
fn overlapping(seed: u64, objects: i64) -> World {
    let world = World::new(seed);
    let mut pipeline = pipeline();
    pipeline.table.mode = Mode::Dedup;
    pipeline.table.primary_key = vec!["id".to_owned()];
    let world = World { pipeline: Arc::new(pipeline), ..world };
    for n in 0..objects {
        world.stage(&[&format!("0:{}:{}", n * 50, "r".repeat(100))]);
        world.wait(1);
    }
    world
}

#[tokio::test]
async fn held_rows_are_no_more_than_memory_has_room_for() {
    let (one, several) = (overlapping(47, 8), overlapping(47, 8));
    let all = fold_all(&one, Budget::default().memory_bytes).await;
    assert_eq!(all, [(450, 0)]);
    // About two objects' worth: what a row takes is told from the footer and the key.
    let object = several.store.objects().into_values().find_map(|body| object::Object::open(body).ok()).unwrap();
    let staged = object.footer().table("db.orders").unwrap();
    let row = merge::dedup::Dedup::row_bytes(&[DataType::Int64]) as u64;
    // An eighth of so little memory is for rows.
    let two = 8 * 2 * (staged.memory_bytes.unwrap() + staged.rows * row) + 4000;
    let runs = fold_all(&several, two).await;
    assert_eq!(runs, [(150, 0), (100, 0), (100, 0), (100, 0)]);
    assert_eq!(several.rows().await, one.rows().await);
    let (one, several) = (one.ledger().await.totals(), several.ledger().await.totals());
    assert_eq!((one.rows_added, one.undelivered), (several.rows_added, several.undelivered));
    assert_eq!(one.duplicates, several.duplicates);
}

#[tokio::test]
async fn one_object_is_taken_however_little_memory_there_is() {
    let world = overlapping(53, 3);
    assert_eq!(fold_all(&world, 1).await, [(100, 0), (50, 0), (50, 0)]);
    assert_eq!(world.ledger().await.totals().undelivered, 0);
}

#[tokio::test]
async fn rows_that_are_appended_are_not_held_and_not_cut() {
    let world = World::new(61);
    for n in 0..8 {
        world.stage(&[&format!("0:{}:{}", n * 100, "r".repeat(100))]);
        world.wait(1);
    }
    let report = holding(&world, 1 << 20).run().await.unwrap();
    let table = &report.tables[0];
    assert_eq!((report.objects_left, table.rows_added), (0, 800));
    assert_eq!(table.data_files, 2, "one of each partition");
}

#[tokio::test]
async fn objects_without_news_do_not_stop_those_behind_them() {
    let world = overlapping(67, 1);
    world.fold().run().await.unwrap();
    // Cut anew, so that no settlement names them; then something new.
    for first in [0, 10, 20] {
        world.stage(&[&format!("0:{first}:{}", "r".repeat(80))]);
    }
    world.wait(1);
    world.stage(&["0:100:rrr"]);
    world.wait(1);
    world.stage(&["0:103:rrr"]);
    assert_eq!(fold_all(&world, 1).await, [(3, 0), (3, 0)]);
}

#[tokio::test]
async fn objects_that_came_again_do_not_hold_up_what_is_new() {
    let world = World::new(32);
    world.stage(&["0:0:rrdr"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    for _ in 0..3 {
        world.stage(&["0:0:rrdr"]);
    }
    world.wait(1);
    world.stage(&["0:4:rrrr"]);
    world.wait(1);
    world.stage(&["0:8:rrrr"]);
    assert_eq!(drain(&world, 4).await, [4, 4]);
    assert_eq!(world.rows().await, wanted(&["0:0:rrdr", "0:4:rrrrrrrr"]));
}
