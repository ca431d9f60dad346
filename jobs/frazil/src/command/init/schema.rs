//! From a schema's file.

use std::path::Path;

use codec::payload;
use pipeline::resolved::Schema;

use super::{Draft, quoted};
use crate::manners::failure::Failure;

/// What kind of schema a file is, by its ending; of protobuf the message too, where there is only one.
pub(super) fn draft(
    file: &Path,
    root: &Path,
    message: Option<&str>,
    framing: Option<String>,
) -> Result<Draft, Failure> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let (format, key) = match ending {
        "proto" => ("protobuf", "proto"),
        "desc" | "pb" | "binpb" => ("protobuf", "descriptor"),
        "avsc" => ("avro", "avsc"),
        "json" => ("json", "json_schema"),
        _ => {
            return Err(Failure::usage("init.schema", "what kind of schema this is does not show")
                .at(file.display().to_string())
                .remedy(
                    "give a .proto, a .desc (a FileDescriptorSet), an .avsc, or a JSON Schema as .json; values as JSON with --samples",
                ));
        }
    };
    let message = match format {
        "protobuf" => format!(", message = {}", quoted(&self::message(file, key, message)?)),
        _ if message.is_some() => {
            return Err(Failure::usage("init.message", "--message is for protobuf alone")
                .at(file.display().to_string())
                .remedy("leave it out"));
        }
        _ => String::new(),
    };
    let path = file.strip_prefix(root).unwrap_or(file);
    let schema = format!("{{ {key} = {}{message} }}", quoted(&path.display().to_string()));
    Ok(Draft {
        format,
        framing: framing.unwrap_or_else(|| "bare".to_owned()),
        schema: Some(schema),
        ..Draft::default()
    })
}

fn message(file: &Path, key: &str, message: Option<&str>) -> Result<String, Failure> {
    let at = || file.display().to_string();
    let path = file.to_owned();
    let wanted = message.unwrap_or_default().to_owned();
    let schema = match key {
        "proto" => Schema::Proto { path, message: wanted },
        _ => Schema::Descriptor { path, message: wanted },
    };
    match payload::Schema::load(&schema) {
        Ok(schema) => Ok(schema.name().to_owned()),
        Err(codec::Error::UnknownMessage { available, .. }) if message.is_none() => match available.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(Failure::usage("init.message", "it has no message").at(at()).remedy("give another file")),
            several => Err(Failure::usage("init.message", format!("it has several messages: {}", several.join(", ")))
                .at(at())
                .remedy("say which one the topic's values are: --message NAME")),
        },
        Err(error) => Err(Failure::of(error.kind(), "init.schema", &error).at(at()).remedy("mend the schema")),
    }
}
