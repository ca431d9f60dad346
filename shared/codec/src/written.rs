//! Schemas as registries hold them, made ready to be what payloads are written with.

use crate::framing::Message;
use crate::payload::Schema;
use crate::protobuf::registered::Messages;
use crate::schema::{Kind, Registered};
use crate::{Class, Rejected, avro, json};
use pipeline::resolved::Format;

/// A registered schema, compiled.
#[derive(Clone, Debug)]
pub enum Written {
    /// The messages of a `.proto` file.
    Protobuf(Messages),
    /// An Avro schema.
    Avro(avro::Schema),
    /// A JSON Schema.
    Json(json::Schema),
}

impl Written {
    /// Compiles a schema of a format.
    ///
    /// # Errors
    /// `incompatible_schema` when it is of another format or not usable: whoever registers a schema must not be able to stop the
    /// records of others, so that this is a fault of the records that name it.
    pub fn compile(schema: &Registered, format: Format) -> Result<Self, Rejected> {
        match (format, schema.kind) {
            (Format::Protobuf, _) => Messages::compile(schema).map(Self::Protobuf),
            (Format::Avro, Kind::Avro) => {
                let references: Vec<&str> = schema.imports.iter().map(|import| import.text.as_str()).collect();
                let parsed = avro::Schema::parse(&schema.text, &references);
                parsed.map(Self::Avro).map_err(|fault| incompatible(format!("its schema is not usable: {fault}")))
            }
            (Format::Json, Kind::Json) => {
                let parsed = json::Schema::registered(schema);
                parsed.map(Self::Json).map_err(|fault| incompatible(format!("its schema is not usable: {fault}")))
            }
            (format, kind) => Err(incompatible(format!("its schema is of {kind}, and the pipeline reads {format}"))),
        }
    }

    /// The schema of a payload that is this message of it, as far as messages have names; `named` is the message that the pipeline
    /// reads.
    ///
    /// # Errors
    /// As [`Messages::message`].
    pub fn schema(&self, message: Message, named: Option<&str>) -> Result<Schema, Rejected> {
        match self {
            Self::Protobuf(messages) => messages.message(message, named).map(Schema::Protobuf),
            Self::Avro(schema) => Ok(Schema::Avro(schema.clone())),
            Self::Json(schema) => Ok(Schema::Json(schema.clone())),
        }
    }
}

fn incompatible(message: String) -> Rejected {
    Rejected { class: Class::IncompatibleSchema, path: String::new(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(kind: Kind, text: &str) -> Registered {
        Registered { kind, text: text.to_owned(), imports: Vec::new(), version: None }
    }

    #[test]
    fn a_schema_of_another_format_or_of_none_is_a_fault_of_its_records() {
        let check = |format, kind, text: &str, expected: Result<&str, &str>| {
            let found = Written::compile(&registered(kind, text), format)
                .and_then(|written| written.schema(Message::Unsaid, None))
                .map(|schema| schema.name().to_owned());
            match (found, expected) {
                (Ok(name), Ok(expected)) => assert_eq!(name, expected),
                (Err(rejected), Err(words)) => {
                    assert_eq!(rejected.class, Class::IncompatibleSchema);
                    assert!(rejected.message.contains(words), "{rejected}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        };
        let record = "{\"type\": \"record\", \"name\": \"a.M\", \"fields\": []}";
        check(Format::Avro, Kind::Avro, record, Ok("a.M"));
        check(Format::Protobuf, Kind::Protobuf, "message M {}", Ok("M"));
        check(Format::Avro, Kind::Avro, "{}", Err("not usable"));
        check(
            Format::Avro,
            Kind::Protobuf,
            "message M {}",
            Err("its schema is of protobuf, and the pipeline reads avro"),
        );
        check(Format::Protobuf, Kind::Avro, record, Err("of Avro"));
        check(Format::Json, Kind::Json, "{\"title\": \"R\", \"properties\": {\"a\": {}}}", Ok("R"));
        check(Format::Json, Kind::Json, "{\"type\": \"long\"}", Err("not usable: /type: there is no type `long`"));
        check(Format::Json, Kind::Avro, record, Err("its schema is of Avro, and the pipeline reads json"));
        check(Format::Protobuf, Kind::Protobuf, "message A {} message B {}", Err("nothing says which"));
    }
}
