use super::align::{Alignment, Fill, Match, Misfit, Why};
use super::*;
use crate::testing;
use arrow::array::{
    BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array, Int64Builder,
    LargeStringArray, ListArray, MapBuilder, StringArray, StringBuilder, StringViewArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int32Type, Int64Type, Schema as ArrowSchema};
use iceberg::spec::PrimitiveLiteral;

#[test]
fn a_structs_own_fields_are_numbered_before_what_they_hold() {
    let schema = testing::schema(&[
        ("a", "struct<x: int, y: list<struct<z: string>>>"),
        ("b", "map<string, long>"),
        ("c.d", "fixed(3)"),
    ]);
    let id = |name: &str| schema.field_id_by_name(name).unwrap();
    let names = ["a", "b", "c.d", "a.x", "a.y", "a.y.element", "a.y.z", "b.key", "b.value"];
    assert_eq!(names.map(id), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let clash: Vec<Column> = [("a.b", "int"), ("a", "struct<b: int>")]
        .map(|(name, data_type)| Column {
            name: name.to_owned(),
            data_type: data_type.parse().unwrap(),
            required: false,
            doc: None,
        })
        .to_vec();
    assert!(iceberg_schema(&clash).is_err());
}

#[test]
fn arrow_and_parquet_carry_ids_and_types() {
    let schema = testing::schema(&[
        ("s", "string"),
        ("at", "timestamptz"),
        ("u", "uuid"),
        ("d", "decimal(20, 3)"),
        ("list", "list<string>"),
        ("m", "map<string, struct<v: binary>>"),
    ]);
    let arrow = arrow_schema(&schema, Strings::Views).unwrap();
    assert_eq!(arrow.field(0).data_type(), &DataType::Utf8View);
    assert_eq!(arrow.field(1).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    assert_eq!(field_id(arrow.field(4)), Some(5));
    let parquet = parquet::descriptor(&schema).unwrap();
    let mut text = Vec::new();
    ::parquet::schema::printer::print_schema(&mut text, parquet.root_schema());
    let text = String::from_utf8(text).unwrap();
    for expected in [
        "OPTIONAL BYTE_ARRAY s [1] (STRING);",
        "OPTIONAL INT64 at [2] (TIMESTAMP(MICROS,true));",
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (16) u [3] (UUID);",
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (9) d [4] (DECIMAL(20,3));",
        "OPTIONAL group list [5] (LIST) {",
        "REPEATED group list {",
        "OPTIONAL BYTE_ARRAY element [7] (STRING);",
        "REPEATED group key_value {",
        "REQUIRED BYTE_ARRAY key [8] (STRING);",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    let ids = parquet::leaf_ids(&parquet);
    assert_eq!(ids, [Some(1), Some(2), Some(3), Some(4), Some(7), Some(8), Some(10)]);
}

#[test]
fn rows_are_fitted_by_id_or_name_and_never_cast() {
    let schema =
        testing::schema(&[("id", "long"), ("name", "string"), ("at", "timestamptz"), ("p", "struct<q: int, r: long>")]);
    let target = arrow_schema(&schema, Strings::Views).unwrap();
    let dictionary: DictionaryArray<Int32Type> = vec![Some("x"), None].into_iter().collect();
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![7, 8]));
    let p = StructArray::from(vec![(Arc::new(Field::new("r", DataType::Int32, true)), inner)]);
    let at = TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("+00:00");
    let batch = RecordBatch::try_from_iter([
        ("extra", Arc::new(Int32Array::from(vec![0, 0])) as ArrayRef),
        ("p", Arc::new(p)),
        ("at", Arc::new(at)),
        ("name", Arc::new(dictionary)),
        ("id", Arc::new(Int32Array::from(vec![1, 2]))),
    ])
    .unwrap();
    let alignment = Alignment::new(&batch.schema(), &target, Match::IdOrName, &[]).unwrap();
    let fitted = alignment.apply(&batch).unwrap();
    assert_eq!(fitted.schema(), target);
    assert_eq!(fitted["id"].as_ref(), &Int64Array::from(vec![1, 2]) as &dyn Array);
    assert_eq!(fitted["name"].as_ref(), &StringViewArray::from(vec![Some("x"), None]) as &dyn Array);
    assert_eq!(fitted["p"].as_struct().column(0).null_count(), 2);
    assert_eq!(fitted["p"].as_struct().column(1).as_ref(), &Int64Array::from(vec![7, 8]) as &dyn Array);
    // A file's columns go by id alone: nothing here has one.
    let by_id = Alignment::new(&batch.schema(), &target, Match::Id, &[]).unwrap().apply(&batch).unwrap();
    assert!(by_id.columns().iter().all(|column| column.null_count() == 2));
    let fill = Fill { field_id: 2, value: Some(PrimitiveLiteral::String("all".to_owned())) };
    let filled = Alignment::new(&batch.schema(), &target, Match::Id, &[fill]).unwrap().apply(&batch).unwrap();
    assert_eq!(filled["name"].as_ref(), &StringViewArray::from(vec!["all", "all"]) as &dyn Array);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let required = |name: &str, data_type: &str| Column {
        name: name.to_owned(),
        data_type: data_type.parse().unwrap(),
        required: true,
        doc: None,
    };
    let schema = iceberg_schema(&[required("id", "int"), required("s", "string")]).unwrap();
    let target = arrow_schema(&schema, Strings::Plain).unwrap();
    let text = || Arc::new(LargeStringArray::from(vec!["a"])) as ArrayRef;
    let check = |columns: Vec<(&str, ArrayRef)>, expected: &str| {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let incoming: &ArrowSchema = &batch.schema();
        let fault = Alignment::new(incoming, &target, Match::IdOrName, &[]).and_then(|a| a.apply(&batch)).unwrap_err();
        assert!(fault.to_string().contains(expected), "{fault}");
        assert_eq!(fault.kind(), model::failure::Kind::Poison);
    };
    check(vec![("s", text())], "`id` is missing");
    check(
        vec![("s", text()), ("id", Arc::new(Float64Array::from(vec![1.0])))],
        "`id` is Float64; the table holds Int32",
    );
    check(
        vec![("s", text()), ("id", Arc::new(Int64Array::from(vec![1 << 31])))],
        "`id` holds a value outside its range",
    );
    check(vec![("s", text()), ("id", Arc::new(StringArray::from(vec!["1"])))], "`id` is Utf8");
    check(vec![("s", text()), ("id", Arc::new(Int32Array::from(vec![None])))], "`id` holds a null");
}

#[test]
fn rows_of_which_a_value_does_not_fit_are_found_and_the_others_are_fitted() {
    let field = |name: &str, data_type: &str, required| Column {
        name: name.to_owned(),
        data_type: data_type.parse().unwrap(),
        required,
        doc: None,
    };
    let columns = [
        field("id", "int", true),
        field("sum", "decimal(4, 2)", false),
        field("p", "struct<q: int>", false),
        field("tags", "list<int>", false),
        field("by", "map<string, int>", false),
    ];
    let target = arrow_schema(&iceberg_schema(&columns).unwrap(), Strings::Views).unwrap();
    let long =
        || Int64Array::from(vec![Some(1), None, Some(i64::from(i32::MIN)), Some(1 << 31), Some(5), Some(6), Some(7)]);
    let sums = Decimal128Array::from(vec![9999, 0, -9999, 1, -10_000, 2, 3]).with_precision_and_scale(6, 2).unwrap();
    let wide = |n: usize| -> ArrayRef {
        Arc::new(Int64Array::from_iter((0..7).map(|row| Some(if row == n { i64::MAX } else { 0 }))))
    };
    // Of the sixth row `p` is null, and what stands under it is nobody's value.
    let q = StructArray::new(
        Fields::from(vec![Field::new("q", DataType::Int64, true)]),
        vec![wide(5)],
        Some(vec![true, true, true, true, true, false, true].into()),
    );
    let tags =
        ListArray::from_iter_primitive::<Int64Type, _, _>((0..7).map(|row| (row != 2).then(|| vec![Some(0); row])));
    let mut by = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in 0..7 {
        for n in 0..2 {
            by.keys().append_value("k");
            by.values().append_value(if row == 6 { i64::MIN * n } else { 0 });
        }
        by.append(true).unwrap();
    }
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(long()) as ArrayRef),
        ("sum", Arc::new(sums)),
        ("p", Arc::new(q)),
        ("tags", Arc::new(tags)),
        ("by", Arc::new(by.finish())),
    ])
    .unwrap();
    let alignment = Alignment::new(&batch.schema(), &target, Match::IdOrName, &[]).unwrap();
    alignment.apply(&batch).unwrap_err();
    let found: Vec<_> =
        alignment.misfits(&batch).unwrap().into_iter().map(|Misfit { row, path, why }| (row, path, why)).collect();
    let of = |row, path: &str, why| (row, path.to_owned(), why);
    assert_eq!(
        found,
        [of(1, "id", Why::Null), of(3, "id", Why::Range), of(4, "sum", Why::Range), of(6, "by.value", Why::Range)]
    );
    let keep = BooleanArray::from_iter((0..7).map(|row| Some(!found.iter().any(|misfit| misfit.0 == row))));
    let fitted = alignment.apply(&filter_record_batch(&batch, &keep).unwrap()).unwrap();
    assert_eq!(fitted["id"].as_ref(), &Int32Array::from(vec![1, i32::MIN, 6]) as &dyn Array);
    assert_eq!(fitted.schema(), target);
    assert!(alignment.misfits(&filter_record_batch(&batch, &keep).unwrap()).unwrap().is_empty());
    // Elements of a list have their row's number, too.
    let tags =
        ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), Some(vec![Some(2), Some(1 << 40)])]);
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("tags", Arc::new(tags)),
    ])
    .unwrap();
    let alignment = Alignment::new(&batch.schema(), &target, Match::IdOrName, &[]).unwrap();
    assert_eq!(
        alignment.misfits(&batch).unwrap(),
        [Misfit { row: 1, path: "tags.element".to_owned(), why: Why::Range }]
    );
}
