//! What a protobuf field's value is, seen from columns, and the column type it has by default.

use pipeline::types::Type;
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::program::Read;
use crate::source::{self, Comparable, Value};

/// One value of a field: an element of a repeated one.
pub(crate) enum Shape {
    Number(Number),
    Text,
    Bytes,
    Enum(EnumDescriptor),
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Int32Value` and its siblings: their one field.
    Wrapper(FieldDescriptor),
    /// `google.protobuf.Struct`, `Value`, `ListValue`: JSON by nature.
    Json(MessageDescriptor),
    /// A message without fields.
    Empty(MessageDescriptor),
    Message(MessageDescriptor),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Signed32,
    Unsigned32,
    Signed64,
    Unsigned64,
    Float,
    Double,
    Bool,
}

impl Shape {
    pub(crate) fn of(field: &FieldDescriptor) -> Self {
        match field.kind() {
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Self::Number(Number::Signed32),
            Kind::Uint32 | Kind::Fixed32 => Self::Number(Number::Unsigned32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Self::Number(Number::Signed64),
            Kind::Uint64 | Kind::Fixed64 => Self::Number(Number::Unsigned64),
            Kind::Float => Self::Number(Number::Float),
            Kind::Double => Self::Number(Number::Double),
            Kind::Bool => Self::Number(Number::Bool),
            Kind::String => Self::Text,
            Kind::Bytes => Self::Bytes,
            Kind::Enum(descriptor) => Self::Enum(descriptor),
            Kind::Message(message) => Self::of_message(message),
        }
    }

    fn of_message(message: MessageDescriptor) -> Self {
        let wrapped = |message: &MessageDescriptor| {
            // The well-known types by name; their one field is looked at, in case a schema has its own.
            message.get_field(1).filter(|field| field.name() == "value" && message.fields().len() == 1)
        };
        match message.full_name() {
            "google.protobuf.Timestamp" if is_moment(&message) => Self::Timestamp,
            "google.protobuf.Duration" if is_moment(&message) => Self::Duration,
            "google.protobuf.Struct" | "google.protobuf.Value" | "google.protobuf.ListValue" => Self::Json(message),
            name if super::is_wrapper(name) => match wrapped(&message) {
                Some(field) => Self::Wrapper(field),
                None => Self::Message(message),
            },
            _ if message.fields().len() == 0 => Self::Empty(message),
            _ => Self::Message(message),
        }
    }

    /// The column type where nothing else is asked for; none for a message, whose type is its fields'.
    pub(crate) fn default_type(&self) -> Option<Type> {
        Some(match self {
            Self::Number(number) => number.default_type(),
            Self::Text | Self::Enum(_) | Self::Json(_) => Type::String,
            Self::Bytes => Type::Binary,
            Self::Timestamp => Type::Timestamptz,
            Self::Duration => Type::Long,
            Self::Wrapper(field) => return Self::of(field).default_type(),
            Self::Empty(_) => Type::Boolean,
            Self::Message(_) => return None,
        })
    }

    /// For a person: the types that a column of this value may have.
    pub(crate) fn allowed(&self) -> String {
        match self {
            Self::Number(number) => number.allowed().to_owned(),
            Self::Text => "string, binary".to_owned(),
            Self::Bytes => "binary, string (checked to be UTF-8)".to_owned(),
            Self::Enum(_) => "string (the name), int (the number)".to_owned(),
            Self::Timestamp => "timestamptz, timestamp, string, struct<seconds: long, nanos: int>".to_owned(),
            Self::Duration => "long (microseconds), string, struct<seconds: long, nanos: int>".to_owned(),
            Self::Wrapper(field) => format!("{}, struct<value: …>", Self::of(field).allowed()),
            Self::Json(_) => "string (JSON)".to_owned(),
            Self::Empty(_) => "boolean (present or not), string (JSON)".to_owned(),
            Self::Message(_) => "a struct of its fields, string (JSON)".to_owned(),
        }
    }
}

/// Whether a writer's field holds what a value of the reader's does: then each value of the one is one of the other, as far as the
/// column takes it.
pub(super) fn alike(reader: &source::Schema, read: &Value, field: &FieldDescriptor) -> bool {
    let shape = Shape::of(field);
    match &read.kind {
        source::Kind::Map(_) => field.is_map(),
        source::Kind::List(element) => field.is_list() && !field.is_map() && of_kind(reader, &element.kind, &shape),
        kind => !field.is_list() && of_kind(reader, kind, &shape),
    }
}

fn of_kind(reader: &source::Schema, read: &source::Kind, written: &Shape) -> bool {
    let single = match read {
        source::Kind::Single(single) => single,
        source::Kind::Record(_) => return matches!(written, Shape::Message(_) | Shape::Empty(_)),
        source::Kind::List(_) | source::Kind::Map(_) => return false,
    };
    if let Some(within) = single.within {
        let record = reader.record(within);
        return match written {
            // Without fields, whatever it is called, and whether it has got some since.
            Shape::Message(_) | Shape::Empty(_) => record.fields.is_empty(),
            Shape::Json(message) => message.full_name() == record.name,
            Shape::Timestamp => record.name == "google.protobuf.Timestamp",
            Shape::Duration => record.name == "google.protobuf.Duration",
            Shape::Wrapper(inner) => inner.parent_message().full_name() == record.name,
            _ => false,
        };
    }
    match (written, &single.default) {
        (Shape::Number(Number::Bool), Ok(Type::Boolean)) => true,
        (Shape::Number(Number::Float | Number::Double), Ok(Type::Float | Type::Double)) => true,
        (Shape::Number(number), Ok(Type::Int | Type::Long | Type::Decimal(..))) => number.is_whole(),
        // Numbers on the wire, both.
        (Shape::Enum(_), Ok(Type::Int)) => true,
        (Shape::Enum(_), _) => matches!(single.comparable, Some(Comparable::Enum(_))),
        (Shape::Text | Shape::Bytes, Ok(Type::Binary)) => true,
        (Shape::Text | Shape::Bytes, _) => matches!(single.comparable, Some(Comparable::Text)),
        _ => false,
    }
}

fn is_moment(message: &MessageDescriptor) -> bool {
    let has = |number, kind| message.get_field(number).is_some_and(|field| field.kind() == kind && !field.is_list());
    has(1, Kind::Int64) && has(2, Kind::Int32)
}

impl Number {
    /// Whether it has no fraction.
    pub(crate) const fn is_whole(self) -> bool {
        matches!(self, Self::Signed32 | Self::Unsigned32 | Self::Signed64 | Self::Unsigned64)
    }

    pub(crate) const fn default_type(self) -> Type {
        match self {
            Self::Signed32 => Type::Int,
            Self::Unsigned32 | Self::Signed64 => Type::Long,
            Self::Unsigned64 => Type::Decimal(20, 0),
            Self::Float => Type::Float,
            Self::Double => Type::Double,
            Self::Bool => Type::Boolean,
        }
    }

    const fn allowed(self) -> &'static str {
        match self {
            Self::Signed32 => {
                "int, long, double, decimal(10 or more, 0), string, with `unit` timestamptz and timestamp"
            }
            Self::Unsigned32 => "long, double, decimal(10 or more, 0), string, with `unit` timestamptz and timestamp",
            Self::Signed64 => "long, decimal(19 or more, 0), string, with `unit` timestamptz and timestamp",
            Self::Unsigned64 => {
                "decimal(20 or more, 0), long (larger values are refused), string, with `unit` timestamptz and timestamp"
            }
            Self::Float => "float, double",
            Self::Double => "double",
            Self::Bool => "boolean, string",
        }
    }
}

/// How a number field is read; none where it isn't one.
pub(crate) const fn read(kind: &Kind) -> Option<Read> {
    Some(match kind {
        Kind::Int32 | Kind::Enum(_) => Read::Int32,
        Kind::Int64 | Kind::Uint64 => Read::Int64,
        Kind::Uint32 => Read::Uint32,
        Kind::Sint32 => Read::Sint32,
        Kind::Sint64 => Read::Sint64,
        Kind::Bool => Read::Bool,
        Kind::Fixed32 | Kind::Float => Read::Fixed32,
        Kind::Sfixed32 => Read::Sfixed32,
        Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => Read::Fixed64,
        Kind::String | Kind::Bytes | Kind::Message(_) => return None,
    })
}
