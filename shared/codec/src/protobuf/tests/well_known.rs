//! Timestamps, durations, wrappers, and JSON.

use super::*;
use crate::columns::tests::{declare, path};

fn varint_field(tag: u8, value: i64) -> Vec<u8> {
    let mut bytes = vec![tag];
    prost::encoding::encode_varint(value as u64, &mut bytes);
    bytes
}

fn moment(seconds: i64, nanos: i64) -> String {
    let inner = [varint_field(0x08, seconds), varint_field(0x10, nanos)].concat();
    let bytes = [vec![0x0a, inner.len() as u8], inner].concat();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn timestamps_floor_to_microseconds_and_stay_in_the_calendar() {
    let message = proto3("message M { google.protobuf.Timestamp t = 1; }");
    let mut text = table();
    declare(&mut text, "t", path("t"), Some("string"));
    let check = |seconds, nanos, micros: i64, written: &str| {
        let payload = moment(seconds, nanos);
        assert_eq!(rows(&message, &table(), &[&payload]).unwrap(), [format!("t={micros}")]);
        assert_eq!(rows(&message, &text, &[&payload]).unwrap(), [format!("t=\"{written}\"")]);
    };
    check(0, 0, 0, "1970-01-01T00:00:00Z");
    check(1_709_251_199, 999_999_999, 1_709_251_199_999_999, "2024-02-29T23:59:59.999999999Z");
    check(-1, 999_999_999, -1, "1969-12-31T23:59:59.999999999Z");
    check(-1, 1, -1_000_000, "1969-12-31T23:59:59.000000001Z");
    check(-1, 0, -1_000_000, "1969-12-31T23:59:59Z");
    check(-86_401, 500_000_000, -86_400_500_000, "1969-12-30T23:59:59.500Z");
    check(-62_135_596_800, 0, -62_135_596_800_000_000, "0001-01-01T00:00:00Z");
    check(253_402_300_799, 999_999_999, 253_402_300_799_999_999, "9999-12-31T23:59:59.999999999Z");
    for (seconds, nanos) in [
        (-62_135_596_801, 0),
        (253_402_300_800, 0),
        (i64::MIN, 0),
        (i64::MAX, 0),
        (0, -1),
        (0, 1_000_000_000),
        (-5, -5),
    ] {
        refused(&message, &table(), &moment(seconds, nanos), Class::OutOfRange, "t");
        refused(&message, &text, &moment(seconds, nanos), Class::OutOfRange, "t");
    }
    let mut zoneless = table();
    declare(&mut zoneless, "t", path("t"), Some("timestamp"));
    assert_eq!(rows(&message, &zoneless, &[&moment(-1, 0), ""]).unwrap(), ["t=-1000000", "t=NULL"]);
    // Whole, for whoever needs the nanoseconds.
    let mut whole = table();
    declare(&mut whole, "t", path("t"), Some("struct<seconds: long, nanos: int>"));
    assert_eq!(rows(&message, &whole, &[&moment(-1, 5)]).unwrap(), ["t={seconds:-1,nanos:5}"]);
}

#[test]
fn durations_floor_to_microseconds_and_have_one_sign() {
    let message = proto3("message M { google.protobuf.Duration d = 1; }");
    let mut text = table();
    declare(&mut text, "d", path("d"), Some("string"));
    let check = |seconds, nanos, micros: i64, written: &str| {
        let payload = moment(seconds, nanos);
        assert_eq!(rows(&message, &table(), &[&payload]).unwrap(), [format!("d={micros}")]);
        assert_eq!(rows(&message, &text, &[&payload]).unwrap(), [format!("d=\"{written}\"")]);
    };
    check(0, 0, 0, "0s");
    check(3, 1_500, 3_000_001, "3.000001500s");
    check(-3, -1_500, -3_000_002, "-3.000001500s");
    check(0, -1, -1, "-0.000000001s");
    check(0, -500_000_000, -500_000, "-0.500s");
    check(1, 2_000, 1_000_002, "1.000002s");
    check(315_576_000_000, 999_999_999, 315_576_000_000_999_999, "315576000000.999999999s");
    check(-315_576_000_000, 0, -315_576_000_000_000_000, "-315576000000s");
    for (seconds, nanos) in
        [(315_576_000_001, 0), (-315_576_000_001, 0), (1, -1), (-1, 1), (0, 1_000_000_000), (i64::MIN, 0)]
    {
        refused(&message, &table(), &moment(seconds, nanos), Class::OutOfRange, "d");
    }
}

#[test]
fn wrappers_are_nullable_scalars() {
    let message = proto3(
        "message M { google.protobuf.DoubleValue a = 1; google.protobuf.FloatValue b = 2; google.protobuf.Int64Value c = 3;
         google.protobuf.UInt64Value d = 4; google.protobuf.Int32Value e = 5; google.protobuf.UInt32Value f = 6;
         google.protobuf.BoolValue g = 7; google.protobuf.StringValue h = 8; google.protobuf.BytesValue i = 9;
         repeated google.protobuf.Int32Value j = 10; map<string, google.protobuf.StringValue> k = 11; }",
    );
    check(&message, "", "a=NULL b=NULL c=NULL d=NULL e=NULL f=NULL g=NULL h=NULL i=NULL j=[] k={}");
    check(
        &message,
        "0a00 1200 1a00 2200 2a00 3200 3a00 4200 4a00 5200 5a00",
        r#"a=0.0 b=0.0 c=0 d=0 e=0 f=0 g=false h="" i=x[] j=[0] k={"":""}"#,
    );
    check(
        &message,
        "0a(09000000000000f87f) 12(0d0000c0ff) 1a(08ffffffffffffffff7f) 22(08ffffffffffffffffff01) 2a(08ffffffffffffffffff01)
         32(08ffffffff0f) 3a(0801) 42(0a(61)) 4a(0a(ff)) 52(0805) 5a(0a(61) 12(0a(62)))",
        r#"a=NaN b=NaN c=9223372036854775807 d=18446744073709551615 e=-1 f=4294967295 g=true h="a" i=x[ff] j=[5] k={"a":"b"}"#,
    );
    refused(&message, &table(), "42(0a(c328))", Class::InvalidUtf8, "h.value");
}

#[test]
fn empty_messages_are_there_or_not() {
    let message = proto3(
        "message Nothing {} message N { Nothing n = 1; } message M { Nothing a = 1; google.protobuf.Empty b = 2; repeated Nothing c = 3; N n = 4;
         oneof o { Nothing d = 5; Nothing e = 6; } }",
    );
    check(&message, "", "a=false b=false c=[] n=NULL d=false e=false");
    check(&message, "0a() 1a() 1a(089601) 22() 2a() 32()", "a=true b=false c=[true,true] n={n:false} d=false e=true");
    refused(&message, &table(), "0a01 08", Class::Truncated, "a");
}

#[test]
fn any_is_its_two_fields() {
    let message = proto3("message M { google.protobuf.Any a = 1; }");
    check(&message, "0a(0a(74) 12(ff))", r#"a={type_url:"t",value:x[ff]}"#);
    check(&message, "", "a=NULL");
}

#[test]
fn json_types_become_json_text() {
    let message = proto3(
        "message M { google.protobuf.Struct s = 1; google.protobuf.Value v = 2; google.protobuf.ListValue l = 3;
         repeated google.protobuf.Value r = 4; map<string, google.protobuf.Value> m = 5; }",
    );
    check(&message, "", "s=NULL v=NULL l=NULL r=[] m={}");
    check(&message, "0a00 1200 1a00 2200 2a00", r#"s="{}" v="null" l="[]" r=["null"] m={"":"null"}"#);
    let value = |payload: &str, expected: &str| {
        check(&message, &format!("12({payload})"), &format!("s=NULL v={expected:?} l=NULL r=[] m={{}}"));
    };
    value("0800", "null");
    value("11 000000000000f03f", "1");
    value("11 0000000000000080", "-0");
    value("11 000000000000e0bf", "-0.5");
    value("11 9c7500883ce4377e", "1e300");
    value("11 0000000000004043", "9007199254740992.0");
    value("1a(61220a)", r#""a\"\n""#);
    value("1a(c3a8)", "\"è\"");
    value("2001", "true");
    // Of the kinds, the last one counts.
    value("2001 0800", "null");
    // {"b": 1, "a": [null, {}], "b": "x"}: the last b at the place of the first.
    value(
        "2a(0a(0a(62) 12(11000000000000f03f)) 0a(0a(61) 12(32(0a(0800) 0a(2a() 2a())))) 0a(0a(62) 12(1a(78))))",
        r#"{"b":"x","a":[null,{}]}"#,
    );
    refused(&message, &table(), "12(11000000000000f07f)", Class::OutOfRange, "v.number_value");
    refused(&message, &table(), "12(1a(c328))", Class::InvalidUtf8, "v.string_value");
    refused(&message, &table(), "22() 22(1a(c328))", Class::InvalidUtf8, "r[1].string_value");
    refused(&message, &table(), "12(1a05)", Class::Truncated, "v.string_value");
}

#[test]
fn messages_inside_themselves_become_json() {
    let message = proto3(
        "enum E { A = 0; B = 1; } message N { M m = 1; } message M { int32 i = 1; int64 l = 2; uint64 u = 3; float f = 4; double d = 5; bool b = 6;
         string s = 7; bytes y = 8; E e = 9; optional int32 o = 10; repeated int32 r = 11; map<int32, string> p = 12;
         google.protobuf.Timestamp t = 13; google.protobuf.Duration c = 14; google.protobuf.Int64Value w = 15; N n = 16;
         repeated M more = 17; map<string, M> by = 18; oneof k { int32 x = 19; int32 z = 20; } google.protobuf.Any any = 21; }",
    );
    let mut table = table();
    table.fields = pipeline::resolved::Fields::Listed;
    for name in ["n", "more", "by"] {
        declare(&mut table, name, path(name), None);
    }
    let implicit = r#""i":0,"l":"0","u":"0","f":0,"d":0,"b":false,"s":"","y":"","e":"A""#;
    let full = "08ffffffffffffffffff01 10ffffffffffffffffff01 18ffffffffffffffffff01 250000c03f 29000000000000f07f 3001 3a(61) 42(ff) 4801
                5000 5a(0102) 62(0805 12(78)) 62() 62(0805 12(79)) 6a(0801 1005) 72(0803) 7a(0809) 8201() 8a01(0805) 980101 a00102
                aa01(12(0102))";
    let expected = format!(
        concat!(
            r#"{{"i":-1,"l":"-1","u":"18446744073709551615","f":1.5,"d":"Infinity","b":true,"s":"a","y":"/w==","e":"B","o":0,"#,
            r#""r":[1,2],"p":{{"5":"y","0":""}},"t":"1970-01-01T00:00:01.000000005Z","c":"3s","w":"9","n":{{}},"more":[{{{}}}],"z":2,"#,
            r#""any":{{"type_url":"","value":"AQI="}}}}"#
        ),
        implicit.replacen("\"i\":0", "\"i\":5", 1)
    );
    let payload = format!("8a01({full}) 8a01() 9201()");
    let rows = rows(&message, &table, &[&payload, "8201(0a())"]).unwrap();
    let empty = format!("{{{implicit}}}");
    assert_eq!(
        rows,
        [
            format!("n=NULL more=[{expected:?},{empty:?}] by={{\"\":{empty:?}}}"),
            format!("n={{m:{empty:?}}} more=[] by={{}}"),
        ]
    );
}

#[test]
fn required_fields_services_and_imported_types_decode_as_any_other() {
    let money = "syntax = \"proto3\"; package google.type; message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }";
    let main = "syntax = \"proto2\"; import \"google/type/money.proto\"; import \"google/protobuf/wrappers.proto\";
        message M { required int32 id = 1; required google.protobuf.BoolValue certified = 7; required google.type.Money total = 11;
        optional string title = 12; }
        message Search { required int32 id = 1; }
        service Find { rpc Find(Search) returns (M); }";
    let files = [("main.proto", main), ("google/type/money.proto", money)];
    let message = schema::from_text(&files, "M").unwrap();
    check(
        &message,
        "0807 3a(0801) 5a(0a(455552) 10feffffffffffffffff01 1880b6ca91feffffffff01)",
        r#"id=7 certified=true total={currency_code:"EUR",units:-2,nanos:-500000000} title=NULL"#,
    );
    check(&message, "3a() 5a() 62()", r#"id=NULL certified=false total={currency_code:"",units:0,nanos:0} title="""#);
}
