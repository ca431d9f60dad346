//! Judged by `prost-reflect`'s dynamic messages, which share no code with the decoder.

mod generate;
mod oracle;
mod properties;
mod vectors;
mod versions;
mod well_known;

use pipeline::resolved::Table;
use prost_reflect::MessageDescriptor;

use super::{Decoder, schema};
use crate::columns;
use crate::columns::tests::table;
use crate::testing::cells::{self, print};
use crate::{Class, Rejected};

/// The message `M` of a proto3 text, with all its fields as columns.
fn proto3(body: &str) -> MessageDescriptor {
    message(&format!(
        "syntax = \"proto3\"; import \"google/protobuf/timestamp.proto\"; import \"google/protobuf/duration.proto\";
         import \"google/protobuf/wrappers.proto\"; import \"google/protobuf/struct.proto\";
         import \"google/protobuf/empty.proto\"; import \"google/protobuf/any.proto\"; {body}"
    ))
}

fn proto2(body: &str) -> MessageDescriptor {
    message(&format!("syntax = \"proto2\"; {body}"))
}

fn message(text: &str) -> MessageDescriptor {
    schema::from_text(&[("test.proto", text)], "M").unwrap()
}

fn decoder(message: &MessageDescriptor, table: &Table) -> Decoder {
    Decoder::new(message, &columns::plan(message, table).unwrap()).unwrap()
}

/// Rows of `name=value` texts, one for each payload, which is written as [`hex`] reads it.
fn rows(message: &MessageDescriptor, table: &Table, payloads: &[&str]) -> Result<Vec<String>, Rejected> {
    let mut decoder = decoder(message, table);
    for payload in payloads {
        decoder.decode(&hex(payload))?;
    }
    Ok(print(&decoder.finish().unwrap()))
}

/// Bytes from hexadecimal with blanks; what is in parentheses gets its length in front.
fn hex(text: &str) -> Vec<u8> {
    fn part(digits: &mut impl Iterator<Item = char>) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(c) = digits.next() {
            match c {
                '(' => {
                    let inner = part(digits);
                    prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
                    bytes.extend(inner);
                }
                ')' => break,
                high => {
                    let low = digits.next().unwrap();
                    bytes.push(u8::from_str_radix(&format!("{high}{low}"), 16).unwrap());
                }
            }
        }
        bytes
    }
    part(&mut text.chars().filter(|c| !c.is_whitespace()))
}

/// One payload, all fields as columns, the row as text.
fn check(message: &MessageDescriptor, payload: &str, expected: &str) {
    let rows = rows(message, &table(), &[payload]).unwrap_or_else(|rejected| panic!("{payload}: {rejected}"));
    assert_eq!(rows, [expected], "{payload}");
}

/// One payload that is refused, for a reason that a person can understand, at a place they can find.
fn refused(message: &MessageDescriptor, table: &Table, payload: &str, class: Class, path: &str) {
    let rejected = rows(message, table, &[payload]).expect_err(payload);
    assert_eq!((rejected.class, rejected.path.as_str()), (class, path), "{payload}: {rejected}");
    assert!(!rejected.message.is_empty());
}
