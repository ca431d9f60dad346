use std::collections::HashMap;

use iceberg::spec::{
    MAIN_BRANCH, NestedField, PartitionSpec, PrimitiveType, Schema, SnapshotReference, SnapshotRetention, SortOrder,
    Transform, Type,
};
use model::id::SeededIds;

use super::*;

pub(crate) fn schema() -> Schema {
    let column = |id, name: &str, kind| NestedField::required(id, name, Type::Primitive(kind)).into();
    Schema::builder()
        .with_fields([column(10, "id", PrimitiveType::Long), column(20, "name", PrimitiveType::String)])
        .build()
        .unwrap()
}

/// Columns `id` and `name`, partitioned by `name`.
pub(crate) fn creation() -> TableCreation {
    let spec = PartitionSpec::builder(schema())
        .add_partition_field("name", "name", Transform::Identity)
        .unwrap()
        .build()
        .unwrap();
    TableCreation::new(schema(), spec, SortOrder::unsorted_order(), HashMap::new())
}

pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

pub(crate) fn table(ids: &dyn Ids) -> Loaded {
    let staged = create(creation(), "file:///w/ns/t".to_owned(), time(0), ids).unwrap();
    staged.loaded(TableName { namespace: "ns".to_owned(), name: "t".to_owned() })
}

fn set(key: &str, value: &str) -> TableUpdate {
    TableUpdate::SetProperties { updates: HashMap::from([(key.to_owned(), value.to_owned())]) }
}

#[test]
fn a_new_table_is_the_same_under_one_seed() {
    let (a, b) = (table(&SeededIds::new(1)), table(&SeededIds::new(1)));
    assert_eq!(a.metadata, b.metadata);
    assert_eq!(a.metadata_location, b.metadata_location);
    assert_eq!(a.metadata.last_updated_ms(), time(0).millis());
    assert!(a.metadata_location.starts_with("file:///w/ns/t/metadata/00000-"), "{}", a.metadata_location);
    let ids: Vec<_> = a.metadata.current_schema().as_struct().fields().iter().map(|f| f.id).collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(a.metadata.default_partition_spec().fields()[0].source_id, 2);

    let mut old = creation();
    old.format_version = FormatVersion::V1;
    assert_eq!(
        create(old, "file:///w".to_owned(), time(0), &SeededIds::new(1)).unwrap_err().kind(),
        Kind::Misconfigured
    );
    let mut reserved = creation();
    reserved.properties.insert("format-version".to_owned(), "2".to_owned());
    let refused = create(reserved, "file:///w".to_owned(), time(0), &SeededIds::new(1)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Misconfigured);
}

#[test]
fn versions_count_on_and_the_log_keeps_as_many_files_as_asked() {
    let ids = SeededIds::new(1);
    let mut base = table(&ids);
    base = stage(&base, &[], &[set("write.metadata.previous-versions-max", "2")], time(1), &ids)
        .unwrap()
        .loaded(base.name.clone());
    let mut locations = vec![base.metadata_location.clone()];
    for n in 2..5 {
        base = stage(&base, &[], &[set("n", &n.to_string())], time(n), &ids).unwrap().loaded(base.name.clone());
        locations.push(base.metadata_location.clone());
    }
    assert!(base.metadata_location.contains("/00004-"), "{}", base.metadata_location);
    let logged: Vec<_> = base.metadata.metadata_log().iter().map(|entry| entry.metadata_file.clone()).collect();
    assert_eq!(logged, locations[1..3]);
    assert_eq!(base.metadata.properties()["n"], "4");
}

#[test]
fn time_never_runs_back_and_comes_from_the_caller() {
    let ids = SeededIds::new(1);
    let base = table(&ids);
    let later = apply(&base, &[], &[set("a", "1")], time(500)).unwrap();
    assert_eq!(later.last_updated_ms(), time(500).millis());
    let earlier = apply(&base, &[], &[set("a", "1")], time(-3_600_000)).unwrap();
    assert_eq!(earlier.last_updated_ms(), time(1).millis());
}

#[test]
fn moving_main_back_is_logged_at_the_given_time() {
    let ids = SeededIds::new(1);
    let mut base = table(&ids);
    for id in [7, 8] {
        let snapshot = iceberg::spec::Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id(base.metadata.current_snapshot_id())
            .with_sequence_number(base.metadata.last_sequence_number() + 1)
            .with_timestamp_ms(time(id).millis())
            .with_manifest_list("file:///w/list.avro")
            .with_summary(iceberg::spec::Summary {
                operation: iceberg::spec::Operation::Append,
                additional_properties: HashMap::new(),
            })
            .with_schema_id(0)
            .build();
        base = stage(&base, &[], &[TableUpdate::AddSnapshot { snapshot }, main_at(id)], time(0), &ids)
            .unwrap()
            .loaded(base.name.clone());
        assert_eq!(base.metadata.last_updated_ms(), time(id).millis(), "the snapshot's time");
    }
    let back = apply(&base, &[], &[main_at(7)], time(900)).unwrap();
    assert_eq!(back.current_snapshot_id(), Some(7));
    let log: Vec<_> = back.history().iter().map(|entry| (entry.snapshot_id, entry.timestamp_ms)).collect();
    assert_eq!(log, [(7, time(7).millis()), (8, time(8).millis()), (7, time(900).millis())]);
}

#[test]
fn a_table_whose_last_writer_was_ahead_of_every_clock_still_changes() {
    let ids = SeededIds::new(1);
    let base = table(&ids);
    let year_2100 = 4_102_444_800_000;
    let mut document = serde_json::to_value(&*base.metadata).unwrap();
    let snapshot = serde_json::json!({
        "snapshot-id": 7, "sequence-number": 1, "timestamp-ms": year_2100, "manifest-list": "file:///l",
        "summary": {"operation": "append"}, "schema-id": 0,
    });
    document["snapshots"] = serde_json::json!([snapshot]);
    document["snapshot-log"] = serde_json::json!([{"snapshot-id": 7, "timestamp-ms": year_2100}]);
    document["metadata-log"] = serde_json::json!([{"metadata-file": "file:///m", "timestamp-ms": year_2100}]);
    document["refs"] = serde_json::json!({"main": {"snapshot-id": 7, "type": "branch"}});
    document["current-snapshot-id"] = 7.into();
    document["last-sequence-number"] = 1.into();
    document["last-updated-ms"] = year_2100.into();
    let ahead = Loaded::new(base.name, serde_json::from_value(document).unwrap(), base.metadata_location);

    let after = apply(&ahead, &[], &[set("a", "1")], time(0)).unwrap();
    assert_eq!(after.last_updated_ms(), year_2100 + 1);
    assert_eq!(after.history(), ahead.metadata.history());
    let logged: Vec<_> = after.metadata_log().iter().map(|entry| entry.timestamp_ms).collect();
    assert_eq!(logged, [year_2100, year_2100]);
    let mut expected = ahead.metadata.properties().clone();
    expected.insert("a".to_owned(), "1".to_owned());
    assert_eq!(*after.properties(), expected);
}

fn main_at(snapshot_id: i64) -> TableUpdate {
    TableUpdate::SetSnapshotRef {
        ref_name: MAIN_BRANCH.to_owned(),
        reference: SnapshotReference {
            snapshot_id,
            retention: SnapshotRetention::Branch {
                min_snapshots_to_keep: None,
                max_snapshot_age_ms: None,
                max_ref_age_ms: None,
            },
        },
    }
}

#[test]
fn a_requirement_that_fails_is_a_conflict_and_an_impossible_update_is_not() {
    let base = table(&SeededIds::new(1));
    let check = |requirement: TableRequirement, expected: Option<Kind>| {
        let applied = apply(&base, std::slice::from_ref(&requirement), &[], time(1));
        assert_eq!(applied.err().map(|e| e.kind()), expected, "{requirement:?}");
    };
    check(TableRequirement::UuidMatch { uuid: base.metadata.uuid() }, None);
    check(TableRequirement::UuidMatch { uuid: Uuid::from_bytes([1; 16]) }, Some(Kind::Conflict));
    let main = |snapshot_id| TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id };
    check(main(None), None);
    check(main(Some(7)), Some(Kind::Conflict));
    let field = |id| TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: id };
    check(field(2), None);
    check(field(3), Some(Kind::Conflict));
    assert_eq!(apply(&base, &[], &[main_at(99)], time(1)).unwrap_err().kind(), Kind::Bug);
}

#[test]
fn versions_are_read_from_file_names_of_both_forms() {
    let check = |location: &str, expected: u64| assert_eq!(version_of(location), expected, "{location}");
    check("file:///t/metadata/00012-a-b.metadata.json", 12);
    check("file:///t/metadata/123456-a.gz.metadata.json", 123_456);
    check("file:///t/metadata/v7.metadata.json", 7);
    check("file:///t/metadata/x.metadata.json", 0);
    check("00003-a", 3);
    check("", 0);
}

#[tokio::test]
async fn files_are_compressed_and_placed_as_the_table_says() {
    let dir = tempfile::tempdir().unwrap();
    let io = crate::storage::local();
    let location = crate::storage::location_of(dir.path()).unwrap();
    let check = |codec: &str, folder: Option<String>, suffix: &str| {
        let mut creation = creation();
        creation.properties.insert("write.metadata.compression-codec".to_owned(), codec.to_owned());
        creation.properties.extend(folder.map(|f| ("write.metadata.path".to_owned(), f)));
        let staged = create(creation, location.clone(), time(0), &SeededIds::new(codec.len() as u64)).unwrap();
        assert!(staged.location.ends_with(suffix), "{}", staged.location);
        staged
    };
    let name = TableName { namespace: "ns".to_owned(), name: "t".to_owned() };
    let elsewhere = format!("{location}/meta data/");
    for staged in [
        check("none", None, ".metadata.json"),
        check("gzip", None, ".gz.metadata.json"),
        check("none", Some(elsewhere.clone()), ".metadata.json"),
    ] {
        staged.write(&io).await.unwrap();
        assert_eq!(*read(&io, &name, &staged.location).await.unwrap().metadata, staged.metadata);
    }
    let mut bad = creation();
    bad.properties.insert("write.metadata.compression-codec".to_owned(), "lz77".to_owned());
    assert_eq!(create(bad, location, time(0), &SeededIds::new(1)).unwrap_err().kind(), Kind::Misconfigured);
}
