//! Random schemas, messages and wire bytes from one seed.

use std::fmt::Write as _;

use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value};

pub(super) use crate::testing::Random;

const SCALARS: [&str; 15] = [
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
];
const KEYS: [&str; 12] = [
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64", "bool",
    "string",
];
const WELL_KNOWN: [&str; 9] =
    ["Timestamp", "Duration", "Struct", "Value", "ListValue", "Empty", "Any", "Int64Value", "StringValue"];
const MESSAGES: usize = 4;

/// The text of a schema with the message `M`, twice: what is packed in one is not in the other.
pub(super) fn schema(random: &mut Random) -> (String, String) {
    let proto3 = random.chance(2);
    let mut texts = [String::new(), String::new()];
    let mut both = |part: [&str; 2]| {
        for (text, part) in texts.iter_mut().zip(part) {
            text.push_str(part);
        }
    };
    both([if proto3 { "syntax = \"proto3\";" } else { "syntax = \"proto2\";" }; 2]);
    both(["import \"google/protobuf/timestamp.proto\"; import \"google/protobuf/duration.proto\";
        import \"google/protobuf/struct.proto\"; import \"google/protobuf/empty.proto\"; import \"google/protobuf/any.proto\";
        import \"google/protobuf/wrappers.proto\";"; 2]);
    both([if proto3 { "enum E { A = 0; B = 1; C = -5; D = 70000; }" } else { "enum E { A = 3; B = 1; C = 0; }" }; 2]);
    for index in 0..MESSAGES {
        let name = if index == 0 { "M".to_owned() } else { format!("M{index}") };
        both([&format!("message {name} {{"); 2]);
        let mut number = 0;
        let fields = random.below(7) + usize::from(index == 0);
        for field in 0..fields {
            number += match random.below(8) {
                0 => 14,
                1 => 3000,
                2 => 90_000_000,
                _ => 1,
            };
            let name = format!("f{field}");
            let scalar = |random: &mut Random| (*random.pick(&SCALARS)).to_owned();
            let any = |random: &mut Random| match random.below(8) {
                0 | 1 => "E".to_owned(),
                2 => format!("google.protobuf.{}", random.pick(&WELL_KNOWN)),
                // Later messages mostly, and now and then one that leads back.
                3 | 4 if index + 1 < MESSAGES => format!("M{}", index + 1 + random.below(MESSAGES - index - 1)),
                3 if random.chance(3) => "M1".to_owned(),
                _ => scalar(random),
            };
            match random.below(10) {
                0 | 1 => {
                    let kind = if random.chance(2) { scalar(random) } else { any(random) };
                    let packable =
                        kind == "E" || (SCALARS.contains(&kind.as_str()) && kind != "string" && kind != "bytes");
                    let head = format!("repeated {kind} {name} = {number}");
                    if packable {
                        both([&format!("{head} [packed = true];"), &format!("{head} [packed = false];")]);
                    } else {
                        both([&format!("{head};"); 2]);
                    }
                }
                2 => both([&format!("map<{}, {}> {name} = {number};", random.pick(&KEYS), any(random)); 2]),
                3 => {
                    let mut oneof = format!("oneof o{field} {{");
                    for member in 0..=random.below(3) {
                        let _infallible = write!(oneof, "{} {name}_{member} = {number};", any(random));
                        number += 1;
                    }
                    oneof.push('}');
                    both([&oneof; 2]);
                }
                4 if !proto3 => {
                    let label = if random.chance(2) { "optional" } else { "repeated" };
                    let inner = any(random);
                    both(
                        [&format!(
                            "{label} group G{index}{field} = {number} {{ optional {inner} x = 1; repeated int32 y = 2; }}"
                        ); 2],
                    );
                }
                5 if proto3 => both([&format!("optional {} {name} = {number};", any(random)); 2]),
                _ => {
                    let label = if proto3 { "" } else { "optional" };
                    both([&format!("{label} {} {name} = {number};", any(random)); 2]);
                }
            }
        }
        both(["}"; 2]);
    }
    let [one, other] = texts;
    (one, other)
}

/// A message with some of its fields set.
pub(super) fn message(descriptor: &MessageDescriptor, random: &mut Random, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        if random.chance(3) || (depth > 3 && matches!(field.kind(), Kind::Message(_))) {
            continue;
        }
        let value = if field.is_map() {
            let kind = field.kind();
            let entry = kind.as_message().unwrap();
            let entries = (0..random.below(4)).map(|_| {
                let key = scalar(&entry.map_entry_key_field(), random, depth).into_map_key();
                (key.unwrap_or(MapKey::Bool(true)), scalar(&entry.map_entry_value_field(), random, depth))
            });
            Value::Map(entries.collect())
        } else if field.is_list() {
            Value::List((0..random.below(5)).map(|_| scalar(&field, random, depth)).collect())
        } else {
            scalar(&field, random, depth)
        };
        message.set_field(&field, value);
    }
    message
}

fn scalar(field: &FieldDescriptor, random: &mut Random, depth: usize) -> Value {
    let bits = random.next() >> random.below(64);
    let bits = if random.chance(3) { bits.wrapping_neg() } else { bits };
    match field.kind() {
        Kind::Double if random.chance(6) => Value::F64(f64::from_bits(random.next())),
        Kind::Double => Value::F64(bits as i64 as f64 / 8.0),
        Kind::Float if random.chance(6) => Value::F32(f32::from_bits(random.next() as u32)),
        Kind::Float => Value::F32(bits as i16 as f32 / 8.0),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(bits as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => match field.parent_message().full_name() {
            // Mostly inside the calendar.
            "google.protobuf.Timestamp" | "google.protobuf.Duration" if !random.chance(20) => {
                Value::I64(bits as i64 % 60_000_000_000)
            }
            _ => Value::I64(bits as i64),
        },
        Kind::Uint32 | Kind::Fixed32 => Value::U32(bits as u32),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(bits),
        Kind::Bool => Value::Bool(bits & 1 == 1),
        Kind::String => Value::String(text(random)),
        Kind::Bytes => Value::Bytes((0..random.below(40)).map(|_| random.next() as u8).collect()),
        Kind::Enum(_) => Value::EnumNumber(match random.below(4) {
            0 => bits as i32,
            other => other as i32,
        }),
        Kind::Message(inner) => {
            let mut inner = message(&inner, random, depth + 1);
            if inner.descriptor().full_name() == "google.protobuf.Timestamp" && !random.chance(20) {
                inner.set_field_by_number(2, Value::I32(random.below(1_000_000_000) as i32));
            }
            if inner.descriptor().full_name() == "google.protobuf.Duration" && !random.chance(20) {
                inner.clear_field_by_number(2);
            }
            Value::Message(inner)
        }
    }
}

fn text(random: &mut Random) -> String {
    const LETTERS: [char; 8] = ['a', 'Z', '"', '\\', '\n', 'é', '水', '🧊'];
    let letters = if random.chance(2) { 2 } else { LETTERS.len() };
    (0..random.below(45)).map(|_| LETTERS[random.below(letters)]).collect()
}

/// Wire bytes of a message of two descriptors that differ in what is packed: one message or several merged, their fields
/// in any order, some twice; now and then damaged.
pub(super) fn payload(one: &MessageDescriptor, other: &MessageDescriptor, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=random.below(3) {
        let message = message(one, random, 0);
        let encoded = message.encode_to_vec();
        let encoded = if random.chance(2) {
            DynamicMessage::decode(other.clone(), encoded.as_slice()).unwrap().encode_to_vec()
        } else {
            encoded
        };
        bytes.extend(encoded);
    }
    if random.chance(2) {
        let mut fields = super::oracle::fields(&bytes).unwrap();
        for _ in 0..fields.len() {
            let (a, b) = (random.below(fields.len()), random.below(fields.len()));
            fields.swap(a, b);
        }
        if !fields.is_empty() && random.chance(2) {
            let again = *random.pick(&fields);
            fields.push(again);
        }
        bytes = fields.concat();
    }
    match random.below(6) {
        0 => bytes.truncate(random.below(bytes.len() + 1)),
        1 if !bytes.is_empty() => {
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        }
        2 if random.chance(3) => bytes = (0..random.below(30)).map(|_| random.next() as u8).collect(),
        _ => {}
    }
    bytes
}
