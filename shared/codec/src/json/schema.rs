//! What JSON payloads look like: as a JSON Schema says, or as the columns that are declared.

use std::path::Path;

use pipeline::types::Type;

use super::parse;
use crate::schema::{Import, Registered};
use crate::{Error, file};

/// A schema, ready for records to be read as it.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Every shape that there is; one may lead back to itself.
    pub(super) shapes: Vec<Shape>,
    pub(super) root: usize,
    pub(super) name: String,
    pub(super) digest: String,
    /// Whether it is made of declared columns.
    pub(super) declared: bool,
}

/// What a value looks like. Any may be null.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Single(Single),
    Object(Object),
    /// An object of which every member has this shape.
    Map(usize),
    Array(usize),
}

/// A single value, or what is kept as its text.
#[derive(Clone, Debug)]
pub(super) struct Single {
    pub(super) of: Of,
    /// The column type where nothing else is asked for.
    pub(super) default: Type,
    /// What a number counts since 1970 or since midnight.
    pub(super) unit: Option<Unit>,
    /// The texts that there are, where the schema lists them.
    pub(super) symbols: Option<Vec<String>>,
}

/// The kinds of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Boolean,
    Integer,
    Number,
    Text,
    /// Kafka Connect's decimals of some scale: numbers, or their unscaled bytes in base64.
    Decimal {
        scale: u8,
    },
    /// Whatever JSON has: a column of strings holds it as it is written.
    Any,
    /// What a declared column makes of it. One of strings takes a string, and objects and arrays as they are written.
    Declared,
    /// The same, where no column says what it makes of it.
    Unsaid,
}

/// An object of known members.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    pub(super) title: Option<String>,
    pub(super) fields: Vec<Field>,
}

/// A known member.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) doc: Option<String>,
    pub(super) of: usize,
    /// Whether it may be missing or null.
    pub(super) optional: bool,
    /// The JSON of what it is where it is missing.
    pub(super) default: Option<String>,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Days,
    Seconds,
    Millis,
    Micros,
    Nanos,
}

/// Reads the JSON Schema of a file.
///
/// # Errors
/// [`Error::Read`] when the file can't be read, [`Error::Schema`] when it is no schema, or a default in it is of another type
/// than its member.
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
    /// Where in the text's JSON, as a JSON pointer: `/properties/location`; empty for the whole.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

impl Schema {
    /// Reads a JSON Schema of draft 4, 6 or 7. What its references lead to outside of it is among the imports.
    ///
    /// A schema says what values may be, and a column what they become: what restricts values further (`minimum`, `pattern`,
    /// `required` and the like) is not asked of records. A keyword that is in none of these drafts is passed over. A default
    /// that is of another type than its member refuses the records that need it; [`load`] refuses the schema.
    ///
    /// # Errors
    /// Where the text is no schema, and why.
    pub fn parse(text: &str, imports: &[Import]) -> Result<Self, Fault> {
        parse::schema(text, imports)
    }

    /// Reads a registry's schema.
    ///
    /// # Errors
    /// As [`Schema::parse`].
    pub fn registered(schema: &Registered) -> Result<Self, Fault> {
        Self::parse(&schema.text, &schema.imports)
    }

    /// Its title, or else its identifier; `JSON` where it has neither.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names its content: SHA-256, in hexadecimal, of its texts without blanks, or of the columns that it is made of.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub(super) fn shape(&self, id: usize) -> &Shape {
        static ANY: Shape = Shape::Single(Single { of: Of::Any, default: Type::String, unit: None, symbols: None });
        self.shapes.get(id).unwrap_or(&ANY)
    }

    /// The known members of an object; none of what is none.
    pub(super) fn fields(&self, id: usize) -> &[Field] {
        match self.shape(id) {
            Shape::Object(object) => &object.fields,
            _ => &[],
        }
    }

    /// The first default that is of another type than its member.
    fn wrong_default(&self) -> Option<String> {
        let objects = self.shapes.iter().filter_map(|shape| match shape {
            Shape::Object(object) => Some(&object.fields),
            _ => None,
        });
        objects.flatten().find_map(|field| {
            let default = field.default.as_deref()?;
            let fits = matches!(
                (self.shape(field.of), default.as_bytes().first()?),
                (Shape::Object(_) | Shape::Map(_), b'{')
                    | (Shape::Array(_), b'[')
                    | (Shape::Single(Single { of: Of::Any | Of::Declared | Of::Unsaid, .. }), _)
                    | (Shape::Single(Single { of: Of::Boolean, .. }), b't' | b'f')
                    | (Shape::Single(Single { of: Of::Text | Of::Decimal { .. }, .. }), b'"')
                    | (
                        Shape::Single(Single { of: Of::Integer | Of::Number | Of::Decimal { .. }, .. }),
                        b'-' | b'0'..=b'9'
                    )
            );
            (!fits).then(|| format!("the default of `{}` is of another type than its values", field.name))
        })
    }

    /// What an object is called in messages.
    pub(super) fn title(&self, id: usize) -> &str {
        match self.shape(id) {
            Shape::Object(Object { title: Some(title), .. }) => title,
            Shape::Object(_) if id == self.root => "the payload",
            Shape::Object(_) => "the object",
            Shape::Map(_) => "the map",
            Shape::Array(_) => "the array",
            Shape::Single(_) => "the value",
        }
    }
}

impl Single {
    pub(super) const fn new(of: Of, default: Type) -> Self {
        Self { of, default, unit: None, symbols: None }
    }
}
