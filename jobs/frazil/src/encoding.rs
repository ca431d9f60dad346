//! Records made from JSON: payloads in the format of a schema, by other people's libraries, and the framing around them.
//!
//! [`Encoder`] makes a payload of a JSON value, [`framing::Form`] a Kafka value of the payload. Speed is no concern.

mod avro;
pub(crate) mod framing;
mod protobuf;
mod times;

#[cfg(test)]
mod tests;

use std::fmt;

use codec::schema::Registered;
use prost_reflect::MessageDescriptor;
use serde_json::Value;

/// Why a JSON value is none of a schema. It does not repeat the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Names and indices, from the outermost to the innermost; empty for the whole.
    path: String,
    message: String,
}

impl Misfit {
    fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    /// The same inside a field.
    fn within(self, name: &str) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path if path.starts_with('[') => format!("{name}{path}"),
            path => format!("{name}.{path}"),
        };
        Self { path, ..self }
    }

    /// The same in an element of a list.
    fn at(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Makes payloads.
#[derive(Debug)]
pub(crate) enum Encoder {
    /// Of a message, by protobuf's JSON mapping.
    Protobuf(MessageDescriptor),
    /// Of an Avro schema.
    Avro(Box<avro::Encoder>),
    /// JSON as it is.
    Json,
}

impl Encoder {
    /// Of an Avro schema and what it refers to.
    ///
    /// # Errors
    /// Why the library can't use it.
    pub(crate) fn avro(schema: &Registered) -> Result<Self, Misfit> {
        Ok(Self::Avro(Box::new(avro::Encoder::new(schema)?)))
    }

    /// A payload.
    ///
    /// # Errors
    /// Why the value is none of the schema.
    pub(crate) fn encode(&self, value: &Value) -> Result<Vec<u8>, Misfit> {
        match self {
            Self::Protobuf(message) => protobuf::encode(message, value),
            Self::Avro(encoder) => encoder.encode(value),
            Self::Json => serde_json::to_vec(value).map_err(|error| Misfit::new(error.to_string())),
        }
    }
}

/// What a value is, for a message.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn wrong(wanted: &str, found: &Value) -> Misfit {
    Misfit::new(format!("{wanted} is wanted, and this is {}", kind(found)))
}

/// A whole number, of digits or of a string of them; 1.0 is one.
fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(n), ..) => Some(n.into()),
            (_, Some(n), _) => Some(n.into()),
            // Within these every whole number of a double is exact.
            (.., Some(n)) if n.fract() == 0.0 && n.abs() < 9_007_199_254_740_992.0 => Some(n as i128),
            _ => None,
        },
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A whole number of a type's range.
fn ranged<T: TryFrom<i128>>(value: &Value) -> Result<T, Misfit> {
    let number = integer(value).ok_or_else(|| wrong("a whole number", value))?;
    T::try_from(number).map_err(|_| Misfit::new(format!("{number} is out of range")))
}

/// A number, or one of the words for those that JSON has no digits for.
fn float(value: &Value) -> Result<f64, Misfit> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            digits => digits.parse().ok().filter(|n: &f64| n.is_finite()),
        },
        _ => None,
    };
    number.ok_or_else(|| wrong("a number", value))
}

/// The same in half the bits.
#[expect(clippy::cast_possible_truncation, reason = "to the nearest there is")]
fn single(value: &Value) -> Result<f32, Misfit> {
    let number = float(value)?;
    let nearest = number as f32;
    match nearest.is_infinite() && number.is_finite() {
        true => Err(Misfit::new("it is out of range")),
        false => Ok(nearest),
    }
}

fn boolean(value: &Value) -> Result<bool, Misfit> {
    value.as_bool().ok_or_else(|| wrong("true or false", value))
}

fn text(value: &Value) -> Result<&str, Misfit> {
    value.as_str().ok_or_else(|| wrong("a string", value))
}

/// Base64, of either alphabet, with or without padding.
fn bytes(value: &Value) -> Result<Vec<u8>, Misfit> {
    let bare = text(value)?.trim_end_matches('=').replace('-', "+").replace('_', "/");
    base64_simd::STANDARD_NO_PAD.decode_to_vec(bare).map_err(|_| Misfit::new("it is not base64"))
}
