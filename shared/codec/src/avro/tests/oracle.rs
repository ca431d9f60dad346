//! What a record means according to `apache-avro`.

use apache_avro::types::Value;
use pipeline::types::Type;
use serde_json::{Value as Json, json};

use super::generate::{Field, Kind};
use crate::testing::cells::Cell;

/// The reader's record types by their names.
pub(super) type Records<'k> = Vec<(&'k str, &'k Kind)>;

/// The cells that a value's columns must hold.
pub(super) fn cell(value: &Value, kind: &Kind, data_type: &Type, records: &Records<'_>) -> Cell {
    match (value, kind, data_type) {
        (Value::Union(_, inner), Kind::Nullable(of, _), _) => match **inner {
            // An empty record is there or not, and never null.
            Value::Null if *data_type == Type::Boolean && matches!(**of, Kind::Record(..)) => Cell::Bool(false),
            Value::Null => Cell::Null,
            _ => cell(inner, of, data_type, records),
        },
        (Value::Union(_, inner), Kind::Union(_), _) if **inner == Value::Null => Cell::Null,
        (Value::Union(branch, inner), Kind::Union(branches), Type::Struct(members)) => {
            let others = branches.iter().enumerate().filter(|(_, kind)| !matches!(kind, Kind::Primitive("null")));
            let cells = others.zip(members).map(|((index, kind), member)| {
                let there = index == *branch as usize;
                let inner = if there { cell(inner, kind, &member.data_type, records) } else { Cell::Null };
                (member.name.clone(), inner)
            });
            Cell::Struct(cells.collect())
        }
        (value, Kind::Again(name), _) => {
            let (_, record) = records.iter().find(|(known, _)| known == name).unwrap();
            cell(value, record, data_type, records)
        }
        // What else is text is JSON.
        (Value::Record(_) | Value::Array(_) | Value::Map(_) | Value::Union(..), _, Type::String) => {
            Cell::Text(json_of(value, kind, records).to_string())
        }
        (Value::Record(_), _, Type::Boolean) => Cell::Bool(true),
        (Value::Record(values), Kind::Record(_, fields), Type::Struct(members)) => {
            let cells = values.iter().zip(fields).zip(members).map(|(((_, value), Field { of, .. }), member)| {
                (member.name.clone(), cell(value, of, &member.data_type, records))
            });
            Cell::Struct(cells.collect())
        }
        (Value::Array(values), Kind::Array(of), Type::List { element, .. }) => {
            Cell::List(values.iter().map(|value| cell(value, of, element, records)).collect())
        }
        (Value::Map(values), Kind::Map(of), Type::Map { value: data_type, .. }) => {
            let entries = values.iter();
            Cell::Map(
                entries.map(|(key, value)| (Cell::Text(key.clone()), cell(value, of, data_type, records))).collect(),
            )
        }
        (Value::Boolean(value), ..) => Cell::Bool(*value),
        (Value::Int(value) | Value::Date(value), ..) => Cell::Int((*value).into()),
        (Value::TimeMillis(value), ..) => Cell::Int(i128::from(*value) * 1000),
        (Value::TimestampMillis(value) | Value::LocalTimestampMillis(value), ..) => {
            Cell::Int(i128::from(*value) * 1000)
        }
        (
            Value::Long(value)
            | Value::TimeMicros(value)
            | Value::TimestampMicros(value)
            | Value::LocalTimestampMicros(value),
            ..,
        ) => Cell::Int((*value).into()),
        (Value::Float(value), ..) => Cell::Float(value.to_bits()),
        (Value::Double(value), ..) => Cell::Double(value.to_bits()),
        (Value::String(value) | Value::Enum(_, value), ..) => Cell::Text(value.clone()),
        (Value::Bytes(value) | Value::Fixed(_, value), ..) => Cell::Bytes(value.clone()),
        (Value::Decimal(value), ..) => Cell::Int(number(value)),
        (Value::Duration(value), _, Type::Struct(members)) => {
            let (months, days, millis): (u32, u32, u32) =
                (value.months().into(), value.days().into(), value.millis().into());
            let parts = members.iter().zip([months, days, millis]);
            Cell::Struct(parts.map(|(member, part)| (member.name.clone(), Cell::Int(part.into()))).collect())
        }
        (value, kind, data_type) => panic!("{value:?} of {kind:?} as {data_type}"),
    }
}

fn number(value: &apache_avro::Decimal) -> i128 {
    let bytes = <Vec<u8>>::try_from(value).unwrap();
    let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    bytes.iter().fold(if negative { -1 } else { 0 }, |number, byte| number << 8 | i128::from(*byte))
}

fn json_of(value: &Value, kind: &Kind, records: &Records<'_>) -> Json {
    use chrono::{DateTime, SecondsFormat};
    let moment = |micros: i64, zone: bool| {
        let text = DateTime::from_timestamp_micros(micros).unwrap().to_rfc3339_opts(SecondsFormat::AutoSi, true);
        json!(if zone { text.as_str() } else { text.trim_end_matches('Z') })
    };
    let of_day = |micros: i64| {
        let at = DateTime::from_timestamp_micros(micros).unwrap();
        json!(at.format("%H:%M:%S%.6f").to_string())
    };
    let float = |number: f64| match number {
        _ if number.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        _ => json!(number),
    };
    match (value, kind) {
        (Value::Union(_, inner), Kind::Nullable(of, _)) => json_of(inner, of, records),
        (Value::Union(branch, inner), Kind::Union(branches)) => json_of(inner, &branches[*branch as usize], records),
        (value, Kind::Again(name)) => {
            let (_, record) = records.iter().find(|(known, _)| known == name).unwrap();
            json_of(value, record, records)
        }
        (Value::Record(values), Kind::Record(_, fields)) => {
            let members = values.iter().zip(fields);
            members.map(|((_, value), field)| (field.name.clone(), json_of(value, &field.of, records))).collect()
        }
        (Value::Array(values), Kind::Array(of)) => values.iter().map(|value| json_of(value, of, records)).collect(),
        (Value::Map(values), Kind::Map(of)) => {
            values.iter().map(|(key, value)| (key.clone(), json_of(value, of, records))).collect()
        }
        (Value::Null, _) => Json::Null,
        (Value::Boolean(value), _) => json!(value),
        (Value::Int(value), _) => json!(value),
        (Value::Long(value), _) => json!(value),
        (Value::Date(days), _) => {
            json!(DateTime::from_timestamp(i64::from(*days) * 86_400, 0).unwrap().format("%Y-%m-%d").to_string())
        }
        (Value::TimeMillis(value), _) => of_day(i64::from(*value) * 1000),
        (Value::TimeMicros(value), _) => of_day(*value),
        (Value::TimestampMillis(value), _) => moment(*value * 1000, true),
        (Value::TimestampMicros(value), _) => moment(*value, true),
        (Value::LocalTimestampMillis(value), _) => moment(*value * 1000, false),
        (Value::LocalTimestampMicros(value), _) => moment(*value, false),
        // The shortest decimals of a float are not those of the double of equal value.
        (Value::Float(value), _) if value.is_finite() => serde_json::from_str(&format!("{value:?}")).unwrap(),
        (Value::Float(value), _) => float((*value).into()),
        (Value::Double(value), _) => float(*value),
        (Value::String(value) | Value::Enum(_, value), _) => json!(value),
        (Value::Bytes(value) | Value::Fixed(_, value), _) => json!(base64_simd::STANDARD.encode_to_string(value)),
        (Value::Decimal(value), Kind::Decimal(precision, _)) => {
            let (number, scale) = (number(value), precision / 2);
            let (sign, digits) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
            let one = 10_u128.pow(scale as u32);
            match scale {
                0 => json!(format!("{sign}{digits}")),
                _ => json!(format!("{sign}{}.{:0scale$}", digits / one, digits % one)),
            }
        }
        (Value::Duration(value), _) => {
            let (months, days, millis): (u32, u32, u32) =
                (value.months().into(), value.days().into(), value.millis().into());
            json!({"months": months, "days": days, "milliseconds": millis})
        }
        (value, kind) => panic!("{value:?} of {kind:?}"),
    }
}
