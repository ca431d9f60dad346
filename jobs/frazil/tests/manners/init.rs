//! A pipeline file from a schema.

use super::planning::project;
use super::*;

const ORDER: &str = "syntax = \"proto3\"; package shop; message Order { int64 id = 1; }";

#[test]
fn a_schema_and_a_topic_make_a_pipeline_that_is_checked() {
    let place = project(&[]);
    place.write("schemas/order.proto", ORDER);
    place.write("order.avsc", r#"{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}"#);
    place.write("order.json", r#"{"type": "object", "properties": {"id": {"type": "integer"}}}"#);
    let check = |arguments: &[&str], name: &str, table: &str, schema: &str| {
        let dry = [&["init", "--dry-run"], arguments].concat();
        let (exit, document) = place.answer(&dry);
        let file = format!("pipelines/{name}.toml");
        assert_eq!((exit, &document["files"]), (Exit::Done, &json!([file])), "{document}");
        assert!(!place.path(&file).exists());
        let shown = place.run(&dry).stdout;
        let (exit, document) = place.answer(&[&["init"], arguments].concat());
        assert_eq!((exit, &document["table"]), (Exit::Done, &json!(table)), "{document}");
        let text = std::fs::read_to_string(place.path(&file)).unwrap();
        assert_eq!(shown.trim_end(), text.trim_end());
        assert!(text.contains(schema), "{text}");
        assert_eq!(place.check(&[name]), (Exit::Done, Vec::new()));
        // Never over a file that is there.
        let (exit, document) = place.answer(&[&["init"], arguments].concat());
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("init.exists")), "{document}");
        assert_eq!(std::fs::read_to_string(place.path(&file)).unwrap(), text);
    };
    check(
        &["schemas/order.proto", "--topic", "Orders-EU"],
        "orders_eu",
        "lake.orders_eu",
        "schema = { proto = \"schemas/order.proto\", message = \"shop.Order\" }",
    );
    check(
        &["proto/employee.proto", "--topic", "e", "--message", "gsr.proto.post.Employee", "--table", "hr.people"],
        "people",
        "hr.people",
        "message = \"gsr.proto.post.Employee\"",
    );
    check(&["order.avsc", "--topic", "a", "--name", "avro"], "avro", "lake.a", "schema = { avsc = \"order.avsc\" }");
    check(&["order.json", "--topic", "_j.1"], "j_1", "lake.j_1", "schema = { json_schema = \"order.json\" }");
}

#[test]
fn what_can_not_be_a_pipeline_is_said_and_nothing_is_left() {
    let place = project(&[]);
    place.write("order.proto", ORDER);
    place.write("bad.proto", "syntax = \"proto3\"; message A { int64 id = ; }");
    place.write("schema.xsd", "<schema/>");
    let check = |arguments: &[&str], code: &str, says: &str| {
        let (exit, document) = place.answer(&[&["init"], arguments].concat());
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!(code)), "{document}");
        assert!(document["error"]["message"].as_str().unwrap().contains(says), "{document}");
        assert!(!place.path("pipelines").exists(), "{arguments:?}");
    };
    check(&["proto/employee.proto", "--topic", "e"], "init.message", "gsr.proto.post.Employee, ");
    check(&["order.proto", "--topic", "e", "--message", "shop.Ordr"], "init.schema", "shop.Order");
    check(&["bad.proto", "--topic", "e"], "init.schema", "bad.proto");
    check(&["none.proto", "--topic", "e"], "init.schema", "none.proto");
    check(&["schema.xsd", "--topic", "e"], "init.schema", "what kind of schema");
    check(&["order.proto", "--topic", "a b"], "init.table", "`a b`");
    check(&["order.proto", "--topic", "a b", "--table", "db.t"], "config.invalid", "`a b` is not a topic name");
    check(&["order.proto", "--topic", "a", "--table", "Orders"], "config.invalid", "namespace.table");
    check(&["order.proto", "--topic", "a", "--name", "a/b"], "init.name", "a/b");
    check(&["order.proto", "--topic", "a", "--name", "A"], "config.invalid", "`A`");
    check(&["order.proto", "--topic", "a", "--framing", "glue"], "config.no_registry", "registr");
    check(&["order.proto", "--topic", "__consumer_offsets", "--table", "db.t"], "config.invalid", "brokers' own");
}

/// A project without pipelines, in which `init` runs with something on stdin.
fn init(place: &Place, stdin: &str, arguments: &[&str]) -> (Exit, Value) {
    let left = place.run_with(stdin, &[&["init", "--json"], arguments].concat());
    (left.exit, left.document())
}

#[test]
fn samples_tell_columns_and_what_was_guessed() {
    let place = project(&[]);
    let values = "{\"id\": 7, \"userName\": \"joe\", \"at\": \"2026-01-31T00:00:00Z\", \"tags\": [\"a\"], \"odd\": 1, \"none\": null}\n\
                  {\"id\": 8, \"odd\": \"x\", \"where\": {\"city.name\": \"Oslo\", \"lat\": 1.5}, \"price\": 9.5}\n";
    let (exit, document) = init(&place, values, &["--samples", "-", "--topic", "clicks"]);
    assert_eq!((exit, &document["files"]), (Exit::Done, &json!(["pipelines/clicks.toml"])), "{document}");
    let guesses: Vec<&str> =
        document["guesses"].as_array().unwrap().iter().map(|guess| guess.as_str().unwrap()).collect();
    for about in ["at: a timestamptz", "odd: left out: it is of several types", "none: left out", "price: a double"] {
        assert!(guesses.iter().any(|guess| guess.starts_with(about)), "{about}: {guesses:?}");
    }
    assert_eq!(place.check(&["clicks"]), (Exit::Done, Vec::new()));
    // The values themselves become rows of these columns.
    let left = place.run_with("", &["test", "clicks", "--json"]);
    assert_eq!(left.document()["error"]["code"], "test.samples");
    place.write("samples/clicks/a.jsonl", values);
    place.run(&["test", "clicks", "--update"]);
    let expected: Value =
        serde_json::from_slice(&std::fs::read(place.path("samples/clicks/expected.json")).unwrap()).unwrap();
    let row = |n: usize| &expected[format!("a.jsonl:{n}")]["rows"][0];
    assert_eq!(
        *row(1),
        json!({"at": "2026-01-31T00:00:00.000000Z", "id": 7, "tags": ["a"], "username": "joe", "where": null, "price": null})
    );
    assert_eq!((&row(2)["where"]["city.name"], &row(2)["price"]), (&json!("Oslo"), &json!(9.5)));
    let text = std::fs::read_to_string(place.path("pipelines/clicks.toml")).unwrap();
    assert!(text.contains("username = { from = \"userName\", type = \"string\" }\n"), "{text}");

    let refused = |values: &str, code: &str| {
        let (exit, document) = init(&place, values, &["--samples", "-", "--topic", "other"]);
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!(code)), "{document}");
        assert!(document["error"]["remedy"].is_string() && !place.path("pipelines/other.toml").exists());
    };
    for values in ["", "[1]", "{", "{}", "{\"a\": null}"] {
        refused(values, "init.samples");
    }
    let (exit, _) = init(&place, "", &["--topic", "t"]);
    assert_eq!(exit, Exit::Usage);
}

#[test]
fn connect_s_envelope_is_taken_off_and_its_types_are_kept() {
    let place = project(&[]);
    let field = |name: &str, more: Value| {
        let mut field = more;
        field["field"] = json!(name);
        field
    };
    let schema = json!({"type": "struct", "name": "shop.Order", "optional": false, "fields": [
        field("Id", json!({"type": "int64", "optional": false})),
        field("price", json!({"type": "bytes", "optional": true, "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "9"}})),
        field("day", json!({"type": "int32", "optional": true, "name": "org.apache.kafka.connect.data.Date"})),
        field("at", json!({"type": "int64", "optional": true, "name": "org.apache.kafka.connect.data.Timestamp"})),
        field("line", json!({"type": "struct", "optional": true, "fields": [field("qty", json!({"type": "int32", "optional": true}))]})),
        field("tags", json!({"type": "array", "optional": true, "items": {"type": "string", "optional": false}})),
        field("raw", json!({"type": "bytes", "optional": true})),
    ]});
    let payload =
        json!({"Id": 7, "price": "Ag4=", "day": 1, "at": 1500, "line": {"qty": 3}, "tags": ["a"], "raw": "AP8="});
    let record = json!({"schema": schema, "payload": payload}).to_string();
    place.write("records.json", &record);
    let (exit, document) = init(&place, "", &["--samples", "records.json", "--topic", "Orders"]);
    assert_eq!(
        (exit, &document["files"]),
        (Exit::Done, &json!(["pipelines/orders.toml", "schemas/orders.json"])),
        "{document}"
    );
    place.write("samples/orders/a.jsonl", &record);
    place.run(&["test", "orders", "--update"]);
    let expected: Value =
        serde_json::from_slice(&std::fs::read(place.path("samples/orders/expected.json")).unwrap()).unwrap();
    let row = json!({"id": 7, "price": "5.26", "day": "1970-01-02", "at": "1970-01-01T00:00:01.500000Z", "line": {"qty": 3},
        "tags": ["a"], "raw": "AP8="});
    assert_eq!(expected["a.jsonl:1"], json!({"rows": [row]}));
    // Nothing stays of an init that is refused, of none of its files.
    let other = record.replace("shop.Order", "shop.Other");
    let (exit, document) = init(&place, &format!("{record}\n{other}"), &["--samples", "-", "--topic", "more"]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("init.connect")), "{document}");
    let (exit, document) = init(&place, &record, &["--samples", "-", "--topic", "more", "--table", "No"]);
    assert_eq!(exit, Exit::Usage, "{document}");
    assert!(!place.path("schemas/more.json").exists() && !place.path("pipelines/more.toml").exists());
}

#[test]
fn an_odd_name_costs_no_more_than_itself() {
    let place = project(&[]);
    let values = "{\"id\": 7, \"\": 1, \"_kafka_offset\": 2, \"a\u{7f}b\": 3, \"line\\nbreak\": 4, \"in\": {\"\": 1, \"ok\": 2}}\n";
    let (exit, document) = init(&place, values, &["--samples", "-", "--topic", "odd"]);
    assert_eq!(exit, Exit::Done, "{document}");
    let guesses: Vec<&str> =
        document["guesses"].as_array().unwrap().iter().map(|guess| guess.as_str().unwrap()).collect();
    for (about, way) in
        [("\"\": left out", "rest"), ("\"_kafka_offset\": left out", "NAME = "), ("in: without \"\"", "string")]
    {
        assert!(guesses.iter().any(|guess| guess.starts_with(about) && guess.contains(way)), "{about}: {guesses:?}");
    }
    assert_eq!(place.check(&["odd"]), (Exit::Done, Vec::new()));
    place.write("samples/odd/a.jsonl", values);
    place.run(&["test", "odd", "--update"]);
    let expected: Value =
        serde_json::from_slice(&std::fs::read(place.path("samples/odd/expected.json")).unwrap()).unwrap();
    let row = &expected["a.jsonl:1"]["rows"][0];
    assert_eq!(
        (&row["id"], &row["a_b"], &row["line_break"], &row["in"]["ok"]),
        (&json!(7), &json!(3), &json!(4), &json!(2)),
        "{row}"
    );
    // A dry run leaves no folder either.
    let place = project(&[]);
    let (exit, document) = init(&place, values, &["--samples", "-", "--topic", "odd", "--dry-run"]);
    assert_eq!(exit, Exit::Done, "{document}");
    assert!(!place.path("pipelines").exists());
}

#[test]
fn a_registry_s_schema_makes_a_pipeline_of_its_kind() {
    let place = project(&[]);
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\nregistries.main = { kind = \"files\", dir = \"kept\" }\n");
    place.write("kept/readings.avsc", r#"{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}"#);
    place.write("kept/orders.proto", ORDER);
    place.write("kept/two.proto", "syntax = \"proto3\"; message A { int32 a = 1; } message B { int32 b = 1; }");
    let check = |arguments: &[&str], name: &str, lines: &str| {
        let (exit, document) = init(&place, "", arguments);
        assert_eq!(exit, Exit::Done, "{document}");
        let text = std::fs::read_to_string(place.path(&format!("pipelines/{name}.toml"))).unwrap();
        assert!(text.contains(lines), "{text}");
        assert_eq!(place.check(&[name]), (Exit::Done, Vec::new()));
    };
    check(
        &["--subject", "readings", "--topic", "readings"],
        "readings",
        "format = \"avro\"\nframing = \"auto\"\nschema = { registry = \"main\", name = \"readings\" }\n",
    );
    check(
        &["--registry", "main", "--subject", "orders", "--topic", "o", "--framing", "confluent"],
        "o",
        "framing = \"confluent\"\nschema = { registry = \"main\", name = \"orders\", message = \"shop.Order\" }\n",
    );
    check(&["--subject", "two", "--message", "B", "--topic", "b"], "b", "message = \"B\"");
    let refused = |arguments: &[&str], code: &str| {
        let (exit, document) = init(&place, "", &[arguments, &["--topic", "x"]].concat());
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!(code)), "{document}");
        assert!(document["error"]["remedy"].is_string(), "{document}");
    };
    refused(&["--subject", "two"], "init.schema");
    refused(&["--subject", "none"], "init.subject");
    refused(&["--subject", "two", "--registry", "other"], "init.registry");
    // One by its URL has to be known to the file that is there; credentials in it are nobody's.
    refused(&["--subject", "two", "--registry", "http://127.0.0.1:1"], "init.registry");
    std::fs::remove_file(place.path("frazil.toml")).unwrap();
    let (exit, document) = init(&place, "", &["--subject", "two", "--registry", "http://ann:geheim@h", "--topic", "x"]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("init.registry")), "{document}");
    assert!(!document.to_string().contains("geheim"));
    let (exit, document) = init(&place, "", &["--subject", "two", "--registry", "http://127.0.0.1:1", "--topic", "x"]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::TryAgain, &json!("registry")), "{document}");
    assert!(!place.path("frazil.toml").exists());
}
