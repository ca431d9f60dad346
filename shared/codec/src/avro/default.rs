//! Defaults as bytes: a missing field's value is read as if its writer had written it.

use serde_json::Value as Json;

use super::schema::{Schema, Shape};

/// Defaults may nest this deep: one that holds itself has no end.
const DEPTH_MAX: usize = 64;

/// A larger default is refused: of records in records it multiplies.
const BYTES_MAX: usize = 1 << 20;

/// Encodes a default as it stands in a schema.
///
/// # Errors
/// Why it is no value of the type.
pub(super) fn encode(schema: &Schema, of: usize, value: &Json) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    write(schema, of, value, 0, &mut bytes)?;
    Ok(bytes)
}

fn write(schema: &Schema, of: usize, value: &Json, depth: usize, bytes: &mut Vec<u8>) -> Result<(), String> {
    if depth > DEPTH_MAX || bytes.len() > BYTES_MAX {
        return Err("it has no end, or is larger than a default may be".to_owned());
    }
    let unfit = || {
        let mut shown = value.to_string();
        if shown.chars().count() > 40 {
            shown = shown.chars().take(40).chain(['…']).collect();
        }
        format!("`{shown}` is no {}", schema.type_name(of))
    };
    match (schema.shape(of), value) {
        (Shape::Null, Json::Null) => {}
        (Shape::Boolean, Json::Bool(flag)) => bytes.push(u8::from(*flag)),
        (Shape::Int, Json::Number(_)) => {
            let number = value.as_i64().filter(|number| i32::try_from(*number).is_ok()).ok_or_else(unfit)?;
            long(number, bytes);
        }
        (Shape::Long, Json::Number(_)) => long(value.as_i64().ok_or_else(unfit)?, bytes),
        (Shape::Float, _) => {
            let number = float(value).ok_or_else(unfit)? as f32;
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        (Shape::Double, _) => bytes.extend_from_slice(&float(value).ok_or_else(unfit)?.to_le_bytes()),
        (Shape::String, Json::String(text)) => {
            long(text.len() as i64, bytes);
            bytes.extend_from_slice(text.as_bytes());
        }
        (Shape::Bytes, Json::String(text)) => {
            let value = code_points(text).ok_or_else(unfit)?;
            long(value.len() as i64, bytes);
            bytes.extend_from_slice(&value);
        }
        (Shape::Fixed(fixed), Json::String(text)) => {
            let value = code_points(text).filter(|value| value.len() == fixed.size).ok_or_else(unfit)?;
            bytes.extend_from_slice(&value);
        }
        (Shape::Enum(values), Json::String(symbol)) => {
            let at = values.symbols.iter().position(|known| known == symbol).ok_or_else(unfit)?;
            long(at as i64, bytes);
        }
        (Shape::Array(items), Json::Array(elements)) => {
            if !elements.is_empty() {
                long(elements.len() as i64, bytes);
            }
            for element in elements {
                write(schema, *items, element, depth + 1, bytes)?;
            }
            long(0, bytes);
        }
        (Shape::Map(values), Json::Object(entries)) => {
            if !entries.is_empty() {
                long(entries.len() as i64, bytes);
            }
            for (key, value) in entries {
                long(key.len() as i64, bytes);
                bytes.extend_from_slice(key.as_bytes());
                write(schema, *values, value, depth + 1, bytes)?;
            }
            long(0, bytes);
        }
        (Shape::Record(record), Json::Object(members)) => {
            for field in &record.fields {
                match (members.get(&field.name), &field.default) {
                    (Some(value), _) => write(schema, field.of, value, depth + 1, bytes)?,
                    (None, Some(Ok(default))) => bytes.extend_from_slice(default),
                    (None, _) => return Err(format!("{} lacks `{}`", unfit(), field.name)),
                }
            }
        }
        // Of the first branch that it is a value of: the specification said the first branch once.
        (Shape::Union(branches), _) => {
            let before = bytes.len();
            for (index, branch) in branches.iter().enumerate() {
                long(index as i64, bytes);
                if write(schema, *branch, value, depth + 1, bytes).is_ok() {
                    return Ok(());
                }
                bytes.truncate(before);
            }
            return Err(unfit());
        }
        _ => return Err(unfit()),
    }
    Ok(())
}

fn long(number: i64, bytes: &mut Vec<u8>) {
    let mut zigzag = ((number << 1) ^ (number >> 63)) as u64;
    while zigzag >= 0x80 {
        bytes.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    bytes.push(zigzag as u8);
}

/// JSON has no number that is none; some tools write those as text.
fn float(value: &Json) -> Option<f64> {
    match value {
        Json::Number(_) => value.as_f64(),
        Json::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" | "INF" => Some(f64::INFINITY),
            "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Bytes as the code points 0 to 255.
fn code_points(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}
