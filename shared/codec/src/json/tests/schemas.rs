//! JSON Schemas: what they refer to, what they unite, and what is wrong with them.

use pipeline::resolved::ColumnCase;

use super::*;
use crate::Error;
use crate::json::schema::load;
use crate::schema::{Import, Kind, Registered};
use crate::source::Brought;

/// Columns as `name type`.
fn columns(schema: &Schema) -> Vec<String> {
    let columns = plan(schema, &iceberg()).unwrap_or_else(|faults| panic!("{faults:?}")).columns;
    columns.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect()
}

#[test]
fn references_lead_to_what_they_name() {
    let referring = schema(
        r##"{
            "$id": "https://example.com/a/order.json",
            "definitions": {
                "id": {"type": "integer"},
                "a/b~c d": {"type": "boolean"},
                "named": {"$id": "#money", "properties": {"amount": {"type": "string"}}},
                "alias": {"$ref": "#/definitions/id"}
            },
            "$defs": {"x": {"$anchor": "there", "type": "number"}},
            "properties": {
                "a": {"$ref": "#/definitions/id", "description": "of the order", "default": 7},
                "b": {"$ref": "#/definitions/a~1b~0c%20d"},
                "c": {"$ref": "#money"},
                "d": {"$ref": "#/definitions/alias"},
                "e": {"$ref": "#there"},
                "f": {"$ref": "order.json#/definitions/id"}
            }
        }"##,
    );
    let expected = ["a long", "b boolean", "c struct<amount: string>", "d long", "e double", "f long"];
    assert_eq!(columns(&referring), expected);
    assert_eq!(plan(&referring, &iceberg()).unwrap().columns[0].doc.as_deref(), Some("of the order"));
    check(&referring, "{}", "a=7 b=NULL c=NULL d=NULL e=NULL f=NULL");
    assert_eq!(referring.name(), "https://example.com/a/order.json");
}

/// What a registry's schema refers to comes with it, by the names that it uses.
#[test]
fn references_lead_to_other_texts() {
    let import = |name: &str, text: &str| Import { name: name.to_owned(), text: text.to_owned() };
    let registered = Registered {
        kind: Kind::Json,
        text: r##"{"$id": "https://example.com/orders/order.json", "properties": {
            "by": {"$ref": "customer.json"}, "at": {"$ref": "/shared/place.json#/definitions/city"},
            "n": {"$ref": "urn:numbers#/n"}, "m": {"$ref": "https://example.com/ids.json"}}}"##
            .to_owned(),
        imports: vec![
            import("https://example.com/shared/place.json", r#"{"definitions": {"city": {"type": "string"}}}"#),
            import(
                "customer.json",
                r##"{"properties": {"home": {"$ref": "https://example.com/shared/place.json#/definitions/city"}, "id": {"$ref": "#/definitions/id"}},
                   "definitions": {"id": {"type": "integer"}}}"##,
            ),
            import("numbers", r#"{"$id": "urn:numbers", "n": {"type": "number"}}"#),
            import("ids", r#"{"definitions": {"a": {"$id": "https://example.com/ids.json", "type": "integer"}}}"#),
        ],
        version: Some(3),
    };
    let expected = ["by struct<home: string, id: long>", "at string", "n double", "m long"];
    let read = Schema::registered(&registered).unwrap();
    assert_eq!(columns(&read), expected);
    let spaced = Registered { text: registered.text.replace(": ", ":\n"), ..registered.clone() };
    assert_eq!(Schema::registered(&spaced).unwrap().digest(), read.digest());
    let other = Registered { text: registered.text.replace("\"n\"", "\"o\""), ..registered.clone() };
    assert_ne!(Schema::registered(&other).unwrap().digest(), read.digest());
    let alone = Registered { imports: Vec::new(), ..registered };
    let fault = Schema::registered(&alone).unwrap_err().to_string();
    assert_eq!(fault, "/properties/by: `customer.json` is not among what the schema refers to");
}

#[test]
fn what_is_inside_itself_is_json_below_itself() {
    let tree = schema(
        r##"{"title": "Tree", "properties": {"n": {"type": "integer"}, "left": {"oneOf": [{"type": "null"}, {"$ref": "#"}]},
            "all": {"type": "array", "items": {"$ref": "#"}}}}"##,
    );
    assert_eq!(columns(&tree), ["n long", "left string", "all list<string>"]);
    check(
        &tree,
        "{\"n\":1,\"left\":{\"n\": 2,\"left\":null},\"all\":[{\"n\":3.0},null]}",
        "n=1 left=\"{\\\"n\\\": 2,\\\"left\\\":null}\" all=[\"{\\\"n\\\":3.0}\",NULL]",
    );
    refused(&tree, "{\"left\":\"x\"}", Class::WrongType, "left");
    let lists = schema(
        r##"{"definitions": {"l": {"type": "array", "items": {"$ref": "#/definitions/l"}}}, "properties": {"l": {"$ref": "#/definitions/l"}, "m": {"additionalProperties": {"$ref": "#/properties/m"}}}}"##,
    );
    let columns = columns(&lists);
    assert!(columns[0].starts_with("l list<list<list<") && columns[1] == "m string", "{columns:?}");
    check(&lists, "{\"l\":[[[]],null],\"m\":{\"a\":{}}}", "l=[[[]],NULL] m=\"{\\\"a\\\":{}}\"");
}

#[test]
fn unions_are_what_their_branches_have_in_common() {
    let unions = schema(
        r##"{
            "definitions": {"s": {"type": "string"}},
            "properties": {
                "a": {"type": ["null", "string"]},
                "b": {"oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}]},
                "c": {"anyOf": [{"$ref": "#/definitions/s"}, {"type": "null"}], "default": "x"},
                "d": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "e": {"oneOf": [{"const": "A"}, {"enum": ["B", "C", null]}]},
                "f": {"enum": [1, 2, null]},
                "g": {"allOf": [{"$ref": "#/definitions/s"}], "description": "one"},
                "h": {"allOf": [{"properties": {"x": {"type": "integer"}}}, {"properties": {"y": {"type": "string"}, "x": true}}], "type": "object"},
                "i": {"type": "object", "properties": {"z": {"type": "boolean"}}, "oneOf": [{"required": ["z"]}, {"required": []}]},
                "j": {"enum": [1, 1.5]},
                "k": {"oneOf": [{"type": "object", "properties": {"p": {"type": "string"}}}, {"type": "object", "properties": {"q": {"type": "string"}}}]},
                "l": {"const": true}
            }
        }"##,
    );
    let expected = [
        "a string",
        "b int",
        "c string",
        "d string",
        "e string",
        "f long",
        "g string",
        "h struct<x: long, y: string>",
        "i struct<z: boolean>",
        "j double",
        "k string",
        "l boolean",
    ];
    assert_eq!(columns(&unions), expected);
    check(
        &unions,
        "{\"a\":\"1\",\"b\":2,\"c\":null,\"d\":\"3\",\"e\":\"D\",\"f\":4,\"g\":\"5\",\"h\":{\"x\":6,\"y\":\"7\"},\"i\":{},\"j\":1.50,\"k\":{\"r\":1},\"l\":false}",
        "a=\"1\" b=2 c=NULL d=\"\\\"3\\\"\" e=\"D\" f=4 g=\"5\" h={x:6,y:\"7\"} i={z:NULL} j=1.5 k=\"{\\\"r\\\":1}\" l=false",
    );
}

/// Kafka Connect's converter says which order its fields have.
#[test]
fn members_have_the_order_in_which_they_are_written_or_numbered() {
    let written = object("z: {\"type\": \"integer\"}; a: {\"type\": \"integer\"}; m: {\"type\": \"integer\"}");
    assert_eq!(columns(&written), ["z long", "a long", "m long"]);
    let numbered = |n: u8| format!("{{\"type\": \"integer\", \"connect.index\": {n}}}");
    let members = format!("b: {}; a: {}; c: {}", numbered(1), numbered(0), numbered(2));
    assert_eq!(columns(&object(&members)), ["a long", "b long", "c long"]);
}

#[test]
fn an_object_without_members_is_an_object_all_the_same() {
    for text in ["{}", "true", "{\"type\": \"object\"}", "{\"additionalProperties\": {\"type\": \"integer\"}}"] {
        let faults = plan(&schema(text), &iceberg()).unwrap_err();
        assert!(faults[0].message.contains("no column is left"), "{text}: {faults:?}");
        let mut table = iceberg();
        table.unknown_fields = pipeline::resolved::UnknownFields::Rest;
        assert_eq!(rows(&schema(text), &table, &[b"{\"a\":1}"]).unwrap(), ["_rest={\"a\":\"1\"}"]);
    }
}

#[test]
fn a_wrong_schema_says_where_and_what_is_wrong() {
    let check = |text: &str, expected: &str| {
        let fault = Schema::parse(text, &[]).expect_err(text).to_string();
        assert!(fault.contains(expected), "{fault}\nlacks: {expected}");
    };
    let member = |of: &str| format!("{{\"properties\": {{\"a\": {of}}}}}");
    check("{", "it is not JSON: EOF while parsing an object at line 1 column 1");
    check("7", "a schema is an object, `true` or `false`");
    check("{\"type\": \"string\"}", "it is no schema of objects, and a payload is one");
    check("{\"type\": \"array\"}", "no schema of objects");
    check(&member("{\"type\": \"strin\"}"), "/properties/a/type: there is no type `strin`; did you mean `string`?");
    check(&member("{\"type\": 7}"), "/properties/a/type: `type` is a name or an array of names");
    check(&member("[]"), "/properties/a: a schema is an object");
    check(&member("{\"items\": {\"type\": \"long\"}}"), "/properties/a/items/type: there is no type `long`");
    check(&member("{\"$ref\": \"#/definitions/b\"}"), "/properties/a: `#/definitions/b` leads to nothing");
    check(&member("{\"$ref\": \"b.json\"}"), "/properties/a: `b.json` is not among what the schema refers to");
    check(&member("{\"$ref\": \"#/properties/a\"}"), "/properties/a: it refers to itself");
    check("{\"properties\": []}", "/properties: `properties` is an object");
    let deep = format!("{}true{}", "{\"items\":".repeat(5000), "}".repeat(5000));
    check(&deep, "objects and arrays nest more than 100 deep");
}

#[test]
fn schemas_that_multiply_or_never_end_do_end() {
    // Forty objects, each twice in the one before: 2^40 fields.
    let multiplied: Vec<String> = (0..40)
        .map(|n| {
            let inner = if n == 0 { "true".to_owned() } else { format!("{{\"$ref\": \"#/definitions/m{}\"}}", n - 1) };
            format!("\"m{n}\": {{\"properties\": {{\"a\": {inner}, \"b\": {inner}}}}}")
        })
        .collect();
    let text = format!("{{\"definitions\": {{{}}}, \"$ref\": \"#/definitions/m39\"}}", multiplied.join(","));
    let faults = plan(&schema(&text), &table()).unwrap_err();
    assert!(faults.iter().any(|fault| fault.message.contains("more than 10000 fields")), "{faults:?}");
    // A chain longer than any stack: what is below is JSON.
    let links: Vec<String> = (0..5000)
        .map(|n| format!("\"l{n}\": {{\"properties\": {{\"n\": {{\"$ref\": \"#/definitions/l{}\"}}}}}}", n + 1))
        .collect();
    let text = format!("{{\"definitions\": {{{}, \"l5000\": true}}, \"$ref\": \"#/definitions/l0\"}}", links.join(","));
    let chain = schema(&text);
    assert_eq!(columns(&chain).len(), 1);
    let nested = |depth: usize| format!("{}7{}", "{\"n\":".repeat(depth), "}".repeat(depth));
    assert_eq!(rows(&chain, &iceberg(), &[nested(20).as_bytes()]).unwrap_err().class, Class::WrongType);
    assert!(rows(&chain, &iceberg(), &[nested(60).as_bytes()]).unwrap()[0].contains(&nested(20).replace('"', "\\\"")));
    assert!(rows(&chain, &iceberg(), &[b"{\"n\":{\"n\":{}}}"]).is_ok());
    // Objects that are said to be each other.
    let circle = r##"{"allOf": [{"$ref": "#/definitions/a"}], "definitions": {"a": {"allOf": [{"$ref": "#/definitions/b"}, {"properties": {"x": true}}]},
        "b": {"allOf": [{"$ref": "#/definitions/a"}, {"properties": {"y": true}}]}}}"##;
    assert_eq!(columns(&schema(circle)).len(), 2);
}

#[test]
fn a_file_is_read_and_its_defaults_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    assert!(matches!(load(&path), Err(Error::Read { .. })));
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write(&object_text("a: {\"type\": \"integer\", \"default\": \"x\"}"));
    let fault = load(&path).unwrap_err().to_string();
    assert!(fault.contains("r.json is not usable: the default of `a` is of another type than its values"), "{fault}");
    write(&object_text("a: {\"type\": \"integer\", \"default\": 7}"));
    assert_eq!(load(&path).unwrap().name(), "JSON");
    write("{\"title\": \"R\", \"properties\": {\"a\": {\"type\": \"int\"}}}");
    assert!(load(&path).unwrap_err().to_string().contains("/properties/a/type: there is no type `int`"));
    std::fs::write(&path, b"\xff").unwrap();
    assert!(load(&path).unwrap_err().to_string().contains("it is not UTF-8"));
}

/// Members of both versions, at any depth; what is of another kind stays.
#[test]
fn two_versions_are_united() {
    let own = schema(
        r##"{"title": "R", "properties": {"a": {"type": "integer", "format": "int32"}, "o": {"properties": {"p": {"type": "string"}}},
            "xs": {"items": {"properties": {"q": {"enum": ["A"]}}}}, "k": {"type": "string"}, "r": {"$ref": "#"}}}"##,
    );
    let other = schema(
        r##"{"properties": {"b": {"type": "boolean", "default": true}, "a": {"type": "integer"}, "k": {"type": "integer"},
            "xs": {"items": {"properties": {"q": {"enum": ["B", "A"]}, "n": {"type": "integer"}}}}, "r": {"$ref": "#"},
            "o": {"properties": {"p": {"type": "string"}, "deep": {"properties": {"r": {"$ref": "#"}, "z": {"type": "number"}}}}}}}"##,
    );
    let united = own.united(&other, ColumnCase::AsIs, &Brought::All).unwrap();
    assert_eq!(
        columns(&united),
        [
            "a long",
            "o struct<p: string, deep: struct<r: string, z: double>>",
            "xs list<struct<q: string, n: long>>",
            "k string",
            "r string",
            "b boolean"
        ]
    );
    assert_ne!(united.digest(), own.digest());
    check(
        &united,
        "{\"a\":9007199254740993,\"xs\":[{\"q\":\"B\",\"n\":1}],\"o\":{\"deep\":{\"z\":1}}}",
        "a=9007199254740993 o={p:NULL,deep:{r:NULL,z:1.0}} xs=[{q:\"B\",n:1}] k=NULL r=NULL b=true",
    );
    assert!(
        united.united(&own, ColumnCase::AsIs, &Brought::All).is_none()
            && own.united(&own, ColumnCase::AsIs, &Brought::All).is_none()
    );
}
