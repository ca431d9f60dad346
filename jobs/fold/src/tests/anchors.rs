//! What a fold goes by when main was moved, or when its own snapshots are gone from it.

use std::collections::BTreeMap;

use iceberg::TableUpdate;
use model::settlement::{Settlement, summary_key};
use table::snapshot::{self, Change, Terms, ancestry, branch};

use super::history::{change, folded_twice, stopped};
use super::*;
use crate::rewind::Choice;

/// Another writer's snapshot on main.
pub(super) async fn foreign(world: &World, summary: BTreeMap<String, String>) {
    let loaded = world.loaded().await;
    let terms = Terms { time: world.clock.now(), summary, properties: BTreeMap::new() };
    let (io, change) = (storage::local(), Change::append(Vec::new()));
    let prepared = snapshot::prepare(&loaded, change, terms, &io, world.ids.as_ref()).await.unwrap();
    let (requirements, updates) = (prepared.requirements().to_vec(), prepared.updates().to_vec());
    world.catalog.commit(&loaded, requirements, updates).await.unwrap();
}

/// Ids of main's snapshots, newest first.
pub(super) async fn line(world: &World) -> Vec<i64> {
    ancestry(&world.loaded().await.metadata).map(|s| s.snapshot_id()).collect()
}

pub(super) async fn expire(world: &World, snapshot_ids: &[i64]) {
    change(world, vec![TableUpdate::RemoveSnapshots { snapshot_ids: snapshot_ids.to_vec() }]).await;
}

async fn set_ledger(world: &World, ledger: &model::ledger::Ledger) {
    let updates = [(model::ledger::property(&world.id), serde_json::to_string(ledger).unwrap())].into();
    change(world, vec![TableUpdate::SetProperties { updates }]).await;
}

/// The ledger as it was after the first of a world's commits.
fn first_ledger(world: &World) -> model::ledger::Ledger {
    let bodies = world.store.objects().into_iter().filter(|(key, _)| key.starts_with("settled/"));
    let mut ledgers = bodies.map(|(_, body)| Settlement::from_json(&body).unwrap().ledger);
    ledgers.find(|ledger| ledger.commits.len() == 1).unwrap()
}

#[tokio::test]
async fn moved_back_is_told_also_when_the_ledger_no_longer_remembers_the_commit() {
    let world = folded_twice().await;
    let line = line(&world).await;
    change(&world, vec![branch::move_main(&world.loaded().await.metadata, line[1])]).await;
    let message = stopped(&world, "fold.rewound").await;
    assert!(message.contains("main ends 1 commits before it") && message.contains("rolled back"), "{message}");
    let mut ledger = world.ledger().await;
    ledger.commits.truncate(1);
    set_ledger(&world, &ledger).await;
    let message = stopped(&world, "fold.rewound").await;
    assert!(message.contains("further back than the ledger remembers"), "{message}");
}

#[tokio::test]
async fn moved_forward_is_told() {
    let world = folded_twice().await;
    set_ledger(&world, &first_ledger(&world)).await;
    let message = stopped(&world, "fold.rewound").await;
    assert!(message.contains("was moved forward"), "{message}");
}

#[tokio::test]
async fn replaced_is_told() {
    let world = folded_twice().await;
    foreign(&world, [(summary_key(&world.id), "another-commit settled/nowhere.json".to_owned())].into()).await;
    let message = stopped(&world, "fold.rewound").await;
    assert!(message.contains("history was replaced"), "{message}");
}

#[tokio::test]
async fn moved_back_to_before_the_first_commit_is_told() {
    let world = World::new(11);
    world.stage(&["0:0:rrr"]);
    world.fold().run().await.unwrap();
    let first = line(&world).await;
    // A second table state in which a foreign snapshot came before ours: ours is not on main any more.
    foreign(&world, BTreeMap::new()).await;
    world.stage(&["0:3:rrr"]);
    world.fold().run().await.unwrap();
    let middle = line(&world).await[1];
    change(&world, vec![branch::move_main(&world.loaded().await.metadata, middle)]).await;
    expire(&world, &first).await;
    let message = stopped(&world, "fold.rewound").await;
    assert!(message.contains("is not on main, and nothing of the pipeline is"), "{message}");
}

#[tokio::test]
async fn an_expired_snapshot_of_ours_is_trusted_by_what_stands_on_it() {
    let world = folded_twice().await;
    foreign(&world, BTreeMap::new()).await;
    let before = line(&world).await;
    expire(&world, &before[1..]).await;
    world.stage(&["0:6:rr"]);
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables[0].rows_added, 2);
    assert_eq!(world.ledger().await.anchor, Some(line(&world).await[0]));
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrrr"]));
}

#[tokio::test]
async fn with_our_snapshot_gone_an_empty_one_marks_our_place_at_once() {
    let world = folded_twice().await;
    foreign(&world, BTreeMap::new()).await;
    let before = line(&world).await;
    expire(&world, &before[1..]).await;
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].committed, report.tables[0].rows_added), (true, 0));
    // Nothing is due any more, and the next expiry may take all that stood below.
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
    foreign(&world, BTreeMap::new()).await;
    expire(&world, &before[..1]).await;
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrr"]));
}

#[tokio::test]
async fn a_history_that_nothing_of_ours_holds_up_any_more_stops_the_fold() {
    let world = folded_twice().await;
    foreign(&world, BTreeMap::new()).await;
    foreign(&world, BTreeMap::new()).await;
    let before = line(&world).await;
    expire(&world, &before[1..]).await;
    world.stage(&["0:6:r"]);
    let message = stopped(&world, "fold.rewound").await;
    assert!(message.contains("is gone, and nothing on main stands on it"), "{message}");
    // A person may know better, and go on with the ledger that the table still holds.
    let error = world.fold().recover(Choice::Refold).await.unwrap_err();
    assert_eq!(error.code(), "fold.ledger_then");
    let (plan, _) = world.fold().recover(Choice::KeepLedger).await.unwrap();
    assert_eq!((plan.commits, plan.rows_gone), (true, None));
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 1);
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrr"]));
}

#[tokio::test]
async fn a_ledger_without_an_anchor_is_not_trusted_once_its_snapshot_is_gone() {
    let world = folded_twice().await;
    foreign(&world, BTreeMap::new()).await;
    let ledger = model::ledger::Ledger { anchor: None, ..world.ledger().await };
    set_ledger(&world, &ledger).await;
    let before = line(&world).await;
    expire(&world, &before[1..]).await;
    stopped(&world, "fold.rewound").await;
}

#[tokio::test]
async fn our_snapshot_is_marked_anew_past_half_the_expiry_age() {
    let world = folded_twice().await;
    world.wait(60 * 60 - 1);
    assert!(!world.fold().run().await.unwrap().tables[0].committed, "not yet");
    world.wait(2);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].committed, report.tables[0].rows_added), (true, 0));
    let ledger = world.ledger().await;
    assert_eq!((ledger.commits.len(), ledger.totals().rows_added), (3, 6));
    // Two hours, says the table now.
    let updates = [("history.expire.max-snapshot-age-ms".to_owned(), (2 * 3_600_000).to_string())].into();
    change(&world, vec![TableUpdate::SetProperties { updates }]).await;
    world.wait(59);
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
    world.wait(2);
    assert!(world.fold().run().await.unwrap().tables[0].committed);
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrr"]));
}

#[tokio::test]
async fn mains_own_retention_counts_where_it_is_shorter() {
    let world = folded_twice().await;
    let update = match branch::move_main(&world.loaded().await.metadata, line(&world).await[0]) {
        TableUpdate::SetSnapshotRef { ref_name, mut reference } => {
            reference.retention = iceberg::spec::SnapshotRetention::Branch {
                min_snapshots_to_keep: None,
                max_snapshot_age_ms: Some(4 * 3_600_000),
                max_ref_age_ms: None,
            };
            TableUpdate::SetSnapshotRef { ref_name, reference }
        }
        other => other,
    };
    change(&world, vec![update]).await;
    world.wait(119);
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
    world.wait(2);
    assert!(world.fold().run().await.unwrap().tables[0].committed);
}

#[tokio::test]
async fn our_snapshot_is_marked_anew_once_foreign_ones_have_stood_on_it_for_an_hour() {
    let world = folded_twice().await;
    world.wait(120);
    foreign(&world, BTreeMap::new()).await;
    world.wait(58);
    foreign(&world, BTreeMap::new()).await;
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
    world.wait(2);
    let dry = Fold { settings: Settings { dry_run: true, ..Settings::default() }, ..world.fold() };
    assert!(!dry.run().await.unwrap().tables[0].committed);
    assert!(world.fold().run().await.unwrap().tables[0].committed);
    // Ours is the newest now; an hour later it still is.
    world.wait(61);
    assert!(!world.fold().run().await.unwrap().tables[0].committed);
}

#[tokio::test]
async fn an_empty_snapshot_carries_the_other_pipelines_commits_on() {
    let world = folded_twice().await;
    let theirs = "frazil.commit.others-0123abcd".to_owned();
    foreign(&world, [(theirs.clone(), "c s".to_owned())].into()).await;
    world.wait(61);
    assert!(world.fold().run().await.unwrap().tables[0].committed);
    let loaded = world.loaded().await;
    let summary = &loaded.metadata.current_snapshot().unwrap().summary().additional_properties;
    assert_eq!(summary[&theirs], "c s");
    assert!(summary.contains_key(&summary_key(&world.id)));
}
