//! From what Kafka Connect's JSON converter writes: `{"schema": …, "payload": …}` in each record.
//!
//! The envelope's schema becomes a JSON Schema file in the words that Connect's JSON Schema converter has for its types, so that
//! dates, times and decimals are read as what they are; the payload's fields become the columns.
//!
//! Source: `JsonConverter` and `JsonSchema` of Apache Kafka.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::trial::fault;
use super::{Draft, quoted};
use crate::manners::failure::Failure;

/// How deep a schema may nest.
const DEPTH_MAX: usize = 64;

/// The schema of a record.
pub(super) struct Envelope<'a> {
    schema: &'a Value,
}

impl<'a> Envelope<'a> {
    /// Of a value that is one; a failure where its schema is none of an object.
    pub(super) fn of(value: &'a Value) -> Option<Result<Self, Failure>> {
        let members = value.as_object().filter(|members| members.len() == 2)?;
        let (schema, payload) = (members.get("schema")?, members.get("payload")?);
        // A record of nothing has neither.
        if schema.is_null() && payload.is_null() {
            return None;
        }
        schema.get("type").and_then(Value::as_str)?;
        Some(match schema.get("type").and_then(Value::as_str) {
            Some("struct") => Ok(Self { schema }),
            _ => Err(refused("the payloads are no objects: their schema is no struct")),
        })
    }
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::usage("init.connect", message)
        .remedy("give records of Kafka Connect's JSON converter, with schemas.enable; or plain JSON values")
}

pub(super) fn draft(envelope: &Envelope<'_>, values: &[Value], name: &str, framing: String) -> Result<Draft, Failure> {
    if values.iter().any(|value| value.get("schema").is_none_or(|of| !of.is_null() && of != envelope.schema)) {
        return Err(refused("the records are of several schemas"));
    }
    let mut guesses = Vec::new();
    let payload = json_schema(envelope.schema, "payload", DEPTH_MAX, &mut guesses)?;
    let document = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": envelope.schema.get("name").and_then(Value::as_str).unwrap_or(name),
        "description": "Of records of Kafka Connect's JSON converter.",
        "type": "object",
        "properties": {"payload": payload},
    });
    let path = PathBuf::from("schemas").join(format!("{name}.json"));
    let mut text = serde_json::to_string_pretty(&document).map_err(|e| refused(e.to_string()))?;
    text.push('\n');
    let mut columns = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    for field in fields(envelope.schema)? {
        let member = field_name(field)?;
        let column = super::samples::column_name(member);
        if taken.contains(&column) {
            guesses.push(format!("{member}: left out, for another field is the column `{column}`"));
            continue;
        }
        let from = quoted(&pipeline::path::text(&["payload", member]));
        let name = super::samples::key(&column);
        if fault(&format!("{name} = {{ from = {from}, type = \"string\" }}")).is_some() {
            let line = format!("chosen = {{ from = {from}, type = \"string\" }}");
            let way = match fault(&line) {
                None => format!("to have it, write `NAME = {from}`, by a name of your choice"),
                Some(_) => "no path leads to it".to_owned(),
            };
            guesses.push(format!("{}: left out, for a column can't be called so; {way}", quoted(member)));
            continue;
        }
        columns.push(format!("{name} = {from}"));
        taken.push(column);
    }
    Ok(Draft {
        format: "json",
        framing,
        schema: Some(format!("{{ json_schema = {} }}", quoted(&path.display().to_string()))),
        table: vec!["fields = \"listed\"".to_owned()],
        columns,
        files: vec![(path, text)],
        guesses,
    })
}

fn fields(schema: &Value) -> Result<&Vec<Value>, Failure> {
    schema.get("fields").and_then(Value::as_array).ok_or_else(|| refused("a struct's schema has no `fields`"))
}

fn field_name(field: &Value) -> Result<&str, Failure> {
    field.get("field").and_then(Value::as_str).ok_or_else(|| refused("a field has no name"))
}

/// A schema of Connect's as JSON Schema.
fn json_schema(schema: &Value, at: &str, depth: usize, guesses: &mut Vec<String>) -> Result<Value, Failure> {
    let depth = depth.checked_sub(1).ok_or_else(|| refused(format!("the schema nests more than {DEPTH_MAX} deep")))?;
    let connect = schema.get("type").and_then(Value::as_str).ok_or_else(|| refused(format!("`{at}` has no type")))?;
    let mut made = Map::new();
    let kind = match connect {
        "int8" | "int16" | "int32" | "int64" => "integer",
        "float" | "double" | "float32" | "float64" => "number",
        "boolean" => "boolean",
        "string" | "bytes" => "string",
        "array" => "array",
        "map" | "struct" => "object",
        other => return Err(refused(format!("`{at}` is of the type `{other}`, which Connect does not have"))),
    };
    let is_optional = schema.get("optional").and_then(Value::as_bool).unwrap_or(false);
    made.insert("type".to_owned(), if is_optional { json!([kind, "null"]) } else { json!(kind) });
    let known = match connect {
        "float" => "float32",
        "double" => "float64",
        other => other,
    };
    made.insert("connect.type".to_owned(), json!(known));
    if let Some(name) = schema.get("name").and_then(Value::as_str) {
        made.insert("title".to_owned(), json!(name));
        if name == "org.apache.kafka.connect.data.Decimal" {
            // Parameters are strings in Connect, and the keyword is the JSON Schema converter's.
            let parameters = schema.get("parameters").cloned().unwrap_or_else(|| json!({}));
            made.insert("connect.parameters".to_owned(), parameters);
        }
    }
    if let Some(doc) = schema.get("doc").and_then(Value::as_str) {
        made.insert("description".to_owned(), json!(doc));
    }
    match connect {
        "struct" => {
            let mut properties = Map::new();
            for (index, field) in fields(schema)?.iter().enumerate() {
                let name = field_name(field)?;
                let mut property = json_schema(field, &format!("{at}.{name}"), depth, guesses)?;
                property["connect.index"] = json!(index);
                properties.insert(name.to_owned(), property);
            }
            made.insert("properties".to_owned(), Value::Object(properties));
        }
        "array" => {
            let items = schema.get("items").ok_or_else(|| refused(format!("`{at}` has no items")))?;
            made.insert("items".to_owned(), json_schema(items, at, depth, guesses)?);
        }
        "map" => {
            let (keys, values) = (schema.get("keys"), schema.get("values"));
            let values = values.ok_or_else(|| refused(format!("`{at}` has no values")))?;
            match keys.and_then(|keys| keys.get("type")).and_then(Value::as_str) {
                Some("string") => {
                    let values = json_schema(values, at, depth, guesses)?;
                    made.insert("additionalProperties".to_owned(), values);
                }
                // They come as arrays of pairs.
                _ => {
                    guesses.push(format!("{at}: a string with its JSON, for its keys are no strings"));
                    return Ok(json!({"description": "a map as pairs"}));
                }
            }
        }
        _ => {}
    }
    Ok(Value::Object(made))
}
