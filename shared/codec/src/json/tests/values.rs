//! Every kind of value, and what it becomes.

use super::*;
use crate::columns::tests::{declare, path};

/// The default column type of a member of a schema, with Iceberg's types and with portable ones.
#[test]
fn each_schema_has_a_column_type() {
    let check = |of: &str, iceberg_type: &str, portable: &str| {
        let schema = object(&format!("f: {of}"));
        let types = [iceberg(), table()].map(|table| plan(&schema, &table).unwrap().columns[0].data_type.to_string());
        assert_eq!(types, [iceberg_type, portable], "{of}");
    };
    let same = |of: &str, expected: &str| check(of, expected, expected);
    let of = |name: &str, more: &str| format!("{{\"type\": \"{name}\"{more}}}");
    same(&of("boolean", ""), "boolean");
    same(&of("integer", ""), "long");
    same(&of("integer", ", \"format\": \"int32\""), "int");
    same(&of("integer", ", \"connect.type\": \"int16\""), "int");
    same(&of("number", ""), "double");
    same(&of("number", ", \"connect.type\": \"float32\""), "float");
    same("{\"type\": [\"integer\", \"number\", \"null\"]}", "double");
    same(&of("string", ""), "string");
    same(&of("string", ", \"format\": \"email\""), "string");
    same(&of("string", ", \"format\": \"date\""), "date");
    same(&of("string", ", \"format\": \"date-time\""), "timestamptz");
    check(&of("string", ", \"format\": \"time\""), "time", "string");
    check(&of("string", ", \"format\": \"uuid\""), "uuid", "string");
    same(&of("string", ", \"format\": \"byte\""), "binary");
    same(&of("string", ", \"contentEncoding\": \"base64\""), "binary");
    same(&of("string", ", \"connect.type\": \"bytes\""), "binary");
    let named = |of: &str, name: &str, more: &str| format!("{{\"type\": \"{of}\", \"title\": \"{name}\"{more}}}");
    let decimal = "org.apache.kafka.connect.data.Decimal";
    same(&named("number", decimal, ", \"connect.parameters\": {\"scale\": \"2\"}"), "decimal(38, 2)");
    same(
        &named("string", decimal, ", \"connect.parameters\": {\"scale\": \"4\", \"connect.decimal.precision\": \"9\"}"),
        "decimal(9, 4)",
    );
    same(&named("integer", "org.apache.kafka.connect.data.Date", ""), "date");
    check(&named("integer", "org.apache.kafka.connect.data.Time", ""), "time", "string");
    same(&named("integer", "org.apache.kafka.connect.data.Timestamp", ""), "timestamptz");
    same(&named("integer", "io.debezium.time.MicroTimestamp", ""), "timestamp");
    same("{\"type\": \"array\", \"items\": {\"type\": [\"null\", \"integer\"]}}", "list<long>");
    same("{\"type\": \"array\"}", "list<string>");
    same("{\"type\": \"array\", \"items\": [{\"type\": \"integer\"}]}", "string");
    same("{\"type\": \"object\", \"additionalProperties\": {\"type\": \"boolean\"}}", "map<string, boolean>");
    same("{\"properties\": {\"aB\": {\"type\": \"integer\"}}}", "struct<ab: long>");
    for anything in [
        "true",
        "{}",
        "false",
        "{\"type\": [\"string\", \"integer\"]}",
        "{\"type\": \"object\"}",
        "{\"type\": \"null\"}",
        "{\"additionalProperties\": {}}",
        "{\"oneOf\": [{\"type\": \"string\"}, {\"type\": \"object\"}]}",
        "{\"enum\": [1, \"a\"]}",
        "{\"enum\": [{}]}",
        "{\"format\": \"date\"}",
    ] {
        same(anything, "string");
    }
}

/// The cell of a member of a schema whose column has a declared type; `-` for the default one.
fn check_as(of: &str, column: &str, json: &str, expected: Result<&str, Class>) {
    let schema = object(&format!("f: {of}"));
    let mut table = iceberg();
    if column != "-" {
        declare(&mut table, "f", path("f"), Some(column));
    }
    let row = rows(&schema, &table, &[format!("{{\"f\":{json}}}").as_bytes()]);
    let row = row.as_ref().map(|rows| rows[0].as_str().trim_start_matches("f=")).map_err(|rejected| {
        assert_eq!(rejected.path, "f", "{rejected}");
        rejected.class
    });
    assert_eq!(row, expected, "{json} of {of} as {column}");
}

const INTEGER: &str = "{\"type\": \"integer\"}";
const NUMBER: &str = "{\"type\": \"number\"}";
const TEXT: &str = "{\"type\": \"string\"}";
const BOOLEAN: &str = "{\"type\": \"boolean\"}";

#[test]
fn whole_numbers_keep_every_digit() {
    let check = |json: &str, expected| check_as(INTEGER, "-", json, expected);
    for same in ["0", "-1", "9007199254740993", "999999999999999999", "9223372036854775807", "-9223372036854775808"] {
        check(same, Ok(same));
    }
    check("1e3", Ok("1000"));
    check("12.0", Ok("12"));
    check("-0", Ok("0"));
    check("-0.0e5", Ok("0"));
    check("9223372036854775807.000", Ok("9223372036854775807"));
    check("0.12E2", Ok("12"));
    check("12.7", Err(Class::WrongType));
    check("1e-1", Err(Class::WrongType));
    check("9223372036854775808", Err(Class::OutOfRange));
    check("-9223372036854775809", Err(Class::OutOfRange));
    check("1e19", Err(Class::OutOfRange));
    check("1e999999999999999999999", Err(Class::OutOfRange));
    for other in ["\"42\"", "true", "[1]", "{}"] {
        check(other, Err(Class::WrongType));
    }
    check("null", Ok("NULL"));
    check_as(INTEGER, "int", "2147483647", Ok("2147483647"));
    check_as(INTEGER, "int", "-2147483648.0", Ok("-2147483648"));
    check_as(INTEGER, "int", "2147483648", Err(Class::OutOfRange));
    check_as(INTEGER, "int", "-2147483649.0", Err(Class::OutOfRange));
    check_as(INTEGER, "string", "1e3", Ok("\"1000\""));
    check_as(
        INTEGER,
        "string",
        "170141183460469231731687303715884105727",
        Ok("\"170141183460469231731687303715884105727\""),
    );
    check_as(INTEGER, "string", "1e40", Err(Class::OutOfRange));
    check_as(INTEGER, "decimal(20, 0)", "18446744073709551615", Ok("18446744073709551615"));
    check_as(INTEGER, "double", "3", Ok("3.0"));
    check_as(NUMBER, "long", "9007199254740993", Ok("9007199254740993"));
    check_as(NUMBER, "long", "1.5", Err(Class::WrongType));
}

#[test]
fn floating_point_numbers_are_the_nearest_and_nothing_else() {
    let check = |json: &str, expected| check_as(NUMBER, "-", json, expected);
    check("0.1", Ok("0.1"));
    check("-0", Ok("-0.0"));
    check("0e-999", Ok("0.0"));
    check("1e308", Ok("1e308"));
    check("5e-324", Ok("5e-324"));
    check("9007199254740993", Ok("9007199254740992.0"));
    check("2.2250738585072011e-308", Ok("2.225073858507201e-308"));
    check("1e309", Err(Class::OutOfRange));
    check("-1e309", Err(Class::OutOfRange));
    check("1e-400", Err(Class::OutOfRange));
    check("\"1.5\"", Err(Class::WrongType));
    check("\"NaN\"", Err(Class::WrongType));
    check_as(NUMBER, "float", "0.1", Ok("0.1"));
    check_as(NUMBER, "float", "16777217", Ok("16777216.0"));
    check_as(NUMBER, "float", "1e39", Err(Class::OutOfRange));
    check_as(NUMBER, "float", "1e-60", Err(Class::OutOfRange));
    check_as(NUMBER, "string", "1.50e+2", Ok("\"1.50e+2\""));
}

#[test]
fn decimals_are_exact_digits() {
    let check = |of: &str, json: &str, expected| check_as(of, "decimal(9, 4)", json, expected);
    for of in [NUMBER, INTEGER, TEXT, "true"] {
        check(of, "1.5", Ok("15000"));
        check(of, "\"-1.5\"", Ok("-15000"));
        check(of, "1e4", Ok("100000000"));
        check(of, "99999.9999", Ok("999999999"));
        check(of, "-0.00010", Ok("-1"));
        check(of, "0.00001", Err(Class::OutOfRange));
        check(of, "100000", Err(Class::OutOfRange));
        check(of, "\"1e5\"", Err(Class::OutOfRange));
        check(of, "\"\"", Err(Class::WrongType));
        check(of, "\"1,5\"", Err(Class::WrongType));
        check(of, "\" 1\"", Err(Class::WrongType));
        check(of, "true", Err(Class::WrongType));
    }
    check_as(NUMBER, "decimal(38, 0)", &"9".repeat(38), Ok(&"9".repeat(38)));
    check_as(NUMBER, "decimal(38, 38)", "0.00000000000000000000000000000000000001", Ok("1"));
    check_as(NUMBER, "decimal(38, 0)", "1e38", Err(Class::OutOfRange));
}

/// Kafka Connect's own form of them: the bytes of the unscaled number, of any length, where they are no number.
#[test]
fn unscaled_bytes_are_decimals_of_the_schemas_scale() {
    let of = "{\"type\": \"string\", \"title\": \"org.apache.kafka.connect.data.Decimal\", \"connect.parameters\":
        {\"scale\": \"4\", \"connect.decimal.precision\": \"9\"}}";
    let check = |json: &str, expected| check_as(of, "-", json, expected);
    check("\"/w==\"", Ok("-1"));
    check("\"AIA=\"", Ok("128"));
    check("\"gA==\"", Ok("-128"));
    check("\"/4A=\"", Ok("-128"));
    check("\"U/w=\"", Ok("21500"));
    check("\"is8=\"", Ok("-30001"));
    check("\"AA==\"", Ok("0"));
    check("null", Ok("NULL"));
    check("\"\"", Err(Class::WrongType));
    check("1.5", Ok("15000"));
    // Four digits that are base64 are no digits.
    check("\"1234\"", Ok("-2658824"));
    check("\"1.5\"", Err(Class::WrongType));
    check("\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAQ==\"", Ok("1"));
    check("\"f////////////////////w==\"", Err(Class::OutOfRange));
    check_as(of, "decimal(12, 6)", "\"/w==\"", Ok("-100"));
}

#[test]
fn booleans_are_true_and_false() {
    let check = |json: &str, expected| check_as(BOOLEAN, "-", json, expected);
    check("true", Ok("true"));
    check("false", Ok("false"));
    check("null", Ok("NULL"));
    for other in ["1", "0", "\"true\"", "[]"] {
        check(other, Err(Class::WrongType));
    }
    check_as(BOOLEAN, "string", "false", Ok("\"false\""));
}

#[test]
fn times_are_text_or_count_what_is_said() {
    let formatted = |format: &str| format!("{{\"type\": \"string\", \"format\": \"{format}\"}}");
    let date = |of: &str, column: &str, json: &str, expected| check_as(of, column, json, expected);
    for (of, column) in [(formatted("date").as_str(), "-"), (TEXT, "date"), ("{}", "date")] {
        date(of, column, "\"1969-12-31\"", Ok("-1"));
        date(of, column, "\"2026-02-29\"", Err(Class::OutOfRange));
        date(of, column, "\"31.12.1969\"", Err(Class::OutOfRange));
        date(of, column, "0", Err(Class::WrongType));
    }
    for (of, column) in [(formatted("date-time").as_str(), "-"), (TEXT, "timestamptz"), ("{}", "timestamptz")] {
        date(of, column, "\"1969-07-20T20:17:40.5-04:00\"", Ok("-14168539500000"));
        date(of, column, "\"2024-02-29T23:59:59.9999999Z\"", Ok("1709251199999999"));
        date(of, column, "\"2024-02-29T23:59:59\"", Err(Class::OutOfRange));
        date(of, column, "1709251199999", Err(Class::WrongType));
        date(of, column, "true", Err(Class::WrongType));
    }
    check_as(TEXT, "timestamp", "\"2024-02-29T23:59:59\"", Ok("1709251199000000"));
    check_as(&formatted("date-time"), "timestamp", "\"1970-01-01T01:00:00+01:00\"", Ok("0"));
    check_as(&formatted("date-time"), "string", "\"whenever\"", Ok("\"whenever\""));
    check_as(&formatted("time"), "-", "\"23:59:59.5Z\"", Ok("86399500000"));
    check_as(&formatted("time"), "string", "\"9:00\"", Err(Class::OutOfRange));
    check_as(&formatted("time"), "string", "\"09:00\"", Ok("\"09:00:00.000000\""));
    check_as(TEXT, "time", "\"10:00:00+02:00\"", Err(Class::OutOfRange));
    let counts = |name: &str, json: &str, expected| {
        check_as(&format!("{{\"type\": \"integer\", \"title\": \"{name}\"}}"), "-", json, expected);
    };
    counts("io.debezium.time.Timestamp", "-1", Ok("-1000"));
    counts("io.debezium.time.MicroTimestamp", "-1", Ok("-1"));
    counts("io.debezium.time.NanoTimestamp", "-1001", Ok("-2"));
    counts("io.debezium.time.Timestamp", "253402300799999", Ok("253402300799999000"));
    counts("io.debezium.time.MicroTimestamp", "-62135596800000000", Ok("-62135596800000000"));
    counts("io.debezium.time.MicroTimestamp", "1709251199999123", Ok("1709251199999123"));
    counts("io.debezium.time.Date", "-1", Ok("-1"));
    counts("io.debezium.time.MicroTime", "86399999999", Ok("86399999999"));
    counts("io.debezium.time.MicroTime", "86400000000", Err(Class::OutOfRange));
    counts("org.apache.kafka.connect.data.Timestamp", "9223372036854775807", Err(Class::OutOfRange));
    counts("org.apache.kafka.connect.data.Date", "1e300", Err(Class::OutOfRange));
    counts("org.apache.kafka.connect.data.Date", "2147483648", Err(Class::OutOfRange));
}

#[test]
fn bytes_are_base64() {
    let bytes = "{\"type\": \"string\", \"contentEncoding\": \"base64\"}";
    for (of, column) in [(bytes, "-"), (TEXT, "binary"), ("{}", "binary")] {
        check_as(of, column, "\"AP+A\"", Ok("x[00, ff, 80]"));
        check_as(of, column, "\"\\/w==\"", Ok("x[ff]"));
        check_as(of, column, "\"/w\"", Ok("x[ff]"));
        check_as(of, column, "\"\"", Ok("x[]"));
        check_as(of, column, "\"/x==\"", Err(Class::WrongType));
        check_as(of, column, "\"_w==\"", Err(Class::WrongType));
        check_as(of, column, "\"a b=\"", Err(Class::WrongType));
        check_as(of, column, "[255]", Err(Class::WrongType));
    }
    check_as(bytes, "fixed(3)", "\"AP+A\"", Ok("x[00, ff, 80]"));
    check_as(bytes, "fixed(3)", "\"AP8=\"", Err(Class::OutOfRange));
    check_as(bytes, "string", "\"AP8=\"", Ok("\"AP8=\""));
}

#[test]
fn uuids_have_their_hyphens() {
    let uuid = "{\"type\": \"string\", \"format\": \"uuid\"}";
    let bytes = "x[5c, 0f, fe, e5, 00, 00, 40, 00, 80, 00, 00, 00, 00, 00, 00, b2]";
    check_as(uuid, "-", "\"5c0ffee5-0000-4000-8000-0000000000B2\"", Ok(bytes));
    check_as(TEXT, "uuid", "\"5c0ffee5-0000-4000-8000-0000000000b2\"", Ok(bytes));
    for other in [
        "5c0ffee50000400080000000000000b2",
        "{5c0ffee5-0000-4000-8000-0000000000b2}",
        "5c0ffee5-0000-4000-8000-0000000000g2",
        "",
    ] {
        check_as(uuid, "-", &format!("\"{other}\""), Err(Class::OutOfRange));
    }
}

#[test]
fn what_has_no_type_is_kept_as_it_is_written() {
    for json in ["1.50", "\"a\\u00e9\"", "true", "{ \"a\" : [1,\n2], \"a\": 1e400 }", "[ ]", "\"\""] {
        check_as("{}", "-", json, Ok(&format!("{json:?}")));
    }
    check_as("{}", "-", "null", Ok("NULL"));
    check_as("{}", "-", "[1, ]", Err(Class::WrongType));
    check_as("{}", "-", "[\"\\ud800\"]", Err(Class::InvalidUtf8));
    check_as("{}", "long", "7", Ok("7"));
    check_as(
        "{}",
        "struct<a: int, b: list<string>>",
        "{\"b\": [\"x\", null, {\"c\": 1}], \"a\": 1, \"d\": 0}",
        Ok("{a:1,b:[\"x\",NULL,\"{\\\"c\\\": 1}\"]}"),
    );
    check_as("{}", "map<string, double>", "{\"k\": 1, \"l\": null}", Ok("{\"k\":1.0,\"l\":NULL}"));
    let nested = "{\"properties\": {\"a\": {\"type\": \"integer\"}}}";
    check_as(nested, "string", "{\"a\": \"x\", \"b\": 1}", Ok("\"{\\\"a\\\": \\\"x\\\", \\\"b\\\": 1}\""));
    check_as(nested, "string", "\"{}\"", Err(Class::WrongType));
}

#[test]
fn a_column_that_a_schema_can_not_fill_is_refused_with_those_that_it_can() {
    let check = |of: &str, column: &str, expected: &str| {
        let mut table = iceberg();
        declare(&mut table, "f", path("f"), Some(column));
        let faults = plan(&object(&format!("f: {of}")), &table).unwrap_err();
        assert!(faults.len() == 1 && faults[0].to_string().contains(expected), "{faults:?}\nlacks: {expected}");
    };
    check(TEXT, "long", "table.columns.f: `f` can't be long: it can be string, decimal(P, S), date");
    check(TEXT, "boolean", "can't be boolean");
    check(INTEGER, "boolean", "can't be boolean: it can be int, long");
    check(INTEGER, "timestamptz", "with the column's `unit`");
    check(BOOLEAN, "int", "boolean, string");
    check("{\"type\": \"string\", \"format\": \"date\"}", "timestamptz", "it can be date, string");
    check("{\"type\": \"array\"}", "struct<a: int>", "it can be list<…>, string (JSON)");
    check("{\"properties\": {\"a\": true}}", "struct<b: int>", "the object has no field `b`");
    check("{\"properties\": {\"a\": {\"type\": \"string\"}}}", "struct<a: int>", "`f.a` can't be int");
    check("{}", "map<int, int>", "`f` can't be map<int, int>");
}
