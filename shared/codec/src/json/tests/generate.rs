//! Random schemas and payloads.

use serde_json::{Value, json};

use crate::testing::Random;

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Boolean,
    Integer,
    Number,
    Text,
    Instant,
    Any,
    Object(Vec<(String, Kind)>),
    Map(Box<Kind>),
    Array(Box<Kind>),
}

const NAMES: [&str; 10] =
    ["a", "bc", "temperature", "é", "x.y", "quo\"te", "tab\t", "$", "a name of more than one word", "😀"];

fn one_of(random: &mut Random, texts: &[&'static str]) -> &'static str {
    random.pick::<&'static str>(texts)
}

/// An object of some members.
pub(super) fn schema(random: &mut Random) -> Kind {
    object(random, 0)
}

fn object(random: &mut Random, depth: usize) -> Kind {
    let count = 1 + random.below(6);
    let start = random.below(NAMES.len());
    let names = (0..count).map(|n| NAMES[(start + n) % NAMES.len()].to_owned());
    Kind::Object(names.map(|name| (name, kind(random, depth + 1))).collect())
}

fn kind(random: &mut Random, depth: usize) -> Kind {
    match random.below(if depth > 3 { 6 } else { 9 }) {
        0 => Kind::Boolean,
        1 => Kind::Integer,
        2 => Kind::Number,
        3 => Kind::Text,
        4 => Kind::Instant,
        5 => Kind::Any,
        6 => object(random, depth),
        7 => Kind::Map(Box::new(typed(random, depth))),
        _ => Kind::Array(Box::new(kind(random, depth + 1))),
    }
}

/// A map's values are of some type, or it is kept as text.
fn typed(random: &mut Random, depth: usize) -> Kind {
    match kind(random, depth + 1) {
        Kind::Any => Kind::Text,
        other => other,
    }
}

/// The JSON Schema of a kind.
pub(super) fn text(kind: &Kind) -> Value {
    match kind {
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Integer => json!({"type": ["integer", "null"]}),
        Kind::Number => json!({"oneOf": [{"type": "null"}, {"type": "number"}]}),
        Kind::Text => json!({"type": "string"}),
        Kind::Instant => json!({"type": "string", "format": "date-time"}),
        Kind::Any => json!({}),
        Kind::Object(members) => {
            let members: serde_json::Map<String, Value> =
                members.iter().map(|(name, kind)| (name.clone(), text(kind))).collect();
            json!({"type": "object", "properties": members})
        }
        Kind::Map(values) => json!({"type": "object", "additionalProperties": text(values)}),
        Kind::Array(items) => json!({"type": "array", "items": text(items)}),
    }
}

/// A payload that is nearly always of a kind, as some writer or other would have it.
pub(super) fn payload(kind: &Kind, random: &mut Random) -> String {
    let mut out = String::new();
    blanks(random, &mut out);
    value(kind, random, 0, &mut out);
    blanks(random, &mut out);
    out
}

fn blanks(random: &mut Random, out: &mut String) {
    while random.chance(6) {
        out.push(*random.pick(&[' ', '\n', '\r', '\t']));
    }
}

fn value(kind: &Kind, random: &mut Random, depth: usize, out: &mut String) {
    if depth > 0 && random.chance(12) {
        return out.push_str("null");
    }
    if depth > 0 && random.chance(80) {
        return any(random, 0, out);
    }
    match kind {
        Kind::Boolean => out.push_str(one_of(random, &["true", "false"])),
        Kind::Integer => integer(random, out),
        Kind::Number => number(random, out),
        Kind::Text => string(random, out),
        Kind::Instant => instant(random, out),
        Kind::Any => any(random, 0, out),
        Kind::Object(members) => {
            let mut written: Vec<(&str, Option<&Kind>)> = Vec::new();
            for (name, kind) in members {
                if random.chance(8) {
                    continue;
                }
                // Another of the same name, whose value is of this kind or of any.
                if random.chance(12) {
                    written.push((name, if random.chance(2) { Some(kind) } else { None }));
                }
                written.push((name, Some(kind)));
            }
            if random.chance(3) {
                written.push((one_of(random, &["stranger", "A", "abc"]), None));
            }
            if random.chance(3) {
                let at = random.below(written.len() + 1);
                written.rotate_left(at);
            }
            let members: Vec<(String, String)> = written
                .into_iter()
                .map(|(name, kind)| {
                    let mut out = String::new();
                    match kind {
                        Some(kind) => value(kind, random, depth + 1, &mut out),
                        None => any(random, 0, &mut out),
                    }
                    (name.to_owned(), out)
                })
                .collect();
            braced(&members, random, out);
        }
        Kind::Map(values) => {
            let members: Vec<(String, String)> = (0..random.below(4))
                .map(|_| {
                    let mut out = String::new();
                    value(values, random, depth + 1, &mut out);
                    ((*random.pick(&NAMES)).to_owned(), out)
                })
                .collect();
            braced(&members, random, out);
        }
        Kind::Array(items) => {
            out.push('[');
            for n in 0..random.below(4) {
                out.push_str(if n > 0 { "," } else { "" });
                blanks(random, out);
                value(items, random, depth + 1, out);
                blanks(random, out);
            }
            out.push(']');
        }
    }
}

fn braced(members: &[(String, String)], random: &mut Random, out: &mut String) {
    out.push('{');
    blanks(random, out);
    for (n, (name, value)) in members.iter().enumerate() {
        out.push_str(if n > 0 { "," } else { "" });
        blanks(random, out);
        quoted(name, random, out);
        blanks(random, out);
        out.push(':');
        blanks(random, out);
        out.push_str(value);
        blanks(random, out);
    }
    out.push('}');
}

fn integer(random: &mut Random, out: &mut String) {
    let number = match random.below(4) {
        0 => random.next() as i64,
        1 => *random.pick(&[i64::MAX, i64::MIN, 0, -1, 9_007_199_254_740_993, 999_999_999_999_999_999]),
        _ => random.below(100_000) as i64 - 50_000,
    };
    out.push_str(&number.to_string());
    // Spelled with a point or an exponent it goes through floating point at the judge's.
    if number.unsigned_abs() < 1 << 50 && random.chance(4) {
        out.push_str(one_of(random, &[".0", "e0", "E+1", "e2", ".5", "0e-1", "e-1", ".00"]));
    }
}

/// Of no more digits than the judge reads exactly.
fn number(random: &mut Random, out: &mut String) {
    out.push_str(&(random.below(200_000) as i64 - 100_000).to_string());
    if random.chance(2) {
        out.push('.');
        out.push_str(&random.below(100_000).to_string());
    }
    if random.chance(3) {
        out.push_str(one_of(random, &["e", "E", "e+", "e-"]));
        out.push_str(&random.below(12).to_string());
    }
}

fn instant(random: &mut Random, out: &mut String) {
    let zone = one_of(random, &["Z", "z", "+00:00", "-05:30", "+14:00", ""]);
    let fraction = one_of(random, &["", ".5", ".123456", ".999999999", ".000001"]);
    let (year, month, day) = (1 + random.below(9999), 1 + random.below(12), 1 + random.below(30));
    let (hour, minute, second) = (random.below(24), random.below(60), random.below(60));
    out.push_str(&format!("\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}\""));
}

fn string(random: &mut Random, out: &mut String) {
    const PARTS: [&str; 9] = ["plain", "Melbourne, Australia", "\"", "\\", "é", "😀", "\n", "\u{0}", "/"];
    let text: String = (0..random.below(5)).map(|_| *random.pick(&PARTS)).collect();
    quoted(&text, random, out);
}

fn quoted(text: &str, random: &mut Random, out: &mut String) {
    let escaped = random.chance(4);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' if escaped => out.push_str("\\/"),
            c if (c as u32) < 0x20 || escaped => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Any value.
fn any(random: &mut Random, depth: usize, out: &mut String) {
    match random.below(if depth > 2 { 5 } else { 7 }) {
        0 => out.push_str(one_of(random, &["true", "false", "null"])),
        1 => integer(random, out),
        2 => number(random, out),
        3 | 4 => string(random, out),
        5 => {
            out.push('[');
            for n in 0..random.below(3) {
                out.push_str(if n > 0 { "," } else { "" });
                any(random, depth + 1, out);
            }
            out.push(']');
        }
        _ => {
            let members: Vec<(String, String)> = (0..random.below(3))
                .map(|_| {
                    let mut out = String::new();
                    any(random, depth + 1, &mut out);
                    ((*random.pick(&NAMES)).to_owned(), out)
                })
                .collect();
            braced(&members, random, out);
        }
    }
}
