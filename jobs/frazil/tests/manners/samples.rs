//! Samples against the rows that are expected of them.

use super::*;

const READING: &str = r#"{"type": "record", "name": "Reading", "fields": [
    {"name": "name", "type": "string"}, {"name": "reading", "type": "int"}]}"#;

/// The version after it.
const READING_2: &str = r#"{"type": "record", "name": "Reading", "fields": [
    {"name": "name", "type": "string"}, {"name": "reading", "type": "int"},
    {"name": "room", "type": ["null", "string"], "default": null}]}"#;

/// A project with a pipeline `p` of these lines in `[value]` and `[table]`, and a registry.
fn project(topics: &str, value: &str, table: &str, registry: &str) -> Place {
    let place = Place::new();
    place.write(
        "frazil.toml",
        format!("[env.local]\ndir = \"dir\"\npii_salt = \"env:SALT\"\nregistries.main = {registry}\n"),
    );
    let text = format!("[source]\ntopics = [{topics}]\n[value]\n{value}\n[table]\n{table}\n");
    place.write("pipelines/p.toml", text);
    place
}

const FOLDER: &str = "{ kind = \"files\", dir = \"registry\" }";

fn json_topic(table: &str) -> Place {
    project("\"clicks\"", "format = \"json\"\nframing = \"bare\"", table, FOLDER)
}

const CLICKS: &str = "name = \"lake.clicks\"\n[table.columns]\nid = { type = \"long\" }\nprice = { type = \"double\" }";

impl Place {
    fn test(&self, arguments: &[&str]) -> (Exit, Value) {
        self.answer(&[&["test"], arguments].concat())
    }

    /// Exit, how many passed and failed, and `sample|place` of each difference.
    fn tested(&self, arguments: &[&str]) -> (Exit, Value, Value, Vec<String>) {
        let (exit, document) = self.test(arguments);
        assert_eq!((&document["schema"], &document["ok"]), (&json!("frazil.test/1"), &json!(true)), "{document}");
        let all = document["differences"].as_array().unwrap().iter();
        let all = all.map(|d| format!("{}|{}", d["sample"].as_str().unwrap(), d["at"].as_str().unwrap()));
        (exit, document["passed"].clone(), document["failed"].clone(), all.collect())
    }

    fn expected(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("samples/p/expected.json")).unwrap()).unwrap()
    }
}

#[test]
fn samples_are_held_against_what_is_expected_and_what_was_found_can_be_taken_over() {
    let place = json_topic(CLICKS);
    place.write(
        "samples/p/a.jsonl",
        "{\"id\": 1, \"price\": 1}\n\n{\"id\": 9007199254740993, \"price\": 0.5}\n{\"id\": \"x\"}\n",
    );
    place.write("samples/p/one.json", "{\n  \"id\": 2\n}\n");
    place.write("samples/p/README.md", "what these are");
    let ids = ["a.jsonl:1", "a.jsonl:3", "a.jsonl:4", "one.json"];
    let whole: Vec<String> = ids.iter().map(|id| format!("{id}|")).collect();
    assert_eq!(place.tested(&[]), (Exit::No, json!(0), json!(4), whole.clone()));
    assert!(place.run(&["test"]).stdout.contains("one.json: nothing is expected of it yet"));
    // Nothing is written before it is said to.
    assert_eq!(place.tested(&["--update", "--dry-run"]), (Exit::Done, json!(0), json!(4), whole.clone()));
    assert!(!place.path("samples/p/expected.json").exists());
    assert_eq!(place.tested(&["--update"]), (Exit::Done, json!(0), json!(4), whole));
    let expected = place.expected();
    assert_eq!(expected["a.jsonl:1"], json!({"rows": [{"id": 1, "price": 1.0}]}));
    assert_eq!(expected["a.jsonl:3"]["rows"][0]["id"], json!(9_007_199_254_740_993_i64));
    assert_eq!(
        (&expected["a.jsonl:4"]["dead_letter"]["class"], &expected["a.jsonl:4"]["dead_letter"]["path"]),
        (&json!("wrong_type"), &json!("id"))
    );
    assert_eq!(place.tested(&[]), (Exit::Done, json!(4), json!(0), Vec::new()));
    assert_eq!(place.run(&["test", "p"]).stdout, "4 samples as expected\n");

    // By hand: less said of a dead letter, 1 for 1.0, an order of one's own; and two mistakes.
    place.write(
        "samples/p/expected.json",
        r#"{"one.json": {"rows": [{"price": 3, "id": 2}]},
            "a.jsonl:4": {"dead_letter": {"class": "wrong_type"}},
            "a.jsonl:1": {"rows": [{"price": 1, "id": 1}]},
            "a.jsonl:3": {"rows": [{"id": 9007199254740993, "price": 0.5}]},
            "gone.json": {"filtered": "tombstone"}}"#,
    );
    let differences = vec!["one.json|row 1, price".to_owned(), "gone.json|".to_owned()];
    assert_eq!(place.tested(&[]), (Exit::No, json!(3), json!(2), differences));
    let told = place.run(&["test"]).stdout;
    assert!(told.contains("one.json: not as expected\n  row 1, price: expected 3, found null\n"), "{told}");
    assert!(told.contains("gone.json: there is no such sample"), "{told}");
    // What held stays as it was written.
    place.test(&["--update"]);
    let expected = place.expected();
    assert_eq!(expected["a.jsonl:4"], json!({"dead_letter": {"class": "wrong_type"}}));
    assert_eq!((&expected["one.json"]["rows"][0]["price"], &expected["gone.json"]), (&Value::Null, &Value::Null));
    assert_eq!(place.tested(&[]).0, Exit::Done);
    // Nothing of a store or a table was made for all this.
    assert!(!place.path("dir").exists());
}

#[test]
fn every_kind_of_file_comes_to_the_same_row() {
    let place = project(
        "\"readings\"",
        "format = \"avro\"\nframing = \"auto\"\nschema = { registry = \"main\", name = \"readings\" }",
        "name = \"lake.readings\"\nunknown_fields = \"add\"\n[table.columns]\nk = { from = \"@key\", type = \"string\" }\n\
         trace = \"@header.t\"\nat = \"@timestamp\"\nway = { from = \"@topic\" }",
        FOLDER,
    );
    for (name, text) in [("readings", READING), ("1", READING), ("2", READING_2)] {
        place.write(&format!("registry/{name}.avsc"), text);
    }
    let value = b"\0\0\0\0\x01\x04ab\x0f";
    let base64 = base64_simd::STANDARD.encode_to_string(value);
    place.write("samples/p/a.bin", value);
    place.write(
        "samples/p/b.hex",
        "# the second names a newer version\n00 00000001 0461 62 0f\n00 00000002 0461 62 0f 02 0278\n",
    );
    place.write("samples/p/c.base64", &base64);
    let record =
        json!({"value": base64, "key": "a2V5", "headers": [{"t": [104, -128]}], "timestamp": 1000, "offset": 7});
    let letter =
        json!({"value": base64, "key": "a2V5", "headers": [["t", "aIA="]], "timestamp_ms": 1000, "topic": "readings"});
    let unwrapped = json!({"value": base64_simd::STANDARD.encode_to_string(&value[5..]),
        "valueSchemaMetadata": {"dataFormat": "AVRO", "schemaId": "1"}});
    place.write("samples/p/d.records.jsonl", format!("{record}\n{letter}\n{unwrapped}\n{{\"value\":null}}\n"));
    let event = json!({"eventSource": "SelfManagedKafka", "bootstrapServers": "b:1",
        "records": {"readings-3": [{"topic": "readings", "partition": 3, "offset": 5, "timestamp": 0, "value": base64},
            {"topic": "readings", "partition": 3, "offset": 6, "timestamp": 0, "value": "AA=="}]}});
    place.write("samples/p/e.event.json", event.to_string());
    let (exit, document) = place.test(&["--update"]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("ingest.no_source")), "{document}");
    assert_eq!(document["error"]["where"], "e.event.json");
    place.write(
        "samples/p/e.event.json",
        event
            .to_string()
            .replace("\"bootstrapServers\":\"b:1\"", "\"eventSourceArn\":\"arn:aws:kafka:eu-west-1:1:cluster/demo/0\""),
    );
    assert_eq!(place.test(&["--update"]).0, Exit::Done);
    let expected = place.expected();
    let row = |key: &str, trace: &str, at: &str| {
        let text = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
        json!({"name": "ab", "reading": -8, "k": text(key), "trace": text(trace), "at": format!("{at}.000000Z"), "way": "readings"})
    };
    let plain = row("", "", "2026-01-01T00:00:00");
    for id in ["a.bin", "b.hex:2", "c.base64:1", "d.records.jsonl:3"] {
        assert_eq!(expected[id], json!({"rows": [plain]}), "{id}");
    }
    for id in ["d.records.jsonl:1", "d.records.jsonl:2"] {
        assert_eq!(expected[id], json!({"rows": [row("key", "aIA=", "1970-01-01T00:00:01")]}), "{id}");
    }
    assert_eq!(expected["e.event.json:readings-3@5"], json!({"rows": [row("", "", "1970-01-01T00:00:00")]}));
    assert_eq!(expected["e.event.json:readings-3@6"]["dead_letter"]["class"], "truncated");
    assert_eq!(expected["d.records.jsonl:4"], json!({"filtered": "tombstone"}));
    // A newer version's column is that sample's alone.
    assert_eq!(expected["b.hex:3"]["rows"][0]["room"], "x");
    assert_eq!(place.tested(&[]), (Exit::Done, json!(10), json!(0), Vec::new()));
}

/// A record without a value deletes a row in mode `upsert`, and is no row of nulls.
#[test]
fn what_deletes_a_row_is_told_from_rows() {
    let table = "name = \"lake.clicks\"\nmode = \"upsert\"\nprimary_key = [\"id\"]\n[table.columns]\n\
        id = { from = \"@key.id\", type = \"long\" }\nv = { type = \"string\", required = true }\n\
        [key]\nformat = \"json\"\nframing = \"bare\"";
    let place = json_topic(table);
    let base64 = |text: &str| base64_simd::STANDARD.encode_to_string(text);
    let (key, value) = (base64("{\"id\": 7}"), base64("{\"v\": \"x\"}"));
    let lines = [json!({"key": key, "value": value}), json!({"key": key, "value": null}), json!({"value": null})];
    place.write("samples/p/all.records.jsonl", lines.map(|line| line.to_string()).join("\n"));
    assert_eq!(place.test(&["--update"]).0, Exit::Done);
    let expected = place.expected();
    assert_eq!(expected["all.records.jsonl:1"], json!({"rows": [{"id": 7, "v": "x"}]}));
    assert_eq!(expected["all.records.jsonl:2"], json!({"deletes": {"id": 7}}));
    assert_eq!(expected["all.records.jsonl:3"]["dead_letter"]["class"], "null_key");
    assert_eq!(place.tested(&[]), (Exit::Done, json!(3), json!(0), Vec::new()));
    place.write("samples/p/expected.json", json!({"all.records.jsonl:2": {"deletes": {"id": 8}}}).to_string());
    assert_eq!(place.tested(&[]).1, json!(0));
    let (exit, document) = place.answer(&["decode", "--null", "--key-hex", "7b226964223a377d"]);
    assert_eq!((exit, &document["deletes"], &document["rows"]), (Exit::Done, &json!(true), &json!([])), "{document}");
    assert_eq!(document.get("marks"), None);
    let file = std::fs::read_to_string(place.folder.path().join("pipelines/p.toml")).unwrap();
    place.write("pipelines/p.toml", file.replacen("[table.columns]", "deletes = \"soft\"\n[table.columns]", 1));
    let null = ["decode", "--null", "--key-hex", "7b226964223a377d"];
    let (exit, document) = place.answer(&null);
    assert_eq!(
        (exit, &document["deletes"], &document["marks"]),
        (Exit::Done, &json!(true), &json!(true)),
        "{document}"
    );
    assert!(place.run(&null).stdout.contains("marks the row of its key as deleted"));
    let (exit, document) = place.answer(&["decode", "--null"]);
    assert_eq!((exit, &document["dead_letter"]["class"]), (Exit::No, &json!("null_key")), "{document}");
    // A table's key that is not made of the record's.
    let beside = table.replace(
        "{ from = \"@key.id\", type = \"long\" }",
        "{ type = \"long\" }\nk = { from = \"@key.id\", type = \"long\" }",
    );
    let place = json_topic(&beside);
    let (exit, document) = place.answer(&["decode", "--null", "--key-hex", "7b226964223a377d"]);
    assert_eq!((exit, &document["dead_letter"]["path"]), (Exit::No, &json!("id")), "{document}");
}

#[test]
fn filters_exploded_lists_routes_and_personal_data_are_production_s_own() {
    let place = project(
        "\"a.*\"",
        "format = \"json\"\nframing = \"bare\"\nfilter = { field = \"kind\", in = [\"order\"] }\nexplode = \"lines\"",
        "name = \"lake.{topic}_{field:shop}\"\n[table.columns]\nkind = { type = \"string\" }\nshop = { type = \"string\" }\n\
         sku = { from = \"lines.sku\", type = \"string\", pattern = \"^[a-z]+$\" }\n\
         mail = { type = \"string\", pii = \"hash\" }",
        FOLDER,
    );
    let line = |kind: &str, shop: &str, lines: &str| {
        format!("{{\"kind\": \"{kind}\", \"shop\": \"{shop}\", \"mail\": \"m@x\", \"lines\": [{lines}]}}\n")
    };
    place.write(
        "samples/p/a.de/all.jsonl",
        [
            line("order", "North", "{\"sku\": \"x\"}, {\"sku\": \"y\"}"),
            line("order", "North", "{\"sku\": \"x\"}, {\"sku\": \"Y\"}"),
            line("order", "North", ""),
            line("note", "North", "{\"sku\": \"x\"}"),
            line("order", "ünique", "{\"sku\": \"x\"}"),
        ]
        .concat(),
    );
    assert_eq!(place.test(&["--update"]).0, Exit::Done);
    let expected = place.expected();
    let sample = |n: usize| expected[format!("a.de/all.jsonl:{n}")].clone();
    assert_eq!(sample(1)["table"], "lake.a_de_north");
    let skus: Vec<&Value> =
        expected["a.de/all.jsonl:1"]["rows"].as_array().unwrap().iter().map(|row| &row["sku"]).collect();
    assert_eq!(skus, [&json!("x"), &json!("y")]);
    assert_eq!(sample(1)["rows"][0]["mail"].as_str().unwrap().len(), 64);
    assert_eq!(sample(2)["dead_letter"]["class"], "expectation");
    assert_eq!((sample(3), sample(4)), (json!({"filtered": "explode"}), json!({"filtered": "filter"})));
    assert_eq!(sample(5)["dead_letter"]["class"], "unroutable");
    // Of patterns alone no topic is known; and a folder may not name another's.
    place.write("samples/p/loose.jsonl", "{}");
    let (exit, document) = place.test(&[]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("test.samples")), "{document}");
    std::fs::remove_file(place.path("samples/p/loose.jsonl")).unwrap();
    place.write("samples/p/b.de/x.jsonl", "{}");
    let (exit, document) = place.test(&[]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("test.topic")), "{document}");
}

#[test]
fn what_can_not_be_tested_is_said_in_one_line() {
    let place = json_topic(CLICKS);
    let check = |arguments: &[&str], code: &str, says: &str| {
        let (exit, document) = place.test(arguments);
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!(code)), "{document}");
        let error = document["error"].to_string();
        assert!(error.contains(says), "{error}");
        assert!(document["error"]["remedy"].is_string(), "{error}");
    };
    check(&[], "test.samples", "there are no samples");
    place.write("samples/p/x.avro", "");
    check(&[], "test.samples", ".records.jsonl");
    std::fs::rename(place.path("samples/p/x.avro"), place.path("samples/p/x.hex")).unwrap();
    place.write("samples/p/x.hex", "00\n0g\n");
    check(&[], "decode.hex", "x.hex:2");
    place.write("samples/p/x.hex", "{\"value\": \"\"}\n");
    check(&[], "test.samples", "x.hex:1");
    std::fs::remove_file(place.path("samples/p/x.hex")).unwrap();
    for (member, says) in [("\"valeu\": \"e30=\"", "`valeu`"), ("\"value\": \"e30=\", \"offset\": \"7\"", "`offset`")] {
        place.write("samples/p/x.records.jsonl", format!("{{\"value\": \"e30=\"}}\n{{{member}}}\n"));
        check(&[], "decode.line", "x.records.jsonl:2");
        check(&[], "decode.line", says);
    }
    std::fs::remove_file(place.path("samples/p/x.records.jsonl")).unwrap();
    place.write("samples/p/x.hex", "7b7d");
    place.write("samples/p/expected.json", "{\"x.hex:1\": {\"row\": 1}}");
    check(&[], "test.expected", "expected.json:1:");
    place.write("elsewhere/x.event.json", "{}");
    check(&["--samples", "elsewhere"], "ingest.event", "x.event.json");
    let left = place.run(&["test", "--dry-run"]);
    assert_eq!(left.exit, Exit::Usage);
}

#[test]
fn a_registry_that_is_a_service_is_not_asked() {
    // Nothing listens there; it would be tried again and again.
    let service = "{ kind = \"confluent\", url = \"http://127.0.0.1:1\" }";
    let table = "name = \"lake.readings\"";
    let refused = |place: &Place| {
        let (exit, document) = place.test(&[]);
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("test.registry")), "{document}");
        assert!(document["error"]["remedy"].as_str().unwrap().contains("--env"), "{document}");
        document["error"]["where"].clone()
    };
    let value = "format = \"avro\"\nframing = \"confluent\"\nschema = { registry = \"main\", name = \"readings\" }";
    let place = project("\"readings\"", value, table, service);
    place.write("samples/p/a.hex", "00 00000001 0461 62 0f");
    assert_eq!(refused(&place), Value::Null);
    // Where the schema is a file, only a record that names one of the service's is a question.
    let value = "format = \"json\"\nframing = \"auto\"\nschema = { json_schema = \"r.json\" }";
    let place = project("\"readings\"", value, table, service);
    place.write("r.json", r#"{"type": "object", "properties": {"name": {"type": "string"}}}"#);
    place.write("samples/p/a.jsonl", "{\"name\": \"ab\"}");
    assert_eq!(place.test(&["--update"]).0, Exit::Done);
    assert_eq!(place.tested(&[]), (Exit::Done, json!(1), json!(0), Vec::new()));
    place.write("samples/p/b.hex", "00 00000001 7b7d");
    assert_eq!(refused(&place), json!("b.hex:1"));
}
