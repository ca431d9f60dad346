//! A message descriptor, as columns see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::secret::Secret;
use prost_reflect::{EnumDescriptor, FieldDescriptor, MessageDescriptor};

use super::compile;
use super::mapping::{Number, Shape};
use crate::columns::Columns;
use crate::pii::Hasher;
use crate::source::{Comparable, Described, Field, Kind, Record, Schema, Single, Symbols, Value};

impl Described for MessageDescriptor {
    fn describe(&self) -> Schema {
        let mut found = Found { places: BTreeMap::new(), messages: Vec::new() };
        found.place(self);
        let mut records = Vec::new();
        while let Some(message) = found.messages.get(records.len()).cloned() {
            records.push(record(&message, &mut found));
        }
        let rest = "fields that the schema does not know: base64 of their wire bytes by field number";
        Schema { records, noun: "message", rest, versions: Vec::new() }
    }

    fn misfits(&self, columns: &Columns) -> Vec<(usize, String)> {
        misfits(self, &self.describe(), columns)
    }
}

/// The reader's columns that a writer's messages can't fill: the index of each, and why.
pub(crate) fn misfits(writer: &MessageDescriptor, reader: &Schema, columns: &Columns) -> Vec<(usize, String)> {
    // Nothing is decoded here.
    let nothing = Arc::new(Hasher::new(&Secret::new([])));
    compile(writer, reader, columns, &nothing).err().unwrap_or_default()
}

/// Messages met so far, in the order of their records.
struct Found {
    places: BTreeMap<String, usize>,
    messages: Vec<MessageDescriptor>,
}

impl Found {
    fn place(&mut self, message: &MessageDescriptor) -> usize {
        *self.places.entry(message.full_name().to_owned()).or_insert_with(|| {
            self.messages.push(message.clone());
            self.messages.len() - 1
        })
    }
}

fn record(message: &MessageDescriptor, found: &mut Found) -> Record {
    let declared = &message.descriptor_proto().field;
    let declared = declared.iter().filter_map(|field| message.get_field(u32::try_from(field.number()).ok()?));
    let fields = declared.map(|field| Field {
        name: field.name().to_owned(),
        id: field.number().to_string(),
        former: Vec::new(),
        names: Vec::new(),
        doc: None,
        value: value(&field, found),
    });
    let (name, is_entry) = (message.full_name().to_owned(), message.is_map_entry());
    Record { fields: fields.collect(), name, is_entry, is_union: false }
}

fn value(field: &FieldDescriptor, found: &mut Found) -> Value {
    let within = field.kind().as_message().map(|message| found.place(message));
    let shape = Shape::of(field);
    let kind = match (&shape, within) {
        (_, Some(entry)) if field.is_map() => Kind::Map(entry),
        (Shape::Message(_), Some(record)) => Kind::Record(record),
        (shape, within) => Kind::Single(Single {
            default: shape.default_type().ok_or_else(|| "it has no fields".to_owned()),
            comparable: comparable(shape),
            within,
        }),
    };
    if field.is_list() {
        let element = Value { kind, optional: false };
        return Value { kind: Kind::List(Box::new(element)), optional: false };
    }
    Value { kind, optional: field.supports_presence() }
}

fn comparable(shape: &Shape) -> Option<Comparable> {
    match shape {
        Shape::Wrapper(inner) => comparable(&Shape::of(inner)),
        Shape::Text => Some(Comparable::Text),
        Shape::Enum(values) => Some(Comparable::Enum(symbols(values))),
        Shape::Number(Number::Bool) => Some(Comparable::Boolean),
        Shape::Number(Number::Float | Number::Double) => None,
        Shape::Number(_) => Some(Comparable::Whole),
        _ => None,
    }
}

/// Of several names of one number columns have the first, and a number without a name is its own.
fn symbols(values: &EnumDescriptor) -> Symbols {
    let all = &values.enum_descriptor_proto().value;
    let first = |number| all.iter().find(|value| value.number() == number).map_or("", |value| value.name());
    let names = all.iter().map(|value| (value.name().to_owned(), first(value.number()).to_owned()));
    Symbols { name: values.full_name().to_owned(), names: names.collect(), numbers: true }
}
