//! Judged by `serde_json`, which shares no code with the decoder.

mod asked;
mod cases;
mod declared;
mod generate;
mod members;
mod oracle;
mod properties;
mod schemas;
mod syntax;
mod values;

use pipeline::resolved::{Table, Types};

use super::{Decoder, Schema};
use crate::columns::plan;
use crate::columns::tests::table;
use crate::testing::cells::print;
use crate::{Class, Rejected};

fn schema(text: &str) -> Schema {
    Schema::parse(text, &[]).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// Objects of these members: `a: {"type": "integer"}; b: true`.
fn object(members: &str) -> Schema {
    schema(&object_text(members))
}

fn object_text(members: &str) -> String {
    let members: Vec<String> = members
        .split(';')
        .map(|member| {
            let (name, of) = member.split_once(':').unwrap();
            format!("\"{}\": {of}", name.trim())
        })
        .collect();
    format!("{{\"type\": \"object\", \"properties\": {{{}}}}}", members.join(", "))
}

/// All members as columns, in Iceberg's own types.
fn iceberg() -> Table {
    Table { types: Types::Iceberg, ..table() }
}

fn decoder(schema: &Schema, table: &Table) -> Decoder {
    Decoder::new(schema, &plan(schema, table).unwrap_or_else(|faults| panic!("{faults:?}"))).unwrap()
}

/// Rows of `name=value` texts, one for each payload.
fn rows(schema: &Schema, table: &Table, payloads: &[&[u8]]) -> Result<Vec<String>, Rejected> {
    let mut decoder = decoder(schema, table);
    for payload in payloads {
        decoder.decode(payload)?;
    }
    Ok(print(&decoder.finish().unwrap()))
}

/// One payload of a schema, the row as text.
fn check(schema: &Schema, payload: &str, expected: &str) {
    let rows =
        rows(schema, &iceberg(), &[payload.as_bytes()]).unwrap_or_else(|rejected| panic!("{payload}: {rejected}"));
    assert_eq!(rows, [expected], "{payload}");
}

/// One payload that is refused, for a reason that a person can understand, at a place they can find; its neighbours are rows
/// none the less.
fn refused(schema: &Schema, payload: impl AsRef<[u8]>, class: Class, path: &str) -> String {
    let payload = payload.as_ref();
    let shown = String::from_utf8_lossy(payload);
    let mut decoder = decoder(schema, &iceberg());
    decoder.decode(b"{}").unwrap();
    let rejected = decoder.decode(payload).expect_err(&shown);
    decoder.decode(b"{}").unwrap();
    assert_eq!((rejected.class, rejected.path.as_str()), (class, path), "{shown}: {rejected}");
    let rows = print(&decoder.finish().unwrap());
    assert_eq!(rows.len(), 2, "{shown}");
    assert_eq!(rows.first(), rows.last(), "{shown}");
    rejected.message
}
