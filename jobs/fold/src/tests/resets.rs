//! A topic that was deleted and made again, of a pipeline of many tables.

use model::failure::Kind;
use testkit::catalog::faulty::FaultyCatalog;

use super::many::{ledger_of, stage, staged, table, world};
use super::*;
use crate::{Reset, ResetPlan};

/// Stages records of the new topic: they have other timestamps.
fn stage_anew(world: &World, parts: &[&str]) -> String {
    let (key, body) = staged(world, parts, 7);
    world.store.insert(&key, body);
    key
}

fn reset() -> Reset {
    Reset { topic: "orders-eu".to_owned(), partition: None, since: None }
}

async fn plans(world: &World) -> Vec<(Fold, ResetPlan)> {
    world.fold().plan_resets(&reset()).await.unwrap()
}

fn names(plans: &[(Fold, ResetPlan)]) -> Vec<&str> {
    plans.iter().map(|(fold, _)| fold.pipeline.table.name.name.as_str()).collect()
}

/// The codes of a fold's failures, by table.
async fn failures(world: &World) -> Vec<(String, String)> {
    let report = world.fold().run().await.unwrap();
    report.failures().map(|(name, failure)| (name.to_owned(), failure.code.clone())).collect()
}

fn made_again(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| (format!("db.{name}"), "fold.topic_recreated".to_owned())).collect()
}

async fn rows(world: &World) -> Vec<usize> {
    let mut rows = Vec::new();
    for name in ["a", "b", "c"] {
        let there = world.catalog.load(&table(name)).await.unwrap().is_some();
        rows.push(if there { world.rows_of(&table(name)).await.len() } else { 0 });
    }
    rows
}

#[tokio::test]
async fn a_reset_that_failed_for_a_table_is_made_up_for_from_the_same_minute_on() {
    for later in [false, true] {
        let world = world(20);
        stage(&world, &["0:0:abab"]);
        world.fold().run().await.unwrap();
        world.wait(3);
        stage_anew(&world, &["0:0:abba"]);
        assert_eq!(failures(&world).await, made_again(&["a", "b"]));
        let both = plans(&world).await;
        assert_eq!(names(&both), ["a", "b"]);
        // It reached the first alone; a fold may come before it is tried again.
        Fold::reset_planned(&both[..1]).await.unwrap();
        if later {
            world.wait(2);
            assert_eq!(failures(&world).await, made_again(&["b"]));
        }
        let rest = plans(&world).await;
        assert_eq!(names(&rest), ["b"], "{later}");
        assert_eq!(rest[0].1.since, both[0].1.since);
        Fold::reset_planned(&rest).await.unwrap();
        assert_eq!(failures(&world).await, []);
        assert_eq!(rows(&world).await, [4, 4, 0], "{later}");
        // I3: once more, by somebody who had seen the failure before it was mended, it would count the topic as a third one.
        let again = world.fold().plan_resets(&reset()).await.unwrap_err();
        assert_eq!(again.code(), "fold.reset_unneeded", "{later}");
    }
}

#[tokio::test]
async fn a_table_that_comes_after_a_reset_counts_anew_from_the_same_minute_on() {
    let world = world(21);
    stage(&world, &["0:0:abab"]);
    world.fold().run().await.unwrap();
    world.wait(3);
    stage_anew(&world, &["0:0:ab"]);
    world.fold().run().await.unwrap();
    Fold::reset_planned(&plans(&world).await).await.unwrap();
    world.fold().run().await.unwrap();
    world.wait(3);
    // Old objects are staged still, which its listing begins with.
    stage_anew(&world, &["0:2:cca"]);
    assert_eq!(failures(&world).await, []);
    assert_eq!(rows(&world).await, [4, 3, 2]);
    assert_eq!(ledger_of(&world, "c").await.epochs, ledger_of(&world, "a").await.epochs);
}

#[tokio::test]
async fn no_table_begins_while_a_topic_that_was_made_again_is_not_reset() {
    let world = world(22);
    // The old topic's beginning is settled and gone; what is left of it, and of the new one, do not contradict each other.
    let gone = stage(&world, &["0:0:abab"]);
    stage(&world, &["0:4:abab"]);
    world.fold().run().await.unwrap();
    world.store.delete(&gone).await.unwrap();
    world.wait(3);
    stage_anew(&world, &["0:0:cc"]);
    assert_eq!(failures(&world).await, made_again(&["c"]));
    let plans = plans(&world).await;
    assert_eq!(names(&plans), ["a", "b"]);
    Fold::reset_planned(&plans).await.unwrap();
    stage_anew(&world, &["0:2:abcabc"]);
    assert_eq!(failures(&world).await, []);
    assert_eq!(rows(&world).await, [6, 6, 4]);
}

#[tokio::test]
async fn a_table_that_comes_while_the_others_can_not_be_read_waits_for_their_epochs() {
    for kind in [Kind::Retry, Kind::Misconfigured] {
        let world = world(23);
        stage(&world, &["0:0:abab"]);
        world.fold().run().await.unwrap();
        world.wait(3);
        stage_anew(&world, &["0:0:ab"]);
        world.fold().run().await.unwrap();
        Fold::reset_planned(&plans(&world).await).await.unwrap();
        world.fold().run().await.unwrap();
        world.wait(3);
        stage_anew(&world, &["0:2:cca"]);
        let catalog = FaultyCatalog::new(world.catalog.clone(), storage::local(), world.ids.clone());
        let catalog = catalog.refusing([table("a"), table("b")], kind);
        let fold = Fold { catalog: Arc::new(catalog), ..world.fold() };
        let report = fold.run().await.unwrap();
        let failed: Vec<_> = report.failures().map(|(name, failure)| (name, failure.code.as_str())).collect();
        assert_eq!(failed, [("db.a", "fold.catalog"), ("db.b", "fold.catalog"), ("db.c", "fold.table_waits")]);
        assert_eq!(rows(&world).await, [3, 3, 0]);
        assert_eq!(failures(&world).await, []);
        assert_eq!(rows(&world).await, [4, 3, 2]);
        assert_eq!(ledger_of(&world, "c").await.epochs, ledger_of(&world, "a").await.epochs);
    }
}
