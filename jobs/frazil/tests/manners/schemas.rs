//! Avro, framings and registries, from the files to the table.

use super::planning::faults;
use super::*;

/// `{name, reading, at}`
const READING: &str = r#"{"type": "record", "name": "Reading", "fields": [
    {"name": "name", "type": "string"},
    {"name": "reading", "type": "int"},
    {"name": "at", "type": "long"}]}"#;

/// The version after it: a field with another name, a new one.
const READING_2: &str = r#"{"type": "record", "name": "Reading", "fields": [
    {"name": "sensor", "type": "string", "aliases": ["name"]},
    {"name": "reading", "type": "int"},
    {"name": "at", "type": "long"},
    {"name": "room", "type": ["null", "string"], "default": null}]}"#;

fn pipeline(framing: &str, schema: &str) -> String {
    format!(
        "[source]\ntopics = [\"readings\"]\n[value]\nformat = \"avro\"\nframing = \"{framing}\"\nschema = {{ {schema} }}\n\
         [table]\nname = \"lake.readings\"\n[table.columns]\nat = {{ type = \"timestamptz\", unit = \"ms\" }}\n"
    )
}

/// A project whose registry is a folder.
fn project(framing: &str, schema: &str) -> Place {
    let place = Place::new();
    place.write(
        "frazil.toml",
        "[env.local]\ndir = \"dir\"\nregistries.main = { kind = \"files\", dir = \"registry\" }\n",
    );
    place.write("schemas/reading.avsc", READING);
    place.write("registry/readings.avsc", READING);
    place.write("registry/1.avsc", READING);
    place.write("registry/2.avsc", READING_2);
    place.write("pipelines/readings.toml", pipeline(framing, schema));
    place
}

fn event(values: &[&[u8]]) -> String {
    let record = |(offset, value): (i64, &&[u8])| json!({"offset": offset, "value": base64_simd::STANDARD.encode_to_string(value)});
    let records: Vec<Value> = (0..).zip(values).map(record).collect();
    let arn = "arn:aws:kafka:eu-west-1:1:cluster/demo/0";
    json!({"eventSource": "aws:kafka", "eventSourceArn": arn, "records": {"readings-0": records}}).to_string()
}

impl Place {
    fn told(&self, arguments: &[&str]) -> Value {
        let (exit, document) = self.answer(arguments);
        assert_eq!(exit, Exit::Done, "{document}");
        document
    }
}

#[test]
fn bare_avro_reaches_the_table() {
    let place = project("bare", "avsc = \"schemas/reading.avsc\"");
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    let plan = place.told(&["plan"]);
    let column = |n: usize| {
        format!("{} {} {}", plan["columns"][n]["name"], plan["columns"][n]["type"], plan["columns"][n]["source"])
    };
    assert_eq!(
        [0, 1, 2].map(column),
        [r#""name" "string" "name""#, r#""reading" "int" "reading""#, r#""at" "timestamptz" "at""#]
    );
    let decoded = place.told(&["decode", "--hex", "0461 62 0f d00f"]);
    assert_eq!(decoded["rows"], json!([{"name": "ab", "reading": -8, "at": "1970-01-01T00:00:01.000000Z"}]));
    place.write("event.json", event(&[b"\x04ab\x0f\xd0\x0f", b"\x04a"]));
    let staged = place.told(&["ingest", "--event", "event.json"]);
    assert_eq!((&staged["records"], &staged["dead_letters"]), (&json!(2), &json!(1)));
    assert_eq!(place.told(&["fold"])["tables"][0]["rows_added"], 1);
    let answer = place.told(&["query", "SELECT name, reading, at FROM lake.readings"]);
    assert_eq!(answer["rows"], json!([{"name": "ab", "reading": -8, "at": "1970-01-01T00:00:01.000000Z"}]));
    assert_eq!(place.told(&["plan"])["changes"], json!([]));
}

#[test]
fn framed_records_are_read_by_the_version_that_they_name() {
    let place = project("confluent", "avsc = \"schemas/reading.avsc\"");
    let first = "00 00000001 0461 62 0f 00";
    let second = "00 00000002 0461 63 02 00 02 0278";
    assert_eq!(place.told(&["decode", "--hex", first])["rows"][0]["name"], "ab");
    // The file has no room: what the registry says beyond it is passed over. What it calls otherwise, and says so, is the file's.
    let row = json!({"name": "ac", "reading": 1, "at": "1970-01-01T00:00:00.000000Z"});
    assert_eq!(place.told(&["decode", "--hex", second])["rows"], json!([row]));
    let (exit, answer) = place.answer(&["decode", "--hex", "00 00000009 00"]);
    assert_eq!((exit, &answer["dead_letter"]["class"]), (Exit::No, &json!("unknown_schema")), "{answer}");
    let left = place.run_with(&format!("{first}\n{first}\n00\n"), &["decode", "--json"]);
    let classes: Vec<Value> = left.lines().iter().map(|line| line["dead_letter"]["class"].clone()).collect();
    assert_eq!(classes, [Value::Null, Value::Null, json!("truncated")]);
}

#[test]
fn a_registered_schema_makes_the_columns_and_its_versions_bring_more() {
    let place = project("confluent", "registry = \"main\", name = \"readings\"");
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    assert_eq!(place.told(&["plan"])["columns"][0]["name"], "name");
    let decoded = place.told(&["decode", "--hex", "00 00000002 0461 63 02 00 02 0278"]);
    // The column is called as the newest version calls it.
    let row = json!([{"name": "ac", "reading": 1, "at": "1970-01-01T00:00:00.000000Z", "room": "x"}]);
    assert_eq!(decoded["rows"], row);
    place.write("event.json", event(&[b"\0\0\0\0\x01\x04ab\x0f\0"]));
    // Before there is a store, too.
    assert_eq!(place.told(&["ingest", "--event", "event.json", "--dry-run"])["dead_letters"], 0);
    assert!(!place.path("dir").exists());
    place.told(&["ingest", "--event", "event.json"]);
    assert_eq!(place.told(&["fold"])["tables"][0]["rows_added"], 1);
    // The newest version is another's, or there is none: that is the schema's fault.
    place.write("registry/readings.avsc", "{}");
    assert_eq!(place.check(&[]), (Exit::No, vec!["pipelines/readings.toml:6:38 schema".to_owned()]));
    std::fs::remove_file(place.path("registry/readings.avsc")).unwrap();
    let (exit, plan) = place.answer(&["plan"]);
    assert_eq!((exit, faults(&plan)), (Exit::Usage, vec!["pipelines/readings.toml:6:38 schema".to_owned()]));
    let (exit, answer) = place.answer(&["ingest", "--event", "event.json"]);
    assert_eq!((exit, &answer["error"]["code"]), (Exit::Usage, &json!("pipeline.schema")), "{answer}");
}

#[test]
fn a_plan_warns_of_versions_that_are_not_read_and_of_fields_that_are_left_aside() {
    let place = project("confluent", "registry = \"main\", name = \"readings\"");
    let warnings = |place: &Place| -> Vec<String> {
        let plan = place.told(&["plan"]);
        let all = plan["warnings"].as_array().unwrap().iter();
        let told = ["plan.incompatible_version", "plan.fields_left_aside"];
        let of = |warning: &&Value| told.contains(&warning["code"].as_str().unwrap());
        all.filter(of).map(|warning| warning["message"].as_str().unwrap().to_owned()).collect()
    };
    assert!(warnings(&place).is_empty());
    place.write("registry/3.avsc", READING_2.replace("[\"null\", \"string\"]", "[\"null\", \"int\"]"));
    let place_of = r#"{"name": "place", "type": {"type": "record", "name": "P", "fields": [
        {"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}}"#;
    let newest = READING.replace("\"long\"}]", &format!("\"long\"}}, {place_of}]"));
    place.write("registry/readings.avsc", newest);
    place.write(
        "pipelines/readings.toml",
        pipeline("confluent", "registry = \"main\", name = \"readings\"") + "x = \"place.x\"\n",
    );
    let warnings = warnings(&place);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("of the same record: `place.y`; declare"), "{warnings:?}");
    let words = "records of version 2 of the schema go to dead letters: column `room` is string in its schema, and int in another";
    assert!(warnings[1].starts_with(words), "{warnings:?}");
}

/// What `check` says needs no network; `plan` says that it could not ask.
#[test]
fn a_registry_that_is_a_service_is_asked_by_plan_and_not_by_check() {
    let place = project("confluent", "registry = \"main\", name = \"readings\"");
    // Nothing listens there: port 1 takes root to open.
    place.write(
        "frazil.toml",
        "[env.local]\ndir = \"dir\"\nregistries.main = { kind = \"confluent\", url = \"http://127.0.0.1:1\" }\n",
    );
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    for command in [&["plan"][..], &["decode", "--hex", "00"], &["ingest", "--event", "event.json"]] {
        place.write("event.json", event(&[]));
        let (exit, answer) = place.answer(command);
        assert_eq!((exit, &answer["error"]["code"]), (Exit::TryAgain, &json!("registry")), "{command:?}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("`main`"), "{answer}");
    }
    // A secret that is not there is said before anybody is asked, and none is ever shown.
    let secret = "kind = \"confluent\", url = \"http://127.0.0.1:1\", secret = \"env:NOT_THERE\"";
    place.write("frazil.toml", format!("[env.local]\ndir = \"dir\"\nregistries.main = {{ {secret} }}\n"));
    let (exit, answer) = place.answer(&["plan"]);
    assert_eq!((exit, &answer["error"]["code"]), (Exit::Usage, &json!("environment.registry")), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("`NOT_THERE`"), "{answer}");
    place.write(
        "frazil.toml",
        format!("[env.local]\ndir = \"dir\"\nregistries.main = {{ {} }}\n", secret.replace("NOT_THERE", "SALT")),
    );
    let (exit, answer) = place.answer(&["plan"]);
    assert_eq!((exit, &answer["error"]["code"]), (Exit::Usage, &json!("environment.registry")), "{answer}");
    assert!(!answer.to_string().contains("a salt of"), "{answer}");
}

#[test]
fn a_framing_without_a_registry_is_a_fault_of_the_file() {
    let place = project("glue", "avsc = \"schemas/reading.avsc\"");
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\n");
    assert_eq!(place.check(&[]), (Exit::No, vec!["pipelines/readings.toml:5:11 no_registry".to_owned()]));
    let (exit, answer) = place.answer(&["decode", "--hex", "00"]);
    assert_eq!((exit, &answer["error"]["code"]), (Exit::Usage, &json!("environment.registry")), "{answer}");
}

#[test]
fn a_mapping_that_takes_framings_off_hands_over_what_the_pipeline_reads() {
    let place = project("bare", "avsc = \"schemas/reading.avsc\"");
    let environment = |format: &str| {
        format!(
            "[env.local]\ndir = \"dir\"\nregistries.main = {{ kind = \"files\", dir = \"registry\" }}\n\
             mapping = {{ registry = \"main\", record_format = \"{format}\", pollers = [1, 2] }}\n"
        )
    };
    place.write("frazil.toml", environment("JSON"));
    assert_eq!(place.check(&[]), (Exit::No, vec!["pipelines/readings.toml:4:10 misfit".to_owned()]));
    place.write("frazil.toml", environment("SOURCE"));
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    let value = base64_simd::STANDARD.encode_to_string(b"\x04ab\x0f\0");
    let record = json!({"offset": 0, "value": value, "valueSchemaMetadata": {"dataFormat": "AVRO", "schemaId": "1"}});
    let lines = place.run_with(&record.to_string(), &["decode", "--json"]).lines();
    assert_eq!(lines[0]["rows"][0]["name"], "ab");
    let arn = "arn:aws:kafka:eu-west-1:1:cluster/demo/0";
    let event = json!({"eventSource": "aws:kafka", "eventSourceArn": arn, "records": {"readings-0": [record]}});
    place.write("event.json", event.to_string());
    assert_eq!(place.told(&["ingest", "--event", "event.json"])["dead_letters"], 0);
}

/// Keys are read like values: by a schema of their own, in a framing of their own.
#[test]
fn fields_of_keys_are_columns_from_the_file_to_the_table() {
    let place = project("bare", "avsc = \"schemas/reading.avsc\"");
    let key = "[key]\nformat = \"avro\"\nframing = \"confluent\"\nschema = { registry = \"main\", name = \"keys\" }\n";
    let text = pipeline("bare", "avsc = \"schemas/reading.avsc\"").replace("[table]\n", &format!("{key}[table]\n"));
    let columns = "building = \"@key.building\"\nfloor = { from = \"@key.floor\", required = true }\n";
    place.write("pipelines/readings.toml", format!("{text}{columns}"));
    assert_eq!(place.check(&[]), (Exit::No, vec!["pipelines/readings.toml:10:38 schema".to_owned()]));
    let schema = r#"{"type": "record", "name": "Place", "fields": [{"name": "building", "type": "string"}, {"name": "floor", "type": "int"}]}"#;
    place.write("registry/keys.avsc", schema);
    place.write("registry/7.avsc", schema);
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    let plan = place.told(&["plan"]);
    let names: Vec<&Value> = plan["columns"].as_array().unwrap().iter().take(5).map(|column| &column["name"]).collect();
    assert!(names.contains(&&json!("building")) && names.contains(&&json!("floor")), "{plan}");
    let decode = |key: &str| place.answer(&["decode", "--hex", "046162 0f 00", "--key-hex", key]);
    let (exit, document) = decode("00 00000007 024e 06");
    assert_eq!(exit, Exit::Done, "{document}");
    let row = json!({"name": "ab", "reading": -8, "at": "1970-01-01T00:00:00.000000Z", "building": "N", "floor": 3});
    assert_eq!(document["rows"], json!([row]));
    for (key, class, path) in [
        ("00", "truncated", "@key"),
        ("00 00000007 024e", "truncated", "@key.floor"),
        ("00 00000009 00", "unknown_schema", "@key"),
    ] {
        let (exit, document) = decode(key);
        let dead = &document["dead_letter"];
        assert_eq!((exit, &dead["class"], &dead["path"]), (Exit::No, &json!(class), &json!(path)), "{document}");
    }
    let (_, document) = place.answer(&["decode", "--hex", "046162 0f 00"]);
    assert_eq!(document["dead_letter"]["class"], "missing_required", "{document}");
    // Through the table, and as samples.
    let base64 = |bytes: &[u8]| base64_simd::STANDARD.encode_to_string(bytes);
    let record = json!({"offset": 0, "key": base64(b"\0\0\0\0\x07\x02N\x06"), "value": base64(b"\x04ab\x0f\0")});
    let arn = "arn:aws:kafka:eu-west-1:1:cluster/demo/0";
    place.write(
        "event.json",
        json!({"eventSource": "aws:kafka", "eventSourceArn": arn, "records": {"readings-0": [record]}}).to_string(),
    );
    assert_eq!(place.told(&["ingest", "--event", "event.json"])["dead_letters"], 0);
    assert_eq!(place.told(&["fold"])["tables"][0]["rows_added"], 1);
    let answer = place.told(&["query", "SELECT building, floor FROM lake.readings"]);
    assert_eq!(answer["rows"], json!([{"building": "N", "floor": 3}]));
    assert_eq!(place.told(&["plan"])["changes"], json!([]));
    place.write("samples/readings/a.records.jsonl", record.to_string());
    place.told(&["test", "--update"]);
    let expected: Value =
        serde_json::from_slice(&std::fs::read(place.path("samples/readings/expected.json")).unwrap()).unwrap();
    assert_eq!(expected["a.records.jsonl:1"], json!({"rows": [row]}));
    // A column of a field that the key has not.
    place.write("pipelines/readings.toml", format!("{text}{}", columns.replace("@key.floor", "@key.flor")));
    assert_eq!(place.check(&[]).0, Exit::No);
}

/// A record of the version after the file's, whose field has another name: decoded, staged and folded as the field that it is.
#[test]
fn a_field_that_a_record_calls_otherwise_is_the_files() {
    let place = project("confluent", "avsc = \"schemas/reading.avsc\"");
    let text = pipeline("confluent", "avsc = \"schemas/reading.avsc\"");
    let row = json!({"name": "cd", "reading": -8, "at": "1970-01-01T00:00:00.000000Z"});
    for (unknown, rest) in [("ignore", Value::Null), ("rest", json!("_rest"))] {
        let table = format!("[table]\nunknown_fields = \"{unknown}\"\n");
        place.write("pipelines/readings.toml", text.replace("[table]\n", &table));
        let decoded = place.told(&["decode", "--hex", "00 00000002 046364 0f 00 00"]);
        let found = decoded["rows"][0].as_object().unwrap();
        let of_row = found.iter().filter(|(name, _)| row.get(name.as_str()).is_some());
        assert_eq!(
            Value::Object(of_row.map(|(name, value)| (name.clone(), value.clone())).collect()),
            row,
            "{unknown}"
        );
        let more: Vec<&String> = found.keys().filter(|name| row.get(name.as_str()).is_none()).collect();
        assert_eq!(more.first().map_or(Value::Null, |name| json!(name)), rest, "{unknown}");
    }
    place.write("event.json", event(&[b"\0\0\0\0\x01\x04ab\x0f\0", b"\0\0\0\0\x02\x04cd\x0f\0\0"]));
    assert_eq!(place.told(&["ingest", "--event", "event.json"])["dead_letters"], 0);
    assert_eq!(place.told(&["fold"])["tables"][0]["rows_added"], 2);
    let answer = place.told(&["query", "SELECT name FROM lake.readings ORDER BY name"]);
    assert_eq!(answer["rows"], json!([{"name": "ab"}, {"name": "cd"}]));
    // Who declares no column for it refuses the new field, and not the renamed one.
    place.write("pipelines/readings.toml", text.replace("[table]\n", "[table]\nunknown_fields = \"dead-letter\"\n"));
    let (exit, document) = place.answer(&["decode", "--hex", "00 00000002 046364 0f 00 00"]);
    assert_eq!((exit, &document["dead_letter"]["path"]), (Exit::No, &json!("room")), "{document}");
}

/// The newest version of the key's schema calls a field otherwise than the pipeline file, which was written before.
#[test]
fn a_renamed_field_of_keys_stays_its_column_from_the_file_to_the_table() {
    let place = project("bare", "avsc = \"schemas/reading.avsc\"");
    let key = "[key]\nformat = \"protobuf\"\nframing = \"confluent\"\nschema = { registry = \"main\", name = \"keys\", message = \"K\" }\n";
    let text = pipeline("bare", "avsc = \"schemas/reading.avsc\"").replace("[table]\n", &format!("{key}[table]\n"));
    place.write("pipelines/readings.toml", format!("{text}floor = \"@key.floor\"\n"));
    let schema = |fields: &str| format!("syntax = \"proto3\"; message K {{ {fields} }}");
    place.write("registry/keys.proto", schema("int32 floor = 1;"));
    place.write("registry/7.proto", schema("int32 floor = 1;"));
    let through = |id: u8, floor: u8, offset: i64| {
        let base64 = |bytes: &[u8]| base64_simd::STANDARD.encode_to_string(bytes);
        let record =
            json!({"offset": offset, "key": base64(&[0, 0, 0, 0, id, 0, 8, floor]), "value": base64(b"\x04ab\x0f\0")});
        let arn = "arn:aws:kafka:eu-west-1:1:cluster/demo/0";
        let event = json!({"eventSource": "aws:kafka", "eventSourceArn": arn, "records": {"readings-0": [record]}});
        place.write("event.json", event.to_string());
        assert_eq!(place.told(&["ingest", "--event", "event.json"])["dead_letters"], 0);
        assert_eq!(place.told(&["fold"])["tables"][0]["rows_added"], 1);
    };
    through(7, 3, 0);
    // Renamed and wider.
    let newest = schema("int64 level = 1; int32 wing = 2;");
    place.write("registry/keys.proto", &newest);
    place.write("registry/8.proto", &newest);
    assert_eq!(place.check(&[]), (Exit::Done, Vec::new()));
    let plan = place.told(&["plan"]);
    assert!(plan["changes"].to_string().contains("long"), "{plan}");
    through(8, 4, 1);
    through(7, 5, 2);
    let (_, decoded) = place.answer(&["decode", "--hex", "046162 0f 00", "--key-hex", "00 00000008 00 0806 1001"]);
    assert_eq!(decoded["rows"][0]["floor"], 6, "{decoded}");
    let answer = place.told(&["query", "SELECT floor FROM lake.readings ORDER BY floor"]);
    assert_eq!(answer["rows"], json!([{"floor": 3}, {"floor": 4}, {"floor": 5}]));
}

/// O-26, and what the file leaves out, on the way that a person looks at one payload by.
#[test]
fn a_payload_is_decoded_by_the_same_rule_for_names_as_ingest_has() {
    let place = Place::new();
    place.write(
        "frazil.toml",
        "[env.local]\ndir = \"dir\"\nregistries.main = { kind = \"files\", dir = \"registry\" }\n",
    );
    let schema = "{\"title\": \"T\", \"type\": \"object\", \"properties\": {\"id\": {\"type\": \"integer\", \"format\": \"int32\"},
        \"ii\": {\"type\": \"string\"}, \"mail\": {\"type\": \"string\"}}}";
    place.write("schemas/t.json", schema);
    let text = "[source]\ntopics = [\"t\"]\n[value]\nformat = \"json\"\nframing = \"bare\"\nschema = { json_schema = \"schemas/t.json\" }\n\
        [table]\nname = \"db.t\"\nrecord_columns = false\nunknown_fields = \"rest\"\nexclude = [\"mail\", \"contact.mail\"]\n";
    place.write("pipelines/t.toml", text);
    let decode = |value: &str| place.answer(&["decode", "--base64", &base64_simd::STANDARD.encode_to_string(value)]);
    let (exit, document) = decode("{\"ID\":1,\"II\":\"x\",\"Mail\":\"s\",\"Contact\":{\"mail\":\"s\"},\"o\":2}");
    assert_eq!(
        (exit, &document["rows"]),
        (Exit::Done, &json!([{"id": 1, "ii": "x", "_rest": [{"key": "o", "value": "2"}]}])),
        "{document}"
    );
    let (exit, document) = decode("{\"id\":2,\"Ii\":\"y\",\"iI\":\"z\"}");
    assert_eq!((exit, &document["dead_letter"]["class"]), (Exit::No, &json!("ambiguous_name")), "{document}");
    // In a framing the version that the record names is read as ingest reads it.
    place.write("registry/1.proto", "syntax = \"proto3\"; message M { string id = 1; string mail = 3; string o = 4; }");
    place.write(
        "schemas/m.proto",
        "syntax = \"proto3\"; message M { string id = 1; string mail = 2; string contact = 5; }",
    );
    let text = text
        .replace("format = \"json\"\nframing = \"bare\"", "format = \"protobuf\"\nframing = \"confluent\"")
        .replace("{ json_schema = \"schemas/t.json\" }", "{ proto = \"schemas/m.proto\", message = \"M\" }")
        .replace(", \"contact.mail\"", "");
    place.write("pipelines/t.toml", text);
    let (exit, document) = place.answer(&["decode", "--hex", "00 00000001 00 0a0161 1a0173 22016f"]);
    let row = json!([{"id": "a", "contact": null, "_rest": [{"key": "4", "value": "IgFv"}]}]);
    assert_eq!((exit, &document["rows"]), (Exit::Done, &row), "{document}");
}
