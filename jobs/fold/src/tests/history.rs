//! Tables that other hands have touched.

use iceberg::spec::{MAIN_BRANCH, SnapshotReference, SnapshotRetention};
use iceberg::{TableRequirement, TableUpdate};
use model::failure::Kind;

use super::*;

pub(super) async fn change(world: &World, updates: Vec<TableUpdate>) {
    let loaded = world.loaded().await;
    let requirements = vec![TableRequirement::UuidMatch { uuid: loaded.metadata.uuid() }];
    world.catalog.commit(&loaded, requirements, updates).await.unwrap();
}

pub(super) async fn stopped(world: &World, code: &str) -> String {
    let rows = world.rows().await;
    let error = world.fold().run().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Misconfigured, code), "{error}");
    assert_eq!(world.rows().await, rows);
    error.to_string()
}

pub(super) async fn folded_twice() -> World {
    let world = World::new(11);
    world.stage(&["0:0:rrr"]);
    world.fold().run().await.unwrap();
    world.clock.advance_micros(60_000_000);
    world.stage(&["0:3:rrr"]);
    world.fold().run().await.unwrap();
    world
}

#[tokio::test]
async fn a_table_rolled_back_by_another_engine_stops_the_fold() {
    let world = folded_twice().await;
    let loaded = world.loaded().await;
    let head = loaded.metadata.current_snapshot().unwrap();
    let reference = SnapshotReference::new(
        head.parent_snapshot_id().unwrap(),
        SnapshotRetention::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None },
    );
    change(&world, vec![TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference }]).await;
    world.stage(&["0:6:r"]);
    let message = stopped(&world, "fold.rewound").await;
    assert!(message.contains("rolled back"), "{message}");
}

#[tokio::test]
async fn a_ledger_that_was_unset_stops_the_fold() {
    let world = folded_twice().await;
    let removals = vec![model::ledger::property(&world.id)];
    change(&world, vec![TableUpdate::RemoveProperties { removals }]).await;
    let message = stopped(&world, "fold.ledger_missing").await;
    assert!(message.contains("would repeat rows"), "{message}");
}

#[tokio::test]
async fn properties_that_were_unset_are_put_back_by_a_recovery() {
    let world = folded_twice().await;
    let ours = |name: &String| name.starts_with("frazil.");
    let before: BTreeMap<String, String> =
        world.loaded().await.metadata.properties().clone().into_iter().filter(|(name, _)| ours(name)).collect();
    let removals = before.keys().cloned().collect();
    change(&world, vec![TableUpdate::RemoveProperties { removals }]).await;
    // Another commit since: the newest earlier file does not hold them either.
    let updates = [("owner".to_owned(), "me".to_owned())].into();
    change(&world, vec![TableUpdate::SetProperties { updates }]).await;
    let message = stopped(&world, "fold.properties_unset").await;
    assert!(message.contains("carries a commit of ours"), "{message}");
    let error = world.fold().run().await.unwrap_err();
    assert!(error.remedy().unwrap().contains("frazil recover --refold"));
    let (plan, table) = world.fold().recover(crate::rewind::Choice::Refold).await.unwrap();
    assert_eq!((plan.commits, plan.rewound.offsets, table.unwrap().committed), (true, 0, true));
    let after = world.loaded().await;
    for name in before.keys().filter(|name| !name.starts_with("frazil.ledger.")) {
        assert_eq!(after.metadata.properties()[name], before[name], "{name}");
    }
    world.clock.advance_micros(60_000_000);
    world.stage(&["0:6:r"]);
    world.fold().run().await.unwrap();
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrr"]));
}

#[tokio::test]
async fn a_table_that_was_dropped_is_not_taken_for_one_that_never_was() {
    let world = folded_twice().await;
    let settled = world.store.objects().into_keys().find(|key| key.starts_with("settled/")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let warehouse = storage::location_of(folder.path()).unwrap();
    let empty = MemoryCatalog::new(&warehouse, storage::local(), world.clock.clone(), world.ids.clone());
    let fold = world.fold_with(world.store.clone(), Arc::new(empty), storage::local());
    let reset = Reset { topic: "orders-eu".to_owned(), partition: None, since: None };
    for error in [
        fold.run().await.unwrap_err(),
        fold.plan_rollback(crate::rewind::Target::Snapshot(1)).await.unwrap_err(),
        fold.plan_recover(crate::rewind::Choice::Refold).await.unwrap_err(),
        fold.plan_reset(&reset).await.unwrap_err(),
        fold.retained(world.clock.now()).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), "fold.table_replaced", "{error}");
        let folder = settled.rsplit_once('/').unwrap().0;
        assert!(error.to_string().contains(folder) && error.remedy().unwrap().contains(folder), "{error}");
    }
}

#[tokio::test]
async fn a_settlement_that_was_cut_is_as_one_that_is_gone() {
    let world = folded_twice().await;
    let settlements: Vec<String> = world.store.objects().into_keys().filter(|k| k.starts_with("settled/")).collect();
    assert_eq!(settlements.len(), 2);
    for key in &settlements {
        let half = world.store.objects()[key].slice(..100);
        world.store.insert(key, half);
    }
    world.clock.advance_micros(60_000_000);
    world.stage(&["0:6:r"]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].duplicates), (1, 6));
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrr"]));
}

#[tokio::test]
async fn a_table_that_is_gone_is_not_begun_anew() {
    // The catalog was lost: the table's name is free.
    let lost = |world: World| {
        let catalog = MemoryCatalog::new(
            &storage::location_of(world._folder.path()).unwrap(),
            storage::local(),
            world.clock.clone(),
            world.ids.clone(),
        );
        World { catalog: Arc::new(catalog), ..world }
    };
    let world = lost(folded_twice().await);
    world.stage(&["0:6:r"]);
    let message = stopped(&world, "fold.table_replaced").await;
    assert!(message.contains("that table is gone"), "{message}");
    // Somebody made the table again, as frazil would.
    for key in world.store.objects().into_keys().filter(|key| key.starts_with("settled/")) {
        world.store.delete(&key).await.unwrap();
    }
    world.fold().run().await.unwrap();
    assert_eq!(
        world.rows().await,
        wanted(&["0:0:rrrrrrr"]),
        "with its settlements away, what is staged is folded anew"
    );
    let world = lost(world);
    let fresh = World { store: Arc::new(MemoryStore::new(world.clock.clone())), ..world };
    fresh.stage(&["0:0:r"]);
    fresh.fold().run().await.unwrap();
    fresh.store.insert(
        &format!("settled/{}/another/1.json", fresh.id),
        bytes::Bytes::from_static(b"what can't be read may speak of this table"),
    );
    let removals = vec![model::ledger::property(&fresh.id)];
    change(&fresh, vec![TableUpdate::RemoveProperties { removals }]).await;
    stopped(&fresh, "fold.table_replaced").await;
}

#[tokio::test]
async fn a_table_that_frazil_did_not_make_is_left_alone() {
    let world = World::new(11);
    let creation = testkit::catalog::contract::creation();
    world.catalog.create(&world.pipeline.table.name, creation).await.unwrap();
    world.stage(&["0:0:rrr"]);
    let error = world.fold().run().await.unwrap_err();
    assert_eq!(error.code(), "fold.foreign_table");
}

#[tokio::test]
async fn a_renamed_column_stays_the_same_column() {
    let world = folded_twice().await;
    let loaded = world.loaded().await;
    let fields = loaded.metadata.current_schema().as_struct().fields().iter().map(|field| {
        let mut field = field.as_ref().clone();
        if field.name == "_kafka_timestamp" {
            field.name = "sent_at".to_owned();
        }
        Arc::new(field)
    });
    let schema = iceberg::spec::Schema::builder().with_schema_id(1).with_fields(fields).build().unwrap();
    change(&world, vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]).await;
    world.stage(&["0:6:r"]);
    world.fold().run().await.unwrap();
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrr"]));
    let loaded = world.loaded().await;
    let io = storage::local();
    let plan = scan::plan(&loaded.metadata, &io, &Request::default()).await.unwrap();
    let batches: Vec<RecordBatch> = plan.execute(io).try_collect().await.unwrap();
    assert_eq!(batches.iter().map(|b| b["sent_at"].null_count()).sum::<usize>(), 0);
}

#[tokio::test]
async fn a_column_that_the_table_lacks_stops_the_fold_by_name() {
    let world = folded_twice().await;
    let minute = world.clock.now().minute();
    let (mut footer, rows) = invocation(&world.id, minute, &["0:6:r"]);
    let mut column = footer.columns[0].clone();
    (column.name, column.source, column.source_name) = ("note".into(), "value:9".into(), "note".into());
    footer.columns.push(column);
    let key = format!("staging/{}/{minute}/{:032x}.parquet", world.id, 2);
    world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    let message = stopped(&world, "fold.new_column").await;
    assert!(message.contains("`note`"), "{message}");
    let dry = Settings { dry_run: true, ..Settings::default() };
    let error = Fold { settings: dry, ..world.fold() }.run().await.unwrap_err();
    assert_eq!(error.code(), "fold.new_column", "a plan stops where the fold would");
    // What its remedy says goes on, although the column is staged already.
    assert!(error.remedy().unwrap().contains("exclude = [\"note\"]"), "{error:?}");
    let mut pipeline = world.pipeline.as_ref().clone();
    pipeline.table.exclude = vec!["note".to_owned()];
    let fold = Fold { pipeline: Arc::new(pipeline), ..world.fold() };
    assert_eq!(fold.run().await.unwrap().tables[0].rows_added, 1);
}

#[tokio::test]
async fn a_column_that_another_engine_dropped_stops_the_fold_until_its_values_are_not_wanted() {
    let world = World::new(14);
    let mut pipeline = world.pipeline.as_ref().clone();
    (pipeline.table.partition_by, pipeline.table.sort_by, pipeline.table.primary_key) = (vec![], vec![], vec![]);
    let plain = Fold { pipeline: Arc::new(pipeline.clone()), ..world.fold() };
    world.stage(&["0:0:rr"]);
    plain.run().await.unwrap();
    let metadata = world.loaded().await.metadata;
    let schema = metadata.current_schema();
    let kept = schema.as_struct().fields().iter().filter(|f| f.name != "id").cloned();
    let schema_id = schema.schema_id() + 1;
    let without = iceberg::spec::Schema::builder().with_schema_id(schema_id).with_fields(kept).build().unwrap();
    change(&world, vec![TableUpdate::AddSchema { schema: without }, TableUpdate::SetCurrentSchema { schema_id: -1 }])
        .await;
    world.stage(&["0:2:r"]);
    let error = plain.run().await.unwrap_err();
    assert_eq!(error.code(), "fold.column_dropped");
    assert!(error.to_string().contains("`id`"), "{error}");
    pipeline.table.exclude = vec!["id".to_owned()];
    let fold = Fold { pipeline: Arc::new(pipeline), ..world.fold() };
    assert_eq!(fold.run().await.unwrap().tables[0].rows_added, 1);
}

#[tokio::test]
async fn a_ledger_of_many_partitions_moves_to_an_object() {
    let world = World::new(13);
    let parts: Vec<String> = (0..64).map(|p| format!("{p}:0:{}", "rd".repeat(40))).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    world.stage(&parts);
    world.fold().run().await.unwrap();
    let property = world.loaded().await.metadata.properties()[&model::ledger::property(&world.id)].clone();
    let pointer: model::ledger::Pointer = serde_json::from_str(&property).unwrap();
    world.stage(&["0:80:rr"]);
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 2);
    assert_eq!(world.rows().await.len(), 64 * 40 + 2);
    // The object behind the property is part of the table's state: without it nothing is guessed.
    let property = world.loaded().await.metadata.properties()[&model::ledger::property(&world.id)].clone();
    let now: model::ledger::Pointer = serde_json::from_str(&property).unwrap();
    assert_ne!(now.object, pointer.object);
    world.store.insert(&now.object, bytes::Bytes::from_static(b"{}"));
    let message = stopped(&world, "fold.ledger_object").await;
    assert!(message.contains("not the one that was written"), "{message}");
}

#[tokio::test]
async fn a_first_attempt_that_died_before_its_commit_does_not_block_a_table_with_snapshots() {
    // Another pipeline has filled the table; ours wrote a settlement and died.
    let world = folded_twice().await;
    let other = Fold { id: PipelineId::new("others", world.ids.as_ref()), ..world.fold() };
    let uuid = model::id::TableUuid::new(world.loaded().await.metadata.uuid().to_string());
    let prefix = staging::key::settled_prefix(&world.id, &uuid);
    let first = |body: &[u8]| model::settlement::Settlement::from_json(body).unwrap().ledger.commits.len() == 1;
    let settlement = world.store.objects().into_iter().find(|(k, body)| k.starts_with(&prefix) && first(body)).unwrap();
    let mut text: serde_json::Value = serde_json::from_slice(&settlement.1).unwrap();
    text["pipeline"] = other.id.as_str().into();
    text["parent_snapshot"] = world.loaded().await.metadata.current_snapshot_id().into();
    let moved = settlement.0.replace(world.id.as_str(), other.id.as_str());
    world.store.insert(&moved, bytes::Bytes::from(text.to_string()));
    assert!(!other.run().await.unwrap().tables[0].committed);
    // Had its parent been left behind by a snapshot that is gone, nobody could tell.
    text["parent_snapshot"] = 42.into();
    world.store.insert(&moved, bytes::Bytes::from(text.to_string()));
    world.stage(&["0:6:r"]);
    let staged = world.store.objects().into_keys().find(|k| k.starts_with("staging/")).unwrap();
    let theirs = staged.replace(world.id.as_str(), other.id.as_str());
    let (mut footer, rows) = invocation(&other.id, world.clock.now().minute(), &["9:0:r"]);
    footer.pipeline_id = other.id.clone();
    world.store.insert(&theirs, object::encode(&footer, &[rows]).unwrap());
    assert_eq!(other.run().await.unwrap_err().code(), "fold.ledger_missing");
}

#[tokio::test]
async fn a_column_that_the_record_fills_holds_what_the_record_says() {
    let world = World::new(17);
    let minute = world.clock.now().minute();
    let (mut footer, rows) = invocation(&world.id, minute, &["0:6:rrr"]);
    for (name, source, data_type) in [("sent", "@timestamp", "timestamptz"), ("place", "@offset", "long")] {
        footer.columns.push(Column {
            name: name.into(),
            source: source.into(),
            source_name: source.into(),
            former: Vec::new(),
            data_type: data_type.into(),
            required: false,
        });
    }
    let key = format!("staging/{}/{minute}/{:032x}.parquet", world.id, 3);
    world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    world.fold().run().await.unwrap();
    let loaded = world.loaded().await;
    let io = storage::local();
    let plan = scan::plan(&loaded.metadata, &io, &Request::default()).await.unwrap();
    let batches: Vec<RecordBatch> = plan.execute(io).try_collect().await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    for batch in &batches {
        assert_eq!(&batch["sent"], &batch["_kafka_timestamp"]);
        assert_eq!(&batch["place"], &batch["_kafka_offset"]);
    }
}

#[tokio::test]
async fn a_topic_made_again_stops_the_fold() {
    let world = folded_twice().await;
    let minute = world.clock.now().minute();
    let (mut footer, rows) = invocation(&world.id, minute, &["0:0:rrrrrrrrr"]);
    // The same offsets with other times.
    let text = serde_json::to_string(&footer.coverage).unwrap().replace("\"timestamp_ms\":", "\"timestamp_ms\":9");
    footer.coverage = serde_json::from_str(&text).unwrap();
    let key = format!("staging/{}/{minute}/{:032x}.parquet", world.id, 4);
    world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    let message = stopped(&world, "fold.topic_recreated").await;
    assert!(message.contains("offset 0 of topic `orders-eu`"), "{message}");
}

#[tokio::test]
async fn rows_staged_for_another_table_stop_the_fold() {
    let mut world = World::new(19);
    world.stage(&["0:0:rrr"]);
    let mut renamed = world.pipeline.as_ref().clone();
    renamed.table.name.name = "purchases".to_owned();
    world.pipeline = Arc::new(renamed);
    let error = world.fold().run().await.unwrap_err();
    assert_eq!(error.code(), "fold.table_changed");
    assert!(world.catalog.load(&world.pipeline.table.name).await.unwrap().is_none());
}

#[tokio::test]
async fn two_pipelines_may_not_bring_one_topic_to_one_table() {
    let world = folded_twice().await;
    let other = Fold { id: PipelineId::new("others", world.ids.as_ref()), ..world.fold() };
    let (footer, rows) = invocation(&other.id, world.clock.now().minute(), &["0:0:rrr"]);
    let key = format!("staging/{}/{}/{:032x}.parquet", other.id, world.clock.now().minute(), 5);
    world.store.insert(&key, object::encode(&footer, &[rows]).unwrap());
    let error = other.run().await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("fold.shared_topic", Kind::Misconfigured));
    assert!(error.to_string().contains("would repeat its rows"), "{error}");
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrr"]));
}

#[tokio::test]
async fn old_metadata_files_go_where_the_table_asks_for_it_and_readers_find_the_rest() {
    let world = folded_twice().await;
    let files = |loaded: &Loaded| {
        let folder = storage::path_of(&loaded.metadata_location).unwrap().parent().unwrap().to_owned();
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".metadata.json")).count()
    };
    let update = |key: &str, value: &str| {
        let updates = [(key.to_owned(), value.to_owned())].into();
        TableUpdate::SetProperties { updates }
    };
    change(&world, vec![update("write.metadata.previous-versions-max", "2")]).await;
    for n in 0..3 {
        world.stage(&[&format!("0:{}:r", 6 + n)]);
        world.fold().run().await.unwrap();
    }
    let before = files(&world.loaded().await);
    assert_eq!(before, 7, "the log is short, and nothing is deleted");
    change(&world, vec![update("write.metadata.delete-after-commit.enabled", "true")]).await;
    for n in 3..6 {
        world.stage(&[&format!("0:{}:r", 6 + n)]);
        world.fold().run().await.unwrap();
    }
    let loaded = world.loaded().await;
    assert_eq!(loaded.metadata.metadata_log().len(), 2);
    assert_eq!(files(&loaded), before + 1, "three came, and three that the log dropped are gone");
    for entry in loaded.metadata.metadata_log() {
        assert!(storage::path_of(&entry.metadata_file).unwrap().exists(), "{}", entry.metadata_file);
    }
    assert_eq!(world.rows().await, wanted(&["0:0:rrrrrrrrrrrr"]));
}
