//! `[value]`: how a record's value is read.

use std::path::{Path, PathBuf};

use crate::document::Section;
use crate::fault::code;
use crate::path;
use crate::reader::{Reader, Text};
use crate::resolved::{Filter, Format, Framing, Schema, Value};

use super::expectation;

/// What was read: the schema's file by itself, so that it is looked for whatever else is wrong.
pub(super) struct Found {
    pub(super) value: Option<Value>,
    /// With the place that names it.
    pub(super) schema_file: Option<(PathBuf, usize)>,
}

pub(super) fn read<'t>(reader: &mut Reader<'t>, section: Section<'t>, project: &Path) -> Found {
    for needed in ["format", "schema"] {
        if section.get(needed).is_none() {
            reader.fault(section.at, code::MISSING, format!("`[value]` needs `{needed}`"));
        }
    }
    if section.get("framing").is_none() {
        // Left out, a later version will tell framings apart record by record, and an empty value, a row of defaults
        // under "bare", will be refused there. A file must not change its meaning with the version that reads it.
        let message = "`[value]` needs `framing = \"bare\"`: telling framings apart is part of the grammar but not of this version";
        reader.fault(section.at, code::MISSING, message);
    }
    let format =
        reader.choice(section, "format", &[("protobuf", Format::Protobuf)], &["avro", "json", "dms", "debezium"]);
    let framing = reader.choice(
        section,
        "framing",
        &[("bare", Framing::Bare)],
        &["auto", "glue", "confluent", "avro-single-object"],
    );
    let (schema, schema_file) = match reader.section(section, "schema") {
        Some(section) => schema(reader, section, project),
        None => (None, None),
    };
    let filter = filter(reader, section);
    let explode = reader.text(section, "explode").and_then(|text| field_path(reader, "explode", &text));
    // There is one of each so far: what stands there instead was reported.
    let (format, framing) = (format.unwrap_or(Format::Protobuf), framing.unwrap_or(Framing::Bare));
    let value = schema.map(|schema| Value { format, framing, schema, filter, explode });
    Found { value, schema_file }
}

fn filter<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Option<Filter> {
    const BLOCK: &str = "value.filter";
    section.get("filter")?;
    let section = reader.section(section, "filter")?;
    let field = reader.required_text(section, BLOCK, "field");
    if section.get("in").is_none() {
        reader.fault(section.at, code::MISSING, format!("`[{BLOCK}]` needs `in`"));
    }
    let one_of = expectation::one_of(reader, section, "in");
    let field = field.and_then(|text| field_path(reader, "field", &text))?;
    Some(Filter { field, one_of })
}

/// A path into the value.
fn field_path(reader: &mut Reader<'_>, name: &str, text: &Text) -> Option<Vec<String>> {
    if text.value.starts_with('@') {
        let message = format!("`{name}` names a field of the value; `{}` is none", text.value);
        reader.fault(text.at, code::INVALID, message);
        return None;
    }
    path::parse(&text.value).map_err(|wrong| reader.wrong(text, &wrong)).ok()
}

fn schema<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    project: &Path,
) -> (Option<Schema>, Option<(PathBuf, usize)>) {
    let later = ["avsc", "json_schema", "registry", "registries"].iter().any(|name| section.get(name).is_some());
    let message =
        if later { reader.text(section, "message") } else { reader.required_text(section, "value.schema", "message") };
    if let Some(text) = &message
        && !text.value.split('.').all(identifier)
    {
        let problem = format!("`{}` is not a message's full name, such as `package.Message`", text.value);
        reader.fault(text.at, code::INVALID, problem);
    }
    let message = message.map(|text| text.value);
    let named = ["proto", "descriptor"].map(|name| section.get(name));
    match named {
        [Some(_), Some(other)] => {
            reader.fault(other.key_at, code::INVALID, "a schema is either `proto` or `descriptor`, not both");
            return (None, None);
        }
        [None, None] if !later => {
            reader.fault(section.at, code::MISSING, "`[value.schema]` needs `proto` or `descriptor`");
        }
        _ => {}
    }
    let Some(file) = named.into_iter().flatten().next().and_then(|entry| reader.text(section, entry.key)) else {
        return (None, None);
    };
    if file.value.is_empty() {
        reader.fault(file.at, code::INVALID, "a schema file has a path");
        return (None, None);
    }
    let path = project.join(&file.value);
    let schema = message.map(|message| match named {
        [Some(_), _] => Schema::Proto { path: path.clone(), message },
        _ => Schema::Descriptor { path: path.clone(), message },
    });
    (schema, Some((path, file.at)))
}

/// An identifier of the protobuf language.
fn identifier(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
