//! Records of one schema read as another's.

use super::*;

#[test]
fn numbers_widen_and_bytes_are_strings() {
    let check = |from: &str, to: &str, payload: &str, expected: &str| {
        let of = |name: &str| record(&format!("f: \"{name}\""));
        check_read(&of(from), &of(to), payload, &format!("f={expected}"));
    };
    check("int", "long", "01", "-1");
    check("int", "float", "01", "-1.0");
    check("int", "double", "01", "-1.0");
    check("long", "float", "fefffff70f", "2139095000.0");
    check("long", "double", "01", "-1.0");
    check("float", "double", "0000c03f", "1.5");
    check("string", "bytes", "0261", "x[61]");
    check("bytes", "string", "0261", "\"a\"");
    let not = |from: &str, to: &str, payload: &str, class: Class| {
        let of = |name: &str| record(&format!("f: \"{name}\""));
        refused(&of(from), &of(to), payload, class, "f")
    };
    assert_eq!(not("long", "int", "02", Class::IncompatibleSchema), "the writer's long can't be read as int");
    not("double", "float", "0000000000000000", Class::IncompatibleSchema);
    not("int", "boolean", "02", Class::IncompatibleSchema);
    not("int", "string", "02", Class::IncompatibleSchema);
    not("bytes", "string", "02ff", Class::InvalidUtf8);
}

#[test]
fn fields_come_in_any_order_and_may_be_missing() {
    let writer = record("a: \"int\"; gone: {\"type\": \"array\", \"items\": \"string\"}; b: \"string\"; old: \"int\"");
    let reader = record(
        "b: \"string\"; extra: \"string\" | \"default\": \"x\"; a: \"long\"; new: \"int\" | \"aliases\": [\"old\"];
         list: {\"type\": \"array\", \"items\": \"int\"} | \"default\": [1, 2];
         map: {\"type\": \"map\", \"values\": \"double\"} | \"default\": {\"k\": 1};
         none: [\"null\", \"int\"] | \"default\": null; some: [\"null\", \"int\"] | \"default\": 5;
         bytes: \"bytes\" | \"default\": \"\\u00ff\\u0001\"; e: {\"type\": \"enum\", \"name\": \"E\", \"symbols\": [\"A\", \"B\"]} | \"default\": \"B\";
         i: {\"type\": \"record\", \"name\": \"I\", \"fields\": [{\"name\": \"x\", \"type\": \"int\", \"default\": 3},
            {\"name\": \"y\", \"type\": \"float\"}]} | \"default\": {\"y\": 0.5}",
    );
    check_read(
        &writer,
        &reader,
        "02 02 0478 79 00 0261 04",
        "b=\"a\" extra=\"x\" a=1 new=2 list=[1,2] map={\"k\":1.0} none=NULL some=5 bytes=x[ff, 01] e=\"B\" i={x:3,y:0.5}",
    );
    // A default is for a writer that lacks the field: null that was written is null.
    let nullable = record("some: [\"null\", \"int\"]");
    check_read(&nullable, &record("some: [\"null\", \"int\"] | \"default\": 5"), "00", "some=NULL");
    let without = record("a: \"int\"");
    let message = refused(&without, &record("a: \"int\"; z: \"int\""), "02", Class::IncompatibleSchema, "z");
    assert_eq!(message, "the writer has no such field, and it has no default");
    let wrong = record("a: \"int\"; z: \"int\" | \"default\": \"x\"");
    assert!(refused(&without, &wrong, "02", Class::IncompatibleSchema, "z").contains("is no int"));
    // A field keeps its own name's value: an alias takes no other field's.
    let swapped = record("b: \"int\" | \"aliases\": [\"a\"]; a: \"int\" | \"aliases\": [\"b\"]");
    check_read(&record("a: \"int\"; b: \"int\""), &swapped, "02 04", "b=2 a=1");
}

/// The specification asks the reader's aliases; a pipeline meets versions that are newer than its own schema.
#[test]
fn what_the_writer_calls_otherwise_and_says_so_is_the_readers() {
    let renamed = record("n: \"int\"; label: \"string\" | \"aliases\": [\"title\", \"name\"]");
    check_read(&renamed, &record("name: \"string\"; n: \"int\""), "02 0261", "name=\"a\" n=1");
    // Also where there is a default, or a type that is wider; and of two that were the same, one.
    check_read(&renamed, &record("name: \"string\" | \"default\": \"x\""), "02 0261", "name=\"a\"");
    check_read(&record("m: \"int\" | \"aliases\": [\"n\"]"), &record("n: \"long\""), "02", "n=1");
    let split = record("a: \"int\" | \"aliases\": [\"x\"]; b: \"int\" | \"aliases\": [\"x\"]");
    check_read(&split, &record("x: \"int\""), "02 04", "x=1");
    // A name that another field of the writer's has is that field's.
    let reused = record("b: \"int\" | \"aliases\": [\"a\"]; a: \"int\"");
    check_read(&reused, &record("a: \"int\""), "02 04", "a=2");
    let named = |name: &str, more: &str| {
        record(&format!(
            "f: {{\"type\": \"record\", \"name\": \"{name}\"{more}, \"fields\": [{{\"name\": \"x\", \"type\": \"int\"}}]}}"
        ))
    };
    check_read(&named("New", ", \"aliases\": [\"p.Old\"]"), &named("Old", ""), "02", "f={x:1}");
    let message =
        refused(&named("New", ", \"aliases\": [\"Older\"]"), &named("Old", ""), "02", Class::IncompatibleSchema, "f");
    assert!(message.contains("`New` is not the reader's `Old`"), "{message}");
}

#[test]
fn unions_are_resolved_by_the_branch_that_was_written() {
    let of = |of: &str| record(&format!("f: {of}; t: \"int\""));
    let check = |from: &str, to: &str, payload: &str, expected: &str| {
        check_read(&of(from), &of(to), &format!("{payload} 02"), &format!("f={expected} t=1"));
    };
    let not = |from: &str, to: &str, payload: &str| {
        refused(&of(from), &of(to), &format!("{payload} 02"), Class::IncompatibleSchema, "f")
    };
    check("\"int\"", "[\"null\", \"long\"]", "04", "2");
    check("[\"null\", \"int\"]", "\"long\"", "0204", "2");
    assert_eq!(not("[\"null\", \"int\"]", "\"long\"", "00"), "the writer's null can't be read as long");
    check("[\"null\", \"int\"]", "[\"double\", \"null\"]", "0204", "2.0");
    check("[\"null\", \"int\"]", "[\"double\", \"null\"]", "00", "NULL");
    assert_eq!(
        not("[\"string\", \"int\"]", "[\"null\", \"long\"]", "00 0261"),
        "the writer's string can't be read as one of null, long"
    );
    check("[\"string\", \"int\"]", "[\"null\", \"long\"]", "02 04", "2");
    // The branch of the very type, though one before it would do.
    check("\"int\"", "[\"long\", \"int\"]", "04", "{long:NULL,int:2}");
    check("\"int\"", "[\"string\", \"double\", \"long\"]", "04", "{string:NULL,double:2.0,long:NULL}");
    check("[\"int\", \"string\"]", "[\"string\", \"int\", \"null\"]", "00 04", "{string:NULL,int:2}");
    check("[\"int\", \"float\"]", "\"double\"", "00 04", "2.0");
    check("[\"int\", \"float\"]", "\"double\"", "02 0000c03f", "1.5");
    let named = |name: &str, more: &str| {
        format!(
            "{{\"type\": \"record\", \"name\": \"{name}\", \"fields\": [{{\"name\": \"x\", \"type\": \"int\"}}]{more}}}"
        )
    };
    let either = format!("[{}, {}]", named("a.A", ""), named("B", ", \"aliases\": [\"Old\"]"));
    check(&named("z.A", ""), &either, "04", "{a:{x:2},b:NULL}");
    check(&named("z.Old", ""), &either, "04", "{a:NULL,b:{x:2}}");
    not(&named("C", ""), &either, "04");
}

#[test]
fn names_and_sizes_have_to_agree() {
    let enumeration = |name: &str, symbols: &str, more: &str| {
        record(&format!("f: {{\"type\": \"enum\", \"name\": \"{name}\", \"symbols\": [{symbols}]{more}}}"))
    };
    let written = enumeration("n.E", "\"A\", \"B\", \"C\"", "");
    check_read(&written, &enumeration("m.E", "\"C\", \"A\"", ""), "04", "f=\"C\"");
    let message = refused(&written, &enumeration("E", "\"C\", \"A\"", ""), "02", Class::IncompatibleSchema, "f");
    assert_eq!(message, "the symbol `B` is none of the reader's `E`, which has no default");
    check_read(&written, &enumeration("E", "\"C\", \"A\"", ", \"default\": \"A\""), "02", "f=\"A\"");
    refused(&written, &enumeration("E", "\"C\"", ", \"default\": \"C\""), "06", Class::WrongType, "f");
    refused(&written, &enumeration("Other", "\"A\"", ""), "00", Class::IncompatibleSchema, "f");
    check_read(&written, &enumeration("Other", "\"A\"", ", \"aliases\": [\"E\"]"), "00", "f=\"A\"");
    let fixed = |name: &str, size: usize| {
        record(&format!("f: {{\"type\": \"fixed\", \"name\": \"{name}\", \"size\": {size}}}"))
    };
    check_read(&fixed("a.F", 2), &fixed("F", 2), "0102", "f=x[01, 02]");
    refused(&fixed("F", 2), &fixed("G", 2), "0102", Class::IncompatibleSchema, "f");
    let message = refused(&fixed("F", 2), &fixed("F", 3), "0102", Class::IncompatibleSchema, "f");
    assert_eq!(message, "`F` has 2 bytes with the writer, 3 with the reader");
    let other = schema("{\"type\": \"record\", \"name\": \"Q\", \"fields\": [{\"name\": \"a\", \"type\": \"int\"}]}");
    refused(&other, &record("a: \"int\""), "02", Class::IncompatibleSchema, "");
}

#[test]
fn what_values_mean_has_to_agree() {
    let of = |of: &str, logical: &str| record(&format!("f: {{\"type\": \"{of}\", \"logicalType\": \"{logical}\"}}"));
    let long = |logical: &str| of("long", logical);
    check_read(&long("timestamp-millis"), &long("timestamp-micros"), "02", "f=1000");
    check_read(&long("timestamp-micros"), &long("timestamp-millis"), "01", "f=-1");
    check_read(&long("timestamp-micros"), &record("f: \"long\""), "02", "f=1");
    check_read(&record("f: \"long\""), &long("timestamp-millis"), "02", "f=1000");
    refused(&long("timestamp-millis"), &long("local-timestamp-millis"), "02", Class::IncompatibleSchema, "f");
    refused(&of("int", "date"), &long("timestamp-millis"), "02", Class::IncompatibleSchema, "f");
    let decimal = |of: &str, precision: u8, scale: u8| {
        record(&format!("f: {{{of}, \"logicalType\": \"decimal\", \"precision\": {precision}, \"scale\": {scale}}}"))
    };
    let (bytes, fixed) = ("\"type\": \"bytes\"", "\"type\": \"fixed\", \"name\": \"F\", \"size\": 4");
    check_read(&decimal(bytes, 4, 2), &decimal(bytes, 6, 2), "0219", "f=25");
    check_read(&decimal(fixed, 4, 2), &decimal(bytes, 4, 2), "00000019", "f=25");
    refused(&decimal(bytes, 4, 2), &decimal(bytes, 4, 1), "0219", Class::IncompatibleSchema, "f");
    refused(&decimal(bytes, 4, 2), &decimal(bytes, 3, 2), "0219", Class::IncompatibleSchema, "f");
}

/// Of a default too there may be only a part in columns.
#[test]
fn columns_are_made_of_parts_of_defaults() {
    let reader = record(
        "a: \"int\"; i: {\"type\": \"record\", \"name\": \"I\", \"fields\": [
            {\"name\": \"x\", \"type\": {\"type\": \"array\", \"items\": \"string\"}}, {\"name\": \"y\", \"type\": \"string\"}]} |
            \"default\": {\"x\": [\"p\", \"q\"], \"y\": \"z\"}",
    );
    let mut table = iceberg();
    crate::columns::tests::declare(&mut table, "y", crate::columns::tests::path("i.y"), None);
    assert_eq!(rows(&record("a: \"int\""), &reader, &table, &["02"]).unwrap(), ["a=1 y=\"z\""]);
}

/// Only what is there can be amiss.
#[test]
fn an_empty_array_has_no_wrong_elements() {
    let of = |of: &str| record(&format!("xs: {{\"type\": \"array\", \"items\": \"{of}\"}}"));
    check_read(&of("string"), &of("int"), "00", "xs=[]");
    refused(&of("string"), &of("int"), "02 0261 00", Class::IncompatibleSchema, "xs[0]");
}

/// A field that no column is made of is no reason to refuse a record.
#[test]
fn only_what_is_in_columns_is_resolved() {
    let (writer, reader) = (record("a: \"int\"; b: \"string\""), record("a: \"int\"; b: \"int\"; c: \"int\""));
    let mut table = iceberg();
    table.exclude = vec!["b".to_owned(), "c".to_owned()];
    assert_eq!(rows(&writer, &reader, &table, &["02 0261"]).unwrap(), ["a=1"]);
}

/// Within JSON text values are read as the reader's too.
#[test]
fn json_is_of_the_readers_fields() {
    let writer = record("v: \"int\"; gone: \"string\"; next: [\"null\", \"R\"]");
    let reader = record("next: [\"null\", \"R\"]; v: \"double\"; extra: \"string\" | \"default\": \"x\"");
    check_read(
        &writer,
        &reader,
        "02 0261 02 04 0262 00",
        "next=\"{\\\"v\\\":2.0,\\\"next\\\":null,\\\"extra\\\":\\\"x\\\"}\" v=1.0 extra=\"x\"",
    );
}
