//! Values by other people's serializers: tests/interop/framing holds the programs that wrote them.

use std::collections::BTreeMap;

use pipeline::resolved::{Format, Framing};
use serde::Deserialize;

use super::{Record, Reference, Settings, Splitter};
use crate::protobuf::registered::Messages;
use crate::schema::{Kind, Registered};

#[derive(Deserialize)]
struct Golden {
    schemas: BTreeMap<String, Schema>,
    values: Vec<Value>,
}

#[derive(Deserialize)]
struct Schema {
    kind: String,
    text: String,
    guid: Option<String>,
}

#[derive(Deserialize)]
struct Value {
    framing: String,
    format: String,
    schema: String,
    message: String,
    payload: String,
    value: String,
    header: Option<String>,
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Every value gives its schema, its message and its payload, whether its framing is named or recognised.
fn check(text: &str) {
    let golden: Golden = serde_json::from_str(text).unwrap();
    assert!(golden.values.len() > 10);
    for value in &golden.values {
        let format = match value.format.as_str() {
            "PROTOBUF" => Format::Protobuf,
            "AVRO" => Format::Avro,
            _ => Format::Json,
        };
        let named = match value.framing.as_str() {
            "glue" => Framing::Glue,
            "avro-single-object" => Framing::AvroSingleObject,
            _ => Framing::Confluent,
        };
        let (bytes, header) = (hex(&value.value), value.header.as_deref().map(hex));
        let record = Record { value: &bytes, schema_header: header.as_deref(), unwrapped: None };
        for framing in [named, Framing::Auto] {
            let mut splitter = Splitter::new(Settings::new(format, framing)).unwrap();
            let framed = splitter.split(&record).unwrap();
            let name = match framed.schema.unwrap() {
                Reference::GlueVersion(id) | Reference::ConfluentGuid(id) => id.to_string(),
                Reference::ConfluentId(id) => id.to_string(),
                Reference::AvroFingerprint(crc) => format!("{crc:016x}"),
            };
            assert_eq!(name, value.schema, "{framing:?} {}", value.value);
            assert_eq!(framed.payload, hex(&value.payload), "{framing:?} {}", value.value);
            if format == Format::Protobuf {
                let schema =
                    golden.schemas.iter().find(|(id, schema)| **id == name || schema.guid.as_ref() == Some(&name));
                let schema = schema.unwrap().1;
                assert_eq!(schema.kind, "PROTOBUF");
                let registered =
                    Registered { kind: Kind::Protobuf, text: schema.text.clone(), imports: Vec::new(), version: None };
                let message = Messages::compile(&registered).unwrap().message(framed.message, None).unwrap();
                assert_eq!(message.full_name(), value.message, "{framing:?} {}", value.value);
                // AWS's serializer writes a map as the list of pairs that it is on the wire.
                let tags = message.get_field_by_name("tags");
                assert_eq!(tags.is_some_and(|tags| tags.is_map()), value.message == "shop.Order");
            }
        }
    }
}

#[test]
fn what_awss_and_avros_libraries_write_is_read() {
    check(include_str!("../../../../tests/golden/framing/glue.json"));
}

#[test]
fn what_confluents_serializers_write_is_read() {
    check(include_str!("../../../../tests/golden/framing/confluent.json"));
}
