//! Settlements that are gone: what only they told apart is neither dropped nor doubled, and nobody goes back over it.

use iceberg::TableUpdate;
use table::snapshot::branch;

use super::anchors::{expire, line};
use super::history::{change, stopped};
use super::*;
use crate::rewind::{Choice, Target};

/// Removes the settlement of the fold that came `nth`, counted from 0.
async fn remove_settlement(world: &World, nth: usize) {
    let key = world.store.objects().into_iter().find_map(|(key, body)| {
        let settlement =
            key.starts_with("settled/").then(|| model::settlement::Settlement::from_json(&body).ok()).flatten()?;
        (settlement.ledger.commits.len() == nth + 1).then_some(key)
    });
    world.store.delete(&key.unwrap()).await.unwrap();
}

/// Folds of these objects, far enough apart that none is listed again.
async fn folded(all: &[&[&str]]) -> World {
    let world = World::new(200);
    for parts in all {
        for part in *parts {
            world.stage(&[part]);
        }
        world.fold().run().await.unwrap();
        world.wait(30);
    }
    world
}

/// I1, I2: the settlement in the middle had found what the oldest one lists as passed over, and listed another offset.
#[tokio::test]
async fn behind_a_settlement_that_is_gone_no_list_is_believed() {
    let world = folded(&[&["0:0:rr..rr"], &["0:2:rr", "0:6:r.r"], &["0:9:r"]]).await;
    assert_eq!(world.ledger().await.totals().undelivered, 1);
    remove_settlement(&world, 1).await;
    let before = world.rows().await;
    world.stage(&["0:2:rr"]);
    world.stage(&["0:7:r"]);
    let table = &world.fold().run().await.unwrap().tables[0];
    assert_eq!((table.rows_added, table.duplicates, table.stale), (0, 0, 3));
    assert_eq!(world.rows().await, before);
    assert_eq!(world.ledger().await.totals().undelivered, 1);
    // What the youngest one tells apart stays told apart.
    for part in ["0:10:r", "0:11:r"] {
        world.wait(30);
        world.stage(&[part]);
        world.fold().run().await.unwrap();
    }
    world.wait(1);
    world.stage(&["0:10:r"]);
    let table = &world.fold().run().await.unwrap().tables[0];
    assert_eq!((table.rows_added, table.duplicates, table.stale), (0, 1, 0));
}

/// I1: an object that could not be read when its offsets were passed, and can be now.
#[tokio::test]
async fn what_comes_back_after_its_settlement_is_gone_has_its_letters() {
    let world = World::new(201);
    world.stage(&["0:0:rr..r"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    let damaged = world.stage(&["0:2:rr"]);
    let whole = world.store.objects()[&damaged].clone();
    world.store.insert(&damaged, whole.slice(..whole.len() / 2));
    world.wait(40);
    world.stage(&["0:5:r"]);
    assert_eq!(world.fold().run().await.unwrap().quarantined.len(), 1);
    remove_settlement(&world, 0).await;
    world.store.insert(&damaged, whole);
    let table = &world.fold().run().await.unwrap().tables[0];
    assert_eq!((table.rows_added, table.stale), (0, 2));
}

/// I1: going back promised that nothing would be missing, and a record that had been passed over, and found, was.
#[tokio::test]
async fn going_back_before_a_record_was_found_is_refused_where_it_could_not_enter_again() {
    let world = folded(&[&["0:0:rr..r"], &["0:5:r"], &["0:2:rr"]]).await;
    let snapshots = line(&world).await;
    let target = Target::Snapshot(snapshots[1]);
    // With all settlements it is as good as any other.
    let plan = world.fold().plan_rollback(target).await.unwrap();
    assert_eq!((plan.pipelines[0].offsets, plan.pipelines[0].missing.len()), (2, 0));
    remove_settlement(&world, 0).await;
    let plan = world.fold().plan_rollback(target).await.unwrap();
    assert_eq!((plan.pipelines[0].offsets, plan.pipelines[0].missing[0].offsets.to_string()), (2, "2-3".to_owned()));
    assert_eq!(world.fold().rollback(target).await.unwrap_err().code(), "fold.would_miss");
    // The same where another hand went back.
    change(&world, vec![branch::move_main(&world.loaded().await.metadata, snapshots[1])]).await;
    let error = world.fold().recover(Choice::Refold).await.unwrap_err();
    assert_eq!(error.code(), "fold.would_miss");
    assert!(error.to_string().contains("offsets 2-3"), "{error}");
    world.fold().recover(Choice::KeepLedger).await.unwrap();
}

#[tokio::test]
async fn going_back_over_a_settlement_that_is_gone_is_refused_where_something_had_been_passed_over() {
    let world = folded(&[&["0:0:rr..r"], &["0:5:r"], &["0:2:rr"]]).await;
    let snapshots = line(&world).await;
    remove_settlement(&world, 2).await;
    let error = world.fold().plan_rollback(Target::Snapshot(snapshots[1])).await.unwrap_err();
    assert_eq!(error.code(), "fold.ledger_then");
    assert!(error.to_string().contains("a settlement is gone"), "{error}");
}

/// I2: another engine overwrote and expired everything of ours, and the ledger was unset: that was taken for a first run.
#[tokio::test]
async fn a_table_without_a_ledger_is_no_first_run_where_expiry_cleared_a_parent() {
    let world = World::new(202);
    world.stage(&["0:0:rr"]);
    world.fold().run().await.unwrap();
    super::anchors::foreign(&world, BTreeMap::new()).await;
    let snapshots = line(&world).await;
    expire(&world, &snapshots[1..]).await;
    let property = model::ledger::property(&world.id);
    let columns = crate::bind::property(&world.id);
    change(&world, vec![TableUpdate::RemoveProperties { removals: vec![property] }]).await;
    let message = stopped(&world, "fold.ledger_missing").await;
    assert!(message.contains(&columns), "{message}");
    // An earlier metadata file holds the ledger.
    world.fold().recover(Choice::KeepLedger).await.unwrap();
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
    assert_eq!(world.ledger().await.totals().rows_added, 2);
}

/// Offsets near the end of their range are counted, not added past it.
#[tokio::test]
async fn the_farthest_offsets_are_counted() {
    let world = World::new(203);
    for partition in 0..4 {
        world.stage(&[&format!("{partition}:0:r")]);
        world.stage(&[&format!("{partition}:{}:r", i64::MAX)]);
    }
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 8);
    world.wait(1);
    world.stage(&["0:0:r"]);
    assert_eq!(world.fold().run().await.unwrap().tables[0].duplicates, 1);
}

/// I2: of the pipeline's snapshots only an old one was left, which a tag had kept, and its ledger was taken for the newest.
#[tokio::test]
async fn a_kept_ledger_is_not_that_of_an_old_snapshot_which_a_tag_had_kept() {
    let world = World::new(78);
    for n in 0..3 {
        world.stage(&[&format!("0:{}:rr", n * 2)]);
        world.fold().run().await.unwrap();
        world.wait(1);
    }
    super::anchors::foreign(&world, BTreeMap::new()).await;
    let [_, newest, middle, _tagged] = line(&world).await[..] else { panic!("four snapshots") };
    expire(&world, &[newest, middle]).await;
    change(&world, vec![TableUpdate::RemoveProperties { removals: vec![model::ledger::property(&world.id)] }]).await;
    stopped(&world, "fold.ledger_missing").await;
    world.fold().recover(Choice::KeepLedger).await.unwrap();
    assert_eq!(world.ledger().await.totals().rows_added, 6);
    world.fold().run().await.unwrap();
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrr"]));
}
