//! Going back on purpose, and going on from where another hand went back.

use iceberg::TableUpdate;
use table::snapshot::{ancestry, branch};

use super::history::{change, folded_twice, stopped};
use super::*;
use crate::pause;
use crate::rewind::{Choice, Target};

async fn line(world: &World) -> Vec<i64> {
    ancestry(&world.loaded().await.metadata).map(|s| s.snapshot_id()).collect()
}

async fn staged(world: &World) -> Vec<String> {
    world.store.objects().into_keys().filter(|key| key.starts_with("staging/")).collect()
}

/// Main moved back by one, by an engine that knows nothing of ledgers.
async fn rolled_back_elsewhere(world: &World) {
    let before = line(world).await[1];
    change(world, vec![branch::move_main(&world.loaded().await.metadata, before)]).await;
    stopped(world, "fold.rewound").await;
}

#[tokio::test]
async fn a_rollback_takes_the_ledger_along_and_what_is_staged_is_folded_again() {
    let world = folded_twice().await;
    world.wait(1);
    world.stage(&["0:6:rdr", "1:0:r.r"]);
    world.fold().run().await.unwrap();
    let (all, before) = (world.rows().await, line(&world).await);
    let target = Target::Snapshot(before[1]);
    let plan = world.fold().plan_rollback(target).await.unwrap();
    assert_eq!((plan.from, plan.to, plan.snapshots), (before[0], before[1], 1));
    assert_eq!((plan.pipelines[0].offsets, plan.pipelines[0].missing.len()), (5, 0));
    assert_eq!(line(&world).await, before, "a plan changes nothing");
    assert_eq!(world.fold().rollback(target).await.unwrap(), plan);
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrr"]));
    assert_eq!((line(&world).await[0], world.ledger().await.totals().rows_added), (before[1], 6));
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.paused");

    let (plan, table) = world.fold().recover(Choice::Refold).await.unwrap();
    assert!(plan.unpauses && table.is_none(), "{plan:?}");
    assert_eq!((plan.rewound.offsets, plan.rows_gone), (5, Some(4)));
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 4);
    assert_eq!(world.rows().await, all);
    let totals = world.ledger().await.totals();
    assert_eq!((totals.dead, totals.undelivered, totals.rows_added), (1, 1, 10));
}

#[tokio::test]
async fn a_rollback_to_a_time_goes_to_what_was_main_then() {
    let world = folded_twice().await;
    let before = line(&world).await;
    let between = Target::Time(START.plus_micros(59_000_000));
    assert_eq!(world.fold().plan_rollback(between).await.unwrap().to, before[1]);
    let error = async |target| world.fold().plan_rollback(target).await.unwrap_err().code();
    assert_eq!(error(Target::Time(START.plus_micros(-1_000_000))).await, "fold.not_on_main");
    assert_eq!(error(Target::Snapshot(42)).await, "fold.not_on_main");
    assert_eq!(error(Target::Snapshot(before[0])).await, "fold.rollback_nothing");
}

#[tokio::test]
async fn a_rollback_is_refused_where_what_it_would_fold_again_is_gone() {
    let world = folded_twice().await;
    let second = staged(&world).await.pop().unwrap();
    let body = world.store.objects()[&second].clone();
    world.store.delete(&second).await.unwrap();
    let before = line(&world).await;
    let target = Target::Snapshot(before[1]);
    let error = world.fold().rollback(target).await.unwrap_err();
    assert_eq!(error.code(), "fold.would_miss");
    assert!(error.to_string().contains("topic `orders-eu`, partition 0: offsets 3-5"), "{error}");
    assert_eq!((line(&world).await, pause::read(world.store.as_ref(), "orders").await.unwrap()), (before, None));
    world.store.insert(&second, body);
    world.fold().rollback(target).await.unwrap();
}

/// Two pipelines that have folded in turn, with the snapshots after the first's second and the other's first commit.
async fn folded_in_turn() -> (World, Fold, [i64; 2]) {
    let world = folded_twice().await;
    let pipeline = Arc::new(Pipeline { name: "others".to_owned(), ..pipeline() });
    let other = Fold { id: PipelineId::new("others", world.ids.as_ref()), pipeline, ..world.fold() };
    let (minute, first) = (world.clock.now().minute(), line(&world).await[0]);
    let stage = |n: u32, parts: &[&str]| {
        let (mut footer, rows) = invocation(&other.id, minute, parts);
        let elsewhere = |at: &TopicPartition| TopicPartition { source: SourceId::of("cluster-2"), ..at.clone() };
        footer.coverage = footer.coverage.renamed(elsewhere).unwrap();
        let key = format!("staging/{}/{minute}/{n:032x}.parquet", other.id);
        world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    };
    stage(1, &["5:0:rr"]);
    other.run().await.unwrap();
    let both = line(&world).await[0];
    world.stage(&["0:6:r"]);
    world.fold().run().await.unwrap();
    stage(2, &["5:2:rr"]);
    other.run().await.unwrap();
    (world, other, [first, both])
}

#[tokio::test]
async fn every_pipeline_of_the_table_goes_back_and_is_paused() {
    let (world, other, [first, both]) = folded_in_turn().await;
    // Before the other pipeline began nothing tells what it had settled.
    assert_eq!(world.fold().plan_rollback(Target::Snapshot(first)).await.unwrap_err().code(), "fold.ledger_then");
    let plan = world.fold().rollback(Target::Snapshot(both)).await.unwrap();
    assert_eq!(plan.pipelines.iter().map(|p| p.offsets).collect::<Vec<_>>(), [1, 2]);
    for fold in [&other, &world.fold()] {
        assert_eq!(fold.run().await.unwrap_err().code(), "fold.paused");
        assert!(fold.recover(Choice::Refold).await.unwrap().0.unpauses);
        fold.run().await.unwrap();
    }
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrr", "5:0:rrrr"]));
}

/// A fold carries the other pipelines' keys on, which are those of their commits before the rollback's.
#[tokio::test]
async fn what_a_pipeline_had_settled_is_known_although_others_have_folded_since_the_rollback() {
    let (world, other, [_, both]) = folded_in_turn().await;
    world.fold().rollback(Target::Snapshot(both)).await.unwrap();
    world.fold().recover(Choice::Refold).await.unwrap();
    world.fold().run().await.unwrap();
    let (plan, _) = other.recover(Choice::KeepLedger).await.unwrap();
    assert_eq!((plan.commits, plan.rows_gone), (true, Some(2)));
    other.run().await.unwrap();
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrr", "5:0:rr"]));
}

#[tokio::test]
async fn with_the_ledger_kept_what_was_rolled_back_stays_away() {
    let world = folded_twice().await;
    let target = Target::Snapshot(line(&world).await[1]);
    world.fold().rollback(target).await.unwrap();
    let (plan, table) = world.fold().recover(Choice::KeepLedger).await.unwrap();
    assert!(table.unwrap().committed && plan.commits && plan.unpauses);
    assert_eq!((plan.rows_gone, plan.rewound.offsets), (Some(3), 0));
    world.stage(&["0:6:r"]);
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 1);
    assert_eq!(world.rows().await, wanted(&["0:0:rrr...r"]));
}

#[tokio::test]
async fn after_another_hands_rollback_a_person_chooses() {
    for (choice, rows) in [(Choice::Refold, "0:0:rrrrrrr"), (Choice::KeepLedger, "0:0:rrr...r")] {
        let world = folded_twice().await;
        rolled_back_elsewhere(&world).await;
        let (plan, table) = world.fold().recover(choice).await.unwrap();
        assert!(plan.commits && !plan.unpauses && table.unwrap().committed, "{plan:?}");
        world.stage(&["0:6:r"]);
        world.fold().run().await.unwrap();
        assert_eq!(world.rows().await, wanted(&[rows]), "{choice:?}");
    }
}

#[tokio::test]
async fn folding_again_is_refused_where_what_is_staged_is_gone_and_keeping_is_not() {
    let world = folded_twice().await;
    rolled_back_elsewhere(&world).await;
    let second = staged(&world).await.pop().unwrap();
    world.store.delete(&second).await.unwrap();
    let plan = world.fold().plan_recover(Choice::Refold).await.unwrap();
    assert_eq!(plan.rewound.missing[0].offsets, [Interval::new(3, 5).unwrap()].into_iter().collect());
    assert_eq!(world.fold().recover(Choice::Refold).await.unwrap_err().code(), "fold.would_miss");
    stopped(&world, "fold.rewound").await;
    world.fold().recover(Choice::KeepLedger).await.unwrap();
    world.fold().run().await.unwrap();
}

#[tokio::test]
async fn a_ledger_that_was_unset_comes_back_from_its_settlement() {
    let world = folded_twice().await;
    let removals = vec![model::ledger::property(&world.id)];
    change(&world, vec![TableUpdate::RemoveProperties { removals }]).await;
    stopped(&world, "fold.ledger_missing").await;
    let (plan, _) = world.fold().recover(Choice::Refold).await.unwrap();
    assert_eq!((plan.rewound.offsets, plan.commits), (0, true));
    world.stage(&["0:3:rrrr"]);
    world.fold().run().await.unwrap();
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrr"]));
}

#[tokio::test]
async fn a_pause_that_a_person_set_is_left_alone() {
    let world = folded_twice().await;
    rolled_back_elsewhere(&world).await;
    let vacation = pause::with(None, Some(model::run::Stage::Fold), Some("vacation".to_owned()), START);
    pause::write(world.store.as_ref(), "orders", Some(&vacation)).await.unwrap();
    assert!(!world.fold().recover(Choice::Refold).await.unwrap().0.unpauses);
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.paused");
}

#[tokio::test]
async fn a_topic_that_began_anew_goes_on_doing_so_after_a_rollback() {
    let world = folded_twice().await;
    let target = Target::Snapshot(line(&world).await[0]);
    let since = Some(world.clock.now().minute().plus(1));
    let reset = Reset { topic: "orders-eu".to_owned(), partition: None, since };
    world.fold().reset(&reset).await.unwrap();
    let epochs = world.ledger().await.epochs;
    world.fold().rollback(target).await.unwrap();
    assert_eq!((world.ledger().await.epochs, epochs.len()), (epochs.clone(), 1));
}

/// A catalog on which another hand goes first, once, right before a commit.
#[derive(Debug)]
pub(super) struct Overtaken {
    inner: Arc<dyn Catalog>,
    other: Fold,
    /// What it does: this reset and a fold, or a rollback to the snapshot before.
    reset: Option<Reset>,
    done: std::sync::atomic::AtomicBool,
}

impl Overtaken {
    pub(super) fn new(world: &World, reset: Option<Reset>) -> Self {
        Self {
            inner: world.catalog.clone(),
            other: world.fold(),
            reset,
            done: std::sync::atomic::AtomicBool::new(false),
        }
    }
}

#[async_trait::async_trait]
impl Catalog for Overtaken {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, table::catalog::Error> {
        self.inner.load(table).await
    }
    async fn create(
        &self,
        table: &TableName,
        creation: table::catalog::TableCreation,
    ) -> Result<Loaded, table::catalog::Error> {
        self.inner.create(table, creation).await
    }
    async fn commit(
        &self,
        base: &Loaded,
        requirements: Vec<iceberg::TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, table::catalog::Error> {
        if !self.done.swap(true, std::sync::atomic::Ordering::SeqCst) {
            match &self.reset {
                Some(reset) => {
                    self.other.reset(reset).await.unwrap();
                    self.other.run().await.unwrap();
                }
                None => {
                    let before = ancestry(&base.metadata).nth(1).unwrap().snapshot_id();
                    self.other.rollback(Target::Snapshot(before)).await.unwrap();
                }
            }
        }
        self.inner.commit(base, requirements, updates).await
    }
    async fn list_namespaces(&self) -> Result<Vec<String>, table::catalog::Error> {
        self.inner.list_namespaces().await
    }
    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, table::catalog::Error> {
        self.inner.list_tables(namespace).await
    }
}

#[tokio::test]
async fn a_fold_that_a_rollback_overtakes_does_not_undo_it() {
    let world = folded_twice().await;
    world.stage(&["0:6:r"]);
    let catalog = Overtaken::new(&world, None);
    let fold = world.fold_with(world.store.clone(), Arc::new(catalog), storage::local());
    assert_eq!(fold.run().await.unwrap_err().code(), "fold.paused");
    assert_eq!(world.rows().await, wanted(&["0:0:rrr"]));
}
