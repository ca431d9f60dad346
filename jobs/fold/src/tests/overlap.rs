//! Folds of many tables that are under way at once, of which some die: what one has settled, the other has not looked at.

use model::run::{Run, Stage, State};
use staging::key;
use testkit::store_faulty::Death;

use super::crashes::{Where, die};
use super::many::{every_row_in_its_table, stage, table};
use super::*;

/// Leaves the note of a run that saw nothing of another, as one does that looks before the other begins and writes after.
async fn overwrite_note(world: &World) {
    let run = Run::begun(Stage::Fold, world.clock.now(), None).ended(world.clock.now(), Ok(BTreeMap::new()));
    world.fold().note(&run).await.unwrap();
}

#[tokio::test]
async fn what_a_killed_run_left_is_found_whatever_another_one_notes() {
    const PARTS: [&[&str]; 3] = [&["0:0:aab", "1:0:bc"], &["0:3:abc"], &["1:2:cba"]];
    let mut died = 0;
    for seed in 0..60 {
        let world = super::many::world(seed);
        stage(&world, PARTS[0]);
        world.fold().run().await.unwrap();
        world.wait(1);
        stage(&world, PARTS[1]);
        stage(&world, PARTS[2]);
        let _whatever = die(&world, Where::Store(Death::After), seed).await;
        if world.fold().last_run().await.unwrap().unwrap().state == State::Running {
            died += 1;
            overwrite_note(&world).await;
        }
        world.fold().run().await.unwrap();
        every_row_in_its_table(&world, &PARTS.concat(), &format!("seed {seed}")).await;
    }
    assert!(died > 20, "{died}");
}

#[tokio::test]
async fn runs_that_meet_leave_all_tables_to_the_next_one() {
    let world = super::many::world(61);
    stage(&world, &["0:0:abc"]);
    let fold = world.fold();
    fold.run().await.unwrap();
    let behind = async || fold.last_run().await.unwrap().unwrap().behind.len();
    assert_eq!(behind().await, 0);
    let other = fold.begin().await.unwrap();
    for _ in 0..2 {
        fold.run().await.unwrap();
        assert_eq!(behind().await, 3);
    }
    fold.end(&other).await;
    fold.run().await.unwrap();
    assert_eq!(behind().await, 0);
    // One that was killed counts for an hour, and no longer.
    drop(fold.begin().await.unwrap());
    for (minutes, expected) in [(59, 3), (2, 0)] {
        world.wait(minutes);
        fold.run().await.unwrap();
        assert_eq!(behind().await, expected, "{minutes}");
    }
}

#[tokio::test]
async fn a_table_whose_rows_the_budget_left_follows_with_the_next_run() {
    let world = super::many::world(62);
    stage(&world, &["0:0:ab"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, &["0:2:aaa"]);
    stage(&world, &["0:5:b"]);
    // The first table alone has settled them.
    let one = Fold { pipeline: Arc::new(world.pipeline.of(&table("a"))), ..world.fold() };
    one.fold_one(Budget::default(), None, &Default::default()).await.unwrap();
    overwrite_note(&world).await;
    let mut run = world.fold().last_run().await.unwrap().unwrap();
    run.behind.insert("db.b".to_owned());
    world.fold().note(&run).await.unwrap();
    let mut fold = world.fold();
    fold.settings.budget.bytes = Some(1);
    for _ in 0..2 {
        fold.run().await.unwrap();
    }
    assert_eq!(world.rows_of(&table("b")).await.len(), 2);
}

#[tokio::test]
async fn tables_beyond_the_most_wait_and_hold_no_other_back() {
    let mut world = super::many::world(63);
    let most = |world: &mut World, tables_max| Arc::make_mut(&mut world.pipeline).fold.tables_max = Some(tables_max);
    stage(&world, &["0:0:ab"]);
    world.fold().run().await.unwrap();
    most(&mut world, 2);
    for n in 0..3 {
        world.wait(1);
        stage(&world, &[&format!("0:{}:abc", 2 + 3 * n)]);
        let report = world.fold().run().await.unwrap();
        let failures: Vec<_> = report.failures().map(|(name, failure)| (name, failure.code.as_str())).collect();
        assert_eq!(failures, [("db.c", "fold.many_tables")]);
        let rows = async |name| world.rows_of(&table(name)).await.len();
        assert_eq!((rows("a").await, rows("b").await, rows("c").await), (n + 2, n + 2, 0));
    }
    assert!(world.store.objects().contains_key(&key::table(&world.id, "db.c")));
    most(&mut world, 3);
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.failures().count(), 0);
    assert_eq!(world.rows_of(&table("c")).await.len(), 3);
}
