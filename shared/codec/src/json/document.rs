//! JSON as people wrote it, of schemas and of values: members in their order, numbers with all their digits.

use std::collections::HashMap;

use serde::de::IgnoredAny;

use super::wire::{Begin, Reader};
use crate::rows::stop::{Outcome, Stop};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A number as it is written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// Of several members of one name the last, at the place of the first.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a whole text.
    ///
    /// # Errors
    /// Why it is no JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Says the line and the column, which is what a person looks for.
        if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            return Err(format!("it is not JSON: {error}"));
        }
        let mut reader = Reader::new(text.as_bytes(), text.len());
        let read = value(&mut reader).and_then(|json| reader.finish().map(|()| json));
        read.map_err(|stop: Box<Stop>| stop.into_rejected().message)
    }

    /// An object's member of a name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(known, _)| known == name).map(|(_, json)| json)
    }

    /// An object's members; none of anything else.
    #[must_use]
    pub fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    pub(super) fn elements(&self) -> &[Self] {
        match self {
            Self::Array(elements) => elements,
            _ => &[],
        }
    }

    /// A string's text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) const fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Whether it can be a schema: `true` takes anything, and `false` nothing.
    pub(super) const fn is_schema(&self) -> bool {
        matches!(self, Self::Object(_) | Self::Boolean(_))
    }

    /// What a JSON pointer (RFC 6901) leads to.
    pub(super) fn at(&self, pointer: &str) -> Option<&Self> {
        let mut found = self;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            found = match found {
                Self::Array(elements) => elements.get(step.parse::<usize>().ok()?)?,
                _ => found.member(&step)?,
            };
        }
        (pointer.is_empty() || pointer.starts_with('/')).then_some(found)
    }

    /// Its text without blanks.
    pub(super) fn compact(&self, out: &mut String) {
        let text = |text: &str, out: &mut String| out.push_str(&serde_json::Value::from(text).to_string());
        match self {
            Self::Text(content) => text(content, out),
            Self::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    element.compact(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, json)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    text(name, out);
                    out.push(':');
                    json.compact(out);
                }
                out.push('}');
            }
            Self::Null => out.push_str("null"),
            Self::Boolean(is) => out.push_str(if *is { "true" } else { "false" }),
            Self::Number(digits) => out.push_str(digits),
        }
    }
}

impl From<&serde_json::Value> for Json {
    /// The same value; of a number the digits that are left of it.
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(is) => Self::Boolean(*is),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(elements) => Self::Array(elements.iter().map(Self::from).collect()),
            Value::Object(members) => {
                Self::Object(members.iter().map(|(name, value)| (name.clone(), Self::from(value))).collect())
            }
        }
    }
}

fn string(bytes: &[u8]) -> String {
    // Read as UTF-8, so nothing is lost.
    String::from_utf8_lossy(bytes).into_owned()
}

/// Recursion ends where the reader says that it is too deep.
fn value(reader: &mut Reader<'_>) -> Outcome<Json> {
    Ok(match reader.begin()? {
        Begin::Null => reader.word(b"null").map(|()| Json::Null)?,
        Begin::True => reader.word(b"true").map(|()| Json::Boolean(true))?,
        Begin::False => reader.word(b"false").map(|()| Json::Boolean(false))?,
        Begin::Number => Json::Number(string(reader.number()?)),
        Begin::Text => {
            let text = reader.text()?;
            Json::Text(string(reader.content(text)))
        }
        Begin::Array => {
            reader.enter()?;
            let mut elements = Vec::new();
            while reader.more(elements.is_empty(), b']')? {
                elements.push(value(reader)?);
            }
            Json::Array(elements)
        }
        Begin::Object => {
            reader.enter()?;
            let mut members: Vec<(String, Json)> = Vec::new();
            let mut places: HashMap<String, usize> = HashMap::new();
            let mut first = true;
            while reader.more(std::mem::take(&mut first), b'}')? {
                let name = reader.key()?;
                let name = string(reader.content(name));
                let json = value(reader)?;
                let place = *places.entry(name.clone()).or_insert(members.len());
                match members.get_mut(place) {
                    Some((_, earlier)) => *earlier = json,
                    None => members.push((name, json)),
                }
            }
            Json::Object(members)
        }
    })
}
