//! Topics that were deleted and made again.

use super::history::{folded_twice, stopped};
use super::rewinds::Overtaken;
use super::*;

/// Stages an object whose records have other timestamps than the ones at these offsets before.
pub(super) fn stage_anew(world: &World, parts: &[&str], shift_ms: i64) -> String {
    let minute = world.clock.now().minute();
    let (mut footer, rows) = shifted(&world.id, minute, parts, shift_ms);
    footer.minute = minute;
    let hash = ObjectHash::new(u128::from(world.ids.next_u64()));
    let key = StagedKey { pipeline: world.id.clone(), minute, hash }.to_string();
    world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    key
}

/// A hundred records, the last log-spaced samples of which are inside what comes again.
async fn folded_in_tens() -> World {
    let world = World::new(23);
    for n in 0..10 {
        world.stage(&[&format!("0:{}:rrrrrrrrrr", n * 10)]);
        world.wait(1);
        world.fold().run().await.unwrap();
    }
    world
}

#[tokio::test]
async fn a_row_inside_an_object_is_evidence() {
    let world = folded_in_tens().await;
    let samples: Vec<i64> = world.ledger().await.partition(&at(0)).unwrap().samples.iter().map(|s| s.offset).collect();
    assert_eq!((samples.len(), samples[0], samples[5]), (6, 0, 99));
    let inside = samples[2];
    // The same records, cut elsewhere: they agree.
    world.stage(&[&format!("0:{}:rrrrr", inside - 2)]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].duplicates), (0, 5));
    // Other records at the same offsets, none of them at an end of what the ledger keeps.
    stage_anew(&world, &[&format!("0:{}:rrrrr", inside - 2)], 7);
    let message = stopped(&world, "fold.topic_recreated").await;
    assert!(message.contains(&format!("offset {inside} of topic `orders-eu`")), "{message}");
}

#[tokio::test]
async fn an_object_whose_rows_can_not_be_read_as_evidence_is_quarantined() {
    let world = folded_in_tens().await;
    let inside = world.ledger().await.partition(&at(0)).unwrap().samples[2].offset;
    let key = world.stage(&[&format!("0:{}:rrrrr", inside - 2)]);
    let mut bytes = world.store.objects()[&key].to_vec();
    bytes[20] ^= 1;
    world.store.insert(&key, bytes.into());
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.quarantined.keys().collect::<Vec<_>>(), [&key]);
}

/// Case: the table remembers offset 5, the topic is made again, its records 0 to 4 arrive.
#[tokio::test]
async fn the_offsets_of_a_topic_made_again_are_never_dropped_in_silence() {
    let world = folded_twice().await;
    world.wait(1);
    stage_anew(&world, &["0:0:rrrrr"], 7);
    stopped(&world, "fold.topic_recreated").await;
}

/// I1: a budget left the object that contradicts, the others of the new topic were behind the ledger that was written then,
/// and once the retention was over maintenance took them for settled.
#[tokio::test]
async fn what_a_budget_leaves_is_evidence_too() {
    let world = World::new(29);
    world.stage(&["0:0:rrrrrr", "1:0:rr"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage_anew(&world, &["1:2:rrrrrrrr"], 0);
    world.wait(1);
    stage_anew(&world, &["1:10:rrrrrrrr", "0:0:r"], 7);
    let settings = Settings { budget: Budget { rows: Some(4), ..Budget::default() }, ..Settings::default() };
    let error = Fold { settings: settings.clone(), ..world.fold() }.run().await.unwrap_err();
    assert_eq!(error.code(), "fold.topic_recreated");
    // Before there is a table, too.
    let world = World::new(30);
    world.stage(&["0:0:rrrrrr", "1:0:rr"]);
    world.wait(1);
    stage_anew(&world, &["1:2:rrrrrrrr"], 0);
    world.wait(1);
    stage_anew(&world, &["0:0:r"], 7);
    let error = Fold { settings, ..world.fold() }.run().await.unwrap_err();
    assert_eq!(error.code(), "fold.topic_recreated");
}

async fn reset(world: &World, partition: Option<i32>, since: Option<Minute>) -> Result<ResetPlan, Error> {
    let reset = Reset { topic: "orders-eu".to_owned(), partition, since };
    let planned = world.fold().plan_reset(&reset).await?;
    let (plan, table) = world.fold().reset(&reset).await?;
    assert_eq!(plan, planned);
    assert!(table.committed && table.rows_added == 0);
    Ok(plan)
}

/// The same case, gone on with: every record of the new topic enters once, and the old ones stay.
#[tokio::test]
async fn after_a_reset_the_new_topics_records_enter_once() {
    let world = folded_twice().await;
    world.wait(1);
    let first = stage_anew(&world, &["0:0:rrrrr"], 7);
    let cut = world.clock.now().minute();
    world.wait(1);
    stage_anew(&world, &["0:5:rrr"], 7);
    stopped(&world, "fold.topic_recreated").await;
    let plan = reset(&world, None, None).await.unwrap();
    assert_eq!((plan.since, plan.objects, plan.rows_kept), (cut, 2, 6));
    assert_eq!(plan.contradicting[0], first);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].duplicates), (8, 0));
    // They come again, and count as come again; so do later ones of the old topic's offsets.
    stage_anew(&world, &["0:3:rrrr"], 7);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].duplicates), (0, 4));
    let mut all = [wanted(&["0:0:rrrrrr"]), wanted(&["0:0:rrrrrrrr"])].concat();
    all.sort_unstable();
    assert_eq!(world.rows().await, all);
    let ledger = world.ledger().await;
    let counted = TopicPartition { source: plan.counts_as.clone(), ..at(0) };
    assert_eq!(ledger.partition(&counted).unwrap().counts.rows_added, 8);
    assert_eq!(ledger.partition(&at(0)).unwrap().counts.rows_added, 6);
    assert_eq!(ledger.totals().rows_added, 14);
    // A record that is no longer the new topic's either.
    stage_anew(&world, &["0:0:rr"], 8);
    stopped(&world, "fold.topic_recreated").await;
    world.wait(1);
    assert_eq!(reset(&world, None, None).await.unwrap_err().code(), "fold.reset_minute", "old and new share a minute");
}

/// A reset that was frozen between its plan and its commit, while another one and a fold went by, would have made the new
/// topic's newest records count anew once more: nothing contradicts the ledger any more, and then the next minute was taken.
#[tokio::test]
async fn a_reset_that_another_one_overtook_does_not_become_a_second() {
    let world = folded_twice().await;
    world.wait(1);
    stage_anew(&world, &["0:0:rrrrr"], 7);
    let reset = Reset { topic: "orders-eu".to_owned(), partition: None, since: None };
    let catalog = Overtaken::new(&world, Some(reset.clone()));
    let overtaken = world.fold_with(world.store.clone(), Arc::new(catalog), storage::local());
    let error = overtaken.reset(&reset).await.unwrap_err();
    assert_eq!(error.code(), "fold.reset_again", "{error}");
    assert_eq!(world.ledger().await.epochs.len(), 1);
}

#[tokio::test]
async fn one_partition_may_begin_anew_and_another_go_on_in_the_same_object() {
    let world = World::new(29);
    world.stage(&["0:0:rrr", "1:0:rrr"]);
    world.fold().run().await.unwrap();
    world.wait(1);
    let minute = world.clock.now().minute();
    let (mut footer, rows) = shifted(&world.id, minute, &["0:0:rr", "1:3:rr"], 7);
    footer.minute = minute;
    let key = format!("staging/{}/{minute}/{:032x}.parquet", world.id, 9);
    world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    let plan = reset(&world, Some(0), None).await.unwrap();
    assert_eq!((plan.partition, plan.objects, plan.rows_kept), (Some(0), 1, 3));
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 4);
    let mut all = [wanted(&["0:0:rrr", "1:0:rrrrr"]), wanted(&["0:0:rr"])].concat();
    all.sort_unstable();
    assert_eq!(world.rows().await, all);
}

#[tokio::test]
async fn a_reset_ahead_of_time_says_from_when_on() {
    let world = folded_twice().await;
    world.stage(&["0:6:r"]);
    let far = Some(world.clock.now().minute().plus(25 * 60));
    assert_eq!(reset(&world, None, far).await.unwrap_err().code(), "fold.reset_minute");
    let soon = Some(world.clock.now().minute().plus(1));
    let unneeded =
        world.fold().plan_resets(&Reset { topic: "orders-eu".to_owned(), partition: None, since: None }).await;
    assert_eq!(unneeded.unwrap_err().code(), "fold.reset_unneeded", "nothing asks for it");
    let plan = reset(&world, None, soon).await.unwrap();
    assert_eq!(Some(plan.since), soon);
    assert_eq!(reset(&world, None, soon).await.unwrap_err().code(), "fold.reset_again", "one is waiting");
    let unknown = reset(&world, Some(7), None).await.unwrap_err();
    assert_eq!(unknown.code(), "fold.reset_unknown");
    assert!(unknown.to_string().ends_with("what was: topic `orders-eu`, partitions 0"), "{unknown}");
    let past = Some(world.clock.now().minute().plus(-60));
    assert_eq!(reset(&world, None, past).await.unwrap_err().code(), "fold.reset_minute");
    world.wait(1);
    stage_anew(&world, &["0:0:rr"], 7);
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 3);
}

/// What another pipeline has folded stays its own, whatever name the coordinates go by.
#[tokio::test]
async fn a_topic_that_began_anew_is_still_the_topic_of_its_pipeline() {
    let world = folded_twice().await;
    reset(&world, None, Some(world.clock.now().minute().plus(1))).await.unwrap();
    world.wait(1);
    stage_anew(&world, &["0:0:rr"], 7);
    world.fold().run().await.unwrap();
    let other = Fold { id: PipelineId::new("others", world.ids.as_ref()), ..world.fold() };
    let (footer, rows) = invocation(&other.id, world.clock.now().minute(), &["5:0:rrr"]);
    let key = format!("staging/{}/{}/{:032x}.parquet", other.id, world.clock.now().minute(), 5);
    world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    assert_eq!(other.run().await.unwrap_err().code(), "fold.shared_topic");
}
