//! What the simulation (`tests/sim`) found, as small as it gets.

use staging::store;
use testkit::catalog::faulty::{Fault, FaultyCatalog};

use super::anchors::{expire, foreign, line};
use super::epochs::stage_anew;
use super::history::stopped;
use super::*;
use crate::rewind::Choice;

/// Another engine's expiry: only main's newest snapshot stays.
async fn expire_all_but_the_newest(world: &World) {
    let line = line(world).await;
    expire(world, &line[1..]).await;
}

/// I1: the list of offsets that were passed over stood in a settlement that no retained snapshot named any more, and a row
/// for one of them was taken for a duplicate.
#[tokio::test]
async fn a_row_that_was_passed_over_enters_although_the_snapshot_that_counted_it_is_expired() {
    let world = World::new(101);
    world.stage(&["0:0:rr"]);
    world.stage(&["0:3:rr"]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].undelivered), (4, 1));
    // More commits than a ledger names.
    for n in 0..40 {
        world.wait(1);
        world.stage(&[&format!("0:{}:r", 5 + n)]);
        world.fold().run().await.unwrap();
    }
    expire_all_but_the_newest(&world).await;
    world.wait(1);
    world.stage(&["0:2:r"]);
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables[0].rows_added, 1);
    assert_eq!(world.rows().await, (0..45).map(|offset| (0, offset)).collect::<Vec<_>>());
    assert_eq!(world.ledger().await.totals().undelivered, 0);
    world.wait(1);
    world.stage(&["0:2:r"]);
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 0, "once");
}

/// I1: of two objects that nothing of was folded yet, one of the topic before it was made again and one of it after, the
/// later one's rows were taken for duplicates.
#[tokio::test]
async fn objects_of_a_topic_before_and_after_it_was_made_again_are_told_apart_before_either_is_folded() {
    for (old, new) in
        [("0:0:rrrr", "0:0:rrrr"), ("0:0:rrrrrr", "0:1:rrr"), ("0:2:rr", "0:0:rrrrr"), ("0:0:rrdr", "0:2:rr")]
    {
        let world = World::new(102);
        world.stage(&["1:0:r"]);
        world.fold().run().await.unwrap();
        world.wait(1);
        world.stage(&[old]);
        world.wait(2);
        stage_anew(&world, &[new], 7);
        let since = world.clock.now().minute();
        let message = stopped(&world, "fold.topic_recreated").await;
        assert!(message.contains("than another staged object has"), "{message}");
        let reset = Reset { topic: "orders-eu".to_owned(), partition: Some(0), since: None };
        let (plan, _) = world.fold().reset(&reset).await.unwrap();
        assert_eq!((plan.since, plan.contradicting.len()), (since, 1), "{old} {new}");
        world.fold().run().await.unwrap();
        let mut all = [wanted(&["1:0:r"]), wanted(&[old]), wanted(&[new])].concat();
        all.sort_unstable();
        assert_eq!(world.rows().await, all, "{old} {new}");
    }
}

/// Stuck: the same before the pipeline's first fold. The reset had no columns to commit with, and tried for ever.
#[tokio::test]
async fn a_topic_made_again_before_the_first_fold_is_reset_too() {
    let world = World::new(106);
    world.stage(&["0:0:rrrr"]);
    world.wait(2);
    stage_anew(&world, &["0:0:rrr"], 7);
    stopped(&world, "fold.topic_recreated").await;
    let reset = Reset { topic: "orders-eu".to_owned(), partition: None, since: None };
    let (plan, table) = world.fold().reset(&reset).await.unwrap();
    assert_eq!((plan.contradicting.len(), plan.rows_kept, table.committed), (1, 0, true));
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables[0].rows_added, 7);
    let mut all = [wanted(&["0:0:rrrr"]), wanted(&["0:0:rrr"])].concat();
    all.sort_unstable();
    assert_eq!(world.rows().await, all);
}

/// The same records cut elsewhere agree with each other.
#[tokio::test]
async fn objects_that_came_again_do_not_contradict_each_other() {
    let world = World::new(103);
    for parts in ["0:0:rrdrr", "0:1:rrr", "0:0:rr", "0:3:rr"] {
        world.stage(&[parts]);
    }
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].dead_letters), (5, 0));
}

/// A pipeline whose first attempt left a settlement behind could neither go on nor be recovered, once other engines'
/// snapshots and an expiry had taken away what shows that the attempt was never made.
#[tokio::test]
async fn a_first_attempt_that_nobody_can_judge_any_more_is_forgotten_by_a_persons_word() {
    let world = World::new(104);
    world.stage(&["0:0:rrr"]);
    let refusing = FaultyCatalog::new(world.catalog.clone(), storage::local(), world.ids.clone());
    let refusing = Arc::new(refusing.at_commit(0, Fault::Refused));
    world.fold_with(world.store.clone(), refusing, storage::local()).run().await.unwrap_err();
    foreign(&world, BTreeMap::new()).await;
    foreign(&world, BTreeMap::new()).await;
    expire_all_but_the_newest(&world).await;
    stopped(&world, "fold.ledger_missing").await;
    let error = world.fold().recover(Choice::KeepLedger).await.unwrap_err();
    assert_eq!(error.code(), "fold.recover_nothing");
    // Its commit may still be on the way.
    world.wait(50);
    let error = world.fold().plan_recover(Choice::Refold).await.unwrap_err();
    assert_eq!(error.code(), "fold.recover_young");
    world.wait(11);
    let planned = world.fold().plan_recover(Choice::Refold).await.unwrap();
    let (plan, table) = world.fold().recover(Choice::Refold).await.unwrap();
    assert_eq!((&planned, plan.forgotten.len(), plan.commits, table), (&plan, 1, false, None));
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables[0].rows_added, 3);
    assert_eq!(world.rows().await, wanted(&["0:0:rrr"]));
}

#[tokio::test]
async fn a_commit_that_does_not_go_with_a_change_made_meanwhile_is_planned_again() {
    let world = World::new(105);
    world.stage(&["0:0:rrr"]);
    let catalog = FaultyCatalog::new(world.catalog.clone(), storage::local(), world.ids.clone());
    let catalog = Arc::new(catalog.at_commit(0, Fault::Unsuited));
    let report = world.fold_with(world.store.clone(), catalog, storage::local()).run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.conflicts_retried), (3, 1));
    assert_eq!(world.rows().await, wanted(&["0:0:rrr"]));
}

/// A store in which an object appears after the first listing that ended.
#[derive(Debug)]
struct Between {
    inner: Arc<MemoryStore>,
    object: std::sync::Mutex<Option<(String, bytes::Bytes)>>,
}

#[async_trait::async_trait]
impl Store for Between {
    async fn put_new(&self, key: &str, body: bytes::Bytes) -> Result<store::Put, store::Error> {
        self.inner.put_new(key, body).await
    }
    async fn put(&self, key: &str, body: bytes::Bytes) -> Result<Timestamp, store::Error> {
        self.inner.put(key, body).await
    }
    async fn get(&self, key: &str) -> Result<bytes::Bytes, store::Error> {
        self.inner.get(key).await
    }
    async fn get_range(&self, key: &str, range: std::ops::Range<u64>) -> Result<bytes::Bytes, store::Error> {
        self.inner.get_range(key, range).await
    }
    async fn head(&self, key: &str) -> Result<Option<store::ObjectMeta>, store::Error> {
        self.inner.head(key).await
    }
    async fn list(
        &self,
        prefix: &str,
        start_after: Option<&str>,
        continuation: Option<&str>,
    ) -> Result<store::Page, store::Error> {
        let page = self.inner.list(prefix, start_after, continuation).await?;
        let ended = prefix.starts_with("staging/") && page.next.is_none();
        if let Some((key, body)) = if ended { self.object.lock().unwrap().take() } else { None } {
            self.inner.insert(&key, body);
        }
        Ok(page)
    }
    async fn delete(&self, key: &str) -> Result<(), store::Error> {
        self.inner.delete(key).await
    }
}

/// I1: an object that only the second listing saw may be used in part. Its other part was taken for settled, because the ledger
/// had been there: but what lay there was a dead letter, or had been passed over. Nobody read the rows any more.
#[tokio::test]
async fn an_object_used_in_part_is_not_settled_whole_where_its_rest_would_be_admitted() {
    let world = World::new(107);
    world.stage(&["0:0:rrr", "1:0:rdr.r"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    world.stage(&["0:3:rr"]);
    let late = world.stage(&["0:3:r", "1:1:r.r"]);
    let body = world.store.objects()[&late].clone();
    world.store.delete(&late).await.unwrap();
    let between = Arc::new(Between { inner: world.store.clone(), object: std::sync::Mutex::new(Some((late, body))) });
    let report = world.fold_with(between, world.catalog.clone(), storage::local()).run().await.unwrap();
    assert_eq!((report.staged_objects, report.tables[0].rows_added), (2, 2));
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables[0].rows_added, 2);
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrr", "1:0:rrrrr"]));
    let totals = world.ledger().await.totals();
    assert_eq!((totals.dead, totals.undelivered), (0, 0));
    world.wait(30);
    assert_eq!(world.fold().run().await.unwrap().staged_objects, 0, "now it is settled whole");
}
