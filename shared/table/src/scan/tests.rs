use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StructArray};
use arrow::array::{StringArray, StringViewArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Int64Type};
use futures::TryStreamExt;
use iceberg::spec::{DataContentType, DataFileBuilder, Datum, NestedField, PrimitiveType, Struct, Type};
use pipeline::resolved::{self, PartitionField};
use proptest::prelude::*;

use super::*;
use crate::schema::literal;
use crate::testing::{Table, array, column, primitives, run, schema, value, values};

mod deletes;

fn by(column: &str, transform: resolved::Transform) -> PartitionField {
    PartitionField { column: column.to_owned(), transform }
}

fn equal(column: &str, value: Datum) -> Predicate {
    Predicate::Compare { column: column.to_owned(), comparison: Comparison::Equal, value }
}

fn two_columns(table: &Table, ids: &[i64], names: &[&str]) -> RecordBatch {
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(ids.to_vec())), Arc::new(StringViewArray::from(names.to_vec()))];
    RecordBatch::try_new(Arc::clone(table.target().arrow_schema()), columns).unwrap()
}

#[test]
fn an_empty_table_has_no_rows_and_all_columns() {
    let table = Table::new(&schema(&[("id", "long")]), &[], &[], &[]);
    let plan = table.plan(&Request::default());
    assert!(plan.files.is_empty());
    assert_eq!(plan.arrow_schema.fields().len(), 1);
    assert_eq!(table.read(&Request::default()).num_rows(), 0);
}

#[test]
fn nested_rows_come_back_as_they_were_written() {
    let schema = schema(&[
        ("id", "long"),
        ("p", "struct<q: string, r: struct<s: int>>"),
        ("tags", "list<string>"),
        ("m", "map<string, struct<v: int>>"),
    ]);
    let mut table = Table::new(&schema, &[by("id", resolved::Transform::Bucket(2))], &[], &[]);
    let target = table.target();
    let arrow = target.arrow_schema();
    let DataType::Struct(p_fields) = arrow.field(1).data_type().clone() else { panic!() };
    let DataType::Struct(r_fields) = p_fields[1].data_type().clone() else { panic!() };
    let s: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), None]));
    let r = StructArray::new(r_fields, vec![s], Some(NullBuffer::from(vec![true, true, true, false])));
    let q: ArrayRef = Arc::new(StringViewArray::from(vec![Some("x"), None, Some("a long text, out of line"), None]));
    let p = StructArray::new(p_fields, vec![q, Arc::new(r)], Some(NullBuffer::from(vec![true, true, true, false])));
    let DataType::List(element) = arrow.field(2).data_type().clone() else { panic!() };
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]));
    let offsets = OffsetBuffer::from_lengths([2, 0, 1, 0]);
    let tags = ListArray::new(element, offsets, text, Some(NullBuffer::from(vec![true, true, true, false])));
    let DataType::Map(entries, ordered) = arrow.field(3).data_type().clone() else { panic!() };
    let DataType::Struct(pair) = entries.data_type().clone() else { panic!() };
    let DataType::Struct(v_fields) = pair[1].data_type().clone() else { panic!() };
    let v: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let v = StructArray::new(v_fields, vec![v], Some(NullBuffer::from(vec![true, false])));
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["k1", "k2"]));
    let inner = StructArray::new(pair, vec![keys, Arc::new(v)], None);
    let m = MapArray::new(entries, OffsetBuffer::from_lengths([0, 2, 0, 0]), inner, None, ordered);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![10, 11, 12, 13]));
    let batch = RecordBatch::try_new(Arc::clone(arrow), vec![ids, Arc::new(p), Arc::new(tags), Arc::new(m)]).unwrap();

    let files = table.write(std::slice::from_ref(&batch), usize::MAX);
    table.append(&[files], false);
    let request = Request { strings: Strings::Views, ..Request::default() };
    let read = table.read(&request);
    let order = arrow::compute::sort_to_indices(&read["id"], None, None).unwrap();
    assert_eq!(arrow::compute::take_record_batch(&read, &order).unwrap(), batch);

    // One column, plain strings; and one field of a struct to look by.
    let request = Request {
        columns: Some(vec!["tags".to_owned()]),
        predicate: equal("p.r.s", Datum::int(99)),
        ..Request::default()
    };
    let plan = table.plan(&request);
    assert!(plan.files.is_empty());
    let request = Request { columns: Some(vec!["tags".to_owned(), "id".to_owned()]), ..Request::default() };
    let read = table.read(&request);
    let names: Vec<_> = read.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!((names, read.num_rows()), (vec!["tags".to_owned(), "id".to_owned()], 4));
    // No column at all still has its rows: that is how they are counted.
    assert_eq!(table.read(&Request { columns: Some(Vec::new()), ..Request::default() }).num_rows(), 4);
}

#[test]
fn columns_are_found_by_id_through_every_evolution() {
    let first = schema(&[("id", "int"), ("note", "string"), ("p", "struct<a: int, b: float>"), ("gone", "long")]);
    let mut table = Table::new(&first, &[], &[], &[]);
    let target = table.target();
    let DataType::Struct(fields) = target.arrow_schema().field(2).data_type().clone() else { panic!() };
    let p = StructArray::new(
        fields,
        vec![Arc::new(Int32Array::from(vec![1, 2])), Arc::new(arrow::array::Float32Array::from(vec![1.5, 2.5]))],
        Some(NullBuffer::from(vec![true, false])),
    );
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1, 2])),
        Arc::new(StringViewArray::from(vec!["old", "older"])),
        Arc::new(p),
        Arc::new(Int64Array::from(vec![7, 8])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(target.arrow_schema()), columns).unwrap();
    let files = table.write(&[batch], usize::MAX);
    table.append(&[files], false);
    let before = table.metadata.current_snapshot_id();

    // id promoted and renamed, `note` dropped and added again, a struct's fields dropped and added, a default.
    let optional = |id, name: &str, data_type| Arc::new(NestedField::optional(id, name, Type::Primitive(data_type)));
    let inner = iceberg::spec::StructType::new(vec![optional(9, "c", PrimitiveType::Long)]);
    let default = NestedField::required(10, "kind", Type::Primitive(PrimitiveType::String))
        .with_initial_default(Literal::string("plain"));
    let evolved = Schema::builder()
        .with_schema_id(1)
        .with_fields([
            optional(8, "note", PrimitiveType::String),
            Arc::new(NestedField::optional(3, "p", Type::Struct(inner))),
            Arc::new(default),
            optional(1, "key", PrimitiveType::Long),
        ])
        .build()
        .unwrap();
    table.evolve(evolved);
    let read = table.read(&Request::default());
    assert_eq!(read["key"].as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(read["note"].null_count(), 2);
    assert_eq!(read["kind"].as_string::<i32>().iter().collect::<Vec<_>>(), [Some("plain"), Some("plain")]);
    let p = read["p"].as_struct();
    assert_eq!((p.is_null(0), p.is_null(1), p.column(0).null_count()), (false, true, 2));

    // Bounds written for the int still leave the file out for the long.
    let looked = |v: i64| table.plan(&Request { predicate: equal("key", Datum::long(v)), ..Request::default() });
    assert_eq!((looked(2).files.len(), looked(3).files.len(), looked(3).files_pruned), (1, 0, 1));
    assert_eq!(
        table.plan(&Request { predicate: equal("note", Datum::string("old")), ..Request::default() }).files.len(),
        1
    );
    let by_name = Request { columns: Some(vec!["key".to_owned()]), ..Request::default() };
    assert_eq!(table.read(&by_name).num_rows(), 2);

    // The table as it was has the names it had.
    let mut old = table.metadata.clone().into_builder(None).build().unwrap().metadata;
    std::mem::swap(&mut old, &mut table.metadata);
    let files = table.write(&[], usize::MAX);
    table.append(&[files], false);
    let read = table.read(&Request { snapshot_id: before, ..Request::default() });
    assert_eq!(read["note"].as_string::<i32>().value(0), "old");
}

#[test]
fn partitions_bounds_and_row_groups_leave_out_what_can_not_match() {
    let schema = schema(&[("id", "long"), ("name", "string")]);
    let properties = [("write.parquet.row-group-size-bytes", "1"), ("write.parquet.dict-size-bytes", "1")];
    let mut table = Table::new(&schema, &[by("name", resolved::Transform::Truncate(1))], &[], &properties);
    let ids: Vec<i64> = (0..60_000).collect();
    let names: Vec<&str> = ids.iter().map(|id| if id % 2 == 0 { "apple" } else { "beech" }).collect();
    let (a, b): (Vec<_>, Vec<_>) = table
        .write(&[two_columns(&table, &ids, &names)], usize::MAX)
        .into_iter()
        .partition(|f| f.lower_bounds()[&2] == Datum::string("apple"));
    table.append(&[a, b], false);
    let plan = |predicate| table.plan(&Request { predicate, ..Request::default() });
    let compare = |column: &str, comparison, value| Predicate::Compare { column: column.to_owned(), comparison, value };

    let found = plan(equal("name", Datum::string("apple")));
    assert_eq!((found.files.len(), found.manifests_pruned), (1, 1));
    let found = plan(compare("name", Comparison::Less, Datum::string("b")));
    assert_eq!(found.files.len(), 1, "what is below b begins with b in no partition value, and b's bounds say so");
    let found = plan(compare("id", Comparison::Greater, Datum::long(59_999)));
    assert_eq!((found.files.len(), found.files_pruned), (0, 2));
    assert!(plan(Predicate::IsNull("id".to_owned())).files.is_empty());
    assert_eq!(plan(Predicate::IsNotNull("id".to_owned())).files.len(), 2);
    let either = Predicate::Or(vec![equal("id", Datum::long(-1)), equal("name", Datum::string("beech"))]);
    assert_eq!(plan(either).files.len(), 1);
    let both = Predicate::And(vec![equal("id", Datum::long(3)), equal("name", Datum::string("cedar"))]);
    assert_eq!(plan(both).files.len(), 0);

    // Each file holds two row groups; one of one file is read.
    let predicate = Predicate::And(vec![equal("id", Datum::long(41_000)), equal("name", Datum::string("apple"))]);
    let read = table.read(&Request { predicate, ..Request::default() });
    assert!(read.num_rows() < 20_000, "{}", read.num_rows());
    assert!(read["id"].as_primitive::<Int64Type>().values().contains(&41_000));
}

#[test]
fn what_can_not_be_read_is_refused_by_name() {
    let fault = |table: &Table, request: &Request| run(plan(&table.metadata, &table.file_io, request)).unwrap_err();
    let mut table = Table::new(&schema(&[("id", "long"), ("tags", "list<int>")]), &[], &[], &[]);
    for (request, expected) in [
        (Request { snapshot_id: Some(4), ..Request::default() }, "no snapshot 4"),
        (Request { columns: Some(vec!["x".to_owned()]), ..Request::default() }, "no column `x`"),
        (Request { predicate: equal("x", Datum::int(1)), ..Request::default() }, "no column `x`"),
        (Request { predicate: equal("id", Datum::string("1")), ..Request::default() }, "`id` is a long"),
        (Request { predicate: Predicate::IsNull("tags".to_owned()), ..Request::default() }, "`tags`"),
    ] {
        let fault = fault(&table, &request);
        assert!(fault.to_string().contains(expected), "{fault}");
    }
    let mut file = DataFileBuilder::default();
    file.content(DataContentType::Data)
        .file_path("memory://warehouse/t/data/x.orc".to_owned())
        .file_format(DataFileFormat::Orc)
        .record_count(1)
        .file_size_in_bytes(10)
        .partition(Struct::empty());
    table.append(&[vec![file.build().unwrap()]], false);
    assert!(fault(&table, &Request::default()).to_string().contains("the orc file"));

    let mut table = Table::new(&schema(&[("id", "long")]), &[], &[], &[]);
    file.content(DataContentType::PositionDeletes).file_format(DataFileFormat::Puffin);
    table.append(&[vec![file.build().unwrap()]], true);
    let refused = fault(&table, &Request::default());
    assert!(refused.to_string().contains("the puffin delete file"), "{refused}");
    assert_eq!(refused.kind(), model::failure::Kind::Misconfigured);
}

#[test]
fn a_file_cut_short_or_of_another_shape_is_a_clear_failure() {
    let schema = schema(&[("id", "long"), ("name", "string")]);
    let mut table = Table::new(&schema, &[], &[], &[]);
    let files = table.write(&[two_columns(&table, &[1, 2], &["a", "b"])], usize::MAX);
    let path = files[0].file_path().to_owned();
    table.append(&[files], false);
    let whole = run(async { table.file_io.new_input(&path).unwrap().read().await.unwrap() });
    let replace =
        |bytes: bytes::Bytes| run(async { table.file_io.new_output(&path).unwrap().write(bytes).await.unwrap() });
    let read = || -> Result<Vec<RecordBatch>, Fault> {
        run(table.plan(&Request::default()).execute(table.file_io.clone()).try_collect())
    };
    assert_eq!(read().unwrap()[0].num_rows(), 2);
    for cut in [0, 3, 100, whole.len() - 1] {
        replace(whole.slice(..cut));
        let fault = read().unwrap_err();
        assert!(fault.to_string().contains(&path), "{fault}");
    }
    let mut bent = whole.to_vec();
    bent[10..60].fill(0xff);
    replace(bent.into());
    assert!(read().unwrap_err().to_string().contains(&path));
    replace(whole);
    assert_eq!(read().unwrap()[0].num_rows(), 2);
}

/// Whether a row passes, worked out from its values alone.
fn passes(predicate: &Predicate, row: &dyn Fn(&str) -> Option<PrimitiveLiteral>) -> bool {
    match predicate {
        Predicate::All => true,
        Predicate::IsNull(column) => row(column).is_none(),
        Predicate::IsNotNull(column) => row(column).is_some(),
        Predicate::And(all) => all.iter().all(|p| passes(p, row)),
        Predicate::Or(any) => any.iter().any(|p| passes(p, row)),
        Predicate::Within { column, ranges } => row(column).is_some_and(|found| {
            let lies = |(first, last): &(Datum, Datum)| found >= *first.literal() && found <= *last.literal();
            // NaN is where an engine wants it to be, but nowhere where there is no range.
            (found.is_nan() && !ranges.is_empty()) || ranges.iter().any(lies)
        }),
        Predicate::Compare { column, comparison, value } => row(column).is_some_and(|found| {
            // Both ways that engines order floats: one answer of yes is enough for the row to be needed.
            let orders = match (&found, value.literal()) {
                (PrimitiveLiteral::Float(a), PrimitiveLiteral::Float(b)) => [a.0.total_cmp(&b.0), a.cmp(b)],
                (PrimitiveLiteral::Double(a), PrimitiveLiteral::Double(b)) => [a.0.total_cmp(&b.0), a.cmp(b)],
                (a, b) => [a.partial_cmp(b).unwrap(); 2],
            };
            orders.into_iter().any(|order| match comparison {
                Comparison::Equal => order == Ordering::Equal,
                Comparison::NotEqual => order != Ordering::Equal,
                Comparison::Less => order.is_lt(),
                Comparison::LessOrEqual => order.is_le(),
                Comparison::Greater => order.is_gt(),
                Comparison::GreaterOrEqual => order.is_ge(),
            })
        }),
    }
}

fn predicate(data_type: PrimitiveType) -> impl Strategy<Value = Predicate> {
    let comparison = prop::sample::select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ]);
    let of = data_type.clone();
    let within = prop::collection::vec(value(&data_type), 0..5).prop_map(move |mut ends| {
        ends.retain(|end| !end.is_nan());
        ends.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        ends.dedup();
        let datum = |end: &PrimitiveLiteral| literal::datum(&of, end).unwrap();
        let range = |pair: &[PrimitiveLiteral]| (datum(&pair[0]), datum(&pair[pair.len() - 1]));
        Predicate::Within { column: "c".to_owned(), ranges: ends.chunks(2).map(range).collect() }
    });
    let compare = (comparison, value(&data_type)).prop_map(move |(comparison, v)| Predicate::Compare {
        column: "c".to_owned(),
        comparison,
        value: literal::datum(&data_type, &v).unwrap(),
    });
    let leaf = prop_oneof![
        8 => compare,
        3 => within,
        1 => Just(Predicate::IsNull("c".to_owned())),
        1 => Just(Predicate::IsNotNull("c".to_owned()))
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::And),
            prop::collection::vec(inner, 1..3).prop_map(Predicate::Or)
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn rows_come_back_as_written_and_pruning_loses_none(
        (data_type, values_in, predicates) in prop::sample::select(primitives()).prop_flat_map(|data_type| {
            let values = column(&data_type, 24);
            let predicates = prop::collection::vec(predicate(data_type.clone()), 6);
            (Just(data_type), values, predicates)
        }),
        transform in prop::sample::select(vec![
            None, Some(resolved::Transform::Identity), Some(resolved::Transform::Bucket(3)),
            Some(resolved::Transform::Truncate(7)), Some(resolved::Transform::Year), Some(resolved::Transform::Month),
            Some(resolved::Transform::Day), Some(resolved::Transform::Hour), Some(resolved::Transform::Void),
        ]),
        mode in prop::sample::select(vec!["none", "counts", "truncate(2)", "full"]),
        memory in prop::sample::select(vec![0, usize::MAX]),
        groups in 1usize..4,
    ) {
        let fields = [
            NestedField::optional(1, "c", Type::Primitive(data_type.clone())),
            NestedField::required(2, "row", Type::Primitive(PrimitiveType::Long)),
        ];
        let schema = Arc::new(Schema::builder().with_fields(fields.map(Arc::new)).build().unwrap());
        let partition_by = |t: Option<resolved::Transform>| t.map(|t| by("c", t)).into_iter().collect::<Vec<_>>();
        let transform = transform.filter(|t| crate::partition::spec(&schema, &partition_by(Some(*t))).is_ok());
        let mut table = Table::new(&schema, &partition_by(transform), &[], &[("write.metadata.metrics.default", mode)]);
        let arrow = Arc::clone(table.target().arrow_schema());
        let batches: Vec<RecordBatch> = (0..3).map(|n| {
            let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(n * 8..n * 8 + 8));
            let from = n as usize * 8;
            let c = array(&data_type, &values_in[from..from + 8], Strings::Views);
            RecordBatch::try_new(Arc::clone(&arrow), vec![c, rows]).unwrap()
        }).collect();
        // Times too far for an hour partition are refused; there is nothing to read then.
        if transform == Some(resolved::Transform::Hour)
            && crate::transform::column(Transform::Hour, &array(&data_type, &values_in, Strings::Views)).is_err() {
            return Ok(());
        }
        let files = table.write(&batches, memory);
        let size = files.len().div_ceil(groups).max(1);
        let groups: Vec<Vec<DataFile>> = files.chunks(size).map(<[DataFile]>::to_vec).collect();
        table.append(&groups, false);

        let read = table.read(&Request::default());
        let mut found: Vec<(i64, Option<PrimitiveLiteral>)> = read["row"].as_primitive::<Int64Type>().values().iter()
            .copied().zip(values(&read["c"], &data_type)).collect();
        found.sort_by_key(|(row, _)| *row);
        prop_assert_eq!(found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), (0..24).collect::<Vec<_>>());
        prop_assert_eq!(&found.into_iter().map(|(_, v)| v).collect::<Vec<_>>(), &values_in);

        for predicate in predicates {
            let request = Request { predicate: predicate.clone(), ..Request::default() };
            let read = table.read(&request);
            let kept = read["row"].as_primitive::<Int64Type>().values();
            for (row, v) in (0i64..).zip(&values_in) {
                if passes(&predicate, &|_| v.clone()) {
                    prop_assert!(kept.contains(&row), "{:?} was lost by {:?}", v, predicate);
                }
            }
        }
    }
}

#[test]
fn truncation_that_wraps_around_loses_no_row() {
    let mut table = Table::new(
        &schema(&[("c", "int")]),
        &[by("c", resolved::Transform::Truncate(7))],
        &[],
        &[("write.metadata.metrics.default", "none")],
    );
    let ends: ArrayRef = Arc::new(Int32Array::from(vec![i32::MIN, 0, i32::MAX]));
    let batch = RecordBatch::try_new(Arc::clone(table.target().arrow_schema()), vec![ends]).unwrap();
    let files = table.write(&[batch], usize::MAX);
    table.append(&[files], false);
    let check = |comparison, value: i32, expected: usize| {
        let predicate = Predicate::Compare { column: "c".to_owned(), comparison, value: Datum::int(value) };
        let files = table.plan(&Request { predicate, ..Request::default() }).files.len();
        assert!(files >= expected, "{comparison:?} {value}: {files}");
    };
    check(Comparison::Greater, i32::MIN, 2);
    check(Comparison::GreaterOrEqual, i32::MIN, 3);
    check(Comparison::Less, -5, 1);
    check(Comparison::Equal, i32::MIN, 1);
    check(Comparison::LessOrEqual, i32::MIN, 1);
}

#[test]
fn single_values_leave_out_buckets_and_bounds_that_hold_none_of_them() {
    let mut table = Table::new(
        &schema(&[("id", "long"), ("name", "string")]),
        &[by("id", resolved::Transform::Bucket(64))],
        &[],
        &[],
    );
    let ids: Vec<i64> = (0..1000).collect();
    let names = vec!["x"; 1000];
    let files = table.write(&[two_columns(&table, &ids, &names)], usize::MAX);
    let all = files.len();
    table.append(&[files], false);
    let among = |values: &[i64]| Predicate::Within {
        column: "id".to_owned(),
        ranges: values.iter().map(|value| (Datum::long(*value), Datum::long(*value))).collect(),
    };
    let request = |predicate| Request { predicate, ..Request::default() };
    let wanted = [3, 500, 999];
    let plan = table.plan(&request(among(&wanted)));
    assert!(plan.files.len() <= wanted.len() && !plan.files.is_empty(), "{} of {all}", plan.files.len());
    let read = table.read(&request(among(&wanted)));
    let read = read["id"].as_primitive::<Int64Type>().values().to_vec();
    assert!(wanted.iter().all(|value| read.contains(value)));
    assert_eq!(table.plan(&request(among(&[]))).files.len(), 0);
    // A range has values in every bucket.
    let range = Predicate::Within { column: "id".to_owned(), ranges: vec![(Datum::long(3), Datum::long(500))] };
    assert_eq!(table.plan(&request(range)).files.len(), all);
    // Beyond all bounds.
    assert_eq!(table.plan(&request(among(&[5000]))).files.len(), 0);
}
