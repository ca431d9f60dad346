//! Runs that may not take everything that is staged.

use model::run::{Run, Stage, State};

use super::*;

fn bounded(world: &World, rows: u64) -> Fold {
    let settings = Settings { budget: Budget { bytes: None, rows: Some(rows) }, ..Settings::default() };
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
