//! Judged by `apache-avro`, which shares no code with the decoder.

mod cases;
mod columns;
mod generate;
mod hostile;
mod oracle;
mod properties;
mod resolution;
mod schemas;
mod types;
mod unite;

use pipeline::resolved::{Table, Types};

use super::{Decoder, Schema};
use crate::columns::plan;
use crate::columns::tests::table;
use crate::testing::cells::print;
use crate::{Class, Rejected};

fn schema(text: &str) -> Schema {
    Schema::parse(text, &[]).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// The record `R` of these fields, each with what it needs of quotes around its JSON: `a: "int", b: ["null", "int"]`.
fn record(fields: &str) -> Schema {
    schema(&record_text(fields))
}

fn record_text(fields: &str) -> String {
    let mut depth = 0;
    let split = fields.split(|c| {
        depth += i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'));
        c == ';' && depth == 0
    });
    let fields: Vec<String> = split
        .map(|field| {
            let (name, of) = field.split_once(':').unwrap();
            // What follows a bar belongs to the field, not to its type.
            let (of, more) = of.split_once('|').map_or((of, String::new()), |(of, more)| (of, format!(", {more}")));
            format!("{{\"name\": \"{}\", \"type\": {of}{more}}}", name.trim())
        })
        .collect();
    format!("{{\"type\": \"record\", \"name\": \"R\", \"fields\": [{}]}}", fields.join(", "))
}

/// All fields as columns, in Iceberg's own types.
fn iceberg() -> Table {
    Table { types: Types::Iceberg, ..table() }
}

fn decoder(writer: &Schema, reader: &Schema, table: &Table) -> Decoder {
    Decoder::new(writer, reader, &plan(reader, table).unwrap_or_else(|faults| panic!("{faults:?}"))).unwrap()
}

/// Rows of `name=value` texts, one for each payload, in hexadecimal with blanks.
fn rows(writer: &Schema, reader: &Schema, table: &Table, payloads: &[&str]) -> Result<Vec<String>, Rejected> {
    let mut decoder = decoder(writer, reader, table);
    for payload in payloads {
        decoder.decode(&hex(payload))?;
    }
    Ok(print(&decoder.finish().unwrap()))
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap()).collect()
}

/// One payload of a schema, the row as text.
fn check(schema: &Schema, payload: &str, expected: &str) {
    check_read(schema, schema, payload, expected);
}

/// One payload of a writer, read as a reader's.
fn check_read(writer: &Schema, reader: &Schema, payload: &str, expected: &str) {
    let rows = rows(writer, reader, &iceberg(), &[payload]).unwrap_or_else(|rejected| panic!("{payload}: {rejected}"));
    assert_eq!(rows, [expected], "{payload}");
}

/// One payload that is refused, for a reason that a person can understand, at a place they can find; its neighbours are
/// rows none the less.
fn refused(writer: &Schema, reader: &Schema, payload: &str, class: Class, path: &str) -> String {
    let rejected = rows(writer, reader, &iceberg(), &[payload]).expect_err(payload);
    assert_eq!((rejected.class, rejected.path.as_str()), (class, path), "{payload}: {rejected}");
    rejected.message
}
