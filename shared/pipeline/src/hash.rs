//! The name of a pipeline's content: the sha256 of its canonical JSON together with its schemas' digests.
//!
//! Two files that resolve to the same pipeline have the same hash, whatever their spelling, order and comments; so has
//! the same file on another machine, since a schema counts by its digest and not by where it lies.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::fault::Error;
use crate::resolved::{Pipeline, Schema};

/// The hash, 64 lower-case hexadecimal digits. `schemas` holds a digest of each schema with everything it imports, by
/// the block that uses it (`value`, `key`), see [`digest`].
///
/// # Errors
/// [`Error::Canonical`], where the pipeline cannot be written as JSON.
pub fn of(pipeline: &Pipeline, schemas: &BTreeMap<String, String>) -> Result<String, Error> {
    let mut pipeline = pipeline.clone();
    for value in std::iter::once(&mut pipeline.value).chain(&mut pipeline.key) {
        match &mut value.schema {
            Schema::Proto { path, .. }
            | Schema::Descriptor { path, .. }
            | Schema::Avro { path }
            | Schema::Json { path } => *path = PathBuf::new(),
            Schema::Registered { .. } | Schema::Declared => {}
        }
    }
    let document = serde_json::json!({ "pipeline": serde_json::to_value(&pipeline)?, "schemas": schemas });
    Ok(digest(canonical_json(&document).as_bytes()))
}

/// The sha256 of some bytes, 64 lower-case hexadecimal digits.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// JSON with sorted keys and no white space. The order is made here, for a map of `serde_json` keeps whatever order the
/// features of the whole build say.
#[must_use]
pub fn canonical_json(value: &Json) -> String {
    match value {
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical_json).collect();
            format!("[{}]", items.join(","))
        }
        Json::Object(members) => {
            let members: BTreeMap<&String, &Json> = members.iter().collect();
            let members: Vec<String> = members
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Json::from(key.as_str()), canonical_json(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::file;

    const TEXT: &str = r#"
        [source]
        topics = ["t"]
        [value]
        format = "protobuf"
        framing = "bare"
        schema = { proto = "x.proto", message = "p.M" }
        [table]
        name = "db.t"
        partition_by = ["hour(at)"]
        [table.columns]
        at = { type = "timestamptz", doc = "when" }
    "#;

    fn hash(text: &str, dir: &str, schema: &str) -> String {
        let environment = Environment::embedded(dir);
        let pipeline = file::parse(text, &environment, &std::path::Path::new(dir).join("pipelines/t.toml")).unwrap();
        of(&pipeline, &BTreeMap::from([("value".to_owned(), schema.to_owned())])).unwrap()
    }

    #[test]
    fn the_hash_is_of_what_the_file_says() {
        let golden = "f007d47b7ec10f1e6fa152cacd4d0ac91970240b7b949512d76ee8df431a73fd";
        assert_eq!(hash(TEXT, "/a", "00"), golden);
        assert_eq!(hash(TEXT, "/elsewhere", "00"), golden);
        assert_eq!(hash(&format!("# comment\n{}", TEXT.replace("hour(", "hours( ")), "/a", "00"), golden);
        assert_eq!(hash(&TEXT.replace("[table.columns]", "mode = 'append'\n[table.columns]"), "/a", "00"), golden);
        assert_ne!(hash(TEXT, "/a", "01"), golden);
        assert_ne!(hash(&TEXT.replace("hour(", "day("), "/a", "00"), golden);
        assert_ne!(hash(&TEXT.replace("when", "where"), "/a", "00"), golden);
    }

    #[test]
    fn canonical_json_is_sorted_and_tight() {
        let value: Json = serde_json::from_str(r#"{ "b": [1, {"z": null, "a": "\"é"}], "a": true }"#).unwrap();
        assert_eq!(canonical_json(&value), r#"{"a":true,"b":[1,{"a":"\"é","z":null}]}"#);
        assert_eq!(digest(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
