use codec::payload::Schema;
use codec::schema::Kind;
use codec::{avro, json, protobuf};
use pipeline::Environment;
use serde_json::json;

use super::framing::{Form, Frame};
use super::*;

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
    let row = |value: Value| decoded(&Schema::Protobuf(proto("t.All")), &encoder.encode(&value).unwrap());
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
    assert_eq!(encoder.encode(&json!({})).unwrap(), b"");
}

#[test]
fn what_does_not_fit_a_message_is_told_with_its_place() {
    let encoder = Encoder::Protobuf(proto("t.All"));
    let check = |value: Value, says: &str| assert_eq!(encoder.encode(&value).unwrap_err().to_string(), says, "{value}");
    check(json!([]), "an object is wanted, and this is an array");
    check(json!({"no": 1}), "no: `t.All` has no such field");
    check(json!({"innerOne": {"deep": {"z": "x"}}}), "innerOne.deep.z: a whole number is wanted, and this is a string");
    check(json!({"list": [1, 1.5]}), "list[1]: a whole number is wanted, and this is a number");
    check(json!({"i": 2_147_483_648_u64}), "i: 2147483648 is out of range");
    check(json!({"x": -1}), "x: -1 is out of range");
    check(json!({"f": 1e300}), "f: it is out of range");
    check(json!({"f": "-1e39"}), "f: it is out of range");
    check(json!({"map": {"k": {"b": 1}}}), "map.k.b: `t.All.Inner` has no such field");
    check(json!({"kind": "MORE"}), "kind: `t.All.Kind` has no such value");
    check(json!({"left": "a", "right": 1}), "right: `left` is given already, and only one of them may be");
    check(json!({"y": "*"}), "y: it is not base64");
    check(json!({"at": "yesterday"}), "at: it is no RFC 3339 time");
    let deep = (0..200).fold(json!(1), |value, _| json!([value]));
    assert!(encoder.encode(&json!({"any": {"l": deep}})).unwrap_err().to_string().ends_with("more than 100 deep"));
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
    let row = |value: &Value| decoded(&schema, &encoder.encode(value).unwrap_or_else(|e| panic!("{e}")));
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
        let found = encoder.encode(&all).unwrap_err().to_string();
        assert!(found.contains(says), "{name}: {found}");
    };
    check("i", json!(1_u64 << 40), "i: 1099511627776 is out of range");
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
    assert_eq!(encoder.encode(&without).unwrap_err().to_string(), "i: it is missing, and has no default");
    assert!(Encoder::avro(&registered("{", &[])).is_err());
}

#[test]
fn avro_may_refer_to_other_texts() {
    let (point, line) = (
        r#"{"type": "record", "name": "g.Point", "fields": [{"name": "x", "type": "int"}]}"#,
        r#"{"type": "record", "name": "g.Line", "fields": [{"name": "a", "type": "g.Point"}]}"#,
    );
    let encoder = Encoder::avro(&registered(line, &[("g.Point", point)])).unwrap();
    assert_eq!(encoder.encode(&json!({"a": {"x": -1}})).unwrap(), [1]);
}

#[test]
fn json_is_written_as_it_is() {
    assert_eq!(Encoder::Json.encode(&json!({"a": [1, null]})).unwrap(), br#"{"a":[1,null]}"#);
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
        assert_eq!(Encoder::Protobuf(message.clone()).encode(&value).unwrap(), generated);
        let of_protobuf = decoded(&Schema::Protobuf(message.clone()), &generated);
        assert_eq!(decoded(&avro_schema, &avro.encode(&value).unwrap()), of_protobuf);
        let mut of_json = decoded(&Schema::Json(json_schema.clone()), &Encoder::Json.encode(&value).unwrap());
        // A JSON Schema's integers are longs; as JSON they look alike.
        of_json["id"] = of_protobuf["id"].clone();
        assert_eq!(of_json, of_protobuf);
        generated.clear();
    }
}
