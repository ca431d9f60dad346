//! `[value]`: how a record's value is read; `[key]`: how its key is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::document::Section;
use crate::environment::Registry;
use crate::fault::code;
use crate::nearest::nearest;
use crate::path;
use crate::reader::{Reader, Text};
use crate::resolved::{Filter, Format, Framing, Indexes, Schema, Value};

use super::expectation;

/// What was read: the schema's file by itself, so that it is looked for whatever else is wrong.
pub(super) struct Found {
    pub(super) value: Option<Value>,
    /// With the place that names it.
    pub(super) schema_file: Option<(PathBuf, usize)>,
}

const FORMATS: &[(&str, Format)] = &[("protobuf", Format::Protobuf), ("avro", Format::Avro), ("json", Format::Json)];

const INDEXES: &[(&str, Indexes)] = &[("zigzag", Indexes::Zigzag), ("plain", Indexes::Plain)];

/// `registries` are the environment's; `block` is `value` or `key`.
pub(super) fn read<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    block: &str,
    project: &Path,
    registries: &BTreeMap<String, Registry>,
) -> Found {
    let format = reader.choice(section, "format", FORMATS, &["dms", "debezium"]);
    // Of JSON the declared columns may say what there is.
    let is_declared = format == Some(Format::Json) && section.get("schema").is_none();
    for needed in ["format", "schema"].iter().filter(|needed| **needed != "schema" || !is_declared) {
        if section.get(needed).is_none() {
            reader.fault(section.at, code::MISSING, format!("`[{block}]` needs `{needed}`"));
        }
    }
    if section.get("framing").is_none() {
        // Left out, it would have to be guessed, and an empty value means another thing under "bare" than under "auto".
        let message =
            format!("`[{block}]` needs `framing`: \"bare\", or \"auto\", which tells framings apart record by record");
        reader.fault(section.at, code::MISSING, message);
    }
    let framing = reader.choice(section, "framing", &Framing::NAMED, &[]);
    if let (Some(format), Some(framing), Some(entry)) = (format, framing, section.get("framing"))
        && let Some(reason) = framing.refusal(format)
    {
        reader.fault(entry.value_at(), code::INVALID, format!("`framing`: {reason}"));
    }
    let indexes = reader.choice(section, "confluent_indexes", INDEXES, &[]).unwrap_or_default();
    if let (Some(framing), Some(entry)) = (framing, section.get("confluent_indexes"))
        && !matches!(framing, Framing::Auto | Framing::Confluent)
    {
        let message = "`confluent_indexes` is for `framing = \"confluent\"` and \"auto\"";
        reader.fault(entry.key_at, code::INVALID, message);
    }
    let (schema, schema_file) = match reader.section(section, "schema") {
        Some(section) => schema(reader, section, block, format, project, registries),
        None => (is_declared.then_some(Schema::Declared), None),
    };
    let filter = filter(reader, section);
    let explode = reader.text(section, "explode").and_then(|text| field_path(reader, "explode", &text));
    // What stands there instead was reported.
    let (format, framing) = (format.unwrap_or(Format::Protobuf), framing.unwrap_or(Framing::Bare));
    let value = schema.map(|schema| Value { format, framing, indexes, schema, filter, explode });
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

/// The keys that say where a schema is, and the formats that it may be of.
const PLACES: [(&str, &[Format]); 6] = [
    ("proto", &[Format::Protobuf]),
    ("descriptor", &[Format::Protobuf]),
    ("avsc", &[Format::Avro]),
    ("json_schema", &[Format::Json]),
    ("registry", &[Format::Protobuf, Format::Avro, Format::Json]),
    ("registries", &[Format::Protobuf, Format::Avro, Format::Json]),
];

/// Names of keys for a sentence: "`a`, `b` or `c`".
fn listed(names: &[&str], last: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((end, [])) => end.clone(),
        Some((end, before)) => format!("{} {last} {end}", before.join(", ")),
        None => String::new(),
    }
}

/// The schema, and its file by itself. `format` is none where it could not be read.
fn schema<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    block: &str,
    format: Option<Format>,
    project: &Path,
    registries: &BTreeMap<String, Registry>,
) -> (Option<Schema>, Option<(PathBuf, usize)>) {
    let named: Vec<_> =
        PLACES.iter().filter_map(|(name, formats)| section.get(name).map(|entry| (*name, *formats, entry))).collect();
    let fits: Vec<&str> = PLACES
        .iter()
        .filter(|(_, formats)| format.is_none_or(|format| formats.contains(&format)))
        .map(|(name, _)| *name)
        .collect();
    let (name, formats, entry) = match &named[..] {
        [] => {
            reader.fault(section.at, code::MISSING, format!("`[{block}.schema]` needs {}", listed(&fits, "or")));
            // Its name is that of a message, or nothing can be said of it.
            let _message = message(reader, section, block, !matches!(format, Some(Format::Avro | Format::Json)));
            return (None, None);
        }
        [only] => only,
        [_, (.., other), ..] => {
            reader.fault(other.key_at, code::INVALID, format!("a schema is one of {}", listed(&fits, "and")));
            return (None, None);
        }
    };
    let is_kept = matches!(*name, "registry" | "registries");
    if let Some(format) = format.filter(|format| !formats.contains(format)) {
        let message = format!("`{name}` is no schema of `format = \"{format}\"`, which takes {}", listed(&fits, "or"));
        reader.fault(entry.key_at, code::INVALID, message);
    }
    let of_one = match (*name, format) {
        ("avsc", _) | ("registry" | "registries", Some(Format::Avro)) => Some("an Avro schema is of one record"),
        ("json_schema", _) | ("registry" | "registries", Some(Format::Json)) => Some("a JSON Schema is of one object"),
        _ => None,
    };
    let message = if let (Some(of_one), Some(entry)) = (of_one, section.get("message")) {
        reader.fault(entry.key_at, code::INVALID, format!("`message` is of protobuf: {of_one}"));
        None
    } else {
        message(reader, section, block, !is_kept && of_one.is_none())
    };
    if is_kept {
        return (registered(reader, section, block, message, registries), None);
    }
    if let Some(entry) = section.get("name") {
        reader.fault(entry.key_at, code::INVALID, "`name` is that of a schema in a registry");
    }
    let Some(file) = reader.text(section, name) else { return (None, None) };
    if file.value.is_empty() {
        reader.fault(file.at, code::INVALID, "a schema file has a path");
        return (None, None);
    }
    let path = project.join(&file.value);
    let schema = match (*name, message) {
        ("avsc", _) => Some(Schema::Avro { path: path.clone() }),
        ("json_schema", _) => Some(Schema::Json { path: path.clone() }),
        ("proto", Some(message)) => Some(Schema::Proto { path: path.clone(), message }),
        (_, Some(message)) => Some(Schema::Descriptor { path: path.clone(), message }),
        (_, None) => None,
    };
    (schema, Some((path, file.at)))
}

/// The full name of a message.
fn message<'t>(reader: &mut Reader<'t>, section: Section<'t>, block: &str, required: bool) -> Option<String> {
    let text = match required {
        true => reader.required_text(section, &format!("{block}.schema"), "message"),
        false => reader.text(section, "message"),
    }?;
    if !text.value.split('.').all(identifier) {
        let problem = format!("`{}` is not a message's full name, such as `package.Message`", text.value);
        reader.fault(text.at, code::INVALID, problem);
    }
    Some(text.value)
}

/// A schema in registries of the environment.
fn registered<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    block: &str,
    message: Option<String>,
    known: &BTreeMap<String, Registry>,
) -> Option<Schema> {
    let list = section.get("registries").map(|entry| entry.value_at());
    let names = match list {
        Some(_) => reader.texts(section, "registries"),
        None => reader.text(section, "registry").into_iter().collect(),
    };
    if let (Some(at), []) = (list, &names[..]) {
        reader.fault(at, code::INVALID, "`registries` names at least one");
    }
    for (place, text) in names.iter().enumerate() {
        if names.iter().take(place).any(|other| other.value == text.value) {
            reader.fault(text.at, code::INVALID, format!("the registry {:?} is named twice", text.value));
        }
        if !known.contains_key(&text.value) {
            let nearest = nearest(&text.value, known.keys().map(String::as_str));
            let meant = nearest.map_or_else(String::new, |n| format!("; did you mean \"{n}\"?"));
            let message =
                format!("there is no registry {:?} under `registries` of this environment{meant}", text.value);
            reader.near(text.at, code::INVALID, message, nearest);
        }
    }
    // Records name the versions that they are written with; the table's columns are planned before there are any.
    let name = reader.required_text(section, &format!("{block}.schema"), "name")?;
    if name.value.is_empty() {
        reader.fault(name.at, code::INVALID, "a schema has a name");
    }
    let registries = names.into_iter().map(|text| text.value).collect();
    Some(Schema::Registered { registries, name: name.value, message })
}

/// An identifier of the protobuf language.
fn identifier(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
