//! What may go and what must stay, over weeks that pass in a moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use fold::{Fold, Settings as FoldSettings};
use iceberg::TableUpdate;
use model::clock::{Clock, ManualClock, Timestamp};
use model::coordinate::{Sample, SourceId, TopicPartition};
use model::coverage::{Coverage, PartitionCoverage};
use model::failure::Kind;
use model::id::{Ids, PipelineId, SeededIds};
use model::interval::{Interval, Intervals};
use model::stored::Tag;
use model::verdict::Origin;
use pipeline::resolved as settings;
use staging::footer::{Column, Footer};
use staging::key::{self, ObjectHash, StagedKey};
use staging::object::{self, TableRows};
use staging::record_columns;
use staging::store::Store;
use table::catalog::Loaded;
use table::snapshot::{ancestry, branch};
use table::storage;
use testkit::catalog::memory::MemoryCatalog;
use testkit::store_memory::MemoryStore;

use super::*;

/// 2026-11-29T14:00:00Z
const START: Timestamp = Timestamp::from_micros(1_795_960_800_000_000);
const DAY: i64 = 24 * 60;

struct World {
    _folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    ids: Arc<SeededIds>,
    fold: Fold,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (clock, ids) = (Arc::new(ManualClock::new(START)), Arc::new(SeededIds::new(7)));
        let warehouse = storage::location_of(folder.path()).unwrap();
        let catalog = Arc::new(MemoryCatalog::new(&warehouse, storage::local(), clock.clone(), ids.clone()));
        let store = Arc::new(MemoryStore::new(clock.clone()).with_page_objects(3));
        let fold = Fold {
            pipeline: Arc::new(pipeline()),
            id: PipelineId::new("orders", ids.as_ref()),
            store: store.clone(),
            catalog,
            io: storage::local(),
            clock: clock.clone(),
            ids: ids.clone(),
            settings: FoldSettings::default(),
        };
        Self { _folder: folder, store, clock, ids, fold }
    }

    fn wait(&self, minutes: i64) {
        self.clock.advance_micros(minutes * 60_000_000);
    }

    /// Stages one object of partition 0: a letter an offset, `r`ow, row with a `n`ull, `d`ead or `.` not delivered.
    fn stage(&self, first: i64, what: &str) -> String {
        self.stage_sent(first, what, 0)
    }

    /// The same, with timestamps so many milliseconds later.
    fn stage_sent(&self, first: i64, what: &str, later_ms: i64) -> String {
        let minute = self.clock.now().minute();
        let of = |wanted: &str| -> Intervals {
            let hits = what.chars().enumerate().filter(|(_, c)| wanted.contains(*c));
            hits.map(|(n, _)| Interval::new(first + n as i64, first + n as i64).unwrap()).collect()
        };
        let mut record_columns = record_columns::Builder::new(minute, 0);
        record_columns.start("orders-eu", 0);
        let mut ids = Vec::new();
        let nulls = of("n");
        for offset in of("rn").as_slice().iter().flat_map(|i| i.first()..=i.last()) {
            record_columns.row(offset, record_columns::micros(offset + later_ms), 0);
            ids.push((!nulls.contains(offset)).then_some(offset));
        }
        let sample = |offset: Option<i64>| {
            let offset = offset.unwrap();
            Sample { offset, timestamp_ms: Some(offset + later_ms) }
        };
        let delivered = of("rnd");
        let covered = PartitionCoverage {
            filtered: BTreeMap::new(),
            dead: of("d"),
            first: sample(delivered.first()),
            last: sample(delivered.last()),
            delivered,
        };
        let mut coverage = Coverage::default();
        let (source, topic) = (SourceId::of("cluster"), "orders-eu".to_owned());
        coverage.insert(TopicPartition { source, topic, partition: 0 }, covered).unwrap();
        let mut fields = vec![Arc::new(Field::new("id", DataType::Int64, !nulls.is_empty()))];
        fields.extend(record_columns::fields());
        let mut columns: Vec<arrow::array::ArrayRef> = vec![Arc::new(Int64Array::from(ids))];
        columns.extend(record_columns.finish());
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        let footer = Footer {
            schema: Tag::of::<Footer>(),
            pipeline_id: self.fold.id.clone(),
            pipeline_file_hash: "00".repeat(32),
            apply_sequence: 0,
            mapping_version: 1,
            hash: None,
            minute,
            origin: Origin::Stream,
            writer: "test".to_owned(),
            coverage,
            event_time_bounds: None,
            schemas: Vec::new(),
            tables: Vec::new(),
            columns: vec![Column {
                name: "id".to_owned(),
                source: "value:1".to_owned(),
                source_name: "id".to_owned(),
                former: Vec::new(),
                data_type: "long".to_owned(),
                required: nulls.is_empty(),
            }],
        };
        let rows = TableRows { table: "db.orders".to_owned(), batch };
        let hash = ObjectHash::new(u128::from(self.ids.next_u64()));
        let key = StagedKey { pipeline: self.fold.id.clone(), minute, hash }.to_string();
        self.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
        key
    }

    async fn fold(&self) {
        self.fold.run().await.unwrap();
    }

    async fn maintain(&self, dry_run: bool) -> Result<Report, Error> {
        Maintain { fold: self.fold.clone(), settings: Settings { dry_run } }.run().await
    }

    fn keys(&self, prefix: &str) -> Vec<String> {
        self.store.objects().into_keys().filter(|key| key.starts_with(prefix)).collect()
    }

    async fn loaded(&self) -> Loaded {
        self.fold.catalog.load(&self.fold.pipeline.table.name).await.unwrap().unwrap()
    }

    async fn line(&self) -> Vec<i64> {
        ancestry(&self.loaded().await.metadata).map(|s| s.snapshot_id()).collect()
    }

    async fn change(&self, update: TableUpdate) {
        let loaded = self.loaded().await;
        self.fold.catalog.commit(&loaded, Vec::new(), vec![update]).await.unwrap();
    }
}

fn pipeline() -> settings::Pipeline {
    let name = settings::TableName { namespace: "db".to_owned(), name: "orders".to_owned() };
    let text = "[source]\ntopics = [\"orders-eu\"]\nname = \"cluster\"\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
                schema = { proto = \"orders.proto\", message = \"Order\" }\n[table]\nname = \"db.orders\"\nmode = \"append\"\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("pipelines")).unwrap();
    std::fs::write(folder.path().join("pipelines/orders.toml"), text).unwrap();
    std::fs::write(folder.path().join("orders.proto"), "syntax = \"proto3\"; message Order { int64 id = 1; }").unwrap();
    let environment = pipeline::environment::Environment::embedded(folder.path().to_owned());
    let loaded = pipeline::file::load(&folder.path().join("pipelines/orders.toml"), &environment).unwrap();
    assert_eq!((&loaded.table.name, loaded.staging.retention_seconds), (&name, 7 * 86_400));
    loaded
}

/// Case: a clean-up by age removed what a running job still needed. Turned round: age alone removes nothing.
#[tokio::test]
async fn a_settled_object_goes_past_the_retention_and_an_unsettled_one_stays_however_old() {
    let world = World::new();
    let settled = world.stage(0, "rrr");
    world.fold().await;
    world.wait(1);
    let waiting = world.stage(3, "rrr");
    world.wait(7 * DAY - 2);
    assert_eq!(world.maintain(false).await.unwrap().files_removed, 0, "a minute short of the retention");
    world.wait(3 * DAY);
    let planned = world.maintain(true).await.unwrap();
    assert_eq!(world.keys("staging/").len(), 2, "a dry run removes nothing");
    let report = world.maintain(false).await.unwrap();
    assert_eq!((report.files_removed, report.files_after, report.unsettled), (1, 1, 1));
    assert_eq!((planned.files_removed, planned.bytes, planned.unsettled), (1, report.bytes, 1));
    assert_eq!(world.keys("staging/"), std::slice::from_ref(&waiting));
    assert_ne!(settled, waiting);
    assert_eq!(report.oldest_unsettled, Some(waiting.clone()));
    // It is folded at last; a week later it may go too.
    world.fold().await;
    world.maintain(false).await.unwrap();
    assert_eq!(world.keys("staging/"), [waiting], "settled just now");
    world.wait(7 * DAY + 1);
    assert_eq!(world.maintain(false).await.unwrap().files_removed, 1);
    assert!(world.keys("staging/").is_empty());
    let run: model::run::Run =
        serde_json::from_slice(&world.store.objects()[&key::run(&world.fold.id, "maintain")]).unwrap();
    assert_eq!((run.state, run.figures["files_removed"]), (model::run::State::Done, 1));
}

#[tokio::test]
async fn nothing_goes_before_the_first_fold_or_where_no_snapshot_is_old_enough() {
    let world = World::new();
    world.stage(0, "rrr");
    world.wait(30 * DAY);
    assert!(world.maintain(false).await.unwrap().held_by.unwrap().contains("not folded yet"));
    world.fold().await;
    let report = world.maintain(false).await.unwrap();
    assert!(report.held_by.unwrap().contains("no retained snapshot"));
    assert_eq!((report.files_removed, report.unproved), (0, 1));
}

#[tokio::test]
async fn a_dead_letters_coordinate_does_not_keep_its_object_and_a_passed_over_one_does() {
    let world = World::new();
    world.stage(0, "rdr");
    world.fold().await;
    // Offset 3 lands after what comes behind it was folded: it was counted as never delivered.
    world.wait(1);
    world.stage(4, "rr");
    world.fold().await;
    let late = world.stage(3, "r");
    world.wait(8 * DAY);
    let report = world.maintain(false).await.unwrap();
    assert_eq!((report.files_removed, report.unsettled), (2, 1));
    assert_eq!(world.keys("staging/"), std::slice::from_ref(&late));
    assert!(report.overlooked.is_empty(), "the next fold lists it");
    // A fold goes by, and finds it.
    world.fold().await;
    world.wait(8 * DAY);
    assert_eq!(world.maintain(false).await.unwrap().files_removed, 1);
}

/// I1: the ledger had been at the offset, in dead letters; the object that held its row was removed before any fold read it.
#[tokio::test]
async fn a_row_that_is_a_dead_letter_so_far_stays_until_a_fold_has_read_it() {
    let world = World::new();
    world.stage(0, "rdr");
    world.fold().await;
    world.wait(30);
    let row = world.stage(1, "r");
    world.wait(8 * DAY);
    let report = world.maintain(false).await.unwrap();
    assert_eq!((report.files_removed, report.unsettled), (1, 1));
    assert_eq!(world.keys("staging/"), std::slice::from_ref(&row));
    world.fold().await;
    world.wait(8 * DAY);
    assert_eq!(world.maintain(false).await.unwrap().files_removed, 1);
}

/// Rows that a fold sends to dead letters do not keep their object: its settlement names it.
#[tokio::test]
async fn an_object_whose_rows_a_fold_found_dead_goes_while_its_settlement_is_there() {
    for is_gone in [false, true] {
        let world = World::new();
        world.stage(0, "rr");
        world.fold().await;
        world.wait(30);
        world.stage(2, "rnr");
        world.fold().await;
        assert_eq!(world.keys("dead-letters/").len(), 1);
        world.wait(30);
        world.stage(5, "r");
        world.fold().await;
        if is_gone {
            let of_second = |key: &String| {
                let body = world.store.objects()[key].clone();
                model::settlement::Settlement::from_json(&body).unwrap().ledger.commits.len() == 2
            };
            let second = world.keys("settled/").into_iter().find(of_second).unwrap();
            world.store.delete(&second).await.unwrap();
        }
        world.wait(8 * DAY);
        let report = world.maintain(false).await.unwrap();
        let want = if is_gone { (2, 1) } else { (3, 0) };
        assert_eq!((report.files_removed, report.unproved), want, "{report:?}");
    }
}

#[tokio::test]
async fn an_object_of_a_topic_made_again_is_not_taken_for_settled() {
    let world = World::new();
    world.stage(0, "rrrrrr");
    world.fold().await;
    world.wait(DAY);
    // The same offsets, other records: an end that the ledger kept, and a row inside that it kept.
    let ends = world.stage_sent(0, "rrr", 1_000_000);
    let inside = world.stage_sent(4, "rr", 1_000_000);
    assert_eq!(world.fold.run().await.unwrap_err().code(), "fold.topic_recreated");
    world.wait(8 * DAY);
    let report = world.maintain(false).await.unwrap();
    assert_eq!((report.files_removed, report.unsettled), (1, 2));
    let mut left = vec![ends, inside];
    left.sort_unstable();
    assert_eq!(world.keys("staging/"), left);
}

/// Its offsets meet none of those whose timestamps the ledger keeps. Found by the simulation (701968): maintenance removed the
/// new topic's objects while folds were failing, before one of them could stop at the new topic.
#[tokio::test]
async fn what_was_staged_after_the_last_settlement_is_not_taken_for_settled_by_it() {
    let world = World::new();
    let old = world.stage(0, &"r".repeat(100));
    world.fold().await;
    world.wait(10);
    let again = world.stage(100, "r");
    world.fold().await;
    world.wait(DAY);
    let new = world.stage_sent(41, "rrr", 86_400_000);
    world.wait(8 * DAY);
    let report = world.maintain(false).await.unwrap();
    assert_eq!((report.files_removed, report.unproved, report.unsettled), (2, 1, 0), "{report:?}");
    assert_eq!(world.keys("staging/"), std::slice::from_ref(&new));
    // A fold that has seen it, and found that it repeats what was settled, is enough. (Here nothing tells that it is another.)
    world.stage(101, "r");
    world.fold().await;
    world.wait(8 * DAY);
    let report = world.maintain(false).await.unwrap();
    assert_eq!((report.files_removed, report.unproved), (2, 0), "{report:?}");
    drop((old, again));
}

#[tokio::test]
async fn an_object_that_landed_below_the_listings_is_found_and_kept() {
    let world = World::new();
    world.stage(0, "rr");
    world.fold().await;
    world.wait(60);
    world.stage(2, "rr");
    world.fold().await;
    // Two hours in the past: a process that was frozen for longer than any may.
    world.clock.advance_micros(-45 * 60_000_000);
    let landed = world.stage(9, "r");
    world.wait(45 + 8 * DAY);
    let report = world.maintain(false).await.unwrap();
    assert_eq!(report.overlooked, std::slice::from_ref(&landed));
    assert_eq!(world.keys("staging/"), [landed]);
}

#[tokio::test]
async fn without_the_lists_of_what_was_passed_over_nothing_of_that_partition_is_proved() {
    let world = World::new();
    world.stage(0, "r.r");
    world.fold().await;
    world.wait(1);
    world.stage(3, "r");
    world.fold().await;
    let first = world.keys("settled/").into_iter().find(|key| {
        let body = world.store.objects()[key].clone();
        model::settlement::Settlement::from_json(&body).unwrap().ledger.commits.len() == 1
    });
    world.store.delete(&first.unwrap()).await.unwrap();
    world.wait(8 * DAY);
    let report = world.maintain(false).await.unwrap();
    // The second settlement names the second object.
    assert_eq!((report.files_removed, report.unproved), (1, 1));
}

/// I1: a kept ledger counts an offset as passed over whose settlement is off main: the object that holds it was removed.
#[tokio::test]
async fn what_was_passed_over_on_a_line_whose_ledger_was_kept_stays() {
    let world = World::new();
    world.stage(0, "rr..r");
    world.fold().await;
    world.wait(30);
    world.stage(2, "rr");
    world.stage(6, "r.r");
    world.fold().await;
    world.fold.rollback(fold::rewind::Target::Snapshot(world.line().await[1])).await.unwrap();
    world.fold.recover(fold::rewind::Choice::KeepLedger).await.unwrap();
    world.wait(30);
    let found = world.stage(7, "r");
    world.wait(8 * DAY);
    let report = world.maintain(false).await.unwrap();
    assert_eq!(report.unsettled, 1, "{report:?}");
    assert_eq!(world.keys("staging/"), [found]);
    world.fold().await;
    world.wait(8 * DAY);
    assert_eq!(world.maintain(false).await.unwrap().files_removed, 1);
}

#[tokio::test]
async fn a_table_that_was_moved_proves_nothing() {
    let world = World::new();
    for n in 0..2 {
        world.stage(n * 3, "rrr");
        world.fold().await;
        world.wait(1);
    }
    world.wait(8 * DAY);
    let back = branch::move_main(&world.loaded().await.metadata, world.line().await[1]);
    world.change(back).await;
    let error = world.maintain(false).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("fold.rewound", Kind::Misconfigured));
    assert_eq!(world.keys("staging/").len(), 2);
}

#[tokio::test]
async fn what_only_an_abandoned_line_had_settled_stays() {
    let world = World::new();
    world.stage(0, "rrr");
    world.fold().await;
    world.wait(1);
    let second = world.stage(3, "rrr");
    world.fold().await;
    let target = fold::rewind::Target::Snapshot(world.line().await[1]);
    world.fold.rollback(target).await.unwrap();
    world.wait(8 * DAY);
    let report = world.maintain(false).await.unwrap();
    assert_eq!((report.files_removed, report.unsettled), (1, 1));
    assert_eq!(world.keys("staging/"), [second]);
}

#[tokio::test]
async fn settlements_go_once_nothing_names_them() {
    let world = World::new();
    for n in 0..3 {
        world.stage(n * 3, "rrr");
        world.fold().await;
        world.wait(1);
    }
    let line = world.line().await;
    // One of an attempt that failed just now.
    let body = world.store.objects()[&world.keys("settled/")[0]].clone();
    let mut text: serde_json::Value = serde_json::from_slice(&body).unwrap();
    world.wait(8 * DAY);
    text["commit"] = "0f0f0f0f-0000-4000-8000-000000000001".into();
    text["at"] = world.clock.now().to_string().into();
    let uuid = world.loaded().await.metadata.uuid();
    let young = format!("settled/{}/{uuid}/0f0f0f0f-0000-4000-8000-000000000001.json", world.fold.id);
    world.store.insert(&young, text.to_string().into());
    assert_eq!(world.maintain(false).await.unwrap().settlements_removed, 0, "all are named, or young");
    world.change(TableUpdate::RemoveSnapshots { snapshot_ids: vec![line[2]] }).await;
    let report = world.maintain(false).await.unwrap();
    assert_eq!((report.settlements_removed, report.files_removed), (1, 1));
    assert_eq!(world.keys("settled/").len(), 3);
    assert!(world.keys("settled/").contains(&young));
    world.stage(9, "r");
    world.fold().await;
}
