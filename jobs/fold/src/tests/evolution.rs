//! Tables whose columns follow what is staged.

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int32Array, ListArray, StringArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Fields;
use iceberg::TableUpdate;
use pipeline::resolved::ColumnCase;
use testkit::catalog::faulty::FaultyCatalog;
use testkit::store_faulty::{FaultyStore, Process, Rates};

use super::*;
use crate::bind;

/// A staged column: name, source, type, values. A `?` behind the type: it may be null. A source with `<` has its former ones behind.
type Staged<'a> = (&'a str, &'a str, &'a str, ArrayRef);

fn ints(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// Stages rows at offsets from `first` on.
fn stage(world: &World, first: i64, columns: &[Staged<'_>]) {
    let rows = columns[0].3.len();
    let minute = world.clock.now().minute();
    let key = StagedKey { pipeline: world.id.clone(), minute, hash: ObjectHash::new(world.ids.next_u64().into()) };
    let (mut footer, staged) = invocation(&world.id, minute, &[&format!("0:{first}:{}", "r".repeat(rows))]);
    let mut record_columns = record_columns::Builder::new(minute, rows);
    record_columns.start("orders-eu", 0);
    for row in 0..rows as i64 {
        record_columns.row(first + row, record_columns::micros(first + row), 0);
    }
    let column = |(name, source, data_type, _): &Staged<'_>| {
        let mut sources = source.split('<').map(|source| format!("value:{source}"));
        Column {
            name: (*name).to_owned(),
            source: sources.next().unwrap(),
            source_name: (*name).to_owned(),
            former: sources.collect(),
            data_type: data_type.trim_end_matches('?').to_owned(),
            required: !data_type.ends_with('?'),
        }
    };
    footer.columns = columns.iter().map(column).collect();
    let field = |(name, _, data_type, values): &Staged<'_>| {
        Arc::new(Field::new(*name, values.data_type().clone(), data_type.ends_with('?')))
    };
    let fields: Fields = columns.iter().map(field).chain(record_columns::fields()).collect();
    let values = columns.iter().map(|(.., values)| Arc::clone(values)).chain(record_columns.finish()).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), values).unwrap();
    world.store.insert(&key.to_string(), object::encode(&footer, &[TableRows { batch, ..staged }]).unwrap());
}

/// A pipeline of a plain table.
fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    let mut pipeline = world.pipeline.as_ref().clone();
    (pipeline.table.partition_by, pipeline.table.sort_by, pipeline.table.primary_key) = (vec![], vec![], vec![]);
    world.pipeline = Arc::new(pipeline);
    world
}

/// The table's columns but those of records: `name type`, with `!` behind a required one.
async fn columns(world: &World) -> Vec<String> {
    let metadata = world.loaded().await.metadata;
    let fields = metadata.current_schema().as_struct().fields().iter().filter(|field| !field.name.starts_with('_'));
    fields.map(|f| format!("{} {}{}", f.name, f.field_type, if f.required { "!" } else { "" })).collect()
}

/// The rows by offset: the values of some columns, as text.
async fn values(world: &World, names: &[&str]) -> Vec<String> {
    let io = storage::local();
    let plan = scan::plan(&world.loaded().await.metadata, &io, &Request::default()).await.unwrap();
    let batches: Vec<RecordBatch> = plan.execute(io).try_collect().await.unwrap();
    let mut rows = BTreeMap::new();
    for batch in &batches {
        let offsets = batch["_kafka_offset"].as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let value = |name: &&str| arrow::util::display::array_value_to_string(&batch[*name], row).unwrap();
            rows.insert(offsets.value(row), names.iter().map(value).collect::<Vec<_>>().join(" "));
        }
    }
    rows.into_values().collect()
}

async fn changes(world: &World) -> Vec<String> {
    let dry = Fold { settings: Settings { dry_run: true, ..Settings::default() }, ..world.fold() };
    let planned = dry.run().await.unwrap().tables.remove(0).column_changes;
    let report = world.fold().run().await.unwrap();
    assert_eq!(report.tables[0].column_changes, planned, "a plan says what the fold does");
    planned
}

#[tokio::test]
async fn new_columns_are_added_behind_and_the_rows_that_are_there_have_none() {
    let world = world(1);
    stage(&world, 0, &[("id", "1", "int", ints([1, 2]))]);
    assert!(changes(&world).await.is_empty(), "a table is made with its columns");
    world.wait(1);
    // Two objects of one fold, of which only one knows a column.
    stage(&world, 2, &[("id", "1", "int", ints([3])), ("note", "9", "string?", texts(["a"]))]);
    stage(&world, 3, &[("id", "1", "int", ints([4])), ("n", "7", "long", longs([5]))]);
    let mut found = changes(&world).await;
    found.sort_unstable();
    assert_eq!(found, ["n long is added", "note string is added"]);
    let mut all = columns(&world).await;
    all[1..].sort_unstable();
    assert_eq!(all, ["id int!", "n long", "note string"]);
    assert_eq!(values(&world, &["id", "note", "n"]).await, ["1  ", "2  ", "3 a ", "4  5"]);
    let loaded = world.loaded().await;
    assert_eq!(loaded.metadata.current_snapshot().unwrap().schema_id(), Some(loaded.metadata.current_schema_id()));
    // An object from before goes in as before.
    world.wait(1);
    stage(&world, 4, &[("id", "1", "int", ints([5]))]);
    assert!(changes(&world).await.is_empty());
    assert_eq!(values(&world, &["id", "note"]).await.len(), 5);
}

#[tokio::test]
async fn types_are_widened_and_never_narrowed() {
    let world = world(2);
    let float = |values: &[f32]| Arc::new(Float32Array::from(values.to_vec())) as ArrayRef;
    let double = |values: &[f64]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
    stage(&world, 0, &[("id", "1", "int", ints([1])), ("x", "2", "float", float(&[0.5]))]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, 1, &[("id", "1", "long", longs([1 << 40])), ("x", "2", "double", double(&[1e300]))]);
    stage(&world, 2, &[("id", "1", "int", ints([3])), ("x", "2", "float", float(&[1.5]))]);
    assert_eq!(changes(&world).await, ["id becomes long, and was int", "x becomes double, and was float"]);
    assert_eq!(columns(&world).await, ["id long!", "x double!"]);
    assert_eq!(values(&world, &["id", "x"]).await, ["1 0.5", "1099511627776 1e300", "3 1.5"]);
    // What neither becomes stops, and changes nothing.
    world.wait(1);
    stage(&world, 3, &[("id", "1", "string", texts(["4"])), ("y", "3", "int", ints([1]))]);
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.column_unfit");
    assert_eq!(columns(&world).await, ["id long!", "x double!"]);
}

/// An object's columns are those of all its tables and of all versions that were met: rows without a value in one are not its.
#[tokio::test]
async fn a_column_without_values_asks_nothing_that_the_table_can_not_give() {
    let nothing = |rows: usize| Arc::new(Int32Array::from(vec![None; rows])) as ArrayRef;
    let world = world(2);
    stage(&world, 0, &[("id", "1", "int", ints([1])), ("x", "2", "string?", texts(["a"]))]);
    world.fold().run().await.unwrap();
    let columns_before = columns(&world).await;
    world.wait(1);
    // Another type, another source under its name, and a name of one that has gone.
    stage(&world, 1, &[("id", "1", "int", ints([2, 3])), ("x", "2", "int?", nothing(2))]);
    stage(&world, 3, &[("id", "1", "int", ints([4])), ("x", "9", "int?", nothing(1))]);
    stage(
        &world,
        4,
        &[("id", "1", "int", ints([5])), ("X", "8<7", "int?", nothing(1)), ("y", "7", "int?", nothing(1))],
    );
    assert_eq!(changes(&world).await, ["y int is added"], "what can be the table's is");
    assert_eq!(columns(&world).await[..2], columns_before);
    assert_eq!(values(&world, &["id", "x"]).await, ["1 a", "2 ", "3 ", "4 ", "5 "]);
    // Where there is a value, the fold stops, and says which column, of what type, in which object.
    world.wait(1);
    let values = Arc::new(Int32Array::from(vec![None, Some(7)])) as ArrayRef;
    stage(&world, 5, &[("id", "1", "int", ints([6, 7])), ("x", "2", "int?", values)]);
    let error = world.fold().run().await.unwrap_err();
    let foreseen = world.fold().foresee().await.unwrap();
    assert_eq!((error.code(), error.to_string()), ("fold.column_unfit", foreseen.to_string()));
    let newest = world.store.objects().into_keys().rfind(|key| key.starts_with("staging/")).unwrap();
    for words in ["column `x` (from `x`) is int in", "and string in db.orders", &newest] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn what_may_be_missing_becomes_optional() {
    let world = world(3);
    stage(&world, 0, &[("id", "1", "int", ints([1])), ("a", "2", "int", ints([2])), ("b", "3", "int", ints([3]))]);
    world.fold().run().await.unwrap();
    assert_eq!(columns(&world).await, ["id int!", "a int!", "b int!"]);
    world.wait(1);
    // One is null, another is not there any more.
    stage(&world, 1, &[("id", "1", "int", ints([2])), ("a", "2", "int?", Arc::new(Int32Array::from(vec![None])))]);
    assert_eq!(changes(&world).await, ["a becomes optional", "b becomes optional"]);
    assert_eq!(columns(&world).await, ["id int!", "a int", "b int"]);
    assert_eq!(values(&world, &["id", "a", "b"]).await, ["1 2 3", "2  "]);
}

#[tokio::test]
async fn a_renamed_field_stays_the_same_column_and_keeps_its_name() {
    let world = world(4);
    stage(&world, 0, &[("team", "team", "string", texts(["x"])), ("id", "id", "int", ints([1]))]);
    world.fold().run().await.unwrap();
    let field_ids = world.loaded().await.metadata.last_column_id();
    world.wait(1);
    // By its number, which is its source still, or by its alias.
    stage(&world, 1, &[("number", "id", "int", ints([2])), ("squad", "squad<team", "string", texts(["y"]))]);
    assert!(changes(&world).await.is_empty());
    world.wait(1);
    // The old source is known, too, and so is the new one without its history.
    stage(&world, 2, &[("team", "team", "string", texts(["z"])), ("id", "id", "int", ints([3]))]);
    stage(&world, 3, &[("squad", "squad", "string", texts(["w"])), ("id", "id", "int", ints([4]))]);
    assert!(changes(&world).await.is_empty());
    assert_eq!(world.loaded().await.metadata.last_column_id(), field_ids);
    assert_eq!(values(&world, &["id", "team"]).await, ["1 x", "2 y", "3 z", "4 w"]);
}

#[tokio::test]
async fn a_column_that_could_be_two_or_has_anothers_name_stops_the_fold() {
    let check = async |columns: &[Staged<'_>], code: &str, says: &str| {
        let world = world(5);
        stage(&world, 0, &[("a", "a", "int", ints([1])), ("b", "b", "int", ints([2]))]);
        Box::pin(world.fold().run()).await.unwrap();
        let before = world.loaded().await.metadata_location;
        world.wait(1);
        stage(&world, 1, columns);
        let error = Box::pin(world.fold().run()).await.unwrap_err();
        assert_eq!((error.code(), error.kind()), (code, model::failure::Kind::Misconfigured));
        assert!(error.to_string().contains(says) && error.remedy().is_some(), "{error}");
        assert_eq!(world.loaded().await.metadata_location, before);
        // The remedy lets the rest in.
        let mut pipeline = world.pipeline.as_ref().clone();
        pipeline.table.exclude = vec![columns[0].0.to_owned()];
        let fold = Fold { pipeline: Arc::new(pipeline), ..world.fold() };
        assert_eq!(Box::pin(fold.run()).await.unwrap().tables[0].rows_added, 1);
    };
    check(&[("c", "c<a<b", "int", ints([3]))], "fold.column_ambiguous", "value:a or value:b").await;
    // The old name is used again, by the schema that renames or by one that follows it.
    check(&[("a", "a", "int", ints([3])), ("c", "c<a", "int", ints([4]))], "fold.column_ambiguous", "which of them")
        .await;
    // Another field has taken the name.
    check(&[("a", "z", "int", ints([3]))], "fold.column_taken", "a column `a`").await;
    check(&[("A", "z", "int", ints([3]))], "fold.column_taken", "a column `a`").await;
    // The same field, treated otherwise, is another source.
    check(&[("a", "a|hash", "string", texts(["x"]))], "fold.column_taken", "a column `a`").await;
}

#[tokio::test]
async fn two_fields_that_the_table_knows_as_one_column_stop_the_fold() {
    let world = world(9);
    stage(&world, 0, &[("a", "a", "int", ints([1]))]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, 1, &[("b", "b<a", "int", ints([2]))]);
    world.fold().run().await.unwrap();
    world.wait(1);
    // The alias is gone, and so is its word that `b` was `a`.
    stage(&world, 2, &[("b", "b", "int", ints([3])), ("a", "a", "int", ints([4]))]);
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.column_taken");
    assert_eq!(values(&world, &["a"]).await, ["1", "2"]);
}

/// The names of the columns, and under them the values of each row.
async fn shown(world: &World) -> (Vec<String>, Vec<String>) {
    let columns = columns(world).await;
    let names: Vec<&str> = columns.iter().map(|column| column.split(' ').next().unwrap()).collect();
    let values = values(world, &names).await;
    (columns.iter().map(|column| column.trim_end_matches('!').to_owned()).collect(), values)
}

/// Objects of several versions of a schema that enter together, or one after the other, in whatever order: a renamed field is one column.
#[tokio::test]
async fn a_field_that_was_renamed_is_one_column_whichever_of_its_names_comes_first() {
    let staged: [Staged<'_>; 3] = [
        ("a", "a", "int", ints([10])),
        ("b", "b<a", "int", ints([20])),
        // The last one tells nothing of the first, and is wider.
        ("c", "c<b", "long", longs([30])),
    ];
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let id = |value: i32| ("id", "id", "int", ints([value]));
    for (seed, order) in (20..).zip(orders) {
        for (is_new, is_at_once) in [(true, true), (false, true), (true, false), (false, false)] {
            let world = world(seed);
            if !is_new {
                stage(&world, 9, &[id(9)]);
                world.fold().run().await.unwrap();
            }
            // What tells that two names are one has to be there when both are.
            if !is_at_once && (order == [0, 2, 1] || order == [2, 0, 1]) {
                continue;
            }
            for n in order {
                world.wait(1);
                stage(&world, n as i64, &[id(n as i32), staged[n].clone()]);
                if !is_at_once {
                    world.fold().run().await.unwrap();
                }
            }
            world.fold().run().await.unwrap();
            let (found, values) = shown(&world).await;
            let place = format!("{order:?} {is_new} {is_at_once}");
            assert!(found.len() == 2 && found[1].ends_with(" long"), "{place}: {found:?}");
            assert_eq!(values[..3], ["0 10", "1 20", "2 30"], "{place}");
        }
    }
}

/// A container of before goes on for a while after the table was made by the new version.
#[tokio::test]
async fn a_late_object_of_an_earlier_version_finds_the_column_that_its_field_has_become() {
    for is_new in [true, false] {
        let world = world(30);
        if !is_new {
            stage(&world, 0, &[("id", "id", "int", ints([1]))]);
            world.fold().run().await.unwrap();
            world.wait(1);
        }
        stage(&world, 1, &[("id", "id", "int", ints([2])), ("b", "b<a", "string", texts(["x"]))]);
        world.fold().run().await.unwrap();
        world.wait(1);
        stage(&world, 2, &[("id", "id", "int", ints([3])), ("a", "a", "string", texts(["y"]))]);
        // A third name, whose version tells of the first only.
        stage(&world, 3, &[("id", "id", "int", ints([4])), ("c", "c<a", "string", texts(["z"]))]);
        assert!(changes(&world).await.is_empty());
        let (found, values) = shown(&world).await;
        assert_eq!(found, ["id int", "b string"]);
        assert_eq!(values[values.len() - 3..], ["2 x", "3 y", "4 z"]);
    }
}

/// A name that another field has now is that field's, wherever the table has no rows of the one that had it before.
#[tokio::test]
async fn a_name_that_is_used_again_is_the_new_fields_where_the_table_has_no_rows_of_the_old_one() {
    let both = |first: i32| -> [Staged<'static>; 3] {
        [
            ("id", "id", "int", ints([first])),
            ("b", "b<a", "int", ints([first + 1])),
            ("a", "a", "int", ints([first + 2])),
        ]
    };
    let renamed = |first: i32| -> [Staged<'static>; 2] {
        [("id", "id", "int", ints([first])), ("b", "b<a", "int", ints([first + 1]))]
    };
    // In its first fold, beside the version between, and later.
    let world = self::world(31);
    stage(&world, 0, &both(10));
    stage(&world, 1, &renamed(20));
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, 2, &both(30));
    assert!(changes(&world).await.is_empty());
    let (mut found, _) = shown(&world).await;
    found.sort_unstable();
    assert_eq!(found, ["a int", "b int", "id int"]);
    assert_eq!(values(&world, &["id", "b", "a"]).await, ["10 11 12", "20 21 ", "30 31 32"]);
    // On a table that knows neither, and on one that knows the field by its new name alone; with its alias, and without.
    for columns in [both(30).to_vec(), vec![both(30)[0].clone(), both(30)[2].clone(), ("b", "b", "int", ints([31]))]] {
        for before in [vec![renamed(10)[0].clone()], renamed(10).to_vec()] {
            if before.len() == 1 && columns[1].0 == "a" {
                continue;
            }
            let world = self::world(32);
            stage(&world, 0, &before);
            world.fold().run().await.unwrap();
            world.wait(1);
            stage(&world, 1, &columns);
            world.fold().run().await.unwrap();
            assert_eq!(values(&world, &["id", "b", "a"]).await[1], "30 31 32");
        }
    }
    // Without values it takes nothing from the other, and nothing from those that have some in another object.
    let world = self::world(33);
    stage(&world, 0, &renamed(10));
    world.fold().run().await.unwrap();
    world.wait(1);
    let empty = || Arc::new(Int32Array::from(vec![None])) as ArrayRef;
    stage(&world, 1, &[("a", "a", "int?", empty()), both(20)[0].clone(), both(20)[1].clone()]);
    assert!(changes(&world).await.is_empty());
    assert_eq!(values(&world, &["id", "b"]).await, ["10 11", "20 21"]);
    let world = self::world(34);
    stage(&world, 0, &renamed(10));
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, 1, &[("a", "a", "int?", empty()), both(20)[0].clone(), both(20)[1].clone()]);
    stage(&world, 2, &[("id", "id", "int", ints([30])), ("a", "a", "int?", ints([31]))]);
    assert_eq!(changes(&world).await, ["b becomes optional"]);
    assert_eq!(values(&world, &["id", "b"]).await, ["10 11", "20 21", "30 31"]);
    // Rows of the old one have come: now it can't be told.
    world.wait(1);
    stage(&world, 3, &both(40));
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.column_ambiguous");
}

#[tokio::test]
async fn a_column_of_several_of_one_source_is_the_one_that_it_was() {
    let world = world(6);
    stage(&world, 0, &[("a", "a", "int", ints([1]))]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, 1, &[("b", "a#b", "int", ints([2])), ("a", "a#a", "int", ints([2]))]);
    assert_eq!(changes(&world).await, ["b int is added"]);
    world.wait(1);
    stage(&world, 2, &[("b", "a", "int", ints([3]))]);
    assert_eq!(changes(&world).await, ["a becomes optional"]);
    world.wait(1);
    stage(&world, 3, &[("a", "a", "int", ints([4]))]);
    assert!(changes(&world).await.is_empty());
    assert_eq!(columns(&world).await, ["a int", "b int"]);
    assert_eq!(values(&world, &["a", "b"]).await, ["1 ", "2 2", " 3", "4 "]);
    // Together they can't be told apart.
    world.wait(1);
    stage(&world, 4, &[("a", "a", "int", ints([5]))]);
    stage(&world, 5, &[("b", "a", "int", ints([6]))]);
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.column_ambiguous");
}

#[tokio::test]
async fn a_column_that_another_engine_added_is_filled() {
    let world = world(7);
    stage(&world, 0, &[("id", "1", "int", ints([1]))]);
    world.fold().run().await.unwrap();
    let loaded = world.loaded().await;
    let schema = iceberg::spec::Schema::clone(loaded.metadata.current_schema());
    let note = iceberg::spec::NestedField::optional(
        loaded.metadata.last_column_id() + 1,
        "note",
        iceberg::spec::Type::Primitive(iceberg::spec::PrimitiveType::String),
    );
    let schema = schema.into_builder().with_schema_id(1).with_fields([Arc::new(note)]).build().unwrap();
    let updates = vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
    world.catalog.commit(&loaded, Vec::new(), updates).await.unwrap();
    world.wait(1);
    stage(&world, 1, &[("id", "1", "int", ints([2])), ("note", "2", "string?", texts(["x"]))]);
    assert!(changes(&world).await.is_empty());
    assert_eq!(values(&world, &["id", "note"]).await, ["1 ", "2 x"]);
}

#[tokio::test]
async fn fields_inside_columns_are_added_and_widened_too() {
    let world = world(8);
    let of = |fields: Vec<(&str, bool, ArrayRef)>| -> ArrayRef {
        let fields = fields.into_iter();
        Arc::new(StructArray::from(
            fields
                .map(|(name, optional, values)| {
                    (Arc::new(Field::new(name, values.data_type().clone(), optional)), values)
                })
                .collect::<Vec<_>>(),
        ))
    };
    let list = |inside: ArrayRef| -> ArrayRef {
        let field = Arc::new(Field::new("element", inside.data_type().clone(), false));
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([inside.len()]), inside, None))
    };
    let lines = |inside| list(of(inside));
    let before = lines(vec![("sku", false, texts(["a", "b"])), ("qty", false, ints([1, 2]))]);
    stage(&world, 0, &[("lines", "1", "list<struct<sku: string not null, qty: int not null> not null>", before)]);
    world.fold().run().await.unwrap();
    world.wait(1);
    let after = lines(vec![
        ("qty", true, longs([1 << 40])),
        ("tax", true, of(vec![("rate", true, ints([19]))])),
        ("sku", false, texts(["c"])),
    ]);
    let data_type = "list<struct<qty: long, tax: struct<rate: int>, sku: string not null> not null>";
    stage(&world, 1, &[("lines", "1", data_type, after)]);
    assert_eq!(
        changes(&world).await,
        [
            "lines.element.qty becomes long, and was int",
            "lines.element.qty becomes optional",
            "lines.element.tax struct<rate: int> is added"
        ]
    );
    assert_eq!(
        values(&world, &["lines"]).await,
        ["[{sku: a, qty: 1, tax: }, {sku: b, qty: 2, tax: }]", "[{sku: c, qty: 1099511627776, tax: {rate: 19}}]"]
    );
}

#[tokio::test(start_paused = true)]
async fn two_folds_at_once_add_a_column_once() {
    let mut raced = 0;
    for seed in 0..40 {
        let world = world(seed);
        let chance: Arc<dyn Ids> = Arc::new(SeededIds::new(seed ^ 0xc01));
        let names = ["a", "b", "c", "d"];
        for (n, name) in names.iter().enumerate() {
            let first = 2 * n as i64;
            stage(
                &world,
                first,
                &[("id", "id", "int", ints([n as i32, n as i32])), (name, name, "int?", ints([1, 2]))],
            );
            let one = || {
                let rates = Rates { delay: 300, fail_before: 20, lose_answer: 20, ..Rates::default() };
                let store = FaultyStore::new(world.store.clone(), Process::immortal(), chance.clone(), rates);
                let catalog =
                    FaultyCatalog::new(world.catalog.clone(), storage::local(), chance.clone()).with_chance(150);
                world.fold_with(Arc::new(store), Arc::new(catalog), storage::local())
            };
            let (left, right) = (one(), one());
            let (left, right) = tokio::join!(left.run(), right.run());
            raced += [left, right].into_iter().flatten().map(|report| report.conflicts_retried).sum::<u32>();
            world.wait(1);
        }
        world.fold().run().await.unwrap();
        let mut found = columns(&world).await;
        found.sort_unstable();
        assert_eq!(found, ["a int", "b int", "c int", "d int", "id int!"], "seed {seed}");
        let rows = values(&world, &["a", "b", "c", "d"]).await;
        assert_eq!(rows, ["1   ", "2   ", " 1  ", " 2  ", "  1 ", "  2 ", "   1", "   2"], "seed {seed}");
        let property = world.loaded().await.metadata.properties()[&bind::property(&world.id)].clone();
        let bound: BTreeMap<String, i32> = serde_json::from_str(&property).unwrap();
        assert!(names.iter().all(|name| bound.contains_key(&format!("value:{name}"))), "{bound:?}");
    }
    assert!(raced > 10, "{raced}");
}

/// A field that is but spelled otherwise in a newer schema, without an alias: the column is called alike, and is the same.
#[tokio::test]
async fn a_source_that_differs_in_case_only_is_the_same_where_the_column_is_called_alike() {
    for in_one_fold in [true, false] {
        let world = world(80 + u64::from(in_one_fold));
        stage(&world, 0, &[("userid", "userId", "string", texts(["a"]))]);
        if !in_one_fold {
            assert!(changes(&world).await.is_empty());
        }
        world.wait(1);
        stage(&world, 1, &[("userid", "userid", "string", texts(["b"]))]);
        assert!(changes(&world).await.is_empty());
        world.wait(1);
        stage(&world, 2, &[("userid", "userId", "string", texts(["c"]))]);
        assert!(changes(&world).await.is_empty());
        assert_eq!(columns(&world).await, ["userid string!"]);
        assert_eq!(values(&world, &["userid"]).await, ["a", "b", "c"]);
    }
    // As the pipeline spells columns.
    let mut snake = world(83);
    let mut pipeline = snake.pipeline.as_ref().clone();
    pipeline.table.column_case = ColumnCase::Snake;
    snake.pipeline = Arc::new(pipeline);
    for (first, source) in [(0, "userId"), (1, "user_id"), (2, "UserId")] {
        stage(&snake, first, &[("user_id", source, "string", texts([source]))]);
        assert!(changes(&snake).await.is_empty());
        snake.wait(1);
    }
    assert_eq!(values(&snake, &["user_id"]).await, ["userId", "user_id", "UserId"]);
    // Another field under the name is another.
    let world = world(82);
    stage(&world, 0, &[("userid", "userId", "string", texts(["a"]))]);
    world.fold().run().await.unwrap();
    world.wait(1);
    stage(&world, 1, &[("userid", "user_id", "string", texts(["b"]))]);
    assert_eq!(world.fold().run().await.unwrap_err().code(), "fold.column_taken");
}
