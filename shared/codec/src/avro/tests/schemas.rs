//! Schema texts, their canonical forms and fingerprints.

use super::*;
use crate::avro::schema::load;
use crate::{Error, avro};

#[test]
fn a_wrong_schema_says_where_and_what_is_wrong() {
    let check = |text: &str, expected: &str| {
        let fault = Schema::parse(text, &[]).expect_err(text).to_string();
        assert!(fault.contains(expected), "{fault}\nlacks: {expected}");
    };
    let field =
        |of: &str| format!("{{\"type\": \"record\", \"name\": \"R\", \"fields\": [{{\"name\": \"a\", {of}}}]}}");
    check("{", "it is not JSON: EOF");
    check("7", "a schema is a name, an object or an array");
    check("\"strin\"", "there is no type `strin`");
    check("{\"name\": \"R\"}", "it has no `type`");
    check("{\"type\": \"record\", \"name\": \"R\"}", "the record `R` has an array of `fields`");
    check("{\"type\": \"record\", \"fields\": []}", "a named type has a `name`");
    check("{\"type\": \"record\", \"name\": \"a-b\", \"fields\": []}", "name: `a-b` is no name");
    check("{\"type\": \"record\", \"name\": \"int\", \"fields\": []}", "the name of a primitive type");
    check(
        &field("\"type\": {\"type\": \"array\", \"items\": \"Rr\"}"),
        "fields[0].type.items: there is no type `Rr`; did you mean `R`?",
    );
    check(&field("\"type\": [\"null\", [\"int\"]]"), "fields[0].type[1]: a union holds no union itself");
    check(&field("\"type\": [\"null\", \"int\", \"int\"]"), "fields[0].type[2]: the union has `int` twice");
    check(&field("\"type\": []"), "fields[0].type: a union has at least one type");
    check(&field("\"doc\": \"\""), "fields[0]: the field `a` has no `type`");
    check(&field("\"type\": {\"type\": \"enum\", \"name\": \"R\", \"symbols\": []}"), "`R` is defined twice");
    check(
        &field("\"type\": {\"type\": \"enum\", \"name\": \"E\", \"symbols\": [\"A\", \"A\"]}"),
        "symbols[1]: the symbol `A`",
    );
    check(
        &field("\"type\": {\"type\": \"enum\", \"name\": \"E\", \"symbols\": [\"A\"], \"default\": \"B\"}"),
        "`B` is no symbol",
    );
    check(
        &field("\"type\": {\"type\": \"fixed\", \"name\": \"F\", \"size\": -1}"),
        "type.size: it is a whole number of bytes",
    );
    let twice = "{\"type\": \"record\", \"name\": \"R\", \"fields\": [{\"name\": \"a\", \"type\": \"int\"}, {\"name\": \"a\", \"type\": \"int\"}]}";
    check(twice, "fields[1].name: the field `a` is there twice");
    let deep = format!("{}\"int\"{}", "{\"type\":\"array\",\"items\":".repeat(5000), "}".repeat(5000));
    check(&deep, "recursion limit");
}

#[test]
fn a_file_is_read_and_its_defaults_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.avsc");
    assert!(matches!(load(&path), Err(Error::Read { .. })));
    std::fs::write(&path, record_text("a: \"int\" | \"default\": \"x\"")).unwrap();
    let fault = load(&path).unwrap_err().to_string();
    assert!(fault.contains("the default of `a` in R: `\"x\"` is no int"), "{fault}");
    std::fs::write(&path, record_text("a: \"int\" | \"default\": 7")).unwrap();
    assert_eq!(load(&path).unwrap().name(), "R");
}

#[test]
fn names_belong_to_the_namespace_around_them() {
    let text = "{\"type\": \"record\", \"name\": \"Outer\", \"namespace\": \"a.b\", \"fields\": [
        {\"name\": \"x\", \"type\": {\"type\": \"fixed\", \"name\": \"Inner\", \"size\": 1}},
        {\"name\": \"y\", \"type\": \"Inner\"},
        {\"name\": \"z\", \"type\": {\"type\": \"enum\", \"name\": \"c.Other\", \"symbols\": [\"S\"]}},
        {\"name\": \"w\", \"type\": [\"null\", \"a.b.Outer\", \"c.Other\"]}]}";
    let form = "{\"name\":\"a.b.Outer\",\"type\":\"record\",\"fields\":[\
        {\"name\":\"x\",\"type\":{\"name\":\"a.b.Inner\",\"type\":\"fixed\",\"size\":1}},\
        {\"name\":\"y\",\"type\":\"a.b.Inner\"},\
        {\"name\":\"z\",\"type\":{\"name\":\"c.Other\",\"type\":\"enum\",\"symbols\":[\"S\"]}},\
        {\"name\":\"w\",\"type\":[\"null\",\"a.b.Outer\",\"c.Other\"]}]}";
    assert_eq!(schema(text).canonical_form(), form);
    // The same from a registry that keeps the parts apart.
    let inner = "{\"type\": \"fixed\", \"name\": \"a.b.Inner\", \"size\": 1}";
    let other = "{\"type\": \"enum\", \"name\": \"Other\", \"namespace\": \"c\", \"symbols\": [\"S\"]}";
    let outer =
        "{\"type\": \"record\", \"name\": \"a.b.Outer\", \"fields\": [{\"name\": \"x\", \"type\": \"a.b.Inner\"},
        {\"name\": \"y\", \"type\": \"Inner\"}, {\"name\": \"z\", \"type\": \"c.Other\"},
        {\"name\": \"w\", \"type\": [\"null\", \"Outer\", \"c.Other\"]}]}";
    assert_eq!(Schema::parse(outer, &[inner, other]).unwrap().canonical_form(), form);
}

/// Of the primitive types, as the specification's own test suite has them.
#[test]
fn fingerprints_are_the_specifications() {
    let check = |text: &str, expected: u64| {
        assert_eq!(schema(text).fingerprint(), expected, "{text}");
        let theirs = apache_avro::Schema::parse_str(text).unwrap();
        assert_eq!(theirs.fingerprint::<apache_avro::rabin::Rabin>().bytes, expected.to_le_bytes(), "{text}");
    };
    check("\"null\"", 0x63dd_24e7_cc25_8f8a);
    check("\"boolean\"", 0x9f42_fc78_a4d4_f764);
    check("\"int\"", 0x7275_d51a_3f39_5c8f);
    check("\"long\"", 0xd054_e144_93f4_1db7);
    check("\"float\"", 0x4d7c_02cb_3ea8_d790);
    check("\"double\"", 0x8e75_35c0_32ab_957e);
    check("\"bytes\"", 0x4fc0_16da_c320_1965);
    check("\"string\"", 0x8f01_4872_6345_03c7);
    check("{\"type\": \"string\"}", 0x8f01_4872_6345_03c7);
    assert_eq!(avro::fingerprint(b""), 0xc15d_213a_a4d7_a795);
    let ride = include_str!("ride.avsc");
    let theirs = apache_avro::Schema::parse_str(ride).unwrap();
    assert_eq!(schema(ride).canonical_form(), theirs.canonical_form());
}
