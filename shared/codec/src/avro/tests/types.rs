//! Every type, and what it becomes.

use super::*;
use crate::columns::tests::{declare, path};

fn logical(of: &str, logical: &str) -> String {
    format!("{{\"type\": \"{of}\", \"logicalType\": \"{logical}\"}}")
}

/// The default column type of a field of a type, with Iceberg's types and with portable ones.
#[test]
fn each_type_has_a_column_type() {
    let check = |of: &str, iceberg_type: &str, portable: &str| {
        let schema = record(&format!("f: {of}"));
        let types = [iceberg(), table()].map(|table| plan(&schema, &table).unwrap().columns[0].data_type.to_string());
        assert_eq!(types, [iceberg_type, portable], "{of}");
    };
    let same = |of: &str, expected: &str| check(of, expected, expected);
    for primitive in ["int", "long", "float", "double", "boolean", "string"] {
        same(&format!("\"{primitive}\""), primitive);
    }
    same("\"bytes\"", "binary");
    check("{\"type\": \"fixed\", \"name\": \"F\", \"size\": 7}", "fixed(7)", "binary");
    same("{\"type\": \"enum\", \"name\": \"E\", \"symbols\": [\"A\"]}", "string");
    same("{\"type\": \"array\", \"items\": [\"null\", \"int\"]}", "list<int>");
    same("{\"type\": \"map\", \"values\": {\"type\": \"array\", \"items\": \"int\"}}", "map<string, list<int>>");
    same(
        "{\"type\": \"record\", \"name\": \"I\", \"fields\": [{\"name\": \"aB\", \"type\": \"int\"}]}",
        "struct<ab: int>",
    );
    same("{\"type\": \"record\", \"name\": \"I\", \"fields\": []}", "boolean");
    same("[\"string\", \"null\"]", "string");
    same("[\"long\"]", "long");
    same("[\"null\", \"int\", \"string\"]", "struct<int: int, string: string>");
    same("{\"type\": \"bytes\", \"logicalType\": \"decimal\", \"precision\": 9, \"scale\": 2}", "decimal(9, 2)");
    let decimal = "\"logicalType\": \"decimal\", \"precision\": 4}";
    same(&format!("{{\"type\": \"fixed\", \"name\": \"F\", \"size\": 2, {decimal}"), "decimal(4, 0)");
    // Two bytes hold four digits and no five.
    let five = "{\"type\": \"fixed\", \"name\": \"F\", \"size\": 2, \"logicalType\": \"decimal\", \"precision\": 5}";
    check(five, "fixed(2)", "binary");
    check(&logical("string", "uuid"), "uuid", "string");
    check("{\"type\": \"fixed\", \"name\": \"F\", \"size\": 16, \"logicalType\": \"uuid\"}", "uuid", "string");
    same(&logical("int", "date"), "date");
    check(&logical("int", "time-millis"), "time", "string");
    check(&logical("long", "time-micros"), "time", "string");
    for unit in ["millis", "micros"] {
        same(&logical("long", &format!("timestamp-{unit}")), "timestamptz");
        same(&logical("long", &format!("local-timestamp-{unit}")), "timestamp");
    }
    let duration = "{\"type\": \"fixed\", \"name\": \"D\", \"size\": 12, \"logicalType\": \"duration\"}";
    same(duration, "struct<months: long, days: long, milliseconds: long>");
    // What is unknown, or goes with another type, is its type.
    same(&logical("string", "colour"), "string");
    same(&logical("int", "timestamp-millis"), "int");
    same(&logical("bytes", "big-decimal"), "binary");
}

/// The cell of a field of a type whose column has a declared type; `-` for the default one.
fn check_as(of: &str, column: &str, payload: &str, expected: &str) {
    let schema = record(&format!("f: {of}"));
    let mut table = iceberg();
    declare(&mut table, "f", path("f"), (column != "-").then_some(column));
    let rows =
        rows(&schema, &schema, &table, &[payload]).unwrap_or_else(|rejected| panic!("{of} {payload}: {rejected}"));
    assert_eq!(rows, [format!("f={expected}")], "{of} as {column}");
}

#[test]
fn values_become_what_their_columns_have() {
    check_as("\"int\"", "-", "ffffffff0f", "-2147483648");
    check_as("\"int\"", "long", "feffffff0f", "2147483647");
    check_as("\"int\"", "double", "01", "-1.0");
    check_as("\"int\"", "decimal(12, 0)", "05", "-3");
    check_as("\"int\"", "string", "05", "\"-3\"");
    check_as("\"long\"", "-", "feffffffffffffffff01", "9223372036854775807");
    check_as("\"long\"", "-", "ffffffffffffffffff01", "-9223372036854775808");
    check_as("\"long\"", "decimal(19, 0)", "01", "-1");
    check_as("\"float\"", "double", "0000c03f", "1.5");
    check_as("\"double\"", "-", "000000000000f8bf", "-1.5");
    check_as("\"boolean\"", "-", "01", "true");
    let map = "{\"type\": \"map\", \"values\": \"int\"}";
    check_as(map, "-", "06 0261 02 0262 04 0261 06 00", "{\"a\":3,\"b\":2}");
    check_as(map, "string", "06 0261 02 0262 04 0261 06 00", "\"{\\\"a\\\":3,\\\"b\\\":2}\"");
    check_as("\"boolean\"", "string", "00", "\"false\"");
    check_as("\"bytes\"", "-", "04ff00", "x[ff, 00]");
    check_as("\"bytes\"", "string", "04c3b6", "\"ö\"");
    check_as("\"string\"", "binary", "04c328", "x[c3, 28]");
    let fixed = "{\"type\": \"fixed\", \"name\": \"F\", \"size\": 3}";
    check_as(fixed, "-", "010203", "x[01, 02, 03]");
    check_as(fixed, "binary", "010203", "x[01, 02, 03]");
    check_as(&logical("int", "date"), "-", "01", "-1");
    check_as(&logical("int", "date"), "string", "01", "\"1969-12-31\"");
    check_as(&logical("int", "time-millis"), "-", "02", "1000");
    check_as(&logical("int", "time-millis"), "string", "feefb252", "\"23:59:59.999000\"");
    check_as(&logical("int", "time-millis"), "int", "02", "1");
    check_as(&logical("long", "time-micros"), "-", "02", "1");
    check_as(&logical("long", "timestamp-millis"), "-", "01", "-1000");
    check_as(&logical("long", "timestamp-millis"), "long", "01", "-1");
    check_as(&logical("long", "timestamp-millis"), "timestamp", "01", "-1000");
    check_as(&logical("long", "timestamp-millis"), "string", "01", "\"1969-12-31T23:59:59.999Z\"");
    check_as(&logical("long", "timestamp-nanos"), "timestamptz", "d10f", "-2");
    check_as(&logical("long", "timestamp-nanos"), "long", "d10f", "-1001");
    check_as(&logical("long", "local-timestamp-nanos"), "timestamp", "01", "-1");
    check_as(&logical("long", "local-timestamp-nanos"), "string", "01", "\"1969-12-31T23:59:59.999999999\"");
    // The last millisecond of the year 9999, which nanoseconds don't reach.
    check_as(&logical("long", "timestamp-millis"), "-", "feeffea1fa9d73", "253402300799999000");
    let uuid = "01020304-0506-0708-090A-0b0c0d0e0f10";
    let text: String = uuid.bytes().map(|byte| format!("{byte:02x}")).collect();
    let bytes = "x[01, 02, 03, 04, 05, 06, 07, 08, 09, 0a, 0b, 0c, 0d, 0e, 0f, 10]";
    check_as(&logical("string", "uuid"), "-", &format!("48{text}"), bytes);
    check_as(&logical("string", "uuid"), "string", &format!("48{text}"), &format!("\"{uuid}\""));
    let fixed = "{\"type\": \"fixed\", \"name\": \"F\", \"size\": 16, \"logicalType\": \"uuid\"}";
    check_as(fixed, "-", "0102030405060708090a0b0c0d0e0f10", bytes);
    check_as(fixed, "string", "0102030405060708090a0b0c0d0e0f10", &format!("\"{}\"", uuid.to_lowercase()));
    let duration = "{\"type\": \"fixed\", \"name\": \"D\", \"size\": 12, \"logicalType\": \"duration\"}";
    check_as(duration, "-", "01000000 02000000 ffffffff", "{months:1,days:2,milliseconds:4294967295}");
    check_as(
        duration,
        "string",
        "01000000 02000000 ffffffff",
        "\"{\\\"months\\\":1,\\\"days\\\":2,\\\"milliseconds\\\":4294967295}\"",
    );
}

#[test]
fn decimals_keep_every_digit() {
    let decimal = |precision, scale| {
        format!("{{\"type\": \"bytes\", \"logicalType\": \"decimal\", \"precision\": {precision}, \"scale\": {scale}}}")
    };
    check_as(&decimal(4, 2), "-", "0204", "4");
    check_as(&decimal(4, 2), "-", "04fe79", "-391");
    check_as(&decimal(4, 2), "-", "0200", "0");
    check_as(&decimal(4, 2), "decimal(9, 4)", "04fe79", "-39100");
    check_as(&decimal(4, 2), "string", "04fe79", "\"-3.91\"");
    check_as(&decimal(4, 2), "string", "02ff", "\"-0.01\"");
    check_as(&decimal(4, 0), "string", "0219", "\"25\"");
    // More bytes than the number takes are none too many.
    check_as(&decimal(38, 0), "-", "28ffffffffffffffffffffffffffffffffffffff79", "-135");
    let most = "4b3b4ca85a86c47a098a223fffffffff";
    check_as(&decimal(38, 0), "-", &format!("20{most}"), &"9".repeat(38));
    check_as(&decimal(50, 3), "decimal(38, 3)", "0219", "25");
    check_as(&decimal(50, 3), "binary", "0219", "x[19]");
    let fixed = "{\"type\": \"fixed\", \"name\": \"F\", \"size\": 4, \"logicalType\": \"decimal\", \"precision\": 9}";
    check_as(fixed, "-", "fffffffe", "-2");
    let empty = record(&format!("f: {}", decimal(4, 2)));
    refused(&empty, &empty, "00", Class::WrongType, "f");
    let refused = |of: &str, column: &str, payload: &str| {
        let schema = record(&format!("f: {of}"));
        let mut table = iceberg();
        declare(&mut table, "f", path("f"), Some(column));
        let rejected = rows(&schema, &schema, &table, &[payload]).expect_err(payload);
        assert_eq!((rejected.class, rejected.path.as_str()), (Class::OutOfRange, "f"), "{rejected}");
    };
    refused(&decimal(2, 0), "decimal(2, 0)", "0264");
    refused(&decimal(38, 0), "decimal(38, 0)", "204b3b4ca85a86c47a098a224000000000");
    refused(&decimal(38, 0), "decimal(38, 0)", "2200ffffffffffffffffffffffffffffffff");
    refused(&decimal(50, 0), "decimal(38, 2)", &format!("20{most}"));
}

#[test]
fn what_is_no_value_of_its_type_is_refused() {
    let check = |of: &str, payload: &str, class: Class| {
        let schema = record(&format!("f: {of}"));
        assert!(!refused(&schema, &schema, payload, class, "f").is_empty());
    };
    check("\"int\"", "8080808010", Class::WrongType);
    check("\"int\"", "ffffffff", Class::Truncated);
    check("\"long\"", "ffffffffffffffffffff01", Class::WrongType);
    check("\"long\"", "ffffffffffffffffff02", Class::WrongType);
    check("\"long\"", "ffffffffffffffffff", Class::Truncated);
    check("\"boolean\"", "02", Class::WrongType);
    check("\"float\"", "000000", Class::Truncated);
    check("\"double\"", "00000000000000", Class::Truncated);
    check("\"string\"", "04c328", Class::InvalidUtf8);
    check("\"string\"", "0461", Class::Truncated);
    check("\"string\"", "0361", Class::WrongType);
    check("\"bytes\"", "feffffffffffffffff01", Class::Truncated);
    check("{\"type\": \"fixed\", \"name\": \"F\", \"size\": 3}", "0102", Class::Truncated);
    check("{\"type\": \"enum\", \"name\": \"E\", \"symbols\": [\"A\"]}", "02", Class::WrongType);
    check("{\"type\": \"enum\", \"name\": \"E\", \"symbols\": [\"A\"]}", "01", Class::WrongType);
    check("[\"null\", \"int\"]", "04", Class::WrongType);
    check("[\"null\", \"int\"]", "01", Class::WrongType);
    check(&logical("int", "time-millis"), "01", Class::OutOfRange);
    check(&logical("int", "time-millis"), "80f0b252", Class::OutOfRange);
    check(&logical("long", "timestamp-millis"), "feffffffffffffffff01", Class::OutOfRange);
    check(&logical("string", "uuid"), "0261", Class::OutOfRange);
    let schema = record("a: \"int\"; xs: {\"type\": \"array\", \"items\": [\"null\", \"string\"]}");
    refused(&schema, &schema, "02 04 00 02 02ff 00", Class::InvalidUtf8, "xs[1]");
    refused(&schema, &schema, "02 00 00", Class::TrailingBytes, "");
}

/// Of several types each branch is a field that is there or not.
#[test]
fn unions_of_several_types_are_structs() {
    let of = "[\"null\", \"int\", {\"type\": \"array\", \"items\": \"int\"},
        {\"type\": \"record\", \"name\": \"x.A\", \"fields\": [{\"name\": \"a\", \"type\": \"string\"}]},
        {\"type\": \"record\", \"name\": \"y.A\", \"fields\": [{\"name\": \"b\", \"type\": \"string\"}]},
        {\"type\": \"record\", \"name\": \"Void\", \"fields\": []}]";
    let cell = |payload: &str, expected: &str| check_as(of, "-", payload, expected);
    cell("00", "NULL");
    cell("0203", "{int:-2,array:NULL,x.a:NULL,y.a:NULL,void:NULL}");
    cell("04020400", "{int:NULL,array:[2],x.a:NULL,y.a:NULL,void:NULL}");
    cell("060261", "{int:NULL,array:NULL,x.a:{a:\"a\"},y.a:NULL,void:NULL}");
    cell("080261", "{int:NULL,array:NULL,x.a:NULL,y.a:{b:\"a\"},void:NULL}");
    cell("0a", "{int:NULL,array:NULL,x.a:NULL,y.a:NULL,void:true}");
    check_as(of, "string", "080261", "\"{\\\"b\\\":\\\"a\\\"}\"");
    check_as(of, "string", "00", "NULL");
    check_as(of, "struct<int: long>", "0203", "{int:-2}");
    check_as(of, "struct<int: long>", "0a", "{int:NULL}");
}

/// A payload need be no record.
#[test]
fn payloads_of_other_types_are_columns_too() {
    check(&schema("\"string\""), "0261", "value=\"a\"");
    check(&schema("string"), "0261", "value=\"a\"");
    check(&schema("[\"null\", \"long\"]"), "00", "value=NULL");
    check(&schema("{\"type\": \"array\", \"items\": \"int\"}"), "020200", "value=[1]");
    let either =
        "[{\"type\": \"record\", \"name\": \"A\", \"fields\": [{\"name\": \"x\", \"type\": \"int\"}]}, \"string\"]";
    check(&schema(either), "0002", "a={x:1} string=NULL");
    check(&schema(either), "020261", "a=NULL string=\"a\"");
    let perhaps =
        "[\"null\", {\"type\": \"record\", \"name\": \"A\", \"fields\": [{\"name\": \"x\", \"type\": \"int\"}]}]";
    check(&schema(perhaps), "0202", "x=1");
    refused(&schema(perhaps), &schema(perhaps), "00", Class::IncompatibleSchema, "");
}

/// A record inside itself is JSON from there on.
#[test]
fn records_inside_themselves_are_json() {
    let text = record_text(
        "v: \"int\"; next: [\"null\", \"R\"]; m: {\"type\": \"map\", \"values\": \"double\"}; b: \"bytes\";
         at: {\"type\": \"long\", \"logicalType\": \"timestamp-millis\"};
         d: {\"type\": \"bytes\", \"logicalType\": \"decimal\", \"precision\": 5, \"scale\": 1}",
    );
    let chain = schema(&text);
    let columns = plan(&chain, &iceberg()).unwrap().columns;
    assert_eq!(columns[1].data_type.to_string(), "string");
    let end = "00 00 0401ff 02 0219";
    check(
        &chain,
        &format!("02 02 04 02 06 {end} 02 0261 000000000000f83f 00 00 02 0219 00 0401ff 02 0219"),
        "v=1 next=\"{\\\"v\\\":2,\\\"next\\\":{\\\"v\\\":3,\\\"next\\\":null,\\\"m\\\":{},\\\"b\\\":\\\"Af8=\\\",\\\"at\\\":\
         \\\"1970-01-01T00:00:00.001Z\\\",\\\"d\\\":\\\"2.5\\\"},\\\"m\\\":{\\\"a\\\":1.5},\\\"b\\\":\\\"\\\",\\\"at\\\":\
         \\\"1970-01-01T00:00:00.001Z\\\",\\\"d\\\":\\\"2.5\\\"}\" m={} b=x[01, ff] at=1000 d=25",
    );
}

#[test]
fn a_number_is_a_time_by_the_unit_of_its_column() {
    use pipeline::resolved::Unit;
    let check = |of: &str, unit, data_type: &str, payload: &str, expected: Result<&str, Class>| {
        let schema = record(&format!("f: {of}"));
        let mut table = table();
        declare(&mut table, "f", path("f"), Some(data_type));
        table.columns[0].unit = Some(unit);
        let mut decoder = Decoder::new(&schema, &schema, &plan(&schema, &table).unwrap()).unwrap();
        let found = decoder.decode(&hex(payload)).map(|()| print(&decoder.finish().unwrap()).concat());
        assert_eq!(
            found.map_err(|rejected| rejected.class),
            expected.map(|value| format!("f={value}")),
            "{of} {payload}"
        );
    };
    check("\"long\"", Unit::Millis, "timestamptz", "01", Ok("-1000"));
    check("\"int\"", Unit::Seconds, "timestamp", "02", Ok("1000000"));
    check("\"long\"", Unit::Micros, "timestamptz", "01", Ok("-1"));
    check("\"long\"", Unit::Nanos, "timestamptz", "d10f", Ok("-2"));
    check("[\"null\", \"long\"]", Unit::Millis, "timestamptz", "00", Ok("NULL"));
    check("[\"null\", \"long\"]", Unit::Millis, "timestamptz", "0202", Ok("1000"));
    check("\"long\"", Unit::Seconds, "timestamptz", "feffffffffffffffff01", Err(Class::OutOfRange));
    let refused = |of: &str, data_type: &str, unit, words: &str| {
        let mut table = table();
        declare(&mut table, "f", path("f"), Some(data_type));
        table.columns[0].unit = unit;
        let faults = plan(&record(&format!("f: {of}")), &table).unwrap_err();
        assert!(faults[0].message.contains(words), "{faults:?}");
    };
    refused("\"long\"", "timestamptz", None, "with `unit` timestamptz");
    refused("\"long\"", "date", Some(Unit::Millis), "it can be long");
    refused(&logical("long", "timestamp-millis"), "timestamptz", Some(Unit::Millis), "a unit of its own");
}
