//! An Avro schema, as columns see it.

use std::collections::HashMap;

use pipeline::types::Type;

use super::schema::{Logical, Schema, Shape, Unit};
use super::view::{self, View};
use super::{place, schema};
use crate::columns::Columns;
use crate::source::{self, Comparable, Described, Field, Kind, Record, Single, Symbols, Value};

/// The fields of a duration: unsigned numbers of 32 bits.
pub(super) const DURATION: [&str; 3] = ["months", "days", "milliseconds"];

/// The field of a payload that is no record.
pub(super) const VALUE: &str = "value";

impl Described for Schema {
    fn describe(&self) -> source::Schema {
        let mut describer = Describer { schema: self, places: HashMap::new(), found: Vec::new() };
        let mut records = Vec::new();
        describer.place(match view::of(self, self.root) {
            (_, View::One(id)) if matches!(self.shape(id), Shape::Record(_)) => Found::Record(id),
            (_, View::Branches(_)) => Found::Union(self.root),
            _ => Found::Payload,
        });
        while let Some(found) = describer.found.get(records.len()).copied() {
            records.push(describer.record(found));
        }
        let rest = "fields that the schema does not know: JSON by their names";
        source::Schema { records, noun: "record", rest, versions: Vec::new() }
    }

    fn misfits(&self, columns: &Columns) -> Vec<(usize, String)> {
        place::misfits(self, columns)
    }
}

/// What is a record to columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Found {
    Record(usize),
    /// Of several types: each branch is a field.
    Union(usize),
    Entry(usize),
    Duration,
    /// What is around a payload that is no record.
    Payload,
}

struct Describer<'s> {
    schema: &'s Schema,
    places: HashMap<Found, usize>,
    found: Vec<Found>,
}

impl Describer<'_> {
    fn place(&mut self, found: Found) -> usize {
        *self.places.entry(found).or_insert_with(|| {
            self.found.push(found);
            self.found.len() - 1
        })
    }

    fn record(&mut self, found: Found) -> Record {
        let schema = self.schema;
        let single = |default: Type, comparable: Option<Comparable>| Value {
            kind: Kind::Single(Single { default: Ok(default), comparable, within: None }),
            optional: false,
        };
        let is_union = matches!(found, Found::Union(_));
        let (name, fields, is_entry) = match found {
            Found::Record(id) => {
                let Shape::Record(record) = schema.shape(id) else { return Record::default() };
                let fields = record.fields.iter().map(|field| Field {
                    former: field.aliases.clone(),
                    names: Vec::new(),
                    doc: field.doc.clone(),
                    ..Field::named(&field.name, self.value(field.of))
                });
                (record.name.full.clone(), fields.collect(), false)
            }
            Found::Union(id) => {
                let Shape::Union(branches) = schema.shape(id) else { return Record::default() };
                let mut fields = Vec::new();
                for (index, branch) in branches.iter().enumerate().filter(|(_, id)| !view::is_null(schema, **id)) {
                    let value = Value { optional: true, ..self.value(*branch) };
                    fields.push(Field {
                        former: view::branch_aliases(schema, *branch),
                        ..Field::named(view::branch_name(schema, branches, index), value)
                    });
                }
                ("the union".to_owned(), fields, false)
            }
            Found::Entry(id) => {
                let Shape::Map(values) = schema.shape(id) else { return Record::default() };
                let key = Field::named("key", single(Type::String, Some(Comparable::Text)));
                ("the map".to_owned(), vec![key, Field::named("value", self.value(*values))], true)
            }
            Found::Duration => {
                let part = |name: &str| Field::named(name, single(Type::Long, Some(Comparable::Whole)));
                ("the duration".to_owned(), DURATION.map(part).into(), false)
            }
            Found::Payload => {
                let value = self.value(schema.root);
                ("the payload".to_owned(), vec![Field::named(VALUE, value)], false)
            }
        };
        Record { name, fields, is_entry, is_union }
    }

    fn value(&mut self, of: usize) -> Value {
        let (optional, view) = view::of(self.schema, of);
        let kind = match view {
            View::Null => single(Err("it is always null: exclude it".to_owned()), None),
            View::Branches(_) => Kind::Record(self.place(Found::Union(of))),
            View::One(id) => self.kind(id),
        };
        Value { kind, optional }
    }

    fn kind(&mut self, id: usize) -> Kind {
        let found = self.schema.at(id);
        let plain = found.logical.is_none();
        let whole = plain.then_some(Comparable::Whole);
        match &found.shape {
            Shape::Record(record) if record.fields.is_empty() => single(Ok(Type::Boolean), None),
            Shape::Record(_) => Kind::Record(self.place(Found::Record(id))),
            Shape::Array(items) => Kind::List(Box::new(self.value(*items))),
            Shape::Map(_) => Kind::Map(self.place(Found::Entry(id))),
            Shape::Fixed(_) if found.logical == Some(Logical::Duration) => Kind::Record(self.place(Found::Duration)),
            Shape::Boolean => single(Ok(Type::Boolean), Some(Comparable::Boolean)),
            Shape::Int | Shape::Long => single(default_type(found), whole),
            Shape::String => single(default_type(found), plain.then_some(Comparable::Text)),
            Shape::Enum(values) => {
                let names = values.symbols.iter().map(|symbol| (symbol.clone(), symbol.clone())).collect();
                let symbols = Symbols { name: values.name.full.clone(), names, numbers: false };
                single(Ok(Type::String), Some(Comparable::Enum(symbols)))
            }
            _ => single(default_type(found), None),
        }
    }
}

const fn single(default: Result<Type, String>, comparable: Option<Comparable>) -> Kind {
    Kind::Single(Single { default, comparable, within: None })
}

/// The column type of a single value where nothing else is asked for.
fn default_type(of: &schema::Type) -> Result<Type, String> {
    const NANOS: &str = "it counts nanoseconds, which no column of this table version does: declare";
    Ok(match (of.logical, &of.shape) {
        (Some(Logical::Decimal { precision, scale }), _) => match (u8::try_from(precision), u8::try_from(scale)) {
            (Ok(precision @ 1..=38), Ok(scale)) => Type::Decimal(precision, scale),
            _ => {
                return Err(format!(
                    "a decimal has at most 38 digits, and it has {precision}: declare decimal(38, {scale}), which refuses \
                         larger values, or binary"
                ));
            }
        },
        (Some(Logical::Uuid), _) => Type::Uuid,
        (Some(Logical::Date), _) => Type::Date,
        (Some(Logical::Time(_)), _) => Type::Time,
        (Some(Logical::Timestamp(Unit::Nanos)), _) => {
            return Err(format!("{NANOS} it timestamptz (microseconds, towards the past) or long"));
        }
        (Some(Logical::Local(Unit::Nanos)), _) => {
            return Err(format!("{NANOS} it timestamp (microseconds, towards the past) or long"));
        }
        (Some(Logical::Timestamp(_)), _) => Type::Timestamptz,
        (Some(Logical::Local(_)), _) => Type::Timestamp,
        (_, Shape::Int) => Type::Int,
        (_, Shape::Long) => Type::Long,
        (_, Shape::Float) => Type::Float,
        (_, Shape::Double) => Type::Double,
        (_, Shape::Boolean) => Type::Boolean,
        // Of no bytes: no fixed type is so short.
        (_, Shape::Bytes | Shape::Fixed(schema::Fixed { size: 0, .. })) => Type::Binary,
        (_, Shape::Fixed(fixed)) => Type::Fixed(u32::try_from(fixed.size).unwrap_or(u32::MAX)),
        _ => Type::String,
    })
}
