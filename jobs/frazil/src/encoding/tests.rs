use codec::payload::Schema;
use codec::schema::Kind;
use codec::{avro, json, protobuf};
use pipeline::Environment;
use serde_json::{Value, json};

use super::framing::{Form, Frame};
use super::*;

fn made(encoder: &Encoder, value: &Value) -> Result<Vec<u8>, Misfit> {
    encoder.encode(&Json::from(value), value.to_string().as_bytes())
}

/// What our own decoder, which shares nothing with the encoder, makes of a payload: its columns as JSON.
fn decoded(schema: &Schema, payload: &[u8]) -> Value {
    let text = "[source]\ntopics = [\"t\"]\n[value]\nformat = \"json\"\nframing = \"bare\"\n[table]\nname = \"d.t\"\n\
                types = \"iceberg\"\nrecord_columns = false\n[table.columns]\nunused = { type = \"int\" }\n";
    let environment = Environment::embedded("/x");
    let pipeline = pipeline::file::parse(text, &environment, std::path::Path::new("/x/pipelines/t.toml"));
    let mut pipeline = pipeline.unwrap_or_else(|faults| panic!("{faults:?}"));
    pipeline.table.columns.clear();
    pipeline.table.fields = pipeline::resolved::Fields::All;
    let columns = codec::columns::plan_tables(schema, &pipeline).unwrap_or_else(|faults| panic!("{faults:?}"));
    let mut decoder = schema.decoder(&columns.columns, None).unwrap();
    decoder.decode(payload).unwrap_or_else(|rejected| panic!("{rejected}"));
    let mut row = Vec::new();
    crate::value::row(&decoder.finish().unwrap(), 0, &mut row).unwrap();
    serde_json::from_slice(&row).unwrap()
}

const PROTO: &str = r#"syntax = "proto3"; package t;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
message All {
  double d = 1; float f = 2; int32 i = 3; sint64 s = 4; fixed32 x = 5; uint64 u = 6; bool b = 7; string t = 8; bytes y = 9;
  Kind kind = 10; repeated int32 list = 11; map<string, Inner> map = 12; Inner inner_one = 13;
  oneof one { string left = 14; int32 right = 15; }
  google.protobuf.Timestamp at = 16; google.protobuf.Int64Value wrapped = 17; google.protobuf.Struct any = 18;
  optional int32 maybe = 19; google.protobuf.Duration took = 20;
  message Inner { string a = 1; message Deep { int32 z = 1; } Deep deep = 2; }
  enum Kind { NONE = 0; SOME = 5; }
}
message Other { All all = 1; }"#;

fn proto(name: &str) -> MessageDescriptor {
    protobuf::schema::from_text(&[("t.proto", PROTO)], name).unwrap()
}

#[test]
fn protobuf_is_what_its_json_says() {
    let encoder = Encoder::Protobuf(proto("t.All"));
    let row = |value: Value| decoded(&Schema::Protobuf(proto("t.All")), &made(&encoder, &value).unwrap());
    let found = row(json!({
        "d": 0.1, "f": "NaN", "i": -5, "s": "-9007199254740993", "x": 4_294_967_295_u64, "u": "18446744073709551615",
        "b": true, "t": "ü", "y": "AP8=", "kind": "SOME", "list": [1, 2.0, "3"], "map": {"k": {"a": "v"}},
        "innerOne": {"a": "x", "deep": {"z": 1}}, "right": 7, "at": "1970-01-01T01:00:00.5+01:00", "wrapped": 0,
        "any": {"n": null, "l": [1.5, "s", {"b": false}]}, "maybe": null, "took": "-1.5s"
    }));
    assert_eq!(
        (&found["d"], &found["f"], &found["i"], &found["s"]),
        (&json!(0.1), &json!("NaN"), &json!(-5), &json!(-9_007_199_254_740_993_i64))
    );
    assert_eq!(
        (&found["x"], &found["b"], &found["t"], &found["y"]),
        (&json!(4_294_967_295_u64), &json!(true), &json!("ü"), &json!("AP8="))
    );
    assert_eq!(found["u"], json!("18446744073709551615"));
    assert_eq!((&found["kind"], &found["list"]), (&json!("SOME"), &json!([1, 2, 3])));
    assert_eq!(found["map"][0]["value"]["a"], "v");
    assert_eq!(found["inner_one"]["deep"]["z"], 1);
    assert_eq!(
        (&found["left"], &found["right"], &found["maybe"], &found["wrapped"]),
        (&Value::Null, &json!(7), &Value::Null, &json!(0))
    );
    assert_eq!(found["at"], "1970-01-01T00:00:00.500000Z");
    let any: Value = serde_json::from_str(found["any"].as_str().unwrap()).unwrap();
    assert_eq!(any, json!({"n": null, "l": [1.5, "s", {"b": false}]}));
    // By the names of the file as well; and a message of nothing is of defaults.
    assert_eq!(row(json!({"inner_one": {"a": "y"}}))["inner_one"]["a"], "y");
    assert_eq!(made(&encoder, &json!({})).unwrap(), b"");
}

#[test]
fn what_does_not_fit_a_message_is_told_with_its_place() {
    let encoder = Encoder::Protobuf(proto("t.All"));
    let check = |value: Value, says: &str| assert_eq!(made(&encoder, &value).unwrap_err().to_string(), says, "{value}");
    check(json!([]), "an object is wanted, and this is an array");
    check(json!({"no": 1}), "no: `t.All` has no such field");
    check(json!({"innerOne": {"deep": {"z": "x"}}}), "innerOne.deep.z: a whole number is wanted, and this is a string");
    check(json!({"list": [1, 1.5]}), "list[1]: a whole number is wanted, and this is a number");
    check(json!({"i": 2_147_483_648_u64}), "i: it is out of range");
    check(json!({"x": -1}), "x: it is out of range");
    check(json!({"f": 1e300}), "f: it is out of range");
    check(json!({"f": "-1e39"}), "f: it is out of range");
    check(json!({"map": {"k": {"b": 1}}}), "map.k.b: `t.All.Inner` has no such field");
    check(json!({"kind": "MORE"}), "kind: `t.All.Kind` has no such value");
    check(json!({"left": "a", "right": 1}), "right: `left` is given already, and only one of them may be");
    check(json!({"y": "*"}), "y: it is not base64");
    check(json!({"at": "yesterday"}), "at: it is no RFC 3339 time");
    let deep = (0..200).fold(json!(1), |value, _| json!([value]));
    assert!(made(&encoder, &json!({"any": {"l": deep}})).unwrap_err().to_string().ends_with("more than 100 deep"));
}

const AVRO: &str = r#"{"type": "record", "name": "All", "namespace": "t", "fields": [
  {"name": "i", "type": "int"}, {"name": "l", "type": "long"}, {"name": "d", "type": "double"}, {"name": "b", "type": "boolean"},
  {"name": "s", "type": "string"}, {"name": "y", "type": "bytes"},
  {"name": "x", "type": {"type": "fixed", "name": "Two", "size": 2}},
  {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
  {"name": "a", "type": {"type": "array", "items": "E"}}, {"name": "m", "type": {"type": "map", "values": "long"}},
  {"name": "n", "type": ["null", "string"]}, {"name": "u", "type": ["null", "long", "string"], "default": null},
  {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "fix", "type": {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 3}},
  {"name": "id", "type": {"type": "string", "logicalType": "uuid"}}, {"name": "day", "type": {"type": "int", "logicalType": "date"}},
  {"name": "tm", "type": {"type": "long", "logicalType": "time-micros"}},
  {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "lo", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
  {"name": "r", "type": {"type": "record", "name": "R", "fields": [{"name": "k", "type": ["null", "Two"], "default": null}]}},
  {"name": "h", "type": ["null", "float"], "default": null},
  {"name": "o", "type": ["null", {"type": "fixed", "name": "S", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}], "default": null},
  {"name": "z", "type": "bytes", "default": "\u00ff"}]}"#;

fn registered(text: &str, imports: &[(&str, &str)]) -> Registered {
    let import =
        |(name, text): &(&str, &str)| codec::schema::Import { name: (*name).to_owned(), text: (*text).to_owned() };
    Registered { kind: Kind::Avro, text: text.to_owned(), imports: imports.iter().map(import).collect(), version: None }
}

fn all() -> Value {
    json!({
        "i": -1, "l": "9007199254740993", "d": 1, "b": false, "s": "ü", "y": "AP8", "x": "AQI=", "e": "B", "a": ["A", "B"],
        "m": {"k": 1}, "u": 5, "dec": "-1.5", "fix": "12.345", "id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "day": "2000-03-01",
        "tm": "00:00:01.5", "ts": "1970-01-01T00:00:01.5Z", "lo": "1970-01-01T00:00:01", "r": {"k": {"t.Two": "AAE="}}
    })
}

#[test]
fn avro_is_what_its_json_says() {
    let encoder = Encoder::avro(&registered(AVRO, &[])).unwrap();
    let schema = Schema::Avro(avro::Schema::parse(AVRO, &[]).unwrap());
    let row = |value: &Value| decoded(&schema, &made(&encoder, value).unwrap_or_else(|e| panic!("{e}")));
    let found = row(&all());
    let expected = json!({
        "i": -1, "l": 9_007_199_254_740_993_i64, "d": 1.0, "b": false, "s": "ü", "y": "AP8=", "x": "AQI=", "e": "B",
        "a": ["A", "B"], "m": [{"key": "k", "value": 1}], "n": null, "dec": "-1.50", "fix": "12.345",
        "id": "Z+VQRBCxQm+SR7toDl/gyA==", "day": "2000-03-01", "tm": "00:00:01.500000",
        "ts": "1970-01-01T00:00:01.500000Z", "lo": "1970-01-01T00:00:01.000000", "r": {"k": "AAE="}, "z": "/w=="
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&found[name], value, "{name}");
    }
    // Numbers as Avro has them, and branches by their names.
    let mut numbers = all();
    for (name, value) in [
        ("day", json!(11_017)),
        ("tm", json!(1_500_000)),
        ("ts", json!(1500)),
        ("lo", json!(1_000_000)),
        ("n", json!({"string": "x"})),
    ] {
        numbers[name] = value;
    }
    let numbers = row(&numbers);
    for name in ["day", "tm", "ts", "lo"] {
        assert_eq!(numbers[name], found[name], "{name}");
    }
    assert_eq!(numbers["n"], "x");
}

#[test]
fn what_does_not_fit_an_avro_schema_is_told_with_its_place() {
    let encoder = Encoder::avro(&registered(AVRO, &[])).unwrap();
    let check = |name: &str, value: Value, says: &str| {
        let mut all = all();
        all[name] = value;
        let found = made(&encoder, &all).unwrap_err().to_string();
        assert!(found.contains(says), "{name}: {found}");
    };
    check("i", json!(1_u64 << 40), "i: it is out of range");
    check("i", Value::Null, "i: a whole number is wanted, and this is null");
    check("e", json!("C"), "e: `E` has no such symbol");
    check("x", json!("AA=="), "x: it has 1 bytes, and 2 are wanted");
    check("dec", json!("1.555"), "dec: it has more than 2 digits behind the point");
    check("dec", json!("12345678.90"), "dec: it has more digits than its type");
    check("o", json!("327.68"), "o: it has more digits than its type");
    check("o", json!("999.99"), "o: it has more digits than its type");
    check("h", json!(1e300), "h: it is out of range");
    check("ts", json!("1970-01-01T00:00:00.0001Z"), "ts: it is finer than the schema's unit");
    check("ts", json!("noon"), "ts: it is no time of this kind");
    check("r", json!({"j": 1}), "r.j: `R` has no such field");
    check("u", json!(true), "u: a whole number is wanted");
    check("more", json!(1), "more: `All` has no such field");
    let mut without = all();
    without.as_object_mut().unwrap().remove("i");
    assert_eq!(made(&encoder, &without).unwrap_err().to_string(), "i: it is missing, and has no default");
    assert!(Encoder::avro(&registered("{", &[])).is_err());
}

#[test]
fn avro_may_refer_to_other_texts() {
    let (point, line) = (
        r#"{"type": "record", "name": "g.Point", "fields": [{"name": "x", "type": "int"}]}"#,
        r#"{"type": "record", "name": "g.Line", "fields": [{"name": "a", "type": "g.Point"}]}"#,
    );
    let encoder = Encoder::avro(&registered(line, &[("g.Point", point)])).unwrap();
    assert_eq!(made(&encoder, &json!({"a": {"x": -1}})).unwrap(), [1]);
}

#[test]
fn json_is_written_as_it_is() {
    assert_eq!(made(&Encoder::Json, &json!({"a": [1, null]})).unwrap(), br#"{"a":[1,null]}"#);
}

/// An Avro schema of one field.
fn one(of: &str) -> (Encoder, Schema) {
    let text =
        format!(r#"{{"type": "record", "name": "One", "namespace": "t", "fields": [{{"name": "a", "type": {of}}}]}}"#);
    (Encoder::avro(&registered(&text, &[])).unwrap(), Schema::Avro(avro::Schema::parse(&text, &[]).unwrap()))
}

#[test]
fn fixed_types_are_written_as_their_bytes_whatever_they_mean() {
    let uuid = r#"{"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}"#;
    let bytes = b"\x67\xe5\x50\x44\x10\xb1\x42\x6f\x92\x47\xbb\x68\x0e\x5f\xe0\xc8";
    let (encoder, schema) = one(uuid);
    for spelled in
        ["67e55044-10b1-426f-9247-bb680e5fe0c8", "67e5504410b1426f9247bb680e5fe0c8", "Z+VQRBCxQm+SR7toDl/gyA=="]
    {
        let value = json!({ "a": spelled });
        assert_eq!(made(&encoder, &value).unwrap(), bytes, "{spelled}");
        assert_eq!(decoded(&schema, bytes)["a"], "Z+VQRBCxQm+SR7toDl/gyA==");
    }
    assert_eq!(made(&encoder, &json!({"a": "67e5"})).unwrap_err().to_string(), "a: it is no UUID");
    // Named a second time, in a union, and said beside the type, where it does not hold.
    let text = format!(
        r#"{{"type": "record", "name": "All", "fields": [{{"name": "a", "type": {uuid}}}, {{"name": "b", "type": ["null", "U"]}},
            {{"name": "c", "type": {{"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}}}}, {{"name": "d", "type": "D"}},
            {{"name": "e", "type": {{"type": "fixed", "name": "N", "size": 18, "logicalType": "decimal", "precision": 5, "scale": 2}}}},
            {{"name": "f", "type": ["N", "U"]}},
            {{"name": "g", "type": {{"type": "fixed", "name": "P", "size": 16}}, "logicalType": "uuid"}}]}}"#
    );
    let encoder = Encoder::avro(&registered(&text, &[])).unwrap();
    let (id, took) = ("67e55044-10b1-426f-9247-bb680e5fe0c8", json!({"months": 1, "milliseconds": 258}));
    let value = json!({"a": id, "b": id, "c": took, "d": "AQAAAAAAAAACAQAA", "e": -1.5, "f": "-1.5", "g": "AAAAAAAAAAAAAAAAAAAAAA=="});
    let took = [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0];
    let mut number = vec![0xFF; 17];
    number.push(0x6A);
    let expected = [&bytes[..], &[2], bytes, &took, &took, &number, &[0], &number, &[0; 16]].concat();
    assert_eq!(made(&encoder, &value).unwrap(), expected);
    assert!(avro::Schema::parse(&text, &[]).is_ok());
}

#[test]
fn a_union_s_branch_is_the_one_that_spells_the_value_or_the_one_that_is_named() {
    let records = r#"[{"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]},
                      {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]}]"#;
    let check = |of: &str, value: Value, expected: &[u8]| {
        let (encoder, _) = one(of);
        let found = made(&encoder, &json!({ "a": value }));
        assert_eq!(found.unwrap_or_else(|e| panic!("{of} {value}: {e}")), expected, "{of} {value}");
    };
    // The branch, then what it holds.
    let double = |branch: u8, number: f64| [&[branch][..], &number.to_le_bytes()].concat();
    check(r#"["int", "long"]"#, json!(3), &[0, 6]);
    check(r#"["int", "long"]"#, json!(1_u64 << 31), &[2, 128, 128, 128, 128, 16]);
    check(r#"["long", "int"]"#, json!(3), &[0, 6]);
    for of in [r#"["long", "double"]"#, r#"["double", "long"]"#] {
        let (long, doubles) = if of.starts_with("[\"long") { (0, 2) } else { (2, 0) };
        check(of, json!(3), &[long, 6]);
        check(of, json!(1.5), &double(doubles, 1.5));
        check(of, json!(3.0), &double(doubles, 3.0));
        check(of, json!(1e300), &double(doubles, 1e300));
    }
    check(r#"["null", "long"]"#, json!(3.0), &[2, 6]);
    check(r#"["float", "double"]"#, json!(1.5), &[&[0][..], &1.5_f32.to_le_bytes()].concat());
    check(r#"["float", "double"]"#, json!(0.1), &double(2, 0.1));
    check(r#"["double", "float"]"#, json!(1.5), &double(0, 1.5));
    check(r#"["long", "string"]"#, json!("5"), &[2, 2, b'5']);
    check(r#"["double", "string"]"#, json!("1.5"), &[2, 6, b'1', b'.', b'5']);
    check(r#"["bytes", "string"]"#, json!("joe!"), &[2, 8, b'j', b'o', b'e', b'!']);
    let date = r#"{"type": "int", "logicalType": "date"}"#;
    check(&format!("[\"string\", {date}]"), json!(1), &[2, 2]);
    check(&format!("[\"string\", {date}]"), json!("1"), &[0, 2, b'1']);
    check(&format!("[\"double\", {date}]"), json!(1), &double(0, 1.0));
    let decimal = r#"{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}"#;
    check(&format!("[{decimal}, \"double\"]"), json!(1.5), &double(2, 1.5));

    let ambiguous = |of: &str, value: Value, says: &str| {
        let (encoder, _) = one(of);
        assert_eq!(made(&encoder, &json!({ "a": value })).unwrap_err().to_string(), format!("a: {says}"), "{of}");
    };
    let either = |a: &str, b: &str| format!("it may be `{a}` or `{b}`: say which, as in {{\"{a}\": value}}");
    ambiguous(r#"["string", "bytes"]"#, json!("AAEC"), &either("string", "bytes"));
    ambiguous(r#"["bytes", "string"]"#, json!("AAEC"), &either("bytes", "string"));
    let symbols = r#"{"type": "enum", "name": "E", "symbols": ["A"]}"#;
    ambiguous(&format!("[\"string\", {symbols}]"), json!("A"), &either("string", "t.E"));
    ambiguous(&format!("[\"string\", {date}]"), json!("2026-01-31"), &either("string", "int"));
    ambiguous(records, json!({"x": 1}), &either("t.A", "t.B"));
    check(r#"["string", "bytes"]"#, json!({"bytes": "AAEC"}), &[2, 6, 0, 1, 2]);
    check(r#"["string", "bytes"]"#, json!({"string": "AAEC"}), &[0, 8, b'A', b'A', b'E', b'C']);
    check(records, json!({"t.B": {"x": 1}}), &[2, 2]);
    check(&format!("[\"string\", {decimal}]"), json!({"bytes": "1.5"}), &[&[2, 32][..], &[0; 15], &[15]].concat());
    // What is not clear inside a branch is not made clear by another branch that takes it.
    let inner = r#"[{"type": "record", "name": "A", "fields": [{"name": "x", "type": ["string", "bytes"]}]},
                    {"type": "map", "values": "string"}]"#;
    let (encoder, _) = one(inner);
    assert_eq!(made(&encoder, &json!({"a": {"x": "AAEC"}})).unwrap_err().path, "a.x");
    // Branches in branches end.
    let nested = r#"{"type": "record", "name": "A", "fields": [{"name": "n", "type": ["null", "A",
        {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["null", "A", "B"]}, {"name": "k", "type": "string"}]}]},
        {"name": "k", "type": "int"}]}"#;
    let (encoder, _) = one(nested);
    let deep = (0..40).fold(Value::Null, |inner, _| json!({"n": inner, "k": 1}));
    assert!(made(&encoder, &json!({ "a": deep })).unwrap_err().to_string().contains("too many types"));
    let less = (0..8).fold(Value::Null, |inner, _| json!({"n": inner, "k": 1}));
    assert!(made(&encoder, &json!({ "a": less })).is_ok());
}

#[test]
fn defaults_stand_by_the_schema_s_rules_at_any_depth() {
    let text = r#"{"type": "record", "name": "All", "fields": [
        {"name": "r", "type": {"type": "record", "name": "R", "fields": [
            {"name": "y", "type": "bytes"}, {"name": "x", "type": {"type": "fixed", "name": "Two", "size": 2}},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": ["bytes", "null"]}}},
            {"name": "z", "type": "bytes", "default": "AAEC"}]},
         "default": {"y": "\u0000\u00ff", "x": "AB", "m": {"k": ["\u0007"]}}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, "default": "\u00ff"},
        {"name": "u", "type": ["null", "long"], "default": 7}]}"#;
    let encoder = Encoder::avro(&registered(text, &[])).unwrap();
    let schema = Schema::Avro(avro::Schema::parse(text, &[]).unwrap());
    let payload = made(&encoder, &json!({})).unwrap();
    assert_eq!(
        payload,
        [&[4, 0, 0xFF][..], b"AB", &[2, 2, b'k', 2, 0, 2, 7, 0, 0], &[8], b"AAEC", &[2, 0xFF], &[2, 14]].concat()
    );
    let row = decoded(&schema, &payload);
    assert_eq!(
        (&row["r"]["y"], &row["r"]["z"], &row["d"], &row["u"]),
        (&json!("AP8="), &json!("QUFFQw=="), &json!("-0.1"), &json!(7))
    );
    // A value beside it is base64 all the same.
    let value = json!({"r": {"y": "AP8=", "x": "QUI=", "m": {}, "z": "AA=="}, "d": "1", "u": null});
    assert_eq!(decoded(&schema, &made(&encoder, &value).unwrap())["r"]["z"], "AA==");
    let many = vec!["null"; 2000].join(", ");
    let text = format!(
        r#"{{"type": "record", "name": "All", "fields": [{{"name": "l", "default": [{many}],
            "type": {{"type": "array", "items": ["long", "null"]}}}}]}}"#
    );
    assert_eq!(made(&Encoder::avro(&registered(&text, &[])).unwrap(), &json!({})).unwrap().len(), 2 + 2000 + 1);
    // What a default lacks is its own field's default, or it is none.
    let text = r#"{"type": "record", "name": "All", "fields": [{"name": "r", "default": {}, "type":
        {"type": "record", "name": "R", "fields": [{"name": "y", "type": ["null", "bytes"]}]}}]}"#;
    let encoder = Encoder::avro(&registered(text, &[])).unwrap();
    assert_eq!(made(&encoder, &json!({})).unwrap_err().to_string(), "r.y: it is missing, and has no default");
}

#[test]
fn numbers_keep_their_digits() {
    let parsed = |text: &str| Json::parse(text).unwrap();
    let (encoder, schema) = one(r#"{"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}"#);
    let value = parsed("{\"a\": 123456789012345678901234.50}");
    assert_eq!(decoded(&schema, &encoder.encode(&value, b"").unwrap())["a"], "123456789012345678901234.50");
    let (encoder, schema) = one("\"long\"");
    for whole in ["9007199254740993", "9007199254740993.0", "9.007199254740993e15"] {
        let value = parsed(&format!("{{\"a\": {whole}}}"));
        assert_eq!(decoded(&schema, &encoder.encode(&value, b"").unwrap())["a"], 9_007_199_254_740_993_i64, "{whole}");
    }
    let value = parsed("{\"a\": 1e400}");
    assert_eq!(encoder.encode(&value, b"").unwrap_err().to_string(), "a: it is out of range");
    let (encoder, _) = one("\"double\"");
    assert_eq!(encoder.encode(&value, b"").unwrap_err().to_string(), "a: it is out of range");
}

#[test]
fn a_key_is_a_field_s_text() {
    use super::key::{Key, Unkeyed};
    let path = |path: &str| pipeline::path::parse(path).unwrap();
    let check = |encoder: &Encoder, field: &str, value: &str, expected: Result<Option<&str>, Unkeyed>| {
        let key = Key::of(encoder, &path(field)).unwrap_or_else(|| panic!("{field}"));
        let found = key.find(&Json::parse(value).unwrap());
        assert_eq!(found, expected.map(|key| key.map(|key| key.as_bytes().to_vec())), "{field} of {value}");
    };
    let json = Encoder::Json;
    check(&json, "id", "{\"id\": 12345678901234567890123}", Ok(Some("12345678901234567890123")));
    check(&json, "id", "{\"id\": -1.50}", Ok(Some("-1.50")));
    check(&json, "id", "{\"id\": \"x\"}", Ok(Some("x")));
    check(&json, "id", "{\"id\": true}", Ok(Some("true")));
    check(&json, "id", "{\"id\": null}", Ok(None));
    check(&json, "id", "{}", Err(Unkeyed::Missing));
    check(&json, "a.b", "{\"a\": null}", Ok(None));
    check(&json, "a.b", "{\"a\": {}}", Err(Unkeyed::Missing));
    check(&json, "a.b", "{\"a\": 1}", Err(Unkeyed::Missing));
    check(&json, "a", "{\"a\": [1]}", Err(Unkeyed::Is("an array")));
    let all = Encoder::Protobuf(proto("t.All"));
    for field in ["innerOne.a", "inner_one.a"] {
        check(&all, field, "{\"innerOne\": {\"a\": \"x\"}}", Ok(Some("x")));
        check(&all, field, "{\"inner_one\": {\"a\": \"x\"}}", Ok(Some("x")));
    }
    check(&all, "map.k.a", "{\"map\": {\"k\": {\"a\": \"x\"}}}", Ok(Some("x")));
    check(&all, "any.x.y", "{\"any\": {\"x\": {\"y\": 1}}}", Ok(Some("1")));
    for none in ["nope", "inner_one.nope", "i.x", "list.x", "map.k.nope"] {
        assert_eq!(Key::of(&all, &path(none)), None, "{none}");
    }
    let (avro, _) = one(
        r#"["null", {"type": "record", "name": "R", "fields": [{"name": "k", "type": ["null", "long"]}]}, {"type": "map", "values": "long"}]"#,
    );
    for value in [
        "{\"a\": {\"k\": 7}}",
        "{\"a\": {\"k\": {\"long\": 7}}}",
        "{\"a\": {\"t.R\": {\"k\": {\"long\": 7}}}}",
        "{\"a\": {\"map\": {\"k\": 7}}}",
    ] {
        check(&avro, "a.k", value, Ok(Some("7")));
    }
    assert_eq!((Key::of(&avro, &path("b")), Key::of(&avro, &path("a.k.x"))), (None, None));
}

/// What is framed is taken apart again, to the same message.
#[test]
fn frames_come_off_again() {
    use codec::framing::{Record, Reference, Settings, Splitter};
    use codec::protobuf::registered::Messages;
    use pipeline::resolved::{Format, Framing, Indexes};
    let text = Registered { kind: Kind::Protobuf, text: PROTO.to_owned(), imports: Vec::new(), version: None };
    let messages = Messages::compile(&text).unwrap();
    let id = uuid::Uuid::from_u128(7);
    for name in ["t.All", "t.All.Inner", "t.All.Inner.Deep", "t.Other"] {
        for (form, reference) in [
            (Form::Confluent, Reference::ConfluentId(300)),
            (Form::ConfluentHeader, Reference::ConfluentId(300)),
            (Form::ConfluentHeader, Reference::ConfluentGuid(id)),
            (Form::Glue, Reference::GlueVersion(id)),
            (Form::GlueZlib, Reference::GlueVersion(id)),
        ] {
            for indexes in [Indexes::Zigzag, Indexes::Plain] {
                let frame = Frame::new(form, Some(reference), Some(&proto(name)), indexes);
                let value = frame.around(b"payload").unwrap();
                let settings = Settings { indexes, ..Settings::new(Format::Protobuf, form.framing()) };
                let mut splitter = Splitter::new(settings).unwrap();
                let header = frame.header().map(|(_, header)| header);
                let record = Record { value: &value, schema_header: header, unwrapped: None };
                let framed = splitter.split(&record).unwrap_or_else(|e| panic!("{name} {form:?}: {e}"));
                assert_eq!((framed.schema, framed.payload), (Some(reference), &b"payload"[..]), "{name} {form:?}");
                assert_eq!(messages.message(framed.message, None).unwrap().full_name(), name, "{form:?} {indexes:?}");
            }
        }
    }
    let frame = Frame::new(Form::AvroSingleObject, Some(Reference::AvroFingerprint(5)), None, Indexes::Zigzag);
    assert_eq!(frame.around(b"x").unwrap(), b"\xC3\x01\x05\0\0\0\0\0\0\0x");
    let bare = Frame::new(Form::Bare, None, Some(&proto("t.Other")), Indexes::Zigzag);
    assert_eq!((bare.around(b"x").unwrap(), bare.header()), (b"x".to_vec(), None));
    assert_eq!((Form::of(Framing::Auto), Form::of(Framing::Glue)), (None, Some(Form::Glue)));
}

/// The records of the generator fit their schemas in every format.
#[test]
fn employees_are_the_same_in_every_format() {
    use crate::generator::stream::{Options, Stream};
    let message = protobuf::schema::from_text(
        &[("employee.proto", include_str!("../../../../proto/employee.proto"))],
        "gsr.proto.post.Employee",
    );
    let message = message.unwrap();
    let avro_text = include_str!("../../../../proto/employee.avsc");
    let json_schema = json::Schema::parse(include_str!("../../../../proto/employee.json"), &[]).unwrap();
    let avro_schema = Schema::Avro(avro::Schema::parse(avro_text, &[]).unwrap());
    let avro = Encoder::avro(&registered(avro_text, &[])).unwrap();
    let options = Options { records: 20, seed: 3 };
    let (mut bytes, mut values) = (Stream::new(options), Stream::new(options));
    let mut generated = Vec::new();
    while let Some(sent) = bytes.next(1_800_000_000_123, &mut generated) {
        let (value, same) = values.next_json(1_800_000_000_123).unwrap();
        assert_eq!(sent, same);
        assert_eq!(made(&Encoder::Protobuf(message.clone()), &value).unwrap(), generated);
        let of_protobuf = decoded(&Schema::Protobuf(message.clone()), &generated);
        assert_eq!(decoded(&avro_schema, &made(&avro, &value).unwrap()), of_protobuf);
        let mut of_json = decoded(&Schema::Json(json_schema.clone()), &made(&Encoder::Json, &value).unwrap());
        // A JSON Schema's integers are longs; as JSON they look alike.
        of_json["id"] = of_protobuf["id"].clone();
        assert_eq!(of_json, of_protobuf);
        generated.clear();
    }
}
