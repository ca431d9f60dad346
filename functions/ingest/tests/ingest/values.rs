//! Values of Avro and protobuf on their way into rows.

use staging::dead_letter::Class;

use crate::topic::{Topic, all};

async fn avro(schema: &str, table: &str, values: &[&str]) -> Topic {
    let value = "format = \"avro\"\nframing = \"bare\"\nschema = { avsc = \"schemas/r.avsc\" }";
    let topic = Topic::of(&[("schemas/r.avsc", schema)], value, table).await.unwrap();
    topic.handle(all(values)).await.unwrap();
    topic
}

async fn proto(body: &str, table: &str, values: &[&str]) -> Topic {
    let schema = format!("syntax = \"proto3\"; {body}");
    let value = "format = \"protobuf\"\nframing = \"bare\"\nschema = { proto = \"schemas/m.proto\", message = \"M\" }";
    let topic = Topic::of(&[("schemas/m.proto", &schema)], value, table).await.unwrap();
    topic.handle(all(values)).await.unwrap();
    topic
}

fn record(fields: &str) -> String {
    format!("{{\"type\": \"record\", \"name\": \"R\", \"fields\": [{fields}]}}")
}

/// O-03.
#[tokio::test(start_paused = true)]
async fn unsigned_numbers_stay_positive() {
    let body = "message M { uint32 a = 1; uint64 b = 2; fixed32 c = 3; sint64 d = 4; }";
    let value = "08ffffffff0f 1087808080808080808001 1d00286bee 2001";
    let topic = proto(body, "", &[value]).await;
    assert_eq!(topic.columns(), ["a long", "b decimal(20, 0)", "c long", "d long"]);
    assert_eq!(topic.rows(), ["0: a=4294967295 b=9223372036854775815 c=4000000000 d=-1"]);
    let topic = proto(body, "[table.columns]\nb = { type = \"long\" }", &[value, "1007"]).await;
    assert_eq!((topic.rows(), topic.dead()), (vec!["1: a=0 b=7 c=0 d=0".to_owned()], vec![(0, Class::OutOfRange)]));
}

/// O-04.
#[tokio::test(start_paused = true)]
async fn packed_and_unpacked_numbers_are_one_list() {
    let value = "0a03010203 0804 12026869 0a020506 1202796f";
    let topic = proto("message M { repeated int32 v = 1; string s = 2; }", "", &[value]).await;
    assert_eq!(topic.rows(), ["0: v=[1, 2, 3, 4, 5, 6] s=yo"]);
}

/// O-05.
#[tokio::test(start_paused = true)]
async fn entries_of_maps_have_defaults_and_the_last_of_a_key_wins() {
    let value = "0a00 0a050a01611007 0a021003 0a030a0162 0a050a01611009";
    let topic = proto("message M { map<string, int32> tags = 1; }", "", &[value]).await;
    let rows = topic.rows();
    let mut entries: Vec<&str> = rows[0].trim_start_matches("0: tags={").trim_end_matches('}').split(", ").collect();
    entries.sort_unstable();
    assert_eq!(entries, [": 3", "a: 9", "b: 0"]);
}

/// O-06. The host's time zone plays no part: nothing here asks for it.
#[tokio::test(start_paused = true)]
async fn instants_and_local_times_are_told_apart() {
    let fields = "{\"name\": \"i\", \"type\": {\"type\": \"long\", \"logicalType\": \"timestamp-millis\"}},
        {\"name\": \"l\", \"type\": {\"type\": \"long\", \"logicalType\": \"local-timestamp-micros\"}}";
    let topic = avro(&record(fields), "", &["fe8ffcf4be63 01"]).await;
    assert_eq!(topic.columns(), ["i timestamptz", "l timestamp"]);
    assert_eq!(topic.rows(), ["0: i=2024-02-29T23:59:59.999Z l=1969-12-31T23:59:59.999999"]);
}

/// O-07.
#[tokio::test(start_paused = true)]
async fn null_may_stand_anywhere_in_a_union_and_be_the_readers_alone() {
    let fields = "{\"name\": \"a\", \"type\": [\"long\", \"null\"]}, {\"name\": \"b\", \"type\": [\"null\", \"long\"]},
        {\"name\": \"c\", \"type\": \"string\"}";
    let topic = avro(&record(fields), "", &["0054 0254 0279", "02 00 0279"]).await;
    assert_eq!(topic.rows(), ["0: a=42 b=42 c=y", "1: a=NULL b=NULL c=y"]);

    let array = |items: &str| {
        record(&format!(
            "{{\"name\": \"xs\", \"type\": {{\"type\": \"array\", \"items\": {items}}}}}, {{\"name\": \"t\", \"type\": \"string\"}}"
        ))
    };
    let value = "format = \"avro\"\nframing = \"confluent\"\nschema = { avsc = \"schemas/r.avsc\" }";
    let (own, writer) = (array("[\"null\", \"int\"]"), array("\"int\""));
    let topic = Topic::of(&[("schemas/r.avsc", &own), ("registry/1.avsc", &writer)], value, "").await.unwrap();
    topic.handle(all(&["00 00000001 06 02 00 09 00 046f6b"])).await.unwrap();
    assert_eq!(topic.rows(), ["0: xs=[1, 0, -5] t=ok"]);
}

/// O-08.
#[tokio::test(start_paused = true)]
async fn a_block_with_a_negative_count_has_its_size_in_front() {
    let xs = "{\"name\": \"xs\", \"type\": {\"type\": \"array\", \"items\": \"long\"}}";
    let t = "{\"name\": \"t\", \"type\": \"string\"}";
    let value = "05 08 0204d804 02 0d 00 046f6b";
    let topic = avro(&record(&format!("{xs}, {t}")), "", &[value]).await;
    assert_eq!(topic.rows(), ["0: xs=[1, 2, 300, -7] t=ok"]);
    let topic = avro(&record(&format!("{xs}, {t}")), "exclude = [\"xs\"]", &[value]).await;
    assert_eq!(topic.rows(), ["0: t=ok"]);
}

/// O-10, of what Avro has of it: times before 1970, after 2262, and in other units.
#[tokio::test(start_paused = true)]
async fn times_go_towards_the_past_and_never_through_nanoseconds() {
    let check = async |of: &str, column: &str, value: &str, expected: &str| {
        let topic = avro(&record(&format!("{{\"name\": \"f\", \"type\": {of}}}")), column, &[value]).await;
        assert_eq!(topic.rows(), [format!("0: f={expected}")], "{of} {value}");
    };
    let logical = |of: &str, logical: &str| format!("{{\"type\": \"{of}\", \"logicalType\": \"{logical}\"}}");
    let local = |unit: &str| logical("long", &format!("local-timestamp-{unit}"));
    check(&local("millis"), "", "01", "1969-12-31T23:59:59.999").await;
    check(&local("micros"), "", "01", "1969-12-31T23:59:59.999999").await;
    let declared = "[table.columns]\nf = { type = \"timestamp\" }";
    check(&local("nanos"), declared, "d10f", "1969-12-31T23:59:59.999998").await;
    check(&local("millis"), "", "feeffea1fa9d73", "9999-12-31T23:59:59.999").await;
    check(&logical("int", "date"), "", "01", "1969-12-31").await;
    check(&logical("long", "time-micros"), "", "feffbadd8305", "23:59:59.999999").await;
    let unit = "[table.columns]\nf = { type = \"timestamptz\", unit = \"ms\" }";
    check("\"long\"", unit, "01", "1969-12-31T23:59:59.999Z").await;
}

/// O-26, of schemas: names that differ only in case are one column to Glue and Athena.
#[tokio::test(start_paused = true)]
async fn two_fields_that_differ_only_in_case_are_refused_before_there_is_an_event() {
    let fields = record("{\"name\": \"ii\", \"type\": \"int\"}, {\"name\": \"iI\", \"type\": \"int\"}");
    let value = "format = \"avro\"\nframing = \"bare\"\nschema = { avsc = \"schemas/r.avsc\" }";
    for table in ["", "column_case = \"as-is\""] {
        let made = Topic::of(&[("schemas/r.avsc", &fields)], value, table).await;
        let error = made.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("`ii`"), "{error}");
    }
    // One of another case is the column, and nothing new.
    let upper = record("{\"name\": \"II\", \"type\": \"int\"}");
    let topic = avro(&upper, "[table.columns]\nii = { type = \"long\" }", &["02"]).await;
    assert_eq!((topic.columns(), topic.rows()), (vec!["ii long".to_owned()], vec!["0: ii=1".to_owned()]));
}

/// O-40, of Avro: the record that is cut is set aside, and its neighbours are rows.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_cut_is_set_aside_amid_others() {
    let fields = "{\"name\": \"name\", \"type\": \"string\"}, {\"name\": \"reading\", \"type\": \"int\"}";
    let topic = avro(&record(fields), "", &["04613102", "046131", "04613306", "0461330600", "05"]).await;
    assert_eq!(topic.rows(), ["0: name=a1 reading=1", "2: name=a3 reading=3"]);
    let dead = [(1, Class::Truncated), (3, Class::TrailingBytes), (4, Class::WrongType)];
    assert_eq!(topic.dead(), dead);
}

/// What is asked of protobuf's records is asked of Avro's.
#[tokio::test(start_paused = true)]
async fn avro_records_are_filtered_exploded_and_veiled() {
    let fields = "{\"name\": \"kind\", \"type\": {\"type\": \"enum\", \"name\": \"K\", \"symbols\": [\"A\", \"B\"]}},
        {\"name\": \"card\", \"type\": \"string\"},
        {\"name\": \"lines\", \"type\": {\"type\": \"array\", \"items\":
            {\"type\": \"record\", \"name\": \"L\", \"fields\": [{\"name\": \"sku\", \"type\": \"string\"}]}}}";
    let value = "format = \"avro\"\nframing = \"bare\"\nschema = { avsc = \"schemas/r.avsc\" }\n\
        filter = { field = \"kind\", in = [\"B\"] }\nexplode = \"lines\"";
    let table = "[table.columns]\nsku = \"lines.sku\"\ncard = { pii = \"last4\" }";
    let topic = Topic::of(&[("schemas/r.avsc", &record(fields))], value, table).await.unwrap();
    let card = "10 3131313131323334";
    let values = [format!("02 {card} 04 0278 0279 00"), format!("00 {card} 00"), format!("02 {card} 00")];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let outcome = topic.handle(all(&values)).await.unwrap();
    assert_eq!(outcome.filtered.values().sum::<u64>(), 2);
    assert_eq!(topic.rows(), ["0: kind=B card=1234 sku=x", "0: kind=B card=1234 sku=y"]);
}

/// A field of an Avro record names its table.
#[tokio::test(start_paused = true)]
async fn a_field_of_avro_names_the_table() {
    let fields = "{\"name\": \"tenant\", \"type\": \"string\"}, {\"name\": \"n\", \"type\": \"int\"}";
    let topic = avro(&record(fields), "name = \"db.{field:tenant}\"", &["0261 02", "0262 04", "0261 06"]).await;
    assert_eq!(topic.rows_of("db.a"), ["0: tenant=a n=1", "2: tenant=a n=3"]);
    assert_eq!(topic.rows_of("db.b"), ["1: tenant=b n=2"]);
}
