//! What a payload means by `serde_json`'s reading of it.

use chrono::DateTime;
use serde_json::Value;

use super::generate::Kind;
use crate::testing::cells::Cell;

/// What else a payload may be than a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// A value is none of its kind.
    Value,
    /// A number went through floating point, and may be another by now.
    Rounded,
}

/// The cells of the row of an object's members.
pub(super) fn row(payload: &Value, kind: &Kind) -> Result<Vec<(String, Cell)>, Unfit> {
    let (Value::Object(values), Kind::Object(members)) = (payload, kind) else { return Err(Unfit::Value) };
    let cells = members.iter().map(|(name, kind)| Ok((name.clone(), cell(values.get(name), kind)?)));
    cells.collect()
}

fn cell(value: Option<&Value>, kind: &Kind) -> Result<Cell, Unfit> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Cell::Null) };
    Ok(match (kind, value) {
        (Kind::Any, value) => Cell::Text(value.to_string()),
        (Kind::Boolean, Value::Bool(is)) => Cell::Bool(*is),
        (Kind::Integer, Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Cell::Int(number.into()),
            (None, Some(float)) if float.abs() >= 9e15 => return Err(Unfit::Rounded),
            (None, Some(float)) if float.fract() == 0.0 => Cell::Int(float as i128),
            _ => return Err(Unfit::Value),
        },
        (Kind::Number, Value::Number(number)) => Cell::Double(number.as_f64().ok_or(Unfit::Value)?.to_bits()),
        (Kind::Text, Value::String(text)) => Cell::Text(text.clone()),
        (Kind::Instant, Value::String(text)) => {
            let at = DateTime::parse_from_rfc3339(&usual(text)).map_err(|_| Unfit::Value)?;
            // Of a minute's 61st second there is no column.
            if at.timestamp_subsec_nanos() >= 1_000_000_000 {
                return Err(Unfit::Value);
            }
            Cell::Int((i128::from(at.timestamp()) * 1_000_000) + i128::from(at.timestamp_subsec_micros()))
        }
        (Kind::Object(_), value) => Cell::Struct(row(value, kind)?),
        (Kind::Map(values), Value::Object(entries)) => {
            let entries = entries.iter().map(|(key, value)| Ok((Cell::Text(key.clone()), cell(Some(value), values)?)));
            Cell::Map(entries.collect::<Result<_, _>>()?)
        }
        (Kind::Array(items), Value::Array(elements)) => {
            Cell::List(elements.iter().map(|element| cell(Some(element), items)).collect::<Result<_, _>>()?)
        }
        _ => return Err(Unfit::Value),
    })
}

/// A time as RFC 3339 has it, where ISO 8601 allows less.
fn usual(text: &str) -> String {
    let zone =
        text.char_indices().skip(11).find(|(_, c)| matches!(c, 'Z' | 'z' | '+' | '-')).map_or(text.len(), |(n, _)| n);
    let (time, zone) = text.split_at(zone);
    let time = if time.len() == 16 { format!("{time}:00") } else { time.replace(',', ".") };
    match (zone.len(), zone.get(..3), zone.get(3..)) {
        (3, ..) => format!("{time}{zone}:00"),
        (5, Some(hours), Some(minutes)) => format!("{time}{hours}:{minutes}"),
        _ => format!("{time}{zone}"),
    }
}
