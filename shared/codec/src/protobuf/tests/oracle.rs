//! What a payload means according to `prost-reflect`, and where that differs for a reason.

use pipeline::types::Type;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value};
use serde_json::json;

use super::cells::Cell;
pub(super) use super::cells::same;

/// A value that has no place in its column: out of range.
pub(super) struct Unfit;

/// The cells that a message's row must hold; JSON texts are left to [`same`].
pub(super) fn row(message: &DynamicMessage, columns: &[(String, Type)]) -> Result<Vec<(String, Cell)>, Unfit> {
    columns.iter().map(|(name, data_type)| Ok((name.clone(), member(message, name, data_type)?))).collect()
}

/// Generated names are lower case already.
fn member(message: &DynamicMessage, name: &str, data_type: &Type) -> Result<Cell, Unfit> {
    let field = message.descriptor().get_field_by_name(name).unwrap();
    if field.supports_presence() && !message.has_field(&field) {
        let empty = matches!(field.kind(), Kind::Message(inner) if inner.fields().len() == 0);
        return Ok(if empty { Cell::Bool(false) } else { Cell::Null });
    }
    let value = message.get_field(&field);
    match (value.as_ref(), data_type) {
        (Value::List(elements), Type::List { element, .. }) => {
            Ok(Cell::List(elements.iter().map(|value| cell(value, &field, element)).collect::<Result<_, _>>()?))
        }
        (Value::Map(entries), Type::Map { key, value: value_type, .. }) => {
            let kind = field.kind();
            let entry = kind.as_message().unwrap();
            let mut cells = Vec::new();
            for (map_key, value) in entries {
                let map_key = cell(&plain(map_key), &entry.map_entry_key_field(), key)?;
                cells.push((map_key, cell(value, &entry.map_entry_value_field(), value_type)?));
            }
            Ok(Cell::Map(cells))
        }
        (value, _) => cell(value, &field, data_type),
    }
}

fn plain(key: &MapKey) -> Value {
    Value::from(key.clone())
}

fn cell(value: &Value, field: &FieldDescriptor, data_type: &Type) -> Result<Cell, Unfit> {
    Ok(match (value, data_type) {
        (Value::Bool(value), _) => Cell::Bool(*value),
        (Value::I32(value), _) => Cell::Int((*value).into()),
        (Value::I64(value), _) => Cell::Int((*value).into()),
        (Value::U32(value), _) => Cell::Int((*value).into()),
        (Value::U64(value), _) => Cell::Int((*value).into()),
        (Value::F32(value), _) => Cell::Float(value.to_bits()),
        (Value::F64(value), _) => Cell::Double(value.to_bits()),
        (Value::String(value), _) => Cell::Text(value.clone()),
        (Value::Bytes(value), _) => Cell::Bytes(value.to_vec()),
        (Value::EnumNumber(number), _) => {
            let kind = field.kind();
            let name = kind.as_enum().unwrap().get_value(*number);
            Cell::Text(name.map_or_else(|| number.to_string(), |value| value.name().to_owned()))
        }
        (Value::Message(message), Type::Timestamptz) => {
            let (seconds, nanos) = moment(message);
            if !(-62_135_596_800..=253_402_300_799).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
                return Err(Unfit);
            }
            Cell::Int((seconds * 1_000_000_000 + nanos).div_euclid(1000))
        }
        (Value::Message(message), Type::Long) if message.descriptor().full_name() == "google.protobuf.Duration" => {
            let (seconds, nanos) = moment(message);
            if seconds.abs() > 315_576_000_000 || nanos.abs() > 999_999_999 || seconds * nanos < 0 {
                return Err(Unfit);
            }
            Cell::Int((seconds * 1_000_000_000 + nanos).div_euclid(1000))
        }
        (Value::Message(message), Type::Struct(members)) => {
            let cells =
                members.iter().map(|inner| Ok((inner.name.clone(), member(message, &inner.name, &inner.data_type)?)));
            Cell::Struct(cells.collect::<Result<_, _>>()?)
        }
        (Value::Message(_), Type::Boolean) if is_empty(field) => Cell::Bool(true),
        (Value::Message(message), _) if is_wrapper(message) => {
            let inner = message.descriptor().get_field(1).unwrap();
            return cell(&message.get_field(&inner), &inner, data_type);
        }
        (Value::Message(message), Type::String) => Cell::Text(json(message)?.to_string()),
        (value, data_type) => panic!("{value:?} as {data_type}"),
    })
}

fn is_empty(field: &FieldDescriptor) -> bool {
    field.kind().as_message().is_some_and(|message| message.fields().len() == 0)
}

fn is_wrapper(message: &DynamicMessage) -> bool {
    let descriptor = message.descriptor();
    descriptor.full_name().starts_with("google.protobuf.")
        && descriptor.name().ends_with("Value")
        && descriptor.name() != "Value"
        && descriptor.name() != "ListValue"
}

fn moment(message: &DynamicMessage) -> (i128, i128) {
    let seconds = message.get_field_by_name("seconds").unwrap().as_i64().unwrap();
    (seconds.into(), message.get_field_by_name("nanos").unwrap().as_i32().unwrap().into())
}

fn json(message: &DynamicMessage) -> Result<serde_json::Value, Unfit> {
    let descriptor = message.descriptor();
    let only = |name: &str| message.get_field_by_name(name).unwrap().into_owned();
    Ok(match descriptor.full_name() {
        "google.protobuf.Struct" => json_value(&only("fields"), &descriptor.get_field_by_name("fields").unwrap())?,
        "google.protobuf.ListValue" => json_value(&only("values"), &descriptor.get_field_by_name("values").unwrap())?,
        "google.protobuf.Value" => match descriptor.fields().find(|field| message.has_field(field)) {
            None => json!(null),
            Some(field) if field.name() == "null_value" => json!(null),
            Some(field) => {
                let value = message.get_field(&field);
                if matches!(*value, Value::F64(number) if !number.is_finite()) {
                    return Err(Unfit);
                }
                json_value(&value, &field)?
            }
        },
        "google.protobuf.Timestamp" => {
            let (seconds, nanos) = moment(message);
            if !(-62_135_596_800..=253_402_300_799).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
                return Err(Unfit);
            }
            let at = chrono::DateTime::from_timestamp(seconds as i64, nanos as u32).unwrap();
            json!(at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true))
        }
        "google.protobuf.Duration" => {
            let (seconds, nanos) = moment(message);
            if seconds.abs() > 315_576_000_000 || nanos.abs() > 999_999_999 || seconds * nanos < 0 {
                return Err(Unfit);
            }
            let total = seconds * 1_000_000_000 + nanos;
            let sign = if total < 0 { "-" } else { "" };
            let mut text = format!("{sign}{}.{:09}", total.abs() / 1_000_000_000, total.abs() % 1_000_000_000);
            for _ in 0..3 {
                text.truncate(text.strip_suffix("000").unwrap_or(&text).len());
            }
            json!(format!("{}s", text.trim_end_matches('.')))
        }
        _ if is_wrapper(message) => json_value(&only("value"), &descriptor.get_field(1).unwrap())?,
        _ => {
            let mut members = serde_json::Map::new();
            for field in descriptor.fields() {
                let implicit = !field.is_list() && !field.is_map() && !field.supports_presence();
                if implicit || message.has_field(&field) {
                    members.insert(field.name().to_owned(), json_value(&message.get_field(&field), &field)?);
                }
            }
            members.into()
        }
    })
}

fn json_value(value: &Value, field: &FieldDescriptor) -> Result<serde_json::Value, Unfit> {
    let float = |number: f64| match number {
        _ if number.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        _ => json!(number),
    };
    Ok(match value {
        Value::Bool(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::U32(value) => json!(value),
        Value::I64(value) => json!(value.to_string()),
        Value::U64(value) => json!(value.to_string()),
        // The shortest decimals of a float are not those of the double of equal value.
        Value::F32(value) if value.is_finite() => serde_json::from_str(&format!("{value:?}")).unwrap(),
        Value::F32(value) => float((*value).into()),
        Value::F64(value) => float(*value),
        Value::String(value) => json!(value),
        Value::Bytes(value) => json!(base64_simd::STANDARD.encode_to_string(value)),
        Value::EnumNumber(number) => match field.kind().as_enum().unwrap().get_value(*number) {
            Some(value) => json!(value.name()),
            None => json!(number),
        },
        Value::Message(message) => json(message)?,
        Value::List(values) => {
            values.iter().map(|value| json_value(value, field)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Map(entries) => {
            let kind = field.kind();
            let values = kind.as_message().unwrap().map_entry_value_field();
            let mut members = serde_json::Map::new();
            for (key, value) in entries {
                let key = match plain(key) {
                    Value::String(key) => key,
                    Value::Bool(key) => key.to_string(),
                    Value::I32(key) => key.to_string(),
                    Value::I64(key) => key.to_string(),
                    Value::U32(key) => key.to_string(),
                    Value::U64(key) => key.to_string(),
                    other => panic!("a key {other:?}"),
                };
                members.insert(key, json_value(value, &values)?);
            }
            members.into()
        }
    })
}

/// A well-formed message's fields, tag included; none where it isn't well-formed.
pub(super) fn fields(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut fields = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let start = rest;
        let (_, after) = field(rest)?;
        fields.push(&start[..start.len() - after.len()]);
        rest = after;
    }
    Some(fields)
}

/// The bytes of a field's value where they can be a message's (a group's without its end), and what follows.
fn field(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let mut rest = bytes;
    let tag = prost::encoding::decode_varint(&mut rest).ok()?;
    Some(match tag & 7 {
        0 => {
            prost::encoding::decode_varint(&mut rest).ok()?;
            (None, rest)
        }
        1 => (None, rest.get(8..)?),
        5 => (None, rest.get(4..)?),
        2 => {
            let length = prost::encoding::decode_varint(&mut rest).ok()? as usize;
            (Some(rest.get(..length)?), rest.get(length..)?)
        }
        3 => {
            let start = rest;
            loop {
                let before = rest;
                let mut peek = rest;
                let tag = prost::encoding::decode_varint(&mut peek).ok()?;
                if tag & 7 == 4 {
                    break (Some(&start[..start.len() - before.len()]), peek);
                }
                rest = field(rest)?.1;
            }
        }
        _ => return None,
    })
}

/// Whether a field stands on the wire with a wire type that isn't the schema's, at any depth. Protobuf treats it as
/// unknown, and so does the decoder; `prost` refuses the message, and takes a map's entry for one whatever its wire type.
pub(super) fn has_foreign_wire_type(message: &MessageDescriptor, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Ok(tag) = prost::encoding::decode_varint(&mut &*rest) {
        let (number, wire) = ((tag >> 3) as u32, (tag & 7) as u8);
        let value = field(rest);
        rest = value.map_or(&[], |(_, after)| after);
        let Some(known) = message.get_field(number) else { continue };
        // Judged before the value: what follows need not be a value of that wire type at all.
        let expected = match known.kind() {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 1,
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => 5,
            Kind::Message(_) if known.is_group() => 3,
            Kind::String | Kind::Bytes | Kind::Message(_) => 2,
            _ => 0,
        };
        if wire != expected && !(wire == 2 && known.is_list() && expected != 3) {
            return true;
        }
        if let (Kind::Message(inner_message), Some((Some(inner), _))) = (known.kind(), value)
            && has_foreign_wire_type(&inner_message, inner)
        {
            return true;
        }
    }
    false
}
