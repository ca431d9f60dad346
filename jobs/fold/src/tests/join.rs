//! Tables that others made: what is folded into them, what of them stays as it is, and which of them are refused.

use std::collections::HashMap;

use arrow::array::{ArrayRef, Float64Array, StringArray, StringViewArray, StructArray};
use arrow::util::display::array_value_to_string;
use iceberg::TableUpdate;
use iceberg::spec::{
    FormatVersion, NestedField, NestedFieldRef, PrimitiveType, SortOrder, StructType, TableMetadataBuilder,
    Transform as IcebergTransform, Type, UnboundPartitionField, UnboundPartitionSpec,
};
use pipeline::resolved::{Deletes, SortField, Upsert, Write};
use table::catalog::TableCreation;
use table::data_file::{PartitionedWriter, Target};
use table::snapshot::{self, Change, NewFile, Terms, branch};
use testkit::catalog::faulty::FaultyCatalog;

use super::anchors::{expire, foreign, line};
use super::evolution::{Staged, ints, longs, stage, texts};
use super::history::change;
use super::*;

const LONG: Type = Type::Primitive(PrimitiveType::Long);
const INT: Type = Type::Primitive(PrimitiveType::Int);
const TEXT: Type = Type::Primitive(PrimitiveType::String);

fn field(id: i32, name: &str, data_type: Type) -> NestedFieldRef {
    NestedField::optional(id, name, data_type).into()
}

fn required(id: i32, name: &str, data_type: Type) -> NestedFieldRef {
    NestedField::required(id, name, data_type).into()
}

fn schema(fields: Vec<NestedFieldRef>) -> iceberg::spec::Schema {
    iceberg::spec::Schema::builder().with_fields(fields).build().unwrap()
}

/// A table as another engine would make it, not partitioned.
fn creation(fields: Vec<NestedFieldRef>) -> TableCreation {
    let spec = UnboundPartitionSpec::builder().build();
    TableCreation::new(schema(fields), spec, SortOrder::unsorted_order(), HashMap::new())
}

/// Rows that have an `id`, a `name` and a `region`, by which the table is partitioned.
fn regions() -> TableCreation {
    let by = UnboundPartitionField::builder().source_id(3).name("region".to_owned());
    let by = by.transform(IcebergTransform::Identity).build();
    let spec = UnboundPartitionSpec::builder().add_partition_fields([by]).unwrap().build();
    let fields = vec![required(1, "id", LONG), field(2, "name", TEXT), field(3, "region", TEXT)];
    TableCreation { partition_spec: spec, ..creation(fields) }
}

/// A pipeline that joins, and the table that it joins.
async fn world(creation: TableCreation, table: impl FnOnce(&mut Table)) -> World {
    let mut world = World::new(51);
    let mut pipeline = pipeline();
    (pipeline.table.exists, pipeline.table.record_columns) = (Exists::Join, false);
    (pipeline.table.partition_by, pipeline.table.sort_by) = (Vec::new(), Vec::new());
    table(&mut pipeline.table);
    world.pipeline = Arc::new(pipeline);
    world.catalog.create(&world.pipeline.table.name, creation).await.unwrap();
    world
}

fn upserts(table: &mut Table, write: Write) {
    (table.mode, table.record_columns) = (Mode::Upsert, true);
    table.primary_key = vec!["id".to_owned()];
    table.upsert = Some(Upsert { order_by: Vec::new(), write, deletes: Deletes::Hard });
}

/// Rows of its owner: id, name, region.
async fn own_rows(world: &World, rows: &[(i64, &str, &str)]) {
    let loaded = world.loaded().await;
    let io = storage::local();
    let target = Arc::new(Target::new(&loaded.metadata, &[], io.clone(), world.ids.clone()).unwrap());
    let mut writer = PartitionedWriter::new(Arc::clone(&target), usize::MAX).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let names: ArrayRef = Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| row.1)));
    let regions: ArrayRef = Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| row.2)));
    let own = [ids, names, regions];
    let arrow = target.arrow_schema();
    let column = |place: usize| match own.get(place) {
        Some(column) => Arc::clone(column),
        None => arrow::array::new_null_array(arrow.field(place).data_type(), rows.len()),
    };
    let columns = (0..arrow.fields().len()).map(column).collect();
    writer.write(RecordBatch::try_new(Arc::clone(arrow), columns).unwrap()).await.unwrap();
    let spec_id = loaded.metadata.default_partition_spec_id();
    let files = writer.finish().await.unwrap().into_iter().map(|file| NewFile { spec_id, file }).collect();
    let terms = Terms { time: world.clock.now(), summary: BTreeMap::new(), properties: BTreeMap::new() };
    let prepared = snapshot::prepare(&loaded, Change::append(files), terms, &io, world.ids.as_ref()).await.unwrap();
    let (requirements, updates) = (prepared.requirements().to_vec(), prepared.updates().to_vec());
    world.catalog.commit(&loaded, requirements, updates).await.unwrap();
}

/// The values of some columns, as text, in order.
async fn values(world: &World, names: &[&str]) -> Vec<String> {
    let io = storage::local();
    let plan = scan::plan(&world.loaded().await.metadata, &io, &Request::default()).await.unwrap();
    let batches: Vec<RecordBatch> = plan.execute(io).try_collect().await.unwrap();
    let row = |batch: &RecordBatch, row: usize| {
        let value = |name: &&str| array_value_to_string(&batch[*name], row).unwrap();
        names.iter().map(value).collect::<Vec<_>>().join("|")
    };
    let mut rows: Vec<String> =
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|n| row(batch, n)).collect::<Vec<_>>()).collect();
    rows.sort_unstable();
    rows
}

/// The table's columns: `name type`, with `!` behind a required one.
async fn columns(world: &World) -> Vec<String> {
    let metadata = world.loaded().await.metadata;
    let fields = metadata.current_schema().as_struct().fields().iter();
    fields.map(|f| format!("{} {}{}", f.name, f.field_type, if f.required { "!" } else { "" })).collect()
}

fn staged<'a>(ids: &[i64], names: &[&'a str]) -> [Staged<'a>; 2] {
    [("id", "1", "long", longs(ids.iter().copied())), ("name", "2", "string", texts(names.iter().copied()))]
}

/// A fold stops with this code, and leaves neither a file nor a settlement nor a dead letter.
async fn refused(world: &World, code: &str) -> String {
    let files = |world: &World| {
        let mut found = Vec::new();
        let mut folders = vec![world._folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    };
    let kept = |world: &World| -> Vec<String> {
        world.store.objects().into_keys().filter(|key| !key.starts_with("runs/")).collect()
    };
    let before = (files(world), kept(world), world.loaded().await.metadata_location);
    let dry = Fold { settings: Settings { dry_run: true, ..Settings::default() }, ..world.fold() };
    assert_eq!(dry.run().await.unwrap_err().code(), code, "a dry run says what a fold does");
    let error = world.fold().run().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (model::failure::Kind::Misconfigured, code), "{error}");
    assert!(error.remedy().is_some(), "{error}");
    assert_eq!((files(world), kept(world), world.loaded().await.metadata_location), before, "{error}");
    error.to_string()
}

#[tokio::test]
async fn rows_go_beside_those_of_others_and_the_tables_own_wins() {
    let mut creation = regions();
    creation.properties = [("owner".to_owned(), "them".to_owned())].into();
    let world = world(creation, |table| {
        table.partition_by = vec![PartitionField { column: "id".to_owned(), transform: Transform::Bucket(4) }];
        table.sort_by = vec![SortField { column: "id".to_owned(), descending: true, nulls_first: false }];
        table.properties = [("owner".to_owned(), "us".to_owned()), ("more".to_owned(), "x".to_owned())].into();
    })
    .await;
    own_rows(&world, &[(1, "a", "eu"), (2, "b", "us")]).await;
    let before = world.loaded().await.metadata;
    // A narrower type, no region, and a field that the table has not.
    let extra: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    stage(
        &world,
        0,
        &[
            ("id", "1", "int", ints([3, 4])),
            ("name", "2", "string", texts(["c", "d"])),
            ("note", "9", "string?", extra),
        ],
    );
    let report = world.fold().run().await.unwrap();
    let table = &report.tables[0];
    assert_eq!((table.rows_added, table.dead_letters), (2, 0));
    assert_eq!(table.column_changes, ["note string is added"]);
    let said = [
        "partition_by is bucket(4, id) in the pipeline file and region in the table: the table's own wins",
        "sort_by is id desc nulls last in the pipeline file and nothing in the table: the table's own wins",
        "more is x in the pipeline file and nothing in the table: the table's own wins",
        "owner is us in the pipeline file and them in the table: the table's own wins",
    ];
    assert_eq!(table.differences, said);
    assert_eq!(columns(&world).await, ["id long!", "name string", "region string", "note string"]);
    assert_eq!(values(&world, &["id", "name", "region", "note"]).await, ["1|a|eu|", "2|b|us|", "3|c||x", "4|d||"]);
    let after = world.loaded().await.metadata;
    assert_eq!(after.default_partition_spec_id(), before.default_partition_spec_id());
    assert_eq!(after.snapshots().len(), 2, "nobody's history is expired");
    let mut own: Vec<&String> =
        after.properties().keys().filter(|name| !before.properties().contains_key(*name)).collect();
    own.sort();
    assert_eq!(own, [&crate::bind::property(&world.id), &model::ledger::property(&world.id)]);
    // What came before is known, and nothing is said twice. Bound by source: a field that is renamed stays in its column.
    world.wait(1);
    stage(&world, 1, &[("id", "1", "long", longs([4])), ("name", "2", "string", texts(["d"]))]);
    stage(&world, 2, &[("id", "1", "long", longs([5])), ("called", "2", "string", texts(["e"]))]);
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].duplicates), (1, 1));
    assert!(report.tables[0].differences.is_empty() && report.tables[0].column_changes.is_empty());
    assert_eq!(values(&world, &["id", "name"]).await.last().unwrap(), "5|e");
}

#[tokio::test]
async fn columns_of_others_are_neither_widened_nor_relaxed() {
    let fields = vec![required(1, "id", LONG), field(2, "N", INT), required(3, "must", TEXT)];
    let world = world(creation(fields), |_| {}).await;
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("d")]));
    // Its owner spells a column otherwise, which is the same.
    stage(
        &world,
        0,
        &[
            ("id", "1", "long", longs([1, 2, 3, 4])),
            ("n", "2", "long", longs([7, i64::from(i32::MAX) + 1, 8, 9])),
            ("must", "3", "string?", texts),
        ],
    );
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].dead_letters), (2, 2));
    assert_eq!(columns(&world).await, ["id long!", "N int", "must string!"]);
    assert_eq!(values(&world, &["id", "N", "must"]).await, ["1|7|a", "4|9|d"]);
    let letters = world.store.objects().into_iter().find(|(key, _)| key.starts_with("dead-letters/")).unwrap().1;
    let letters = String::from_utf8(letters.to_vec()).unwrap();
    assert!(letters.contains("\"out_of_range\"") && letters.contains("\"missing_required\""), "{letters}");
}

#[tokio::test]
async fn record_columns_are_filled_where_there_are_any_and_added_where_they_are_asked_for() {
    let fields = vec![required(1, "id", LONG), field(2, "name", TEXT), field(3, "_kafka_offset", LONG)];
    let joined = world(creation(fields), |_| {}).await;
    stage(&joined, 5, &staged(&[1, 2], &["a", "b"]));
    joined.fold().run().await.unwrap();
    assert_eq!(columns(&joined).await, ["id long!", "name string", "_kafka_offset long"]);
    assert_eq!(values(&joined, &["id", "_kafka_offset"]).await, ["1|5", "2|6"]);
    let asked = world(regions(), |table| table.record_columns = true).await;
    own_rows(&asked, &[(1, "a", "eu")]).await;
    stage(&asked, 0, &staged(&[2], &["b"]));
    let report = asked.fold().run().await.unwrap();
    assert_eq!(report.tables[0].column_changes.len(), 5);
    assert_eq!(values(&asked, &["id", "_kafka_topic", "_kafka_offset"]).await, ["1||", "2|orders-eu|0"]);
}

#[tokio::test]
async fn rows_of_others_are_replaced_by_key_as_the_tables_own_property_says() {
    for (own, said, deletes) in [
        (None, Write::MergeOnRead, 1),
        (Some("copy-on-write"), Write::MergeOnRead, 0),
        (Some("merge-on-read"), Write::CopyOnWrite, 1),
    ] {
        let mut creation = regions();
        creation.properties.extend(own.map(|own| ("write.merge.mode".to_owned(), own.to_owned())));
        let world = world(creation, |table| upserts(table, said)).await;
        own_rows(&world, &[(1, "a", "eu"), (2, "b", "eu"), (3, "c", "eu"), (4, "d", "us")]).await;
        stage(&world, 0, &staged(&[2, 5], &["B", "E"]));
        let report = world.fold().run().await.unwrap();
        let table = &report.tables[0];
        assert_eq!((table.rows_added, table.rows_updated), (1, 1), "{own:?}");
        assert_eq!(table.differences.len(), usize::from(own.is_some()), "{own:?}");
        let rows = ["1|a|eu|", "2|B||0", "3|c|eu|", "4|d|us|", "5|E||1"];
        assert_eq!(values(&world, &["id", "name", "region", "_kafka_offset"]).await, rows, "{own:?}");
        let summary = world.loaded().await.metadata.current_snapshot().unwrap().summary().clone();
        let total = summary.additional_properties.get("total-delete-files").map_or("0", String::as_str).to_owned();
        assert_eq!(total, deletes.to_string(), "{own:?}");
        // Its owner goes on: a row more of a key of ours, and the next fold replaces both.
        own_rows(&world, &[(5, "theirs", "us")]).await;
        world.wait(1);
        stage(&world, 2, &staged(&[5], &["ours"]));
        world.fold().run().await.unwrap();
        assert_eq!(values(&world, &["id", "name"]).await, ["1|a", "2|B", "3|c", "4|d", "5|ours"], "{own:?}");
    }
}

#[tokio::test]
async fn rows_of_others_are_duplicates_of_their_key_in_mode_dedup() {
    let world = world(regions(), |table| {
        (table.mode, table.primary_key) = (Mode::Dedup, vec!["id".to_owned()]);
    })
    .await;
    own_rows(&world, &[(1, "a", "eu"), (2, "b", "us")]).await;
    stage(&world, 0, &staged(&[2, 3, 3], &["x", "c", "y"]));
    let report = world.fold().run().await.unwrap();
    assert_eq!((report.tables[0].rows_added, report.tables[0].deduplicated), (1, 2));
    assert_eq!(values(&world, &["id", "name"]).await, ["1|a", "2|b", "3|c"]);
}

#[tokio::test]
async fn a_table_that_can_not_be_written_as_it_is_stops_the_fold_before_anything_is() {
    let plain = || vec![required(1, "id", LONG), field(2, "name", TEXT)];
    let with = |more: NestedFieldRef| creation(plain().into_iter().chain([more]).collect());
    let property = |name: &str, value: &str| {
        let mut creation = creation(plain());
        creation.properties = [(name.to_owned(), value.to_owned())].into();
        creation
    };
    let uuid = |transform| {
        let by = UnboundPartitionField::builder().source_id(3).name("p".to_owned()).transform(transform).build();
        let spec = UnboundPartitionSpec::builder().add_partition_fields([by]).unwrap().build();
        TableCreation { partition_spec: spec, ..with(field(3, "u", Type::Primitive(PrimitiveType::Uuid))) }
    };
    let inner = StructType::new(vec![field(4, "there", TEXT), required(5, "gone", TEXT)]);
    let cases = [
        (
            "fold.join_unsupported",
            "version 3",
            TableCreation { format_version: FormatVersion::V3, ..creation(plain()) },
        ),
        ("fold.join_unsupported", "encrypted", property("encryption.key-id", "k")),
        ("fold.join_unsupported", "only Parquet", property("write.format.default", "orc")),
        ("fold.join_unsupported", "partitioned by u", uuid(IcebergTransform::Identity)),
        ("fold.table", "zstd, gzip", property("write.parquet.compression-codec", "lzma")),
        ("fold.column_required", "`must`", with(required(3, "must", TEXT))),
        ("fold.column_required", "`inside.gone`", with(field(3, "inside", Type::Struct(inner)))),
        ("fold.column_unfit", "and float in db.orders", with(field(3, "f", Type::Primitive(PrimitiveType::Float)))),
        ("fold.column_unfit", "and string in db.orders", with(field(3, "f", TEXT))),
        ("fold.record_columns", "`_kafka_offset` of type string", with(field(3, "_kafka_offset", TEXT))),
    ];
    for (code, words, creation) in cases {
        let world = world(creation, |_| {}).await;
        let [id, name] = staged(&[1], &["a"]);
        let f: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
        let there: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let of = Field::new("there", DataType::Utf8, true);
        let inside: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(of), there)]));
        stage(&world, 0, &[id, name, ("f", "f", "double", f), ("inside", "i", "struct<there: string>", inside)]);
        let message = refused(&world, code).await;
        assert!(message.contains(words), "{message}");
    }
    // No catalog of ours makes one of the first version.
    let TableCreation { schema, partition_spec, sort_order, properties, .. } = creation(plain());
    let (location, version) = ("file:///warehouse/t".to_owned(), FormatVersion::V1);
    let first = TableMetadataBuilder::new(schema, partition_spec, sort_order, location, version, properties).unwrap();
    let error = crate::join::admissible(&pipeline().table.name, &first.build().unwrap().metadata).unwrap_err();
    assert!(
        error.to_string().contains("version 1") && error.remedy().unwrap().contains("'format-version' = '2'"),
        "{error}"
    );
    // Buckets of any type are numbers.
    let world = world(uuid(IcebergTransform::Bucket(4)), |_| {}).await;
    stage(&world, 0, &staged(&[1], &["a"]));
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 1);
}

#[tokio::test]
async fn rows_are_merged_by_the_tables_own_identifier_fields_or_not_at_all() {
    let identified = || {
        let fields = vec![required(1, "id", LONG), required(2, "name", TEXT)];
        let schema = iceberg::spec::Schema::builder().with_fields(fields).with_identifier_field_ids([1, 2]);
        TableCreation { schema: schema.build().unwrap(), ..creation(vec![required(1, "id", LONG)]) }
    };
    let other = world(identified(), |table| upserts(table, Write::Auto)).await;
    stage(&other, 0, &staged(&[1], &["a"]));
    let message = refused(&other, "fold.join_key").await;
    assert!(message.contains("\"id\", \"name\""), "{message}");
    let same = world(identified(), |table| {
        upserts(table, Write::Auto);
        table.primary_key = vec!["name".to_owned(), "id".to_owned()];
    })
    .await;
    let appends = world(identified(), |_| {}).await;
    for world in [same, appends] {
        stage(&world, 0, &staged(&[1], &["a"]));
        assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 1);
    }
}

#[tokio::test]
async fn what_is_said_of_a_table_that_is_or_is_not_there_is_held() {
    let with = |world: &World, exists| {
        let mut pipeline = Pipeline::clone(&world.pipeline);
        pipeline.table.exists = exists;
        Fold { pipeline: Arc::new(pipeline), ..world.fold() }
    };
    let remedy = |error: &Error| error.remedy().unwrap().to_owned();
    // Nobody has made it: neither is it made, nor does a fold that has nothing to do say so.
    let mut none = World::new(3);
    let mut pipeline = pipeline();
    pipeline.table.exists = Exists::Join;
    none.pipeline = Arc::new(pipeline);
    assert_eq!(none.fold().stands().await.unwrap_err().code(), "fold.table_missing");
    none.stage(&["0:0:rr"]);
    let error = none.fold().run().await.unwrap_err();
    assert_eq!(error.code(), "fold.table_missing");
    assert!(remedy(&error).contains("`exists = \"create\"`"), "{error}");
    assert!(none.catalog.load(&none.pipeline.table.name).await.unwrap().is_none());
    // Others have.
    let world = world(regions(), |_| {}).await;
    stage(&world, 0, &staged(&[1], &["a"]));
    for (exists, code) in [(Exists::Create, "fold.foreign_table"), (Exists::MustBeNew, "fold.table_exists")] {
        let error = with(&world, exists).run().await.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(remedy(&error).contains("`exists = \"join\"`"), "{error}");
    }
    world.fold().run().await.unwrap();
    for exists in [Exists::Create, Exists::MustBeNew] {
        let error = with(&world, exists).run().await.unwrap_err();
        assert_eq!(error.code(), "fold.properties_unset");
        assert!(remedy(&error).contains("`exists = \"join\"`"), "{error}");
    }
    // A second pipeline joins a table that frazil made for the first.
    let made = World::new(4);
    made.stage(&["0:0:rr"]);
    made.fold().run().await.unwrap();
    let second = Fold { id: PipelineId::new("second", made.ids.as_ref()), ..with(&made, Exists::Join) };
    let (mut footer, rows) = invocation(&second.id, made.clock.now().minute(), &["7:0:rr"]);
    let mut coverage = Coverage::default();
    for (at, covered) in footer.coverage.iter() {
        let at = TopicPartition { source: SourceId::of("another cluster"), ..at.clone() };
        coverage.insert(at, covered.clone()).unwrap();
    }
    footer.coverage = coverage;
    let key = StagedKey { pipeline: second.id.clone(), minute: made.clock.now().minute(), hash: ObjectHash::new(9) };
    made.store.insert(&key.to_string(), object::encode(&footer, &[rows]).unwrap());
    assert_eq!(second.run().await.unwrap().tables[0].rows_added, 2);
    assert_eq!(made.rows().await, wanted(&["0:0:rr", "7:0:rr"]));
}

/// A world whose table others made and two folds went into, each with its own row.
async fn joined_twice() -> World {
    let world = world(regions(), |_| {}).await;
    own_rows(&world, &[(1, "a", "eu")]).await;
    for (offset, id) in [(0, 10), (1, 11)] {
        stage(&world, offset, &staged(&[id], &["x"]));
        world.fold().run().await.unwrap();
        world.wait(1);
    }
    world
}

#[tokio::test]
async fn a_ledger_is_trusted_over_whatever_others_committed_and_expired_and_not_over_what_they_moved_back() {
    let world = joined_twice().await;
    for _ in 0..3 {
        foreign(&world, BTreeMap::new()).await;
        let all = line(&world).await;
        expire(&world, &all[1..]).await;
    }
    assert_eq!(line(&world).await.len(), 1, "nothing of ours is retained");
    stage(&world, 1, &staged(&[11, 12], &["x", "y"]));
    let report = world.fold().run().await.unwrap();
    // No snapshot tells which objects are folded: all of them are judged again, by the ledger.
    assert_eq!((report.tables[0].rows_added, report.tables[0].duplicates), (1, 3));
    assert_eq!(values(&world, &["id"]).await, ["1", "10", "11", "12"]);
    // The first attempt died before its commit, and others went on and expired what it stood on.
    let world = self::world(regions(), |_| {}).await;
    own_rows(&world, &[(1, "a", "eu")]).await;
    stage(&world, 0, &staged(&[10], &["x"]));
    let dies = FaultyCatalog::new(world.catalog.clone(), storage::local(), world.ids.clone()).kill_at(1);
    world.fold_with(world.store.clone(), Arc::new(dies), storage::local()).run().await.unwrap_err();
    assert!(world.store.objects().into_keys().any(|key| key.starts_with("settled/")));
    for _ in 0..3 {
        foreign(&world, BTreeMap::new()).await;
        let all = line(&world).await;
        expire(&world, &all[1..]).await;
    }
    assert_eq!(world.fold().run().await.unwrap().tables[0].rows_added, 1);
    assert_eq!(values(&world, &["id"]).await, ["1", "10"]);
    // Moved back by another hand, and what showed it expired.
    let world = joined_twice().await;
    let all = line(&world).await;
    change(&world, vec![branch::move_main(&world.loaded().await.metadata, all[2])]).await;
    for _ in 0..2 {
        foreign(&world, BTreeMap::new()).await;
    }
    let head = line(&world).await[0];
    let gone: Vec<i64> =
        world.loaded().await.metadata.snapshots().map(|s| s.snapshot_id()).filter(|id| *id != head).collect();
    expire(&world, &gone).await;
    let error = world.fold().run().await.unwrap_err();
    assert_eq!(error.code(), "fold.rewound");
}

#[tokio::test]
async fn going_back_leaves_what_others_did_alone() {
    let world = joined_twice().await;
    let before = line(&world).await;
    let plan = world.fold().plan_rollback(crate::rewind::Target::Snapshot(before[1])).await.unwrap();
    assert_eq!((plan.snapshots, plan.to), (1, before[1]));
    own_rows(&world, &[(2, "b", "us")]).await;
    let error = world.fold().plan_rollback(crate::rewind::Target::Snapshot(before[1])).await.unwrap_err();
    assert_eq!(error.code(), "fold.rollback_others");
    assert_eq!(values(&world, &["id"]).await, ["1", "10", "11", "2"]);
}

#[tokio::test]
async fn a_column_that_was_dropped_and_added_again_is_a_new_one() {
    let world = world(regions(), |_| {}).await;
    stage(&world, 0, &staged(&[1], &["old"]));
    world.fold().run().await.unwrap();
    world.wait(1);
    let again = |id: i32| {
        let fields = vec![required(1, "id", LONG), field(3, "region", TEXT), field(id, "name", TEXT)];
        let schema = iceberg::spec::Schema::builder().with_schema_id(id).with_fields(fields).build().unwrap();
        vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]
    };
    change(&world, again(4)).await;
    stage(&world, 1, &staged(&[2], &["new"]));
    world.fold().run().await.unwrap();
    assert_eq!(values(&world, &["id", "name"]).await, ["1|", "2|new"]);
    assert_eq!(columns(&world).await, ["id long!", "region string", "name string"]);
    // Only dropped: its values are wanted no more, or there is nowhere to put them.
    let dropped = iceberg::spec::Schema::builder()
        .with_schema_id(9)
        .with_fields(vec![required(1, "id", LONG), field(3, "region", TEXT)]);
    let updates = vec![
        TableUpdate::AddSchema { schema: dropped.build().unwrap() },
        TableUpdate::SetCurrentSchema { schema_id: -1 },
    ];
    change(&world, updates).await;
    world.wait(1);
    stage(&world, 2, &staged(&[3], &["x"]));
    refused(&world, "fold.column_dropped").await;
}

#[tokio::test]
async fn of_many_tables_one_that_is_not_there_waits_for_its_owner_and_holds_no_other_back() {
    let mut world = many::world(8);
    let mut pipeline = Pipeline::clone(&world.pipeline);
    (pipeline.table.exists, pipeline.table.partition_by) = (Exists::Join, Vec::new());
    world.pipeline = Arc::new(pipeline);
    let (a, b) = (many::table("a"), many::table("b"));
    world.catalog.create(&a, creation(vec![required(1, "id", LONG)])).await.unwrap();
    let parts = ["0:0:aaba"];
    many::stage(&world, &parts);
    let report = world.fold().run().await.unwrap();
    let failed: Vec<(&str, &str)> = report.failures().map(|(table, failure)| (table, failure.code.as_str())).collect();
    assert_eq!(failed, [("db.b", "fold.table_missing")]);
    assert_eq!((world.rows_of(&a).await.len(), world.catalog.load(&b).await.unwrap().is_none()), (3, true));
    world.catalog.create(&b, creation(vec![required(1, "id", LONG)])).await.unwrap();
    world.wait(1);
    world.fold().run().await.unwrap();
    many::every_row_in_its_table(&world, &parts, "joined").await;
}
