//! The field of a value that is its record's key.

use codec::json::Json;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::{Encoder, kind};

/// One name of a field's path, as values spell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Any of these is the field's name.
    pub(super) names: Vec<String>,
    /// What it may be wrapped in where it is of several types.
    pub(super) wrappers: Vec<String>,
}

/// Finds keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// What the whole value may be wrapped in.
    around: Vec<String>,
    steps: Vec<Step>,
}

/// Why a value has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unkeyed {
    /// It has no such field. Null is another thing: a record without a key, on purpose.
    Missing,
    /// What the field is, and no key can be.
    Is(&'static str),
}

impl Key {
    /// Of a field of the values that an encoder takes; none where its schema has no such field. JSON has no schema to ask.
    pub(crate) fn of(encoder: &Encoder, path: &[String]) -> Option<Self> {
        match encoder {
            Encoder::Protobuf(message) => {
                let steps = steps_of_message(message, path)?;
                Some(Self { around: Vec::new(), steps })
            }
            Encoder::Avro(encoder) => {
                let (around, steps) = encoder.steps(path)?;
                Some(Self { around, steps })
            }
            Encoder::Json => {
                let step = |name: &String| Step { names: vec![name.clone()], wrappers: Vec::new() };
                Some(Self { around: Vec::new(), steps: path.iter().map(step).collect() })
            }
        }
    }

    /// The field's text, a number's digits as they are written; none where it, or what it is in, is null.
    ///
    /// # Errors
    /// [`Unkeyed`].
    pub(crate) fn find(&self, value: &Json) -> Result<Option<Vec<u8>>, Unkeyed> {
        let mut found = unwrapped(value, &self.around);
        for step in &self.steps {
            if matches!(found, Json::Null) {
                return Ok(None);
            }
            // Of several spellings of a field the last counts, as it does for the value.
            let inner = found.members().iter().rev().find(|(name, _)| step.names.contains(name));
            found = inner.map(|(_, inner)| unwrapped(inner, &step.wrappers)).ok_or(Unkeyed::Missing)?;
        }
        match found {
            Json::Null => Ok(None),
            Json::Text(text) | Json::Number(text) => Ok(Some(text.as_bytes().to_vec())),
            Json::Boolean(is) => Ok(Some(is.to_string().into_bytes())),
            Json::Array(_) | Json::Object(_) => Err(Unkeyed::Is(kind(found))),
        }
    }
}

/// By the names of protobuf's JSON mapping and those of the file, both of which values may have.
fn steps_of_message(message: &MessageDescriptor, path: &[String]) -> Option<Vec<Step>> {
    let any = |name: &String| Step { names: vec![name.clone()], wrappers: Vec::new() };
    let mut steps = Vec::new();
    let mut inside = Some(Inside::Message(message.clone()));
    for name in path {
        let (step, kind) = match inside? {
            // Whatever it holds.
            Inside::Message(message) if OPEN.contains(&message.full_name()) => {
                (any(name), Some(Inside::Message(message)))
            }
            Inside::Message(message) => {
                let field = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name))?;
                let names = vec![field.json_name().to_owned(), field.name().to_owned()];
                (Step { names, wrappers: Vec::new() }, Inside::of(&field))
            }
            Inside::Map(field) => (any(name), Inside::of(&field)),
        };
        steps.push(step);
        inside = kind;
    }
    Some(steps)
}

/// Messages whose JSON has members of any name.
const OPEN: [&str; 2] = ["google.protobuf.Struct", "google.protobuf.Value"];

/// What the next name of a path leads into.
enum Inside {
    Message(MessageDescriptor),
    /// A map, by the field of its values.
    Map(FieldDescriptor),
}

impl Inside {
    fn of(field: &FieldDescriptor) -> Option<Self> {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => Some(Self::Map(entry.map_entry_value_field())),
            Kind::Message(message) if !field.is_list() => Some(Self::Message(message)),
            _ => None,
        }
    }
}

/// What is in `{"branch": value}`.
fn unwrapped<'v>(value: &'v Json, wrappers: &[String]) -> &'v Json {
    match value.members() {
        [(name, inner)] if wrappers.contains(name) => inner,
        _ => value,
    }
}
