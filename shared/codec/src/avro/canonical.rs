//! The Parsing Canonical Form of a schema and its fingerprint, as the specification's "Transforming into Parsing Canonical
//! Form" and "Schema Fingerprints" have them.

use super::schema::{Enum, Fixed, Record, Schema, Shape};

pub(super) fn form(schema: &Schema) -> String {
    let mut writer = Writer { schema, written: vec![false; schema.types.len()], out: String::new() };
    writer.write(schema.root);
    writer.out
}

struct Writer<'a> {
    schema: &'a Schema,
    /// The named types that were written out: from then on their names are enough.
    written: Vec<bool>,
    out: String,
}

impl Writer<'_> {
    fn write(&mut self, id: usize) {
        let schema = self.schema;
        match schema.shape(id) {
            Shape::Record(Record { fields, .. }) if self.define(id, "record") => {
                self.out.push_str(",\"fields\":[");
                for (index, field) in fields.iter().enumerate() {
                    self.comma(index);
                    self.out.push_str("{\"name\":");
                    self.text(&field.name);
                    self.out.push_str(",\"type\":");
                    self.write(field.of);
                    self.out.push('}');
                }
                self.out.push_str("]}");
            }
            Shape::Enum(Enum { symbols, .. }) if self.define(id, "enum") => {
                self.out.push_str(",\"symbols\":[");
                for (index, symbol) in symbols.iter().enumerate() {
                    self.comma(index);
                    self.text(symbol);
                }
                self.out.push_str("]}");
            }
            Shape::Fixed(Fixed { size, .. }) if self.define(id, "fixed") => {
                self.out.push_str(",\"size\":");
                self.out.push_str(&size.to_string());
                self.out.push('}');
            }
            Shape::Array(items) => {
                self.out.push_str("{\"type\":\"array\",\"items\":");
                self.write(*items);
                self.out.push('}');
            }
            Shape::Map(values) => {
                self.out.push_str("{\"type\":\"map\",\"values\":");
                self.write(*values);
                self.out.push('}');
            }
            Shape::Union(branches) => {
                self.out.push('[');
                for (index, branch) in branches.iter().enumerate() {
                    self.comma(index);
                    self.write(*branch);
                }
                self.out.push(']');
            }
            _ => self.text(schema.type_name(id)),
        }
    }

    /// Begins a named type that is met for the first time.
    fn define(&mut self, id: usize, kind: &str) -> bool {
        let first = self.written.get_mut(id).is_some_and(|written| !std::mem::replace(written, true));
        if first {
            self.out.push_str("{\"name\":");
            self.text(self.schema.type_name(id));
            self.out.push_str(",\"type\":");
            self.text(kind);
        }
        first
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.out.push(',');
        }
    }

    /// Names have no characters that JSON escapes.
    fn text(&mut self, text: &str) {
        self.out.push('"');
        self.out.push_str(text);
        self.out.push('"');
    }
}

/// The fingerprint of nothing, and the polynomial.
const EMPTY: u64 = 0xc15d_213a_a4d7_a795;

/// What each byte does to a fingerprint.
const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut fingerprint = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            fingerprint = (fingerprint >> 1) ^ (EMPTY & (fingerprint & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = fingerprint;
        byte += 1;
    }
    table
};

/// CRC-64-AVRO: the 64-bit Rabin fingerprint of some bytes.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(EMPTY, |fingerprint, byte| {
        let at = (fingerprint ^ u64::from(*byte)) & 0xff;
        (fingerprint >> 8) ^ TABLE.get(at as usize).copied().unwrap_or_default()
    })
}
