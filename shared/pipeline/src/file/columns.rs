//! `[table.columns]`: declared columns.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::expectation;
use crate::document::{Entry, Section};
use crate::expectation::Expectations;
use crate::fault::code;
use crate::name;
use crate::nearest::nearest;
use crate::path::{self, Wrong};
use crate::reader::{Reader, Text};
use crate::resolved::{ColumnCase, ColumnDeclaration, From, Pii, RecordField, Types, Unit};
use crate::types::Type;

const RECORD_FIELDS: [(&str, RecordField); 5] = [
    ("topic", RecordField::Topic),
    ("partition", RecordField::Partition),
    ("offset", RecordField::Offset),
    ("timestamp", RecordField::Timestamp),
    ("ingested_at", RecordField::IngestedAt),
];

/// In the order of the file. Without a `from`, a column is made from the source's field of its own name.
pub(super) fn read<'t>(
    reader: &mut Reader<'t>,
    table: Section<'t>,
    case: ColumnCase,
    types: Types,
) -> Vec<ColumnDeclaration> {
    let Some(section) = reader.section(table, "columns") else { return Vec::new() };
    let mut folded: BTreeMap<String, &str> = BTreeMap::new();
    let (mut columns, mut places) = (Vec::new(), Vec::new());
    for entry in section.entries() {
        check_name(reader, &entry, case);
        if let Some(other) = folded.insert(entry.key.to_lowercase(), entry.key) {
            let message =
                format!("the columns `{other}` and `{}` differ only in case, which Glue and Athena fold", entry.key);
            reader.fault(entry.key_at, code::DUPLICATE, message);
        }
        match column(reader, &entry, types) {
            Some(column) => {
                columns.push(column);
                places.push(entry.key_at);
            }
            None => reader.unread.push(entry.key.to_owned()),
        }
    }
    for one in columns.iter().filter(|column| column.pii.is_some()) {
        for (_, at) in columns.iter().zip(&places).filter(|(other, _)| other.pii.is_none() && publishes(other, one)) {
            let name = &one.name;
            let message = format!(
                "it holds what `pii` of the column `{name}` is to keep out of the table: leave it out, declare columns for other \
                 parts of it, or say `pii` of it too"
            );
            reader.fault(*at, code::INVALID, message);
        }
    }
    columns
}

/// Whether a column has the values in it that another one says are personal, or a part of them, as far as the paths that are written
/// tell: fields that have other names, too, only the schema knows.
fn publishes(column: &ColumnDeclaration, personal: &ColumnDeclaration) -> bool {
    match (&column.from, &personal.from) {
        (From::Path(outer), From::Path(inner)) | (From::KeyField(outer), From::KeyField(inner)) => {
            // A struct that nothing is said of leaves out what is dropped.
            let whole = personal.pii != Some(Pii::Drop) || column.data_type.is_some() || outer == inner;
            whole && inner.starts_with(outer) || outer.len() > inner.len() && outer.starts_with(inner)
        }
        (From::Key, From::KeyField(_)) | (From::KeyField(_), From::Key) => true,
        (one, other) => one == other,
    }
}

fn check_name(reader: &mut Reader<'_>, entry: &Entry<'_>, case: ColumnCase) {
    let name = entry.key;
    if let Some(why) = name::reserved_column(name) {
        reader.fault(entry.key_at, code::RESERVED, format!("a column cannot be called `{name}`: {why}"));
    } else if let Err(message) = name::column(name) {
        reader.fault(entry.key_at, code::INVALID, message);
    } else if case != ColumnCase::AsIs && name.chars().any(char::is_uppercase) {
        let lower = name.to_lowercase();
        let message =
            format!("the column `{name}` has upper-case letters; write `{lower}`, or set `column_case = \"as-is\"`");
        reader.near(entry.key_at, code::INVALID, message, Some(&lower));
    }
}

fn column<'t>(reader: &mut Reader<'t>, entry: &Entry<'t>, types: Types) -> Option<ColumnDeclaration> {
    let own_name = From::Path(vec![entry.key.to_owned()]);
    let Some(section) = entry.section() else {
        let text = reader.string(entry.key, entry.value, "a source path, or a table such as { from = \"id\" }")?;
        let from = from(reader, &text)?;
        return Some(ColumnDeclaration {
            name: entry.key.to_owned(),
            from,
            data_type: None,
            unit: None,
            required: false,
            doc: None,
            expect: Expectations::default(),
            pii: None,
        });
    };
    let from = match section.get("from") {
        None => Some(own_name.clone()),
        Some(_) => reader.text(section, "from").and_then(|text| from(reader, &text)),
    };
    let data_type = reader.text(section, "type").and_then(|text| data_type(reader, &text, types));
    let bytes = matches!(from, Some(From::Key | From::Header(_)));
    if let (true, Some(other)) = (bytes, data_type.as_ref().filter(|t| !matches!(t, Type::Binary | Type::String))) {
        let at = section.get("type").map_or(section.at, |entry| entry.value_at());
        let message = format!("keys and headers are bytes: a column of one is binary or string, not {other}");
        reader.fault(at, code::INVALID, message);
    }
    let unit = unit(reader, section, from.as_ref().unwrap_or(&own_name), data_type.as_ref());
    let pii = pii(reader, section, from.as_ref().unwrap_or(&own_name), data_type.as_ref());
    // Personal data is judged as the text that it is before it is hashed or cut.
    let judged = match pii {
        Some(_) => Some(&Type::String),
        None => data_type.as_ref().or(if bytes { Some(&Type::Binary) } else { None }),
    };
    let expect = expectation::read(reader, section, from.as_ref().unwrap_or(&own_name), judged);
    let required = reader.flag(section, "required", false);
    let doc = reader.text(section, "doc").map(|text| text.value);
    Some(ColumnDeclaration { name: entry.key.to_owned(), from: from?, data_type, unit, required, doc, expect, pii })
}

const UNITS: [(&str, Unit); 4] =
    [("s", Unit::Seconds), ("ms", Unit::Millis), ("us", Unit::Micros), ("ns", Unit::Nanos)];

fn unit<'t>(reader: &mut Reader<'t>, section: Section<'t>, from: &From, data_type: Option<&Type>) -> Option<Unit> {
    let unit = reader.choice(section, "unit", &UNITS, &[])?;
    let at = section.get("unit").map_or(section.at, |entry| entry.key_at);
    match (from, data_type) {
        (From::Path(_) | From::KeyField(_), Some(Type::Timestamptz | Type::Timestamp | Type::Date | Type::Time)) => {}
        (From::Path(_) | From::KeyField(_), Some(other)) => {
            reader.fault(at, code::INVALID, format!("`unit` is of numbers that become times, and {other} is none"));
        }
        // A type that can't be read was reported.
        (From::Path(_) | From::KeyField(_), None) if section.get("type").is_some() => {}
        (From::Path(_) | From::KeyField(_), None) => {
            reader.fault(at, code::MISSING, "`unit` needs the column's `type`: \"timestamptz\" or \"timestamp\"");
        }
        _ => reader.fault(
            at,
            code::INVALID,
            "`unit` is of numbers in payloads, not of a record's own fields, key or headers",
        ),
    }
    Some(unit)
}

fn pii<'t>(reader: &mut Reader<'t>, section: Section<'t>, from: &From, data_type: Option<&Type>) -> Option<Pii> {
    let known = [("hash", Pii::Hash), ("drop", Pii::Drop), ("last4", Pii::Last4)];
    let pii = reader.choice(section, "pii", &known, &[])?;
    let at = section.get("pii").map_or(section.at, |entry| entry.value_at());
    match (pii, from) {
        (_, From::Record(_)) => {
            reader.fault(
                at,
                code::INVALID,
                "`pii` is for values of payloads, keys and headers, not for a record's own fields",
            );
        }
        (Pii::Drop, From::Key | From::KeyField(_) | From::Header(_)) => {
            let message = "keys and headers are in the table only where a column is made of them: leave this one out";
            reader.fault(at, code::INVALID, message);
        }
        (Pii::Drop, From::Path(_)) => {
            for entry in section.entries().into_iter().filter(|entry| !matches!(entry.key, "pii" | "from")) {
                let message = format!("a column that is dropped has no `{}`", entry.key);
                reader.fault(entry.key_at, code::INVALID, message);
            }
        }
        _ => {
            if let Some(other) = data_type.filter(|data_type| **data_type != Type::String) {
                let at = section.get("type").map_or(section.at, |entry| entry.value_at());
                reader.fault(at, code::INVALID, format!("what is left of personal data is a string, not {other}"));
            }
        }
    }
    Some(pii)
}

fn from(reader: &mut Reader<'_>, text: &Text) -> Option<From> {
    let Some(field) = text.value.strip_prefix('@') else {
        return match path::parse(&text.value) {
            Ok(path) => Some(From::Path(path)),
            Err(wrong) => {
                reader.wrong(text, &wrong);
                None
            }
        };
    };
    if let Some((_, field)) = RECORD_FIELDS.iter().find(|(name, _)| *name == field) {
        return Some(From::Record(*field));
    }
    if let Some(inner) = field.strip_prefix("key.") {
        return match path::parse(inner) {
            Ok(path) => Some(From::KeyField(path)),
            Err(wrong) => {
                reader.wrong(text, &Wrong::new(wrong.message, wrong.at + 5));
                None
            }
        };
    }
    match field.strip_prefix("header.") {
        _ if field == "key" => return Some(From::Key),
        Some(name) if !name.is_empty() => return Some(From::Header(name.to_owned())),
        _ => {}
    }
    if matches!(field, "header" | "header.") {
        reader.fault(text.at, code::INVALID, "a header is named: `@header.NAME`");
        return None;
    }
    let nearest = nearest(field, RECORD_FIELDS.iter().map(|(name, _)| *name).chain(["key", "header"]));
    let nearest = nearest.map(|name| format!("@{name}"));
    let meant = nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
    let mut known: Vec<String> = RECORD_FIELDS.iter().map(|(name, _)| format!("@{name}")).collect();
    known.extend(["@key", "@header.NAME"].map(str::to_owned));
    let message = format!("`{}` is nothing a record has (it has {}){meant}", text.value, known.join(", "));
    reader.near(text.at, code::INVALID, message, nearest.as_deref());
    None
}

fn data_type(reader: &mut Reader<'_>, text: &Text, types: Types) -> Option<Type> {
    let data_type = match text.value.parse::<Type>() {
        Ok(data_type) => data_type,
        Err(error) => {
            reader.wrong(text, &Wrong::new(error.message, error.at));
            return None;
        }
    };
    if types == Types::Portable
        && let Some(part) = not_portable(&data_type)
    {
        let message =
            format!("Athena does not read `{part}`; leave the type out, choose another, or set `types = \"iceberg\"`");
        reader.fault(text.at, code::INVALID, message);
        return None;
    }
    Some(data_type)
}

/// The first part of a type that `types = "portable"` leaves out. The parser has bounded the depth.
fn not_portable(data_type: &Type) -> Option<&Type> {
    match data_type {
        Type::Uuid | Type::Time | Type::Fixed(_) => Some(data_type),
        Type::Struct(fields) => fields.iter().find_map(|f| not_portable(&f.data_type)),
        Type::List { element, .. } => not_portable(element),
        Type::Map { key, value, .. } => not_portable(key).or_else(|| not_portable(value)),
        _ => None,
    }
}

/// Whether `primary_key` was written as one word.
pub(super) fn is_record_key(entry: &Entry<'_>) -> bool {
    matches!(entry.value.get_ref(), DeValue::String(text) if text == "record-key")
}
