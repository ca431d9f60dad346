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
        let left = std::fs::read_dir(place.path("pipelines")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{arguments:?}");
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
