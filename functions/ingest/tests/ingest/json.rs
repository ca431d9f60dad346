//! JSON on its way into rows: by declared columns, by a JSON Schema, and by what a registry has.

use std::collections::BTreeMap;

use base64_simd::STANDARD;
use model::coverage::Filtered;
use serde_json::{Value, json};
use staging::dead_letter::Class;

use crate::topic::Topic;

/// Records of texts, from offset 0 on.
fn all(values: &[&str]) -> Vec<Value> {
    let framed = |(offset, value): (i64, &&str)| json!({"offset": offset, "value": STANDARD.encode_to_string(value)});
    (0..).zip(values).map(framed).collect()
}

/// A record behind the header of a framing, in hexadecimal.
fn framed(offset: i64, header: &str, value: &str) -> Value {
    let digits: Vec<u8> = header.bytes().filter(|byte| *byte != b' ').collect();
    let mut bytes: Vec<u8> =
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
    bytes.extend_from_slice(value.as_bytes());
    json!({"offset": offset, "value": STANDARD.encode_to_string(bytes)})
}

/// Bare payloads without a schema.
async fn declared(table: &str, values: &[&str]) -> Topic {
    let topic = Topic::of(&[], "format = \"json\"\nframing = \"bare\"", table).await.unwrap();
    topic.handle(all(values)).await.unwrap();
    topic
}

/// O-09.
#[tokio::test(start_paused = true)]
async fn whole_numbers_and_times_keep_every_digit() {
    let columns = "[table.columns]\nid = { type = \"long\" }\nmax = { type = \"long\" }\nneg = { type = \"long\" }\n\
        over = { type = \"long\" }\nts = { type = \"timestamp\", unit = \"us\" }\ne = { type = \"long\" }\nf = { type = \"long\" }\n\
        g = { type = \"long\" }";
    let first = "{\"id\":9007199254740993,\"max\":9223372036854775807,\"neg\":-9223372036854775808,\"ts\":1709251199999123,\
        \"e\":1e3,\"f\":12.0,\"g\":12.7}";
    let good = first.replace(",\"g\":12.7", "");
    let topic = declared(columns, &[first, "{\"id\":1,\"over\":9223372036854775808}", &good]).await;
    let row = "2: id=9007199254740993 max=9223372036854775807 neg=-9223372036854775808 over=NULL \
        ts=2024-02-29T23:59:59.999123 e=1000 f=12 g=NULL";
    assert_eq!(topic.rows(), [row]);
    assert_eq!(topic.dead(), [(0, Class::WrongType), (1, Class::OutOfRange)]);
}

/// O-10, of what JSON has of it, by the columns' units and by Debezium's names for them.
#[tokio::test(start_paused = true)]
async fn times_go_towards_the_past_and_never_through_nanoseconds() {
    let check = async |data_type: &str, unit: &str, value: &str, expected: &str| {
        let unit = if unit.is_empty() { String::new() } else { format!(", unit = \"{unit}\"") };
        let columns = format!("types = \"iceberg\"\n[table.columns]\nt = {{ type = \"{data_type}\"{unit} }}");
        let topic = declared(&columns, &[&format!("{{\"t\":{value}}}")]).await;
        assert_eq!(topic.rows(), [format!("0: t={expected}")], "{data_type} {value}");
    };
    check("timestamp", "ms", "-1", "1969-12-31T23:59:59.999").await;
    check("timestamp", "us", "-1", "1969-12-31T23:59:59.999999").await;
    check("timestamp", "ns", "-1001", "1969-12-31T23:59:59.999998").await;
    check("timestamp", "ms", "253402300799999", "9999-12-31T23:59:59.999").await;
    check("timestamp", "us", "-62135596800000000", "0001-01-01T00:00:00").await;
    check("timestamptz", "s", "1764400000.123456789", "2025-11-29T07:06:40.123456Z").await;
    check("time", "us", "86399999999", "23:59:59.999999").await;
    check("date", "s", "-1", "1969-12-31").await;
    check("timestamptz", "", "\"1969-07-20T20:17:40.5-04:00\"", "1969-07-21T00:17:40.500Z").await;
    let date = "{\"properties\": {\"t\": {\"type\": \"integer\", \"title\": \"io.debezium.time.Date\"}}}";
    let value = "format = \"json\"\nframing = \"bare\"\nschema = { json_schema = \"schemas/d.json\" }";
    let topic = Topic::of(&[("schemas/d.json", date)], value, "").await.unwrap();
    topic.handle(all(&["{\"t\":-1}"])).await.unwrap();
    assert_eq!(topic.rows(), ["0: t=1969-12-31"]);
}

/// O-15: only null is nothing.
#[tokio::test(start_paused = true)]
async fn nothing_and_empty_are_told_apart() {
    for framing in ["bare", "auto"] {
        let value = format!("format = \"json\"\nframing = \"{framing}\"");
        let topic = Topic::of(&[], &value, "[table.columns]\na = { type = \"int\" }").await.unwrap();
        let mut records = all(&["", "", "{}", " ", "null"]);
        records[0]["value"] = Value::Null;
        let outcome = topic.handle(records).await.unwrap();
        assert_eq!(outcome.filtered, BTreeMap::from([(Filtered::Tombstone, 1)]));
        assert_eq!(topic.rows(), ["2: a=NULL"]);
        assert_eq!(topic.dead(), [(1, Class::EmptyValue), (3, Class::Truncated), (4, Class::WrongType)]);
    }
}

/// O-26.
#[tokio::test(start_paused = true)]
async fn names_are_spelled_by_one_rule() {
    let columns = "[table.columns]\nid = { type = \"int\" }\nii = { type = \"string\" }";
    let topic = declared(columns, &["{\"ID\":1,\"II\":\"x\"}", "{\"id\":2,\"Ii\":\"y\",\"iI\":\"z\"}"]).await;
    assert_eq!((topic.rows(), topic.dead()), (vec!["0: id=1 ii=x".to_owned()], vec![(1, Class::AmbiguousName)]));
}

/// O-27, where the columns are what is declared: what is new in a struct, a list and a map is passed over, kept or refused.
#[tokio::test(start_paused = true)]
async fn what_is_new_deep_inside_is_never_lost_without_a_word() {
    let columns = "[table.columns]\nid = { type = \"int\" }\ncust = { type = \"struct<cid: int>\" }\n\
        items = { type = \"list<struct<sku: string>>\" }\nattr = { type = \"map<string, struct<v: int>>\" }";
    let record = "{\"id\":1,\"cust\":{\"cid\":5,\"det\":{\"mail\":\"m@x\"}},\"items\":[{\"sku\":\"a\"},{\"sku\":\"b\",\"qty\":2}],\
        \"attr\":{\"k\":{\"v\":1,\"u\":\"cm\"}}}";
    let known = "0: id=1 cust={cid: 5} items=[{sku: a}, {sku: b}] attr={k: {v: 1}}";
    assert_eq!(declared(columns, &[record]).await.rows(), [known]);
    let kept = declared(&format!("unknown_fields = \"rest\"\n{columns}"), &[record]).await;
    let rest = "_rest={cust.det: {\"mail\":\"m@x\"}, items.qty: [2], attr.u: [\"cm\"]}";
    assert_eq!(kept.rows(), [format!("{known} {rest}")]);
    let refused = declared(&format!("unknown_fields = \"dead-letter\"\n{columns}"), &[record]).await;
    assert_eq!(refused.dead(), [(0, Class::IncompatibleSchema)]);
    assert_eq!(refused.letters()[0].path, "cust.det");
}

/// O-28.
#[tokio::test(start_paused = true)]
async fn a_dot_in_a_name_is_a_letter() {
    let columns = "[table.columns]\nab = { from = '\"A.B\"', type = \"int\" }\nc = { from = \"C\", type = \"int\" }";
    let topic = declared(columns, &["{\"A.B\":1,\"C\":2}", "{\"A.B\":1,\"A\":{\"B\":2}}"]).await;
    assert_eq!(topic.rows(), ["0: ab=1 c=2", "1: ab=1 c=NULL"]);
}

/// O-40: a record that is none, and one that nests a hundred thousand deep, are nothing to those around them.
#[tokio::test(start_paused = true)]
async fn a_bad_record_is_a_dead_letter_and_its_neighbours_are_rows() {
    let deep = format!("{{\"name\":\"d\",\"x\":{}", "[".repeat(100_000));
    let values = [
        "{\"name\":\"a1\",\"n\":1}",
        "{\"name\":\"a2\",\"n\":",
        "{\"name\":\"a3\",\"n\":3}",
        deep.as_str(),
        "{\"name\":\"a5\",\"n\":5}",
    ];
    let columns = "[table.columns]\nname = { type = \"string\" }\nn = { type = \"int\" }";
    let topic = declared(columns, &values).await;
    assert_eq!(topic.rows(), ["0: name=a1 n=1", "2: name=a3 n=3", "4: name=a5 n=5"]);
    assert_eq!(topic.dead(), [(1, Class::Truncated), (3, Class::TooDeep)]);
}

#[tokio::test(start_paused = true)]
async fn records_with_members_that_nothing_is_said_of_are_counted() {
    let check = async |values: &[&str], expected: u64| {
        let table = "[table.columns]\nn = { type = \"int\" }\ns = { type = \"struct<a: int>\" }";
        let topic = Topic::of(&[], "format = \"json\"\nframing = \"bare\"", table).await.unwrap();
        let outcome = topic.handle(all(values)).await.unwrap();
        assert_eq!(outcome.records_with_unknown_fields, expected, "{values:?}");
    };
    check(&["{\"n\":1}", "{\"s\":{\"a\":1}}"], 0).await;
    check(&["{\"n\":1,\"x\":2,\"y\":3}", "{\"n\":2}", "{\"x\":1}"], 2).await;
    check(&["{\"s\":{\"b\":1}}", "{\"x\":1,\"n\":1,\"n\":2}"], 2).await;
    check(&["{\"x\":1,\"n\":\"no\"}"], 0).await;
}

/// Records of the routes, filters and lists that a pipeline names, without a schema.
#[tokio::test(start_paused = true)]
async fn what_a_pipeline_looks_at_needs_no_column() {
    let value =
        "format = \"json\"\nframing = \"bare\"\nexplode = \"events\"\nfilter = { field = \"kind\", in = [\"click\"] }";
    let table = "name = \"db.e_{field:tenant}\"\n[table.columns]\nwho = { type = \"string\" }\nn = { from = \"events.n\", type = \"long\" }";
    let topic = Topic::of(&[], value, table).await.unwrap();
    let values = [
        "{\"tenant\":\"A\",\"kind\":\"click\",\"who\":\"x\",\"events\":[{\"n\":1},{\"n\":2}]}",
        "{\"tenant\":\"A\",\"kind\":\"view\",\"who\":\"y\",\"events\":[{\"n\":3}]}",
        "{\"kind\":\"click\",\"who\":\"z\",\"events\":[{\"n\":4}]}",
    ];
    topic.handle(all(&values)).await.unwrap();
    assert_eq!(topic.rows_of("db.e_a"), ["0: who=x n=1", "0: who=x n=2"]);
    assert_eq!(topic.dead(), [(2, Class::Unroutable)]);
}

const WEATHER: &str = "{\"title\": \"WeatherReport\", \"type\": \"object\", \"properties\": {
    \"location\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"state\": {\"type\": \"string\"}},
        \"additionalProperties\": false, \"required\": [\"city\", \"state\"]},
    \"temperature\": {\"type\": \"integer\"}, \"timestamp\": {\"type\": \"integer\"}},
    \"required\": [\"location\", \"temperature\", \"timestamp\"]}";

/// Bare, Glue's and Confluent's, of two versions, in one topic and one object.
#[tokio::test(start_paused = true)]
async fn every_framing_and_version_becomes_rows_of_one_table() {
    let second = WEATHER.replace(
        "\"state\": {\"type\": \"string\"}}",
        "\"state\": {\"type\": \"string\"}, \"country\": {\"type\": \"string\"}}",
    );
    let glue = "registry/5c0ffee5-0000-4000-8000-0000000000a1.json";
    let wrong = "{\"type\": \"long\"}";
    let files = [
        ("registry/weather.json", WEATHER),
        (glue, WEATHER),
        ("registry/7.json", second.as_str()),
        ("registry/8.json", wrong),
    ];
    let value = "format = \"json\"\nframing = \"auto\"\nschema = { registry = \"main\", name = \"weather\" }";
    let at = |city: &str, more: &str| {
        format!(
            "{{\"location\":{{\"city\":\"{city}\",\"state\":\"s\"{more}}},\"temperature\":1,\"timestamp\":2,\"windSpeed\":3}}"
        )
    };
    let topic = Topic::of(&files, value, "[table.columns]\ntimestamp = { type = \"timestamptz\", unit = \"s\" }")
        .await
        .unwrap();
    let records = vec![
        framed(0, "", &at("a", "")),
        framed(1, "03005c0ffee50000400080000000000000a1", &at("b", "")),
        framed(2, "00 00000007", &at("c", ",\"country\":\"NO\"")),
        framed(3, "00 00000008", &at("d", "")),
        framed(4, "00 00000009", &at("e", "")),
        framed(5, "00 00000007", "{\"location\":[]}"),
    ];
    topic.handle(records).await.unwrap();
    let row = |offset: i64, city: &str, country: &str| {
        let location = format!("{{city: {city}, state: s, country: {country}}}");
        format!("{offset}: location={location} temperature=1 timestamp=1970-01-01T00:00:02Z")
    };
    let rows = topic.rows();
    assert_eq!(
        rows,
        [row(0, "a", ""), row(1, "b", ""), row(2, "c", "NO")].map(|row| row.replace("country: }", "country: NULL}"))
    );
    let dead = [(3, Class::IncompatibleSchema), (4, Class::UnknownSchema), (5, Class::WrongType)];
    assert_eq!(topic.dead(), dead);
}

/// O-26: one rule finds names everywhere, and two that it finds for one column are none.
#[tokio::test(start_paused = true)]
async fn names_that_differ_in_case_only_are_one_column_s() {
    let schema = "{\"title\": \"T\", \"type\": \"object\", \"properties\": {\"id\": {\"type\": \"integer\", \"format\": \"int32\"},
        \"ii\": {\"type\": \"string\"}, \"In\": {\"type\": \"object\", \"properties\": {\"Sub\": {\"type\": \"string\"}}}}}";
    let upper = schema.replace("\"id\"", "\"ID\"").replace("\"ii\"", "\"II\"");
    let records = [
        "{\"ID\":1,\"II\":\"x\",\"IN\":{\"sub\":\"s\"}}",
        "{\"id\":2,\"Ii\":\"y\",\"iI\":\"z\"}",
        "{\"id\":3,\"ii\":\"y\",\"II\":\"z\"}",
        "{\"id\":4,\"in\":{\"sub\":\"s\",\"SUB\":\"t\"}}",
        "{\"id\":5,\"II\":\"x\",\"II\":\"y\"}",
    ];
    let rows = ["0: id=1 ii=x in={sub: s}", "4: id=5 ii=y in=NULL"];
    let ambiguous = Class::AmbiguousName;
    let dead = [(1, ambiguous), (2, ambiguous), (3, ambiguous)];
    let bare = "format = \"json\"\nframing = \"bare\"\nschema = { json_schema = \"schemas/t.json\" }";
    for unknown in ["ignore", "dead-letter"] {
        let table = format!("unknown_fields = \"{unknown}\"");
        let topic = Topic::of(&[("schemas/t.json", schema)], bare, &table).await.unwrap();
        let outcome = topic.handle(all(&records)).await.unwrap();
        assert_eq!((topic.rows(), topic.dead()), (rows.map(str::to_owned).to_vec(), dead.to_vec()), "{unknown}");
        assert_eq!(topic.columns(), ["id int", "ii string", "in struct<sub: string>"], "{unknown}");
        assert_eq!(outcome.records_with_unknown_fields, 0, "{unknown}");
    }
    // Nor does a version that spells them so bring columns.
    let files = [("registry/t.json", schema), ("registry/1.json", schema), ("registry/2.json", &upper)];
    let registered = "format = \"json\"\nframing = \"confluent\"\nschema = { registry = \"main\", name = \"t\" }";
    let topic = Topic::of(&files, registered, "").await.unwrap();
    let framed = |(offset, value): (i64, &&str)| framed(offset, "00 00000002", value);
    topic.handle((0..).zip(&records).map(framed).collect()).await.unwrap();
    assert_eq!((topic.rows(), topic.dead()), (rows.map(str::to_owned).to_vec(), dead.to_vec()));
    assert_eq!(topic.columns(), ["id int", "ii string", "in struct<sub: string>"]);
    // Where columns keep the case of their fields, other names are unknown.
    let topic = Topic::of(&[("schemas/t.json", schema)], bare, "column_case = \"as-is\"").await.unwrap();
    let outcome = topic.handle(all(&records[..1])).await.unwrap();
    assert_eq!((topic.rows(), outcome.records_with_unknown_fields), (vec!["0: id=NULL ii=NULL In=NULL".to_owned()], 1));
}
