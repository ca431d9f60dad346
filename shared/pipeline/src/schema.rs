//! The JSON Schema (2020-12) of both files, for editors. It knows every key that the reader knows, and refuses what is not
//! of this version; what takes more than one place of the file to judge, such as a partition field whose column is not
//! there, is left to the reader.

use serde_json::{Value, json};

use crate::grammar::{self, Key, Shape, Stands};

const PIPELINE: &str = include_str!("schema/pipeline.json");
const ENVIRONMENT: &str = include_str!("schema/environment.json");

/// The schema of pipeline files.
///
/// # Errors
/// Never in a build whose tests passed: the schema is a part of the program.
pub fn pipeline() -> Result<Value, serde_json::Error> {
    of_this_version(PIPELINE, grammar::PIPELINE)
}

/// The schema of `frazil.toml`.
///
/// # Errors
/// As [`pipeline`].
pub fn environment() -> Result<Value, serde_json::Error> {
    of_this_version(ENVIRONMENT, grammar::ENVIRONMENTS)
}

fn of_this_version(text: &str, keys: &[Key]) -> Result<Value, serde_json::Error> {
    let mut schema = serde_json::from_str(text)?;
    refuse_later(&mut schema, keys);
    Ok(schema)
}

/// The part of a key's schema that says which keys may stand below it.
fn table(schema: &mut Value) -> Option<&mut Value> {
    if schema.get("anyOf").is_some() {
        return schema.get_mut("anyOf")?.as_array_mut()?.iter_mut().find(|branch| branch["type"] == "object");
    }
    Some(schema).filter(|schema| schema["type"] == "object")
}

fn refuse_later(schema: &mut Value, keys: &[Key]) {
    let Some(table) = table(schema) else { return };
    for key in keys {
        let Some(schema) = table.get_mut("properties").and_then(|properties| properties.get_mut(key.name)) else {
            continue;
        };
        match key.stands {
            Stands::Later => {
                let description = schema["description"].as_str().unwrap_or_default();
                *schema = json!({ "description": format!("{description} Not of this version."), "not": {} });
            }
            Stands::Only(only, _) => {
                if let Ok(value) = serde_json::from_str::<Value>(only) {
                    schema["enum"] = json!([value]);
                }
            }
            Stands::Now => {}
        }
        match key.shape {
            Shape::Leaf | Shape::Open => {}
            Shape::Table(keys) => refuse_later(schema, keys),
            Shape::Named(keys) => {
                let named = self::table(schema).and_then(|table| table.get_mut("additionalProperties"));
                if let Some(named) = named {
                    refuse_later(named, keys);
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
