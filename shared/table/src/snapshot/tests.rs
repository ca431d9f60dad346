use iceberg::io::FileIO;
use iceberg::spec::{DataFileBuilder, DataFileFormat, MAIN_BRANCH, SnapshotReference, SnapshotRetention, Struct};
use model::id::SeededIds;

use super::*;
use crate::catalog::metadata::tests::{creation, table, time};
use crate::catalog::metadata::{self, stage};

mod changes;

fn file(path: &str, partition: &str, records: u64) -> NewFile {
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(format!("file:///w/ns/t/data/{path}"))
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::from_iter([Some(Literal::string(partition))]))
        .record_count(records)
        .file_size_in_bytes(records * 10)
        .build()
        .unwrap();
    NewFile { spec_id: 0, file }
}

fn terms(millis: i64) -> Terms {
    Terms { time: time(millis), summary: BTreeMap::new(), properties: BTreeMap::new() }
}

/// The base after an attempt, as a catalog would make it.
fn committed(base: &Loaded, attempt: &Prepared, ids: &SeededIds) -> Loaded {
    stage(base, attempt.requirements(), attempt.updates(), time(0), ids).unwrap().loaded(base.name.clone())
}

async fn append(base: &Loaded, files: Vec<NewFile>, io: &FileIO, ids: &SeededIds) -> Loaded {
    let attempt = prepare(base, Change::append(files), terms(5), io, ids).await.unwrap();
    committed(base, &attempt, ids)
}

async fn live(table: &Loaded, io: &FileIO) -> Vec<(String, i64, i64)> {
    let mut found = Vec::new();
    for list in manifests(&table.metadata, table.metadata.current_snapshot().unwrap(), io).await.unwrap() {
        for entry in list.load_manifest(io).await.unwrap().entries().iter().filter(|e| e.is_alive()) {
            let name = entry.file_path().rsplit('/').next().unwrap().to_owned();
            found.push((name, entry.snapshot_id.unwrap(), entry.sequence_number.unwrap()));
        }
    }
    found.sort();
    found
}

fn counters(snapshot: &SnapshotRef) -> Vec<String> {
    let mut all: Vec<_> =
        snapshot.summary().additional_properties.iter().map(|(key, value)| format!("{key}={value}")).collect();
    all.sort();
    all
}

#[tokio::test]
async fn appends_add_up_along_one_line_of_parents() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let empty = table(&ids);
    let first = append(&empty, vec![file("a", "x", 3), file("b", "y", 4)], &io, &ids).await;
    let second = append(&first, vec![file("c", "x", 5)], &io, &ids).await;

    let head = second.metadata.current_snapshot().unwrap();
    let parent = first.metadata.current_snapshot().unwrap();
    assert_eq!(head.parent_snapshot_id(), Some(parent.snapshot_id()));
    assert_eq!((parent.parent_snapshot_id(), parent.sequence_number(), head.sequence_number()), (None, 1, 2));
    assert_eq!(head.schema_id(), Some(0));
    assert_eq!(second.metadata.last_sequence_number(), 2);
    assert_eq!(
        live(&second, &io).await,
        [
            ("a".to_owned(), parent.snapshot_id(), 1),
            ("b".to_owned(), parent.snapshot_id(), 1),
            ("c".to_owned(), head.snapshot_id(), 2),
        ]
    );
    assert_eq!(
        counters(head),
        [
            "added-data-files=1",
            "added-files-size=50",
            "added-records=5",
            "changed-partition-count=1",
            "entries-processed=0",
            "manifests-created=1",
            "manifests-kept=1",
            "manifests-replaced=0",
            "total-data-files=3",
            "total-delete-files=0",
            "total-equality-deletes=0",
            "total-files-size=120",
            "total-position-deletes=0",
            "total-records=12",
        ]
    );
    let ancestors: Vec<_> = ancestry(&second.metadata).map(|s| s.snapshot_id()).collect();
    assert_eq!(ancestors, [head.snapshot_id(), parent.snapshot_id()]);
    let named = format!("file:///w/ns/t/metadata/snap-{}-1-", head.snapshot_id());
    assert!(head.manifest_list().starts_with(&named), "{}", head.manifest_list());
}

#[tokio::test]
async fn an_empty_append_carries_properties_and_totals_only() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let empty = table(&ids);
    let mut says = terms(5);
    says.summary.insert("frazil.commit.p".to_owned(), "c1".to_owned());
    says.properties.insert("frazil.ledger.p".to_owned(), "{}".to_owned());
    let attempt = prepare(&empty, Change::append(vec![]), says, &io, &ids).await.unwrap();
    let first = committed(&empty, &attempt, &ids);
    assert_eq!(first.metadata.properties()["frazil.ledger.p"], "{}");
    assert_eq!(live(&first, &io).await, []);
    let summary = &first.metadata.current_snapshot().unwrap().summary().additional_properties;
    assert_eq!(summary["frazil.commit.p"], "c1");
    assert_eq!(summary["total-records"], "0");
    assert!(!summary.contains_key("added-records"));

    let second = append(&first, vec![file("a", "x", 3)], &io, &ids).await;
    let third = append(&second, vec![], &io, &ids).await;
    assert_eq!(live(&third, &io).await.len(), 1);
    let head = third.metadata.current_snapshot().unwrap();
    assert_eq!(head.summary().additional_properties["total-records"], "3");
    assert!(!head.summary().additional_properties.contains_key("frazil.commit.p"), "summaries are not inherited");
}

#[tokio::test]
async fn after_a_conflict_manifests_are_kept_and_the_list_is_new() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let base = append(&table(&ids), vec![file("a", "x", 3)], &io, &ids).await;
    let mine = prepare(&base, Change::append(vec![file("b", "x", 4)]), terms(9), &io, &ids).await.unwrap();
    let theirs = append(&base, vec![file("c", "x", 5)], &io, &ids).await;
    let refused = stage(&theirs, mine.requirements(), mine.updates(), time(0), &ids).unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict);

    let again = mine.clone().rebase(&theirs, terms(9), &io, &ids).await.unwrap();
    assert_eq!(again.written.manifests, mine.written.manifests);
    assert_eq!(again.attempt(), 2);
    assert_ne!(again.snapshot().manifest_list(), mine.snapshot().manifest_list());
    let after = committed(&theirs, &again, &ids);
    let mut names: Vec<_> = live(&after, &io).await.into_iter().map(|(name, _, number)| (name, number)).collect();
    names.sort();
    assert_eq!(names, [("a".to_owned(), 1), ("b".to_owned(), 3), ("c".to_owned(), 2)]);
    assert_eq!(after.metadata.current_snapshot().unwrap().summary().additional_properties["total-records"], "12");

    // An attempt thought lost had landed: the same files can't go in again.
    let twice = again.rebase(&after, terms(9), &io, &ids).await.unwrap_err();
    assert!(matches!(twice, Error::Committed(_)), "{twice}");
    let other = table(&SeededIds::new(2));
    assert!(matches!(mine.rebase(&other, terms(9), &io, &ids).await, Err(Error::Replaced { .. })));
}

#[tokio::test]
async fn snapshot_time_is_the_servers_and_never_runs_back() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let base = table(&ids);
    let at = async |base: &Loaded, millis| {
        let attempt = prepare(base, Change::append(vec![]), terms(millis), &io, &ids).await.unwrap();
        committed(base, &attempt, &ids)
    };
    let ahead = at(&base, 7_200_000).await;
    assert_eq!(ahead.metadata.last_updated_ms(), time(7_200_000).millis());
    let behind = at(&ahead, 10).await;
    assert_eq!(behind.metadata.current_snapshot().unwrap().timestamp_ms(), time(7_200_001).millis());
}

#[tokio::test]
async fn evolution_and_files_go_into_one_commit() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let base = table(&ids);
    let wider = iceberg::spec::Schema::clone(base.metadata.current_schema())
        .into_builder()
        .with_fields([iceberg::spec::NestedField::optional(
            3,
            "note",
            iceberg::spec::Type::Primitive(iceberg::spec::PrimitiveType::String),
        )
        .into()])
        .build()
        .unwrap();
    let mut change = Change::append(vec![file("a", "x", 3)]);
    change.evolution = vec![TableUpdate::AddSchema { schema: wider }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
    change.requirements = vec![TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: 2 }];
    let attempt = prepare(&base, change.clone(), terms(5), &io, &ids).await.unwrap();
    let after = committed(&base, &attempt, &ids);
    assert_eq!(after.metadata.current_schema().field_by_name("note").unwrap().id, 3);
    assert_eq!(after.metadata.current_snapshot().unwrap().schema_id(), Some(1));

    let late = attempt.rebase(&after, terms(6), &io, &ids).await.unwrap_err();
    assert!(matches!(late, Error::Committed(_)), "{late}");
    let stale = plan(&after, change).unwrap_err();
    assert_eq!(stale.kind(), Kind::Conflict, "somebody assigned field ids since: {stale}");
}

#[tokio::test]
async fn mains_retention_survives() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let first = append(&table(&ids), vec![], &io, &ids).await;
    let retention = SnapshotRetention::Branch {
        min_snapshots_to_keep: Some(9),
        max_snapshot_age_ms: Some(77),
        max_ref_age_ms: None,
    };
    let snapshot_id = first.metadata.current_snapshot_id().unwrap();
    let set = TableUpdate::SetSnapshotRef {
        ref_name: MAIN_BRANCH.to_owned(),
        reference: SnapshotReference { snapshot_id, retention: retention.clone() },
    };
    let kept = stage(&first, &[], &[set], time(6), &ids).unwrap().loaded(first.name.clone());
    let attempt = prepare(&kept, Change::append(vec![]), terms(9), &io, &ids).await.unwrap();
    assert!(attempt.updates().iter().any(|update| matches!(
        update,
        TableUpdate::SetSnapshotRef { reference, .. } if reference.retention == retention
    )));
}

#[tokio::test]
async fn a_total_the_parent_does_not_know_stays_unknown() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let base = append(&table(&ids), vec![file("a", "x", 3)], &io, &ids).await;
    let mut document = serde_json::to_value(&*base.metadata).unwrap();
    let summary = document["snapshots"][0]["summary"].as_object_mut().unwrap();
    summary.remove("total-records");
    summary.insert("total-files-size".to_owned(), "many".into());
    let foreign = Loaded::new(base.name, serde_json::from_value(document).unwrap(), base.metadata_location);
    let after = append(&foreign, vec![file("b", "x", 4)], &io, &ids).await;
    let summary = &after.metadata.current_snapshot().unwrap().summary().additional_properties;
    assert_eq!(summary.get("total-records"), None);
    assert_eq!(summary.get("total-files-size"), None);
    assert_eq!(summary["total-data-files"], "2");
}

#[tokio::test]
async fn row_lineage_tables_number_their_rows() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let mut creation = creation();
    creation.format_version = FormatVersion::V3;
    let name = table(&ids).name;
    let base = metadata::create(creation, "file:///w/ns/t".to_owned(), time(0), &ids).unwrap().loaded(name);
    let first = append(&base, vec![file("a", "x", 3), file("b", "y", 4)], &io, &ids).await;
    let second = append(&first, vec![file("c", "x", 5)], &io, &ids).await;
    let third = append(&second, vec![], &io, &ids).await;
    let ranges: Vec<_> = ancestry(&third.metadata).map(|s| s.row_range().unwrap()).collect();
    assert_eq!(ranges, [(12, 0), (7, 5), (0, 7)]);
    assert_eq!(third.metadata.next_row_id(), 12);
    let lists = manifests(&third.metadata, third.metadata.current_snapshot().unwrap(), &io).await.unwrap();
    assert_eq!(lists.iter().map(|m| m.first_row_id).collect::<Vec<_>>(), [Some(7), Some(0)]);
}

#[tokio::test]
async fn a_table_upgraded_to_row_lineage_numbers_its_old_rows_at_the_first_commit() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let old = append(&table(&ids), vec![file("a", "x", 3)], &io, &ids).await;
    let upgrade = TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V3 };
    let base = stage(&old, &[], &[upgrade], time(6), &ids).unwrap().loaded(old.name.clone());
    let after = append(&base, vec![file("b", "x", 4)], &io, &ids).await;
    assert_eq!(after.metadata.next_row_id(), 7);
    assert_eq!(live(&after, &io).await.len(), 2);
}

#[test]
fn what_can_not_be_right_is_refused_before_anything_is_written() {
    let ids = SeededIds::new(1);
    let base = table(&ids);
    let check = |change: Change, kind: Kind, says: &str| {
        let refused = plan(&base, change).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.to_string().contains(says), "{refused}");
    };
    let with = |operation| Change { operation, ..Change::append(vec![]) };
    check(with(Operation::Overwrite), Kind::Bug, "nothing is removed");
    check(with(Operation::Rewrite { starting_sequence_number: 0 }), Kind::Bug, "nothing is removed");
    let removed = || vec!["f".to_owned()];
    let ahead = Operation::Rewrite { starting_sequence_number: 1 };
    check(Change { removed: removed(), ..with(ahead) }, Kind::Bug, "not there yet");
    check(Change { removed: removed(), ..with(Operation::RowDelta) }, Kind::Bug, "removes no files");
    let twice = Change { removed: vec!["f".to_owned(); 2], ..with(Operation::Overwrite) };
    check(twice, Kind::Bug, "removed twice");
    let live = vec![Validation::DataFilesLive(removed())];
    let both = Change { removed: removed(), validations: live, ..with(Operation::Overwrite) };
    check(both, Kind::Bug, "must be live");
    check(Change { removed: vec!["f".to_owned()], ..Change::append(vec![]) }, Kind::Bug, "only adds");
    check(Change::append(vec![file("a", "x", 1), file("a", "y", 1)]), Kind::Bug, "twice");
    check(Change::append(vec![NewFile { spec_id: 9, ..file("a", "x", 1) }]), Kind::Bug, "spec 9");

    let builder = |partition: Vec<Option<Literal>>, content| {
        let file = DataFileBuilder::default()
            .content(content)
            .file_path("file:///f".to_owned())
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter(partition))
            .record_count(1)
            .file_size_in_bytes(1)
            .build()
            .unwrap();
        Change::append(vec![NewFile { spec_id: 0, file }])
    };
    check(builder(vec![], DataContentType::Data), Kind::Bug, "0 partition values");
    check(builder(vec![None, None], DataContentType::Data), Kind::Bug, "2 partition values");
    check(builder(vec![None], DataContentType::PositionDeletes), Kind::Bug, "not a data file");
    let nested = Literal::Struct(Struct::empty());
    check(builder(vec![Some(nested)], DataContentType::Data), Kind::Bug, "nested");
}

#[tokio::test]
async fn a_partition_value_of_another_type_and_a_counted_property_are_refused() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let base = table(&ids);
    let mut wrong = file("a", "x", 1);
    wrong.file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path("file:///f".to_owned())
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::from_iter([Some(Literal::long(1))]))
        .record_count(1)
        .file_size_in_bytes(1)
        .build()
        .unwrap();
    assert!(prepare(&base, Change::append(vec![wrong]), terms(1), &io, &ids).await.is_err());
    for key in ["total-records", "operation", "added-dvs", "partitions.a=1"] {
        let mut says = terms(1);
        says.summary.insert(key.to_owned(), "1".to_owned());
        let refused = prepare(&base, Change::append(vec![]), says, &io, &ids).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Bug, "{key}");
    }
}

#[test]
fn parents_that_run_in_a_circle_end() {
    let mut document = serde_json::to_value(&*table(&SeededIds::new(1)).metadata).unwrap();
    let snapshot = |id: i64, parent: i64| {
        serde_json::json!({
            "snapshot-id": id, "parent-snapshot-id": parent, "sequence-number": id, "timestamp-ms": time(0).millis(),
            "manifest-list": "file:///l", "summary": {"operation": "append"}, "schema-id": 0,
        })
    };
    document["snapshots"] = serde_json::json!([snapshot(1, 2), snapshot(2, 1)]);
    document["last-sequence-number"] = 2.into();
    document["current-snapshot-id"] = 2.into();
    document["refs"] = serde_json::json!({"main": {"snapshot-id": 2, "type": "branch"}});
    let table: TableMetadata = serde_json::from_value(document).unwrap();
    assert_eq!(ancestry(&table).map(|s| s.snapshot_id()).collect::<Vec<_>>(), [2, 1]);
}

/// A table with a property.
fn with_property(base: &Loaded, key: &str, value: &str, ids: &SeededIds) -> Loaded {
    let updates = [(key.to_owned(), value.to_owned())].into();
    stage(base, &[], &[TableUpdate::SetProperties { updates }], time(6), ids).unwrap().loaded(base.name.clone())
}

#[tokio::test]
async fn many_small_manifests_become_one_and_every_file_keeps_its_age() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let mut table = with_property(&table(&ids), "commit.manifest.min-count-to-merge", "4", &ids);
    let mut names = Vec::new();
    let mut apart = table.clone();
    for n in 0..10 {
        let name = format!("f{n}");
        table = append(&table, vec![file(&name, if n % 2 == 0 { "x" } else { "y" }, 3)], &io, &ids).await;
        names.push(name);
        let lists = manifests(&table.metadata, table.metadata.current_snapshot().unwrap(), &io).await.unwrap();
        assert!(lists.len() <= 4, "{n}: {}", lists.len());
        if n == 3 {
            apart = table.clone();
        }
    }
    let ages: Vec<i64> = live(&table, &io).await.iter().map(|(_, _, number)| *number).collect();
    assert_eq!(ages, (1..=10).collect::<Vec<_>>(), "the n-th file is of the n-th commit");
    let found: Vec<String> = live(&table, &io).await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(found, names);
    let by: std::collections::HashSet<i64> = live(&table, &io).await.iter().map(|(_, by, _)| *by).collect();
    assert_eq!(by.len(), 10, "each file is of the snapshot that added it");
    // The commit that merges says so, and its totals go on.
    let after = append(&apart, vec![], &io, &ids).await;
    let head = after.metadata.current_snapshot().unwrap();
    let counters = counters(head);
    for counter in
        ["manifests-created=1", "manifests-kept=0", "manifests-replaced=4", "entries-processed=4", "total-records=12"]
    {
        assert!(counters.iter().any(|c| c == counter), "{counter}: {counters:?}");
    }
    let [merged] = &manifests(&after.metadata, head, &io).await.unwrap()[..] else { panic!("not one manifest") };
    assert_eq!((merged.sequence_number, merged.min_sequence_number), (head.sequence_number(), 1));
    assert_eq!((merged.added_files_count, merged.existing_files_count), (Some(0), Some(4)));
    let partitions = merged.partitions.as_ref().unwrap();
    assert!(partitions[0].lower_bound != partitions[0].upper_bound, "x to y");
}

#[tokio::test]
async fn manifests_stay_apart_where_a_table_wants_it_and_below_the_number() {
    for (key, value) in [
        ("commit.manifest-merge.enabled", "false"),
        ("commit.manifest.min-count-to-merge", "7"),
        ("commit.manifest.target-size-bytes", "100"),
    ] {
        let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
        let base = with_property(&table(&ids), "commit.manifest.min-count-to-merge", "3", &ids);
        let mut table = with_property(&base, key, value, &ids);
        for n in 0..6 {
            table = append(&table, vec![file(&format!("f{n}"), "x", 3)], &io, &ids).await;
        }
        let lists = manifests(&table.metadata, table.metadata.current_snapshot().unwrap(), &io).await.unwrap();
        assert_eq!(lists.len(), 6, "{key}");
    }
}

#[tokio::test]
async fn after_a_conflict_the_new_bases_manifests_are_merged_and_ours_is_kept() {
    let (io, ids) = (FileIO::new_with_memory(), SeededIds::new(1));
    let mut base = with_property(&table(&ids), "commit.manifest.min-count-to-merge", "3", &ids);
    for n in 0..3 {
        base = append(&base, vec![file(&format!("f{n}"), "x", 3)], &io, &ids).await;
    }
    let mine = prepare(&base, Change::append(vec![file("mine", "x", 4)]), terms(9), &io, &ids).await.unwrap();
    let theirs = append(&base, vec![file("theirs", "x", 5)], &io, &ids).await;
    let again = mine.rebase(&theirs, terms(9), &io, &ids).await.unwrap();
    let after = committed(&theirs, &again, &ids);
    let ages: Vec<_> = live(&after, &io).await.into_iter().map(|(name, _, number)| (name, number)).collect();
    let want = [("f0", 1), ("f1", 2), ("f2", 3), ("mine", 5), ("theirs", 4)];
    assert_eq!(ages, want.map(|(name, number)| (name.to_owned(), number)));
}
