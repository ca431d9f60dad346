//! Records in framings: what they are written with is looked up, and what they hold becomes rows of the pipeline's columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use model::coverage::Filtered;
use model::failure::Kind;
use registry::{Registered, Source, Wanted};
use serde_json::Value;
use staging::dead_letter::Class;
use staging::footer::SchemaVersion;

use crate::topic::{Topic, all, at, golden, unwrapped, with_header};

const SHOP: &str = "syntax = \"proto3\"; package shop;
    message Order { map<string, string> tags = 1; message Line { string sku = 1; int32 qty = 2; } }
    message Order2 { int32 no = 1; } message Account { int32 id = 1; }";

/// A version of it that came later.
const SHOP_2: &str = "syntax = \"proto3\"; package shop;
    message Order { map<string, string> tags = 1; message Line { string article = 1; int64 qty = 2; string note = 3; } }
    message Order2 { int32 no = 1; } message Account { int32 id = 1; }";

fn value(format: &str, framing: &str, schema: &str) -> String {
    format!("format = \"{format}\"\nframing = \"{framing}\"\nschema = {{ {schema} }}")
}

fn line(framing: &str) -> String {
    value("protobuf", framing, "proto = \"schemas/shop.proto\", message = \"shop.Order.Line\"")
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

/// What AWS's and Confluent's own serializers write, and bare values, all in one topic, two versions of the schema among them.
#[tokio::test(start_paused = true)]
async fn a_topic_may_mix_framings_and_versions() {
    let (mut files, mut values) = golden("glue.json");
    let (more, others) = golden("confluent.json");
    files.extend(more);
    values.extend(others);
    files.push(("schemas/shop.proto".to_owned(), SHOP.to_owned()));
    files.push(("registry/7.proto".to_owned(), SHOP_2.to_owned()));
    let topic = Topic::of(&borrowed(&files), &line("auto"), "").await.unwrap();

    let is_protobuf = |value: &&Value| value["format"] == "PROTOBUF";
    let mut records: Vec<Value> = vec![at(0, "0a0162 1001")];
    let mut expected = vec!["0: sku=b qty=1".to_owned()];
    let mut foreign = 0;
    for (offset, value) in (1..).zip(values.iter().filter(is_protobuf)) {
        let record = at(offset, value["value"].as_str().unwrap());
        records.push(match value["header"].as_str() {
            Some(header) => with_header(record, "__value_schema_id", header),
            None => record,
        });
        match value["message"].as_str().unwrap() {
            "shop.Order.Line" => expected.push(format!("{offset}: sku=k9 qty=3")),
            _ => foreign += 1,
        }
    }
    let newer = i64::try_from(records.len()).unwrap();
    records.push(at(newer, "00 00000007 040002 0a0163 1005 1a026869"));
    records.push(at(newer + 1, "0a0164 1007"));
    expected.push(format!("{newer}: sku=c qty=5"));
    expected.push(format!("{}: sku=d qty=7", newer + 1));
    assert_eq!(expected.iter().filter(|row| row.contains("k9")).count(), 4, "Glue's two, Confluent's two");
    let outcome = topic.handle(records).await.unwrap();
    let mut dead = topic.letters();
    dead.retain(|letter| letter.offset != newer);
    assert!(dead.iter().all(|letter| letter.class == Class::IncompatibleSchema), "{dead:?}");
    assert_eq!((outcome.dead_letters, dead.len()), (foreign + 1, usize::try_from(foreign).unwrap()));
    // A long is no int: that version's records are refused, and say why.
    let letters = topic.letters();
    let wider = letters.iter().find(|letter| letter.offset == newer).unwrap();
    assert_eq!((wider.class, wider.schema_id.as_deref()), (Class::IncompatibleSchema, Some("7")));
    assert!(wider.message.contains("`qty`"), "{}", wider.message);
    expected.retain(|row| !row.contains("sku=c"));
    assert_eq!(topic.rows(), expected);
}

#[tokio::test(start_paused = true)]
async fn versions_share_the_object_in_the_order_of_the_event() {
    let columns = "[table.columns]\nqty = { type = \"long\" }\ntags = { from = \"@header.x\", type = \"string\" }";
    let schemas = [("schemas/shop.proto", SHOP), ("registry/1.proto", SHOP), ("registry/7.proto", SHOP_2)];
    let topic = Topic::of(&schemas, &line("auto"), columns).await.unwrap();
    let older = "syntax = \"proto3\"; package shop; message Order { message Line { string sku = 1; } }";
    let records = all(&[
        "00 00000007 040000 0a0161 1080808080 8001 1a016e",
        "0a0162 1002",
        "00 00000007 040000 0a0163 1003",
        "00 00000001 040000 0a0164",
        "00 00000007 040000 0a0165",
        // No such message, and one that is cut.
        "00 00000001 040008 0a0166",
        "00 00000001 040000 0a05",
    ]);
    topic.handle(records.into_iter().map(|record| with_header(record, "x", "79")).collect()).await.unwrap();
    let rows = [
        "0: sku=a qty=34359738368 tags=y",
        "1: sku=b qty=2 tags=y",
        "2: sku=c qty=3 tags=y",
        "3: sku=d qty=0 tags=y",
        "4: sku=e qty=0 tags=y",
    ];
    assert_eq!(topic.rows(), rows);
    assert_eq!(topic.dead(), [(5, Class::BadFraming), (6, Class::Truncated)]);
    let version = |id: &str| SchemaVersion { id: id.to_owned(), version: 0 };
    assert_eq!(topic.footer().schemas, [version("1"), version("7")]);

    // What a version lacks is null in its rows.
    let topic =
        Topic::of(&[("schemas/shop.proto", SHOP), ("registry/3.proto", older)], &line("auto"), "").await.unwrap();
    topic.handle(all(&["00 00000003 040000 0a0161", "0a0162"])).await.unwrap();
    assert_eq!(topic.rows(), ["0: sku=a qty=NULL", "1: sku=b qty=0"]);
}

/// O-11 and O-12.
#[tokio::test(start_paused = true)]
async fn confluents_path_leads_to_the_message_or_nowhere() {
    let alpha = "syntax = \"proto3\"; message Alpha { int32 n = 1; } message Beta { message Gamma { string s = 1; } }";
    let mut far = String::from("syntax = \"proto3\";");
    (0..64).for_each(|n| far.push_str(&format!("message M{n} {{}}")));
    far.push_str("message Last { int32 n = 1; }");
    let files = [
        ("schemas/alpha.proto", alpha),
        ("registry/42.proto", alpha),
        ("schemas/far.proto", &far),
        ("registry/43.proto", &far),
    ];
    let check = async |file: &str, message: &str, values: &[&str], rows: &[&str], dead: &[(i64, Class)]| {
        let schema = format!("proto = \"schemas/{file}\", message = \"{message}\"");
        let topic = Topic::of(&files, &value("protobuf", "confluent", &schema), "").await.unwrap();
        topic.handle(all(values)).await.unwrap();
        assert_eq!((topic.rows(), topic.dead()), (rows.iter().map(ToString::to_string).collect(), dead.to_vec()));
    };
    check("alpha.proto", "Beta.Gamma", &["00 0000002a 04 02 00 0a026869"], &["0: s=hi"], &[]).await;
    check("far.proto", "Last", &["00 0000002b 02 8001 082a"], &["0: n=42"], &[]).await;
    let values = [
        "00 0000002a 00 0805",
        "00 0000002a 0200 0805",
        "00 0000002a 0206 0805",
        "00 0000002a 01 0805",
        "00 0000002a 04 02 00 0a026869",
    ];
    let dead = [(2, Class::BadFraming), (3, Class::BadFraming), (4, Class::IncompatibleSchema)];
    check("alpha.proto", "Alpha", &values, &["0: n=5", "1: n=5"], &dead).await;
}

/// O-13.
#[tokio::test(start_paused = true)]
async fn glues_number_counts_full_names_in_order() {
    let glue = "03005c0ffee50000400080000000000000b2";
    let files = [("schemas/shop.proto", SHOP), ("registry/5c0ffee5-0000-4000-8000-0000000000b2.proto", SHOP)];
    let values = [format!("{glue} 02 0a026b391003"), format!("{glue} 04 082a")];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let topic = Topic::of(&files, &line("glue"), "").await.unwrap();
    topic.handle(all(&values)).await.unwrap();
    assert_eq!(topic.rows(), ["0: sku=k9 qty=3"]);
    assert_eq!(topic.dead(), [(1, Class::IncompatibleSchema)]);
    let second = value("protobuf", "glue", "proto = \"schemas/shop.proto\", message = \"shop.Order2\"");
    let topic = Topic::of(&files, &second, "").await.unwrap();
    topic.handle(all(&values)).await.unwrap();
    assert_eq!(topic.rows(), ["1: no=42"]);
}

const READING: &str = "{\"type\": \"record\", \"name\": \"Reading\", \"fields\": [
    {\"name\": \"name\", \"type\": \"string\"}, {\"name\": \"reading\", \"type\": \"int\"}]}";

fn reading(framing: &str) -> String {
    value("avro", framing, "avsc = \"schemas/reading.avsc\"")
}

/// O-14.
#[tokio::test(start_paused = true)]
async fn glues_body_may_be_compressed_and_is_whole_or_refused() {
    let files = [("schemas/reading.avsc", READING), ("registry/5c0ffee5-0000-4000-8000-0000000000a1.avsc", READING)];
    let glue = |compression: &str, body: &str| format!("03{compression}5c0ffee50000400080000000000000a1 {body}");
    let values = [
        glue("00", "0e73656e736f72370f"),
        glue("05", "789ce32b4ecd2bce2f32e707000f4402ef"),
        glue("05", "789ce32b4ecd2bce2f32e707000f"),
        glue("05", "789ce32b4ecd2bce2f32e707000f4402ee"),
        glue("04", "0e73656e736f72370f"),
        "03005c0ffee500004000800000000000 00".to_owned(),
    ];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for framing in ["glue", "auto"] {
        let topic = Topic::of(&files, &reading(framing), "").await.unwrap();
        topic.handle(all(&values)).await.unwrap();
        assert_eq!(topic.rows(), ["0: name=sensor7 reading=-8", "1: name=sensor7 reading=-8"]);
        let dead = [(2, Class::Truncated), (3, Class::BadChecksum), (4, Class::BadFraming), (5, Class::Truncated)];
        assert_eq!(topic.dead(), dead);
    }
}

/// O-15.
#[tokio::test(start_paused = true)]
async fn nothing_and_empty_and_what_looks_empty_are_told_apart() {
    let p = "syntax = \"proto3\"; message P { optional int32 opt = 1; int32 imp = 2; string st = 3; }";
    let files = [("schemas/p.proto", p), ("registry/42.proto", p)];
    let check = async |framing: &str, empty_is_a_row: bool| {
        let schema = value("protobuf", framing, "proto = \"schemas/p.proto\", message = \"P\"");
        let topic = Topic::of(&files, &schema, "").await.unwrap();
        let mut records = all(&["", "", "00 0000002a 00", "00 0000002a 00 0800", "00 0000002a", "00 0000"]);
        records[0]["value"] = Value::Null;
        let outcome = topic.handle(records).await.unwrap();
        assert_eq!(outcome.filtered, BTreeMap::from([(Filtered::Tombstone, 1)]));
        assert_eq!(topic.rows(), ["2: opt=NULL imp=0 st=", "3: opt=0 imp=0 st="]);
        let empty = if empty_is_a_row { None } else { Some((1, Class::EmptyValue)) };
        let cut = [(4, Class::Truncated), (5, Class::Truncated)];
        assert_eq!(topic.dead(), empty.into_iter().chain(cut).collect::<Vec<_>>());
    };
    check("auto", false).await;
    check("confluent", false).await;
    let bare = value("protobuf", "bare", "proto = \"schemas/p.proto\", message = \"P\"");
    let topic = Topic::of(&files, &bare, "").await.unwrap();
    topic.handle(all(&["", "0800"])).await.unwrap();
    assert_eq!(topic.rows(), ["0: opt=NULL imp=0 st=", "1: opt=0 imp=0 st="]);
}

#[tokio::test(start_paused = true)]
async fn avro_in_every_framing_is_read_by_its_writers_schema() {
    let (mut files, values) = golden("glue.json");
    let (more, others) = golden("confluent.json");
    files.extend(more);
    // Written as one, read as another: a field renamed, one promoted, one that is new, and others in another order.
    let own = "{\"type\": \"record\", \"name\": \"Reading\", \"fields\": [
        {\"name\": \"reading\", \"type\": \"long\"}, {\"name\": \"label\", \"type\": \"string\", \"aliases\": [\"name\"]},
        {\"name\": \"unit\", \"type\": [\"null\", \"string\"], \"default\": null}]}";
    files.push(("schemas/reading.avsc".to_owned(), own.to_owned()));
    files.push(("registry/2a65268bb641b946.avsc".to_owned(), READING.to_owned()));
    files
        .push(("registry/9.avsc".to_owned(), "{\"type\": \"record\", \"name\": \"Other\", \"fields\": []}".to_owned()));
    files.push(("registry/10.avsc".to_owned(), "{\"type\": \"recrd\"}".to_owned()));
    let topic = Topic::of(&borrowed(&files), &reading("auto"), "").await.unwrap();
    let mut records = Vec::new();
    for (offset, value) in (0..).zip(values.iter().chain(&others).filter(|value| value["format"] == "AVRO")) {
        let record = at(offset, value["value"].as_str().unwrap());
        records.push(match value["header"].as_str() {
            Some(header) => with_header(record, "__value_schema_id", header),
            None => record,
        });
    }
    let count = i64::try_from(records.len()).unwrap();
    assert_eq!(count, 5, "Glue's plain and compressed, a single object, Confluent's prefix and header");
    records.extend(
        (count..).zip(["00 00000009", "00 0000000a 02", "00 00000063 02", "02"]).map(|(at, value)| self::at(at, value)),
    );
    topic.handle(records).await.unwrap();
    let rows: Vec<String> = (0..count).map(|at| format!("{at}: reading=-8 label=sensor7 unit=NULL")).collect();
    assert_eq!(topic.rows(), rows);
    let dead = [Class::IncompatibleSchema, Class::IncompatibleSchema, Class::UnknownSchema, Class::BadFraming];
    assert_eq!(topic.dead(), (count..).zip(dead).collect::<Vec<_>>());
    let former: Vec<Vec<String>> = topic.footer().columns.into_iter().map(|column| column.former).collect();
    assert_eq!(former, [vec![], vec!["value:name".to_owned()], vec![]]);
}

#[tokio::test(start_paused = true)]
async fn a_single_object_of_the_pipelines_own_schema_asks_nobody() {
    let topic = Topic::asking(
        Arc::new(Failing(Kind::Retry)),
        &[("schemas/reading.avsc", READING)],
        &reading("avro-single-object"),
    )
    .await;
    topic.handle(all(&["c30146b941b68b26652a 0e73656e736f72370f"])).await.unwrap();
    assert_eq!(topic.rows(), ["0: name=sensor7 reading=-8"]);
}

/// The mapping took framings off, and says which schema there was.
#[tokio::test(start_paused = true)]
async fn what_a_mapping_has_unwrapped_is_read_by_what_it_says() {
    let id = "5c0ffee5-0000-4000-8000-0000000000b2";
    let (glue, confluent) = (format!("registry/{id}.proto"), "registry/7.proto");
    let files = [("schemas/shop.proto", SHOP), (glue.as_str(), SHOP), (confluent, SHOP)];
    // Whatever framing the topic has: what is named is what records have without the mapping's hand.
    for framing in ["auto", "glue", "confluent"] {
        let topic = Topic::of(&files, &line(framing), "").await.unwrap();
        let records = vec![
            unwrapped(at(0, "02 0a0161 1001"), "PROTOBUF", id),
            unwrapped(at(1, "04 00 00 0a0162 1002"), "PROTOBUF", "7"),
            unwrapped(at(2, "0a0162"), "AVRO", "7"),
            unwrapped(at(3, "00"), "PROTOBUF", "eight"),
            unwrapped(at(4, "00"), "PROTOBUF", "8"),
        ];
        topic.handle(records).await.unwrap();
        assert_eq!(topic.rows(), ["0: sku=a qty=1", "1: sku=b qty=2"], "{framing}");
        let dead = [(2, Class::IncompatibleSchema), (3, Class::BadFraming), (4, Class::UnknownSchema)];
        assert_eq!(topic.dead(), dead, "{framing}");
        assert_eq!(topic.letters()[2].schema_id.as_deref(), Some("8"));
    }
    // Nobody said that there would be a registry: all of these would be dead letters for it.
    let topic = Topic::of(&files, &line("bare"), "").await.unwrap();
    let error = topic.handle(vec![unwrapped(at(0, "02 0a0161"), "PROTOBUF", id)]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Misconfigured, "{error}");
    assert!(topic.store.under("").is_empty());
}

/// A registry that answers in one way.
#[derive(Debug)]
struct Failing(Kind);

#[async_trait]
impl Source for Failing {
    fn name(&self) -> &str {
        "main"
    }

    fn keeps(&self, _: &Wanted) -> bool {
        true
    }

    async fn schema(&self, wanted: &Wanted) -> Result<Registered, registry::Error> {
        let (registry, wanted, message) = ("main".to_owned(), wanted.clone(), "so it says".to_owned());
        Err(match self.0 {
            Kind::Misconfigured => registry::Error::Denied { registry, wanted, message },
            Kind::Corrupt => registry::Error::Garbage { registry, wanted, message },
            Kind::Retry => registry::Error::Outage { registry, wanted, message },
            _ => std::future::pending().await,
        })
    }

    async fn versions(&self, name: &str) -> Result<Vec<u32>, registry::Error> {
        self.schema(&Wanted::Latest(name.to_owned())).await.map(|_| Vec::new())
    }
}

/// A failure says nothing of the schema: the event comes again, and nothing of it is lost.
#[tokio::test(start_paused = true)]
async fn a_registry_that_can_not_answer_fails_the_event_and_stores_nothing() {
    for (answer, kind) in [
        (Kind::Retry, Kind::Retry),
        (Kind::Misconfigured, Kind::Misconfigured),
        (Kind::Corrupt, Kind::Corrupt),
        // It never answers.
        (Kind::Bug, Kind::Retry),
    ] {
        let files = [("schemas/shop.proto", SHOP)];
        let topic = Topic::asking(Arc::new(Failing(answer)), &files, &line("auto")).await;
        let framed = all(&["0a0161", "00 00000007 040000 0a0161"]);
        let error = topic.handle(framed).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(topic.store.under("").is_empty());
        // Records that name nothing go on.
        topic.handle(all(&["0a0161"])).await.unwrap();
        assert_eq!(topic.rows(), ["0: sku=a qty=0"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_of_records_is_asked_whatever_they_are_written_with() {
    let files = [("schemas/shop.proto", SHOP), ("registry/1.proto", SHOP), ("registry/7.proto", SHOP_2)];
    let filter = format!("{}\nfilter = {{ field = \"sku\", in = [\"a\", \"bb\"] }}", line("auto"));
    let columns = "[table.columns]\nsku = { pii = \"last4\" }\nqty = { type = \"long\", max = 5 }";
    let topic = Topic::of(&files, &filter, columns).await.unwrap();
    let values = [
        "00 00000007 040000 0a0161 1002",
        "00 00000001 040000 0a0163",
        "00 00000001 040000 0a026262 1003",
        "0a0161 1006",
    ];
    let outcome = topic.handle(all(&values)).await.unwrap();
    assert_eq!(outcome.filtered, BTreeMap::from([(Filtered::Filter, 1)]));
    assert_eq!(topic.rows(), ["0: sku= qty=2", "2: sku=b qty=3"]);
    assert_eq!(topic.dead(), [(3, Class::Expectation)]);
}

#[tokio::test(start_paused = true)]
async fn a_framing_without_a_registry_is_refused_before_there_is_an_event() {
    let environment = pipeline::Environment::embedded("/project");
    for (framing, refused) in [("glue", true), ("confluent", true), ("auto", false), ("bare", false)] {
        let text = format!("[source]\ntopics = [\"t\"]\n[value]\n{}\n[table]\nname = \"db.t\"", line(framing));
        let file = std::path::Path::new("/project/pipelines/t.toml");
        let pipeline = pipeline::file::parse(&text, &environment, file).unwrap();
        let clock = Arc::new(model::clock::ManualClock::new(model::clock::Timestamp::from_micros(0)));
        let made = ingest::registries(&pipeline, &environment, &|_| None, clock).await;
        assert_eq!(made.is_err(), refused, "{framing}");
        if let Err(error) = made {
            assert_eq!(error.kind(), Kind::Misconfigured);
        }
    }
}
