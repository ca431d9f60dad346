//! Records made from JSON: payloads in the format of a schema, by other people's libraries, and the framing around them.
//!
//! [`Encoder`] makes a payload of a JSON value, [`framing::Form`] a Kafka value of the payload, and [`key::Key`] finds the field
//! that is the key. Speed is no concern.

mod avro;
pub(crate) mod framing;
pub(crate) mod key;
mod number;
mod protobuf;
mod times;

#[cfg(test)]
mod tests;

use std::fmt;

use codec::json::Json;
use codec::schema::Registered;
use prost_reflect::MessageDescriptor;

use number::Unfit;

/// Why a JSON value is none of a schema. It does not repeat the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Names and indices, from the outermost to the innermost; empty for the whole.
    path: String,
    message: String,
    /// Whether it could be several things, and nothing says which.
    is_ambiguous: bool,
}

impl Misfit {
    fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into(), is_ambiguous: false }
    }

    fn ambiguous(message: impl Into<String>) -> Self {
        Self { is_ambiguous: true, ..Self::new(message) }
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

    /// A payload. `text` is the value as it was written.
    ///
    /// # Errors
    /// Why the value is none of the schema.
    pub(crate) fn encode(&self, value: &Json, text: &[u8]) -> Result<Vec<u8>, Misfit> {
        match self {
            Self::Protobuf(message) => protobuf::encode(message, value),
            Self::Avro(encoder) => encoder.encode(value),
            Self::Json => Ok(text.to_vec()),
        }
    }
}

/// What a value is, for a message.
const fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Boolean(_) => "true or false",
        Json::Number(_) => "a number",
        Json::Text(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

fn wrong(wanted: &str, found: &Json) -> Misfit {
    Misfit::new(format!("{wanted} is wanted, and this is {}", kind(found)))
}

/// A whole number, of digits or of a string of them; 1.0 and 1e3 are such.
fn integer(value: &Json) -> Result<i128, Unfit> {
    match value {
        Json::Number(digits) | Json::Text(digits) => number::scaled(digits, 0),
        _ => Err(Unfit::NoNumber),
    }
}

/// A whole number of a type's range.
fn ranged<T: TryFrom<i128>>(value: &Json) -> Result<T, Misfit> {
    let number = integer(value).map_err(|unfit| match unfit {
        Unfit::Larger => Misfit::new("it is out of range"),
        Unfit::NoNumber | Unfit::Finer => wrong("a whole number", value),
    })?;
    T::try_from(number).map_err(|_| Misfit::new("it is out of range"))
}

/// The words for those numbers that JSON has no digits for.
fn float_word(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A number, or one of the words.
fn float(value: &Json) -> Result<f64, Misfit> {
    let number = match value {
        Json::Number(digits) => digits.parse().ok(),
        Json::Text(text) => float_word(text).or_else(|| text.parse().ok().filter(|n: &f64| n.is_finite())),
        _ => None,
    };
    match number.ok_or_else(|| wrong("a number", value))? {
        number if matches!(value, Json::Number(_)) && !number.is_finite() => Err(Misfit::new("it is out of range")),
        number => Ok(number),
    }
}

/// The same in half the bits.
#[expect(clippy::cast_possible_truncation, reason = "to the nearest there is")]
fn single(value: &Json) -> Result<f32, Misfit> {
    let number = float(value)?;
    let nearest = number as f32;
    match nearest.is_infinite() && number.is_finite() {
        true => Err(Misfit::new("it is out of range")),
        false => Ok(nearest),
    }
}

fn boolean(value: &Json) -> Result<bool, Misfit> {
    match value {
        Json::Boolean(is) => Ok(*is),
        value => Err(wrong("true or false", value)),
    }
}

fn text(value: &Json) -> Result<&str, Misfit> {
    value.as_text().ok_or_else(|| wrong("a string", value))
}

fn elements(value: &Json) -> Result<&[Json], Misfit> {
    match value {
        Json::Array(elements) => Ok(elements),
        value => Err(wrong("an array", value)),
    }
}

fn members(value: &Json) -> Result<&[(String, Json)], Misfit> {
    match value {
        Json::Object(members) => Ok(members),
        value => Err(wrong("an object", value)),
    }
}

/// Base64, of either alphabet, with or without padding.
fn bytes(value: &Json) -> Result<Vec<u8>, Misfit> {
    let bare = text(value)?.trim_end_matches('=').replace('-', "+").replace('_', "/");
    base64_simd::STANDARD_NO_PAD.decode_to_vec(bare).map_err(|_| Misfit::new("it is not base64"))
}
