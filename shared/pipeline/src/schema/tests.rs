use std::collections::BTreeSet;

use jsonschema::Validator;

use super::*;

/// A TOML value as JSON: times are texts there.
fn json_of(value: &toml::Value) -> Value {
    match value {
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(items) => items.iter().map(json_of).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.iter().map(|(name, value)| (name.clone(), json_of(value))).collect())
        }
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(flag) => Value::from(*flag),
    }
}

/// What a schema has to say of a file.
fn complaints(validator: &Validator, text: &str) -> Vec<String> {
    let table: toml::Table = text.parse().unwrap_or_else(|e| panic!("{e}: {text}"));
    let document = json_of(&toml::Value::Table(table));
    validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// What the schema of pipeline files has to say of one.
pub(crate) fn of_pipeline(text: &str) -> Vec<String> {
    complaints(&jsonschema::validator_for(&pipeline().unwrap()).unwrap(), text)
}

/// What the schema of `frazil.toml` has to say of one.
pub(crate) fn of_environments(text: &str) -> Vec<String> {
    complaints(&jsonschema::validator_for(&environment().unwrap()).unwrap(), text)
}

fn known(keys: &[Key], around: &str, all: &mut BTreeSet<String>) {
    for key in keys {
        let name = format!("{around}{}", key.name);
        match key.shape {
            // The schema says it of `[value]`, and that keys choose nothing.
            Shape::Table(_) if name == "key" => {}
            Shape::Table(keys) => known(keys, &format!("{name}."), all),
            Shape::Named(keys) => known(keys, &format!("{name}.*."), all),
            Shape::Leaf | Shape::Open => {}
        }
        all.insert(name);
    }
}

fn described(schema: &mut Value, around: &str, all: &mut BTreeSet<String>) {
    let Some(table) = table(schema) else { return };
    if let Some(properties) = table.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, schema) in properties {
            let name = format!("{around}{name}");
            assert!(schema["description"].as_str().is_some_and(|d| d.len() > 5), "{name} has no description");
            described(schema, &format!("{name}."), all);
            all.insert(name);
        }
    }
    if let Some(named) = table.get_mut("additionalProperties").filter(|named| named.is_object()) {
        described(named, &format!("{around}*."), all);
    }
}

#[test]
fn every_key_is_in_both_the_schema_and_the_grammar() {
    for (text, keys) in [(PIPELINE, grammar::PIPELINE), (ENVIRONMENT, grammar::ENVIRONMENTS)] {
        let (mut grammar, mut schema) = (BTreeSet::new(), BTreeSet::new());
        known(keys, "", &mut grammar);
        described(&mut serde_json::from_str(text).unwrap(), "", &mut schema);
        assert_eq!(grammar, schema);
    }
}

#[test]
fn what_is_not_of_this_version_is_refused_by_the_schema_too() {
    for (line, good) in [
        ("dir = \"x\"", true),
        ("dir = \"x\"\ncatalog = \"sqlite:c.db\"", true),
        ("dir = \"x\"\nwarehouse = \"s3://bucket/w\"\ncatalog = \"glue\"", true),
        ("dir = \"x\"\nwarehouse = \"s3://bucket/w\"\ncatalog = \"glue:eu-west-1\"", true),
        ("dir = \"x\"\nwarehouse = \"s3://bucket/w\"\ncatalog = \"glue:EU\"", false),
        ("dir = \"x\"\nwarehouse = \"s3://bucket/w\"\ncatalog = \"glue:europe\"", false),
        ("dir = \"x\"\ncatalog = \"s3tables:arn:aws:s3tables:eu-west-1:111122223333:bucket/lake\"", true),
        ("dir = \"x\"\ncatalog = \"s3tables:arn:aws:s3:::lake\"", false),
        ("dir = \"x\"\ncatalog = \"s3tables:arn\"", false),
        ("dir = \"x\"\ncatalog = \"rest:https://c:99999\"", false),
        ("dir = \"x\"\ncatalog = { rest = \"https://c:65535\", auth = \"sigv4:glue\", region = \"eu-west-1\" }", true),
        ("dir = \"x\"\ncatalog = { rest = \"https://c:65536\" }", false),
        ("dir = \"x\"\ncatalog = { rest = \"https://c\", auth = \"sigv4:x\" }", false),
        ("dir = \"x\"\ncatalog = { rest = \"https://c\", auth = \"sigv4:glue\", region = \"Ireland\" }", false),
        (
            "dir = \"x\"\ncatalog = { rest = \"https://c\", auth = \"oauth2\", secret = \"env:S\", oauth2_server = \"https://u:p@s\" }",
            false,
        ),
        ("dir = \"x\"\nregistries.main = { kind = \"glue\", region = \"Ireland\" }", false),
        ("dir = \"x\"\nregistries.main = { kind = \"confluent\", url = \"https://r:0\" }", false),
        ("dir = \"x\"\ncatalog = \"rest:https://c:8181/x\"", true),
        ("dir = \"x\"\ncatalog = \"rest:https://u:p@c\"", false),
        ("dir = \"x\"\ncatalog = { rest = \"https://c\" }", true),
        ("dir = \"x\"\ncatalog = { rest = \"https://c\", auth = \"oauth2\", secret = \"env:S\", scope = \"s\" }", true),
        ("dir = \"x\"\ncatalog = { rest = \"https://c\", auth = \"basic\" }", false),
        ("dir = \"x\"\ncatalog = { rest = \"https://c\", auth = \"token\", secret = \"p\" }", false),
        ("dir = \"x\"\nregion = \"eu-west-1\"", false),
        ("dir = \"x\"\npii_salt = \"ssm:/salt\"", false),
        ("dir = \"x\"\nmapping = { auth = \"x\" }", false),
        ("dir = \"x\"\nspark = {}", false),
        ("dir = \"x\"\nregistries.main = { kind = \"glue\" }", true),
        ("dir = \"x\"\nregistries.main = {}", false),
        (
            "dir = \"x\"\nregistries.main = { kind = \"confluent\", url = \"https://r:8081/x\", secret = \"env:S\" }",
            true,
        ),
        ("dir = \"x\"\nregistries.main = { kind = \"confluent\", url = \"https://u:p@r\" }", false),
        ("dir = \"x\"\nregistries.main = { kind = \"confluent\", url = \"https://r\", secret = \"u:p\" }", false),
        ("dir = \"x\"\nregistries.main = { kind = \"confluent\", url = \"https://r\", secret = \"ssm:/s\" }", false),
    ] {
        let text = format!("[env.local]\n{line}\n");
        let read = crate::environment::parse(&text, std::path::Path::new("/project/frazil.toml"));
        assert_eq!(read.is_ok_and(|all| all.get(None).is_ok()), good, "{line}");
        assert_eq!(of_environments(&text).is_empty(), good, "{line}: {:?}", of_environments(&text));
    }
}

#[test]
fn both_schemas_are_of_the_dialect_that_they_name() {
    for schema in [pipeline().unwrap(), environment().unwrap()] {
        jsonschema::meta::validate(&schema).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}

/// Of the examples that this repository holds, both judge the same.
#[test]
fn the_repositorys_own_files_are_good() {
    let demo = include_str!("../../../../jobs/frazil/demo/employee.toml");
    assert_eq!(of_pipeline(demo), Vec::<String>::new());
    let readme = include_str!("../../../../README.md");
    let mut count = 0;
    for block in readme.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        // What is shown in part is no file.
        if block.starts_with("# frazil.toml") {
            assert_eq!(of_environments(block), Vec::<String>::new(), "{block}");
            crate::environment::parse(block, std::path::Path::new("/project/frazil.toml")).unwrap();
            count += 1;
        } else if block.starts_with("# pipelines/") {
            assert_eq!(of_pipeline(block), Vec::<String>::new(), "{block}");
            count += 1;
        }
    }
    assert!(count >= 3, "the README shows whole files");
}

const GOOD: &str = "[source]\ntopics = [\"t\"]\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
    schema = { proto = \"x.proto\", message = \"p.M\" }\n[table]\nname = \"db.t\"\n";

#[test]
fn what_the_reader_refuses_the_schema_refuses() {
    let reader = |text: &str| {
        let environment = crate::Environment::embedded("/project/.frazil");
        crate::file::parse(text, &environment, std::path::Path::new("/project/pipelines/t.toml"))
    };
    assert!(reader(GOOD).is_ok());
    assert_eq!(of_pipeline(GOOD), Vec::<String>::new());
    let faulty = [
        GOOD.replace("topics = [\"t\"]", "topics = []"),
        GOOD.replace("topics", "topic"),
        GOOD.replace("[\"t\"]", "\"t\""),
        GOOD.replace("[\"t\"]", "[\"a b\"]"),
        GOOD.replace("framing = \"bare\"\n", ""),
        GOOD.replace(", message = \"p.M\"", ""),
        GOOD.replace("proto = \"x.proto\"", "proto = \"x.proto\", descriptor = \"x.desc\""),
        GOOD.replace("name = \"db.t\"", "name = \"t\""),
        GOOD.replace("name = \"db.t\"", "name = \"Db.t\""),
        GOOD.replace("[table]\nname = \"db.t\"\n", ""),
        format!("{GOOD}mode = \"apend\""),
        format!("{GOOD}partition_by = \"day(at)\""),
        format!("{GOOD}record_columns = \"yes\""),
        format!("{GOOD}columns.a = 3"),
        format!("{GOOD}columns.a = {{ form = \"b\" }}"),
        format!("{GOOD}columns.a = {{ required = 1 }}"),
        format!("{GOOD}columns.a = {{ in = [] }}"),
        format!("{GOOD}properties = {{ \"frazil.x\" = \"1\" }}"),
        format!("{GOOD}properties = {{ \"write.target-file-size-bytes\" = 1 }}"),
        format!("{GOOD}dedup_within = {{ column = \"at\", lookback = \"1 week\" }}"),
        format!("{GOOD}[fold]\nmax_rows = 0"),
        format!("{GOOD}[fold]\nmemory = \"lots\""),
        format!("{GOOD}[staging]\nretention = 7"),
        format!("{GOOD}[stagin]\nretention = \"7d\""),
    ];
    for text in faulty {
        assert!(reader(&text).is_err(), "the reader takes {text}");
        assert!(!of_pipeline(&text).is_empty(), "the schema takes {text}");
    }
}
