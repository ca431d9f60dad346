//! Records that would be sent: what they are made of, and how they name their schema.

use super::*;

const ORDER: &str = "syntax = \"proto3\"; package shop; import \"line.proto\"; message Note { string text = 1; } \
                     message Order { int64 id = 1; Line line = 2; string city = 3; }";
const LINE: &str = "syntax = \"proto3\"; package shop; message Line { string sku = 1; }";

/// A project with a pipeline of orders, and registries that are folders.
fn project(framing: &str, format: &str, schema: &str) -> Place {
    let place = Place::new();
    let registry = |name: &str| format!("registries.{name} = {{ kind = \"files\", dir = \"{name}\" }}\n");
    place.write("frazil.toml", format!("[env.local]\ndir = \"dir\"\n{}", registry("main")));
    place.write("order.proto", ORDER);
    place.write("line.proto", LINE);
    place.write("order.avsc", r#"{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}"#);
    place.write(
        "pipelines/orders.toml",
        format!(
            "[source]\ntopics = [\"orders\"]\nname = \"k\"\n[value]\nformat = \"{format}\"\nframing = \"{framing}\"\n{schema}\n\
             [table]\nname = \"lake.orders\"\n"
        ),
    );
    place
}

const PROTO: &str = "schema = { proto = \"order.proto\", message = \"shop.Order\" }";
const AVRO: &str = "schema = { avsc = \"order.avsc\" }";

impl Place {
    /// What a dry run says, with values on stdin.
    fn rehearsed(&self, values: &str, arguments: &[&str]) -> (Exit, Value) {
        let left = self.run_with(values, &[&["produce", "--json", "--dry-run", "-b", "b:9092"], arguments].concat());
        (left.exit, left.document())
    }

    /// The order's schema in the registry, as it is registered.
    fn register(&self) {
        for (file, text) in [("1", ORDER), ("orders-value", ORDER), ("line", LINE)] {
            self.write(&format!("main/{file}.proto"), text);
        }
    }

    fn refused_values(&self, values: &str, arguments: &[&str], code: &str) -> Value {
        let (exit, document) = self.rehearsed(values, arguments);
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!(code)), "{document}");
        assert!(document["error"]["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{document}");
        document["error"].clone()
    }
}

fn hex(value: &Value) -> String {
    let bytes = base64_simd::STANDARD.decode_to_vec(value.as_str().unwrap()).unwrap();
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn values_are_made_by_the_pipeline_s_schema_and_decode_again() {
    let place = project("bare", "protobuf", PROTO);
    let values = "{\"id\": \"7\", \"line\": {\"sku\": \"ab\"}, \"city\": \"Oslo\"}\n\n{\"id\": 8, \"line\": null}\n";
    let (exit, document) = place.rehearsed(values, &["--values", "-", "--keys", "line.sku"]);
    assert_eq!(exit, Exit::Done, "{document}");
    assert_eq!(
        (&document["made"], &document["topic"], &document["framing"]),
        (&json!(2), &json!("orders"), &json!("bare"))
    );
    assert_eq!(
        (hex(&document["first"]["value"]), hex(&document["first"]["key"])),
        ("080712040a0261621a044f736c6f".to_owned(), "6162".to_owned())
    );
    // The first record is one that `decode`, `ingest` and `test` take as it is.
    let lines = place.run_with(&document["first"].to_string(), &["decode", "--json"]).lines();
    assert_eq!(lines[0]["rows"][0]["city"], "Oslo");
    let error = place.refused_values("{\"id\": 1}\n{\"id\": \"x\"}", &["--values", "-"], "produce.value");
    assert_eq!(error["where"], "stdin:2");
    assert!(error["message"].as_str().unwrap().contains("id: a whole number is wanted"), "{error}");
    assert_eq!(place.refused_values("{", &["--values", "-"], "produce.value")["where"], "stdin:1");
    place.refused_values("{\"line\": {}}", &["--values", "-", "--keys", "line"], "produce.key");
    // From a file, to another topic.
    place.write("values.jsonl", values);
    let (_, document) = place.rehearsed("", &["orders", "--values", "values.jsonl", "--topic", "t"]);
    assert_eq!(
        (&document["made"], &document["topic"], &document["first"]["key"]),
        (&json!(2), &json!("t"), &Value::Null)
    );
}

#[test]
fn json_goes_as_it_came() {
    let place = project("bare", "json", "");
    let text = std::fs::read_to_string(place.path("pipelines/orders.toml")).unwrap();
    place.write("pipelines/orders.toml", text + "[table.columns]\nn = { type = \"decimal(38, 3)\" }\n");
    let (_, document) = place.rehearsed("  {\"n\":  12345678901234567890123.450}", &["--values", "-"]);
    let bytes = base64_simd::STANDARD.decode_to_vec(document["first"]["value"].as_str().unwrap()).unwrap();
    assert_eq!(bytes, b"{\"n\":  12345678901234567890123.450}");
    place.refused_values("{}", &["--values", "-", "--framing", "avro-single-object"], "produce.framing");
    place.refused_values("{}", &["--values", "-", "--framing", "confluent"], "produce.schema");
}

#[test]
fn a_schema_is_looked_for_and_put_there_when_asked() {
    let place = project("confluent", "protobuf", PROTO);
    let value = "{\"id\": 7}";
    place.refused_values(value, &["--values", "-"], "produce.unregistered");
    let (exit, document) = place.rehearsed(value, &["--values", "-", "--register"]);
    assert_eq!(
        (exit, &document["registered"], &document["schema_id"], &document["first"]),
        (Exit::Done, &json!(true), &Value::Null, &Value::Null),
        "{document}"
    );
    assert!(!place.path("main").exists());
    // The topic is looked for before: here by a client that refuses its settings when it begins.
    let arguments = ["produce", "--json", "-b", "b:9092", "--values", "-", "--register"];
    let left = place.run_with(value, &[&arguments[..], &["--command-property", "linger.ms=x"]].concat());
    assert_eq!(
        (left.exit, &left.document()["error"]["code"]),
        (Exit::Usage, &json!("kafka.settings")),
        "{}",
        left.stdout
    );
    assert!(!place.path("main").exists());
    place.register();
    let (_, document) = place.rehearsed(value, &["--values", "-"]);
    assert_eq!((&document["schema_id"], &document["registered"]), (&json!("1"), &json!(false)));
    // The second message of the file: a path of one place, 1, in zigzag.
    assert_eq!(hex(&document["first"]["value"]), "000000000102020807");
    let (_, document) = place.rehearsed(value, &["--values", "-", "--framing", "confluent-header"]);
    assert_eq!(
        (hex(&document["first"]["value"]).as_str(), &document["first"]["headers"]),
        ("0807", &json!([{"__value_schema_id": [0, 0, 0, 0, 1, 2, 2]}]))
    );
    for framing in ["confluent", "confluent-header"] {
        let (_, document) = place.rehearsed(value, &["--values", "-", "--framing", framing]);
        let lines = place.run_with(&document["first"].to_string(), &["decode", "--json"]).lines();
        assert_eq!(lines[0]["rows"][0]["id"], 7, "{framing}: {}", lines[0]);
    }
    // Under another topic's name it is not yet, nor with another import.
    place.refused_values(value, &["--values", "-", "--topic", "more"], "produce.unregistered");
    let (_, document) = place.rehearsed(value, &["--values", "-", "--topic", "more", "--register"]);
    assert_eq!((&document["schema_id"], &document["registered"]), (&Value::Null, &json!(true)), "{document}");
    place.write("line.proto", LINE.replace("sku = 1", "sku = 2"));
    place.refused_values(value, &["--values", "-"], "produce.unregistered");
    place.write("line.proto", LINE);
    // Glue names the same schema by a version of its own.
    place.refused_values(value, &["--values", "-", "--framing", "glue"], "produce.unregistered");
    place.refused_values(value, &["--values", "-", "--registry", "mine"], "produce.registry");
    place.refused_values(value, &["--values", "-", "--framing", "bare", "--register"], "produce.framing");
    let place = project("auto", "protobuf", PROTO);
    place.refused_values(value, &["--values", "-"], "produce.framing");
}

#[test]
fn single_objects_name_their_schema_by_itself() {
    let place = project("avro-single-object", "avro", AVRO);
    let (exit, document) = place.rehearsed("{\"id\": 7}", &["--values", "-"]);
    assert_eq!(exit, Exit::Done, "{document}");
    let lines = place.run_with(&document["first"].to_string(), &["decode", "--json"]).lines();
    assert_eq!(lines[0]["rows"], json!([{"id": 7}]));
    // With --register it is one that the registry has.
    let id = document["schema_id"].as_str().unwrap();
    let text = std::fs::read_to_string(place.path("order.avsc")).unwrap();
    for file in [id, "orders-value"] {
        place.write(&format!("main/{file}.avsc"), &text);
    }
    let (_, again) = place.rehearsed("{\"id\": 7}", &["--values", "-", "--register"]);
    assert_eq!((&again["schema_id"], &again["registered"]), (&document["schema_id"], &json!(false)));
}

#[test]
fn keys_are_of_a_field_that_every_value_has() {
    let place = project("bare", "protobuf", PROTO);
    let key = |values: &str, field: &str| {
        let (exit, document) = place.rehearsed(values, &["--values", "-", "--keys", field]);
        assert_eq!(exit, Exit::Done, "{document}");
        document["first"]["key"]
            .as_str()
            .map(|key| String::from_utf8(base64_simd::STANDARD.decode_to_vec(key).unwrap()).unwrap())
    };
    assert_eq!(key("{\"id\": 9007199254740993}", "id").as_deref(), Some("9007199254740993"));
    assert_eq!(key("{\"id\": null}", "id"), None);
    assert_eq!(key("{\"line\": null}", "line.sku"), None);
    // A field of no message is told before any value is read, one that a value lacks in its line.
    for field in ["nope", "line.nope", "id.x"] {
        let error = place.refused_values("", &["--values", "-", "--keys", field], "produce.key");
        assert_eq!(error["where"], "--keys", "{error}");
    }
    let error =
        place.refused_values("{\"id\": 1}\n{\"city\": \"x\"}", &["--values", "-", "--keys", "id"], "produce.key");
    assert_eq!(error["where"], "stdin:2", "{error}");
    let place = project("bare", "json", "");
    let text = std::fs::read_to_string(place.path("pipelines/orders.toml")).unwrap();
    place.write("pipelines/orders.toml", text + "[table.columns]\nn = { type = \"long\" }\n");
    let error = place.refused_values("{\"id\": 1}", &["--values", "-", "--keys", "nope"], "produce.key");
    assert_eq!(error["where"], "stdin:1", "{error}");
    let (_, document) = place.rehearsed("{\"n\": 12345678901234567890123.50}", &["--values", "-", "--keys", "n"]);
    assert_eq!(hex(&document["first"]["key"]), "31323334353637383930313233343536373839303132332e3530");
    place.refused_values("{\"n\": 1", &["--values", "-"], "produce.value");
    place.refused_values("{\"n\": 1} {}", &["--values", "-"], "produce.value");
}

#[test]
fn employees_come_in_every_format() {
    let place = project("bare", "protobuf", PROTO);
    let check = |arguments: &[&str], format: &str| {
        let (exit, document) = place.rehearsed("", &[&["--topic", "e"], arguments].concat());
        assert_eq!(
            (exit, &document["format"], &document["made"]),
            (Exit::Done, &json!(format), &json!(1)),
            "{document}"
        );
        document["first"].clone()
    };
    assert!(check(&[], "protobuf")["key"].is_null());
    assert_eq!(hex(&check(&["--keys", "id"], "protobuf")["key"]), "30");
    assert_eq!(hex(&check(&["--format", "avro", "--keys", "team.location"], "avro")["key"]), "4175737472616c6961");
    let json =
        base64_simd::STANDARD.decode_to_vec(check(&["--format", "json"], "json")["value"].as_str().unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap()["role"], "ARCHITECT");
    assert!(hex(&check(&["--format", "avro", "--framing", "avro-single-object"], "avro")["value"]).starts_with("c301"));
    place.refused_values("", &["--records", "1"], "usage");
    place.refused_values("", &["--topic", "e", "--keys", "name"], "produce.key");
    place.refused_values("", &["--topic", "e", "--framing", "confluent"], "produce.unregistered");
    // Not orders; and the schemas of Employee records are no pipeline's.
    let error = place.refused_values("", &["orders"], "produce.value");
    assert!(error["message"].as_str().unwrap().contains("no such field"), "{error}");
    let left = place.run(&["produce", "orders", "--format", "avro", "--dry-run"]);
    assert_eq!(left.exit, Exit::Usage);
}
