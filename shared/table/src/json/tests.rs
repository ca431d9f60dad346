use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int32Array, Int64Array, ListArray, MapBuilder, StringArray, StringBuilder,
    StringViewArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    UInt64Array,
};
use arrow::datatypes::{Fields, Int8Type};

use super::*;

fn check(array: impl Array + 'static, expected: &[&str]) {
    check_field(Field::new("c", array.data_type().clone(), true), Arc::new(array), expected);
}

fn check_field(field: Field, array: ArrayRef, expected: &[&str]) {
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
    let found: Vec<String> = (0..batch.num_rows())
        .map(|n| {
            let mut out = Vec::new();
            row(&batch, n, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        })
        .collect();
    let expected: Vec<String> = expected.iter().map(|value| format!("{{\"c\":{value}}}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn scalars_lose_nothing() {
    check(
        Int64Array::from(vec![Some(i64::MIN), Some(9_007_199_254_740_993), None]),
        &["-9223372036854775808", "9007199254740993", "null"],
    );
    check(UInt64Array::from(vec![u64::MAX]), &["18446744073709551615"]);
    check(BooleanArray::from(vec![Some(true), Some(false), None]), &["true", "false", "null"]);
    check(Float32Array::from(vec![0.1, f32::MAX, -0.0]), &["0.1", "3.4028235e+38", "-0.0"]);
    check(
        Float64Array::from(vec![0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
        &["0.1", "\"NaN\"", "\"Infinity\"", "\"-Infinity\""],
    );
    check(
        Decimal128Array::from(vec![-1, 20_000]).with_precision_and_scale(9, 4).unwrap(),
        &["\"-0.0001\"", "\"2.0000\""],
    );
    check(
        Decimal128Array::from(vec![9_223_372_036_854_775_815]).with_precision_and_scale(20, 0).unwrap(),
        &["\"9223372036854775815\""],
    );
    check(StringArray::from(vec!["a\"\\\n\u{1}é", ""]), &["\"a\\\"\\\\\\n\\u0001é\"", "\"\""]);
    check(StringViewArray::from(vec!["longer than twelve bytes"]), &["\"longer than twelve bytes\""]);
    check(BinaryArray::from(vec![Some(&[0_u8, 255][..]), Some(b""), None]), &["\"AP8=\"", "\"\"", "null"]);
}

#[test]
fn times_have_a_fixed_form() {
    check(Date32Array::from(vec![0, -1, 19_782]), &["\"1970-01-01\"", "\"1969-12-31\"", "\"2024-02-29\""]);
    check(Time64MicrosecondArray::from(vec![0, 86_399_999_999]), &["\"00:00:00.000000\"", "\"23:59:59.999999\""]);
    let instants = vec![0, -1, 1_709_251_199_999_001, i64::MAX];
    check(
        TimestampMicrosecondArray::from(instants.clone()).with_timezone("UTC"),
        &[
            "\"1970-01-01T00:00:00.000000Z\"",
            "\"1969-12-31T23:59:59.999999Z\"",
            "\"2024-02-29T23:59:59.999001Z\"",
            "\"+294247-01-10T04:00:54.775807Z\"",
        ],
    );
    check(
        TimestampMicrosecondArray::from(instants[..2].to_vec()),
        &["\"1970-01-01T00:00:00.000000\"", "\"1969-12-31T23:59:59.999999\""],
    );
    // 9999 is the last year of four digits, and 0 the first; any other parses as ECMAScript's expanded years do.
    let days = [2_932_896, 2_932_897, -719_528, -719_529, i32::MAX, i32::MIN];
    check(
        Date32Array::from(days.to_vec()),
        &[
            "\"9999-12-31\"",
            "\"+010000-01-01\"",
            "\"0000-01-01\"",
            "\"-000001-12-31\"",
            "\"+5881580-07-11\"",
            "\"-5877641-06-23\"",
        ],
    );
    check(
        TimestampMicrosecondArray::from(vec![253_402_300_800_000_000, -62_167_219_200_000_001, i64::MIN]),
        &[
            "\"+010000-01-01T00:00:00.000000\"",
            "\"-000001-12-31T23:59:59.999999\"",
            "\"-290308-12-21T19:59:05.224192\"",
        ],
    );
    check(TimestampNanosecondArray::from(vec![1]).with_timezone("+02:00"), &["\"1970-01-01T00:00:00.000000001Z\""]);
}

#[test]
fn instants_are_as_a_calendar_library_has_them() {
    let text = |micros: i64| {
        let array = TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC");
        timestamp(&array, 0, TimeUnit::Microsecond, true)
    };
    let mut micros = -62_167_219_200_000_000_i64;
    while micros < 253_402_300_800_000_000 {
        let expected = chrono::DateTime::from_timestamp_micros(micros).unwrap();
        assert_eq!(text(micros), expected.to_rfc3339_opts(chrono::SecondsFormat::Micros, true));
        assert_eq!(chrono::DateTime::parse_from_rfc3339(&text(micros)).unwrap(), expected);
        micros += 40_013_777_123_457;
    }
    // Beyond, a library that reads expanded years gets the same instant back.
    for micros in [253_402_300_800_000_000, -62_167_219_200_000_001, 8_000_000_000_000_000_000] {
        let read: chrono::DateTime<chrono::Utc> = text(micros).parse().unwrap();
        assert_eq!(read.timestamp_micros(), micros);
    }
}

#[test]
fn nested_values_keep_their_nulls_and_maps_are_lists_of_pairs() {
    let qty: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let sku: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b")]));
    let fields = Fields::from(vec![Field::new("sku", DataType::Utf8, true), Field::new("qty", DataType::Int32, true)]);
    check(
        StructArray::new(fields, vec![sku, qty], Some(vec![true, true].into())),
        &["{\"sku\":\"a\",\"qty\":1}", "{\"sku\":\"b\",\"qty\":null}"],
    );
    check(
        ListArray::from_iter_primitive::<Int8Type, _, _>([Some(vec![Some(1), None]), Some(vec![]), None]),
        &["[1,null]", "[]", "null"],
    );
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.keys().append_value("k");
    map.values().append_null();
    map.append(true).unwrap();
    map.append(true).unwrap();
    check(map.finish(), &["[{\"key\":\"k\",\"value\":null}]", "[]"]);
    let dictionary: DictionaryArray<Int8Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    check(dictionary, &["\"x\"", "null", "\"x\""]);
}

#[test]
fn sixteen_fixed_bytes_are_a_uuid_only_where_the_column_says_so() {
    let bytes = FixedSizeBinaryArray::try_from_iter([[0x12_u8; 16]].into_iter()).unwrap();
    let plain = Field::new("c", DataType::FixedSizeBinary(16), true);
    let uuid = plain
        .clone()
        .with_metadata([("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())].into_iter().collect());
    check_field(plain, Arc::new(bytes.clone()), &["\"EhISEhISEhISEhISEhISEg==\""]);
    check_field(uuid, Arc::new(bytes), &["\"12121212-1212-1212-1212-121212121212\""]);
}

#[test]
fn plain_text_has_no_quotes_and_keeps_null_apart_from_empty() {
    let array = StringArray::from(vec![Some("a\"b"), Some(""), None]);
    let field = Field::new("c", DataType::Utf8, true);
    let found: Vec<Option<String>> = (0..3).map(|n| text(&field, &array, n).unwrap().map(Cow::into_owned)).collect();
    assert_eq!(found, [Some("a\"b".to_owned()), Some(String::new()), None]);
    let days = Date32Array::from(vec![0]);
    let field = Field::new("c", DataType::Date32, true);
    assert_eq!(text(&field, &days, 0).unwrap().as_deref(), Some("1970-01-01"));
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let twice = Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("a", DataType::Utf8, true)]);
    assert!(matches!(check_names(&twice), Err(Error::Ambiguous(name)) if name == "a"));
}
