//! Avro schemas: types with their names resolved. Source of the format: the Apache Avro 1.12 specification.

use std::path::Path;

use super::parse::Reader;
use super::{canonical, default};
use crate::{Error, file};

/// A schema, ready for records written with it or to be read as it.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Every type that is written in it. A name leads to the type that it names.
    pub(super) types: Vec<Type>,
    pub(super) root: usize,
    /// The type of a duration's parts, which no text has.
    pub(super) part: usize,
    pub(super) digest: String,
}

/// A type, and what its values mean.
#[derive(Clone, Debug)]
pub(super) struct Type {
    pub(super) shape: Shape,
    pub(super) logical: Option<Logical>,
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Record(Record),
    Enum(Enum),
    Fixed(Fixed),
    Array(usize),
    Map(usize),
    Union(Vec<usize>),
}

/// What a value means beyond its type. What is none of these, or goes with another type, means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logical {
    Decimal {
        precision: usize,
        scale: usize,
    },
    Uuid,
    Date,
    /// Of the day.
    Time(Unit),
    /// An instant.
    Timestamp(Unit),
    /// Without a zone.
    Local(Unit),
    /// Months, days and milliseconds.
    Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Millis,
    Micros,
    Nanos,
}

/// A full name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) full: String,
    /// Full names that it had.
    pub(super) aliases: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) name: Name,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    pub(super) doc: Option<String>,
    pub(super) of: usize,
    /// What a record has whose writer lacks the field: the encoded value, or why the written one is none.
    pub(super) default: Option<Result<Vec<u8>, String>>,
}

#[derive(Clone, Debug)]
pub(super) struct Enum {
    pub(super) name: Name,
    pub(super) symbols: Vec<String>,
    pub(super) default: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) name: Name,
    pub(super) size: usize,
}

/// Reads the schema of a file.
///
/// # Errors
/// [`Error::Read`] when the file can't be read, [`Error::Schema`] when it is no schema, or a default in it no value of its
/// field.
pub fn load(path: &Path) -> Result<Schema, Error> {
    let unusable = |message: String| Error::Schema { path: path.to_owned(), message };
    let schema = Schema::parse(&file::text(path)?, &[]).map_err(|fault| unusable(fault.to_string()))?;
    match schema.wrong_default() {
        Some(fault) => Err(unusable(fault)),
        None => Ok(schema),
    }
}

/// Why a text is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", .place, if .place.is_empty() { "" } else { ": " })]
pub struct Fault {
    /// Where in the text's JSON: `fields[3].type.items`; empty for the whole.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

impl Schema {
    /// Reads a schema's text. The texts of `references` come before it: each may use the names that those before it define,
    /// as a registry's schemas refer to others.
    ///
    /// A default that is no value of its field is no fault here: writers' schemas have such, and it only matters where it is
    /// used, which is refused then. [`load`] refuses it.
    ///
    /// # Errors
    /// Where the text is no schema, and why.
    pub fn parse(text: &str, references: &[&str]) -> Result<Self, Fault> {
        let mut reader = Reader::default();
        for reference in references {
            reader.text(reference)?;
        }
        let root = reader.text(text)?;
        let (types, part, defaults, digest) = reader.finish()?;
        let mut schema = Self { types, root, part, digest };
        for (record, field, value) in defaults {
            let encoded = schema.field(record, field).map(|found| default::encode(&schema, found.of, &value));
            if let Some(Type { shape: Shape::Record(found), .. }) = schema.types.get_mut(record)
                && let Some(found) = found.fields.get_mut(field)
            {
                found.default = encoded;
            }
        }
        Ok(schema)
    }

    /// The full name of the record, enum or fixed type that it is, else the name of its type.
    #[must_use]
    pub fn name(&self) -> &str {
        self.type_name(self.root)
    }

    /// Names its content: SHA-256, in hexadecimal, of its texts without blanks and with members sorted.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Its Parsing Canonical Form: what two schemas have in common whose data are read alike.
    #[must_use]
    pub fn canonical_form(&self) -> String {
        canonical::form(self)
    }

    /// The CRC-64-AVRO fingerprint of its Parsing Canonical Form, by which single-object encoding names it.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        canonical::fingerprint(self.canonical_form().as_bytes())
    }

    pub(super) fn at(&self, id: usize) -> &Type {
        static NOTHING: Type = Type { shape: Shape::Null, logical: None };
        self.types.get(id).unwrap_or(&NOTHING)
    }

    pub(super) fn shape(&self, id: usize) -> &Shape {
        &self.at(id).shape
    }

    pub(super) fn field(&self, record: usize, field: usize) -> Option<&Field> {
        match self.shape(record) {
            Shape::Record(record) => record.fields.get(field),
            _ => None,
        }
    }

    /// A named type's full name, another type's name.
    pub(super) fn type_name(&self, id: usize) -> &str {
        self.shape(id).name()
    }

    /// The first default that is no value of its field.
    fn wrong_default(&self) -> Option<String> {
        self.types.iter().find_map(|found| match &found.shape {
            Shape::Record(record) => record.fields.iter().find_map(|field| match &field.default {
                Some(Err(reason)) => Some(format!("the default of `{}` in {}: {reason}", field.name, record.name.full)),
                _ => None,
            }),
            _ => None,
        })
    }
}

impl Shape {
    /// A named type's full name, another type's name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Record(Record { name, .. }) | Self::Enum(Enum { name, .. }) | Self::Fixed(Fixed { name, .. }) => {
                &name.full
            }
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union(_) => "union",
        }
    }
}

/// The part of a full name behind its namespace.
pub(super) fn unqualified(full: &str) -> &str {
    full.rsplit_once('.').map_or(full, |(_, name)| name)
}
