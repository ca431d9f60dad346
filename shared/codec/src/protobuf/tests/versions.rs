//! Messages of one version of a schema, read as another's columns.

use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorSet};

use super::generate::{self, Random};
use super::*;
use crate::Error;
use crate::columns::tests::{declare, path};
use crate::source::{Brought, Described as _, Schema as Described};

/// A row of the reader's columns from a writer's payload.
fn read(reader: &MessageDescriptor, table: &Table, writer: &MessageDescriptor, payload: &str) -> Result<String, Error> {
    let columns = columns::plan(reader, table).unwrap();
    let mut decoder = Decoder::resolved(writer, &reader.describe(), &columns, None)?;
    decoder.decode(&hex(payload)).unwrap_or_else(|rejected| panic!("{payload}: {rejected}"));
    let batch = decoder.finish().unwrap();
    let own = Decoder::new(reader, &columns).unwrap();
    assert_eq!(batch.schema(), *own.schema());
    Ok(print(&batch).concat())
}

fn check_as(reader: &str, writer: &str, payload: &str, expected: &str) {
    let found = read(&proto3(reader), &table(), &proto3(writer), payload);
    assert_eq!(found.unwrap(), expected, "{reader} of {writer}");
}

#[test]
fn fields_are_the_same_whose_numbers_are() {
    let newer =
        "message M { int32 id = 1; string label = 2; optional int32 qty = 3; T team = 4; repeated int32 marks = 5; }
        message T { string title = 1; int32 size = 2; }";
    let older = "message M { int32 id = 1; string name = 2; D team = 4; } message D { string name = 1; }";
    // What the writer lacks is null; what it has and does not send is its default.
    check_as(newer, older, "0807 120161", "id=7 label=\"a\" qty=NULL team=NULL marks=NULL");
    check_as(newer, older, "22(0a0162)", "id=0 label=\"\" qty=NULL team={title:\"b\",size:NULL} marks=NULL");
    check_as(older, newer, "0807 120161 1803 22(0a0162 1005) 2a(01)", "id=7 name=\"a\" team={name:\"b\"}");
    check_as(newer, newer, "2a(0102)", "id=0 label=\"\" qty=NULL team=NULL marks=[1,2]");
    // Presence is as the writer has it.
    check_as("message M { int32 a = 1; }", "message M { optional int32 a = 1; }", "", "a=NULL");
    check_as("message M { optional int32 a = 1; }", "message M { int32 a = 1; }", "", "a=0");
}

#[test]
fn values_are_read_as_their_writer_has_them() {
    let check = |reader: &str, writer: &str, payload: &str, expected: &str| {
        let field =
            |of: &str| format!("message M {{ {of} f = 1; }} enum E {{ A = 0; B = 1; }} enum G {{ X = 0; Y = 1; }}");
        check_as(&field(reader), &field(writer), payload, &format!("f={expected}"));
    };
    check("int64", "int32", "08ffffffffffffffffff01", "-1");
    check("int64", "sint32", "0801", "-1");
    check("int64", "sfixed32", "0dffffffff", "-1");
    check("int64", "uint32", "08ffffffff0f", "4294967295");
    check("uint64", "fixed32", "0dffffffff", "4294967295");
    check("double", "float", "0d0000003f", "0.5");
    check("string", "bytes", "0a0161", "\"a\"");
    check("bytes", "string", "0a0161", "x[61]");
    // By the names that the writer's numbers have.
    check("E", "G", "0801", "\"Y\"");
    check("E", "G", "0807", "\"7\"");
    check("int32", "E", "0801", "1");
    check("repeated int64", "repeated sint32", "0a(0102)", "[-1,1]");
    check("map<string, int64>", "map<string, sint32>", "0a(0a0161 1001)", "{\"a\":-1}");
}

#[test]
fn what_is_of_another_kind_is_no_version_of_the_schema() {
    let check = |reader: &str, writer: &str| {
        let field =
            |of: &str| proto3(&format!("message M {{ {of} f = 1; }} message N {{ int32 a = 1; }} enum E {{ A = 0; }}"));
        let refused = read(&field(reader), &table(), &field(writer), "").unwrap_err();
        assert!(matches!(refused, Error::Columns { .. }), "{reader} of {writer}: {refused}");
        assert!(refused.to_string().contains("column `f`"), "{refused}");
        assert_eq!(refused.unlike().unwrap().class, Class::IncompatibleSchema);
    };
    check("int32", "int64");
    check("int32", "uint32");
    check("int32", "string");
    check("string", "int32");
    check("string", "N");
    check("string", "E");
    check("N", "string");
    check("E", "string");
    check("bool", "int32");
    check("float", "double");
    check("repeated int32", "int32");
    check("int32", "repeated int32");
    check("map<string, int32>", "repeated N");
    check("map<string, int32>", "map<string, string>");
    check("google.protobuf.Timestamp", "int64");
    check("google.protobuf.Timestamp", "google.protobuf.Duration");
    check("google.protobuf.Int32Value", "int32");
    check("google.protobuf.Struct", "string");
}

/// O-27, in protobuf: what is new deep inside is there once the columns have it, and null where the writer has not.
#[test]
fn what_is_new_deep_inside_is_null_for_older_writers() {
    let newer = "message M { int32 id = 1; Cust cust = 2; repeated Item items = 3; map<string, Attr> attr = 4; }
        message Cust { int32 cid = 1; Det det = 2; } message Det { string mail = 1; }
        message Item { string sku = 1; optional int32 qty = 2; } message Attr { int32 v = 1; string u = 2; }";
    let older = "message M { int32 id = 1; Cust cust = 2; repeated Item items = 3; map<string, Attr> attr = 4; }
        message Cust { int32 cid = 1; } message Item { string sku = 1; } message Attr { int32 v = 1; }";
    let payload = "0801 12(0805 12(0a036d4078)) 1a(0a0161) 1a(0a0162 1002) 22(0a016b 12(0801 1202636d))";
    let row = "id=1 cust={cid:5,det:{mail:\"m@x\"}} items=[{sku:\"a\",qty:NULL},{sku:\"b\",qty:2}] attr={\"k\":{v:1,u:\"cm\"}}";
    check_as(newer, newer, payload, row);
    let payload = "0801 12(0805) 1a(0a0161) 22(0a016b 12(0801))";
    let row = "id=1 cust={cid:5,det:NULL} items=[{sku:\"a\",qty:NULL}] attr={\"k\":{v:1,u:NULL}}";
    check_as(newer, older, payload, row);
}

#[test]
fn what_the_pipeline_does_not_know_is_unknown_whatever_the_writer_says() {
    let (reader, writer) = (proto3("message M { int32 a = 1; }"), proto3("message M { int32 a = 1; string b = 2; }"));
    let mut strict = table();
    strict.unknown_fields = pipeline::resolved::UnknownFields::DeadLetter;
    let columns = columns::plan(&reader, &strict).unwrap();
    let mut decoder = Decoder::resolved(&writer, &reader.describe(), &columns, None).unwrap();
    assert!(decoder.decode(&hex("0801")).is_ok());
    assert!(decoder.decode(&hex("0801 120162")).is_err());
    let mut kept = table();
    kept.unknown_fields = pipeline::resolved::UnknownFields::Rest;
    assert_eq!(read(&reader, &kept, &writer, "0801 120162").unwrap(), "a=1 _rest={\"2\":\"EgFi\"}");
}

#[test]
fn a_required_column_of_a_field_that_the_writer_lacks_is_missing() {
    let (reader, writer) = (proto3("message M { int32 a = 1; int32 b = 2; }"), proto3("message M { int32 a = 1; }"));
    let mut required = table();
    declare(&mut required, "b", path("b"), None);
    required.columns[0].required = true;
    let columns = columns::plan(&reader, &required).unwrap();
    let mut decoder = Decoder::resolved(&writer, &reader.describe(), &columns, None).unwrap();
    let rejected = decoder.decode(&hex("0801")).unwrap_err();
    assert_eq!((rejected.class, rejected.path.as_str()), (Class::MissingRequired, "b"));
    assert_eq!(decoder.rows(), 0);
}

#[test]
fn a_number_is_a_time_by_the_unit_of_its_column() {
    use pipeline::resolved::Unit;
    let check = |of: &str, unit, data_type, payload: &str, expected: Result<&str, Class>| {
        let message = proto3(&format!("message M {{ {of} at = 1; }}"));
        let mut table = table();
        declare(&mut table, "at", path("at"), Some(data_type));
        table.columns[0].unit = Some(unit);
        let found = rows(&message, &table, &[payload]).map(|rows| rows.concat()).map_err(|rejected| rejected.class);
        assert_eq!(found, expected.map(|value| format!("at={value}")), "{of} {payload}");
    };
    check("int64", Unit::Millis, "timestamptz", "0801", Ok("1000"));
    check("sint64", Unit::Millis, "timestamp", "0801", Ok("-1000"));
    check("int32", Unit::Seconds, "timestamptz", "0801", Ok("1000000"));
    check("uint32", Unit::Seconds, "timestamptz", "08ffffffff0f", Ok("4294967295000000"));
    check("sfixed64", Unit::Nanos, "timestamptz", "0917fcffffffffffff", Ok("-2"));
    check("int64", Unit::Micros, "timestamptz", "08ffffffffffffffffff01", Ok("-1"));
    check("int64", Unit::Millis, "timestamptz", "", Ok("0"));
    check("optional int64", Unit::Millis, "timestamptz", "", Ok("NULL"));
    check("google.protobuf.Int64Value", Unit::Millis, "timestamptz", "0a(0801)", Ok("1000"));
    check("uint64", Unit::Millis, "timestamptz", "0801", Ok("1000"));
    check("uint64", Unit::Nanos, "timestamptz", "08ffffffffffffffffff01", Err(Class::OutOfRange));
    check("int64", Unit::Seconds, "timestamptz", "08ffffffffffffffff7f", Err(Class::OutOfRange));
    let message = proto3("message M { int64 at = 1; google.protobuf.Timestamp t = 2; string s = 3; }");
    let refused = |from: &str, data_type: &str, unit, words: &str| {
        let mut table = table();
        declare(&mut table, "c", path(from), Some(data_type));
        table.columns[0].unit = unit;
        let faults = columns::plan(&message, &table).unwrap_err();
        assert!(faults[0].message.contains(words), "{faults:?}");
    };
    refused("at", "timestamptz", None, "with `unit` timestamptz");
    refused("at", "date", Some(Unit::Millis), "it can be long");
    refused("t", "timestamptz", Some(Unit::Millis), "a unit of its own");
    refused("s", "timestamptz", Some(Unit::Millis), "it can be string");
}

/// A version of a schema that lacks some of its fields.
fn without_some(message: &MessageDescriptor, random: &mut Random) -> MessageDescriptor {
    fn thin(message: &mut DescriptorProto, random: &mut Random) {
        let is_entry = message.options.as_ref().is_some_and(|options| options.map_entry());
        // A oneof keeps its members: without any it would be none.
        message.field.retain(|field| is_entry || field.oneof_index.is_some() || !random.chance(4));
        message.nested_type.iter_mut().for_each(|inner| thin(inner, random));
    }
    let bytes = message.parent_pool().encode_to_vec();
    let mut set = FileDescriptorSet::decode(bytes.as_slice()).unwrap();
    let own = message.parent_file().name().to_owned();
    for file in set.file.iter_mut().filter(|file| file.name() == own) {
        file.message_type.iter_mut().for_each(|message| thin(message, random));
    }
    let pool = DescriptorPool::from_file_descriptor_set(set).unwrap();
    pool.get_message_by_name(message.full_name()).unwrap()
}

/// What a writer's payloads are as columns of a reader, beside what they are as its own.
fn judge(writer: &MessageDescriptor, reader: &Described, columns: &columns::Columns, payloads: &[Vec<u8>]) {
    let Ok(own_columns) = columns::plan(writer, &table()) else { return };
    let mut own = Decoder::new(writer, &own_columns).unwrap();
    let Ok(mut other) = Decoder::resolved(writer, reader, columns, None) else { panic!("{writer:?} is no version") };
    for payload in payloads {
        if own.decode(payload).is_ok() {
            other.decode(payload).unwrap_or_else(|rejected| panic!("refused {payload:02x?}: {rejected}"));
        }
    }
    let (own, other) = (cells::of(&own.finish().unwrap()), cells::of(&other.finish().unwrap()));
    for (own, other) in own.iter().zip(&other) {
        for ((name, other), column) in other.iter().zip(&columns.columns) {
            match own_columns.columns.iter().position(|own| own.source == column.source) {
                None => assert_eq!(other.to_string(), "NULL", "{name}, which the writer lacks"),
                Some(at) if own_columns.columns[at].data_type == column.data_type => {
                    assert!(cells::same(other, &own[at].1), "{name}: {other} should be {}", own[at].1);
                }
                // A struct with other members.
                Some(_) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_version_with_other_fields_makes_the_same_columns_of_those_it_has(seed in any::<u64>()) {
        let mut random = Random(seed);
        let (one, other) = generate::schema(&mut random);
        let (one, other) = (message(&one), message(&other));
        let fewer = without_some(&one, &mut random);
        let payloads = |of: &MessageDescriptor, like: &MessageDescriptor, random: &mut Random| -> Vec<Vec<u8>> {
            (0..10).map(|_| generate::payload(of, like, random)).collect()
        };
        for (writer, reader) in [(&one, &fewer), (&fewer, &one)] {
            let Ok(columns) = columns::plan(reader, &table()) else { continue };
            let like = if writer == &one { &other } else { writer };
            judge(writer, &reader.describe(), &columns, &payloads(writer, like, &mut random));
            // Of both together nothing is lacking.
            if let Some(united) = reader.describe().united(&writer.describe(), &Brought::All) {
                let both = crate::payload::Reader::Protobuf { name: "M".to_owned(), described: united.clone() };
                let Ok(columns) = columns::plan(&both, &table()) else { continue };
                judge(writer, &united, &columns, &payloads(writer, like, &mut random));
                prop_assert!(united.united(&writer.describe(), &Brought::All).is_none());
            }
        }
    }
}
