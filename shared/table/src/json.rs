//! Arrow values as JSON and as text: the one rendering that answers of the command line and dead letters share.
//!
//! In JSON, integers keep every digit; decimals are strings; floats that are not finite are `"NaN"`, `"Infinity"`,
//! `"-Infinity"`; a timestamp with a zone is RFC 3339 in UTC with `Z`, one without has no `Z`, both with six digits (nine
//! where the unit is nanoseconds); dates are `YYYY-MM-DD`, times `HH:MM:SS.ffffff`; binary is base64; maps are arrays of
//! `{"key", "value"}`; nulls are written, never left out.
//!
//! A year has four digits from 0 to 9999, as RFC 3339 wants it. Any other has a sign and at least six digits, the expanded
//! form of ISO 8601 (`+010000-01-01T00:00:00.000000Z`), which ECMAScript's `Date` reads: every value that a column can hold
//! is written exactly.

use std::borrow::Cow;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, DecimalType, Field, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{Datelike, NaiveDate, NaiveTime};

/// How deep values may nest: no type of ours nests deeper, and a deeper one is refused rather than recursed into.
const DEPTH_MAX: usize = 128;

/// Why a value can't be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nesting beyond the bound.
    #[error("the value nests more than {DEPTH_MAX} deep")]
    Depth,
    /// Two columns of one name can't be members of one object.
    #[error("two columns are named `{0}`: give one another name")]
    Ambiguous(String),
    /// The array is not what its type says.
    #[error("a value of type {0} can't be read")]
    Malformed(DataType),
    /// Arrow's own fault.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    /// Text that serde could not write.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Refuses a schema whose rows can't be JSON objects.
///
/// # Errors
/// [`Error::Ambiguous`]
pub fn check_names(schema: &Schema) -> Result<(), Error> {
    let mut seen = std::collections::HashSet::new();
    for field in schema.fields() {
        if !seen.insert(field.name()) {
            return Err(Error::Ambiguous(field.name().clone()));
        }
    }
    Ok(())
}

/// Appends one row of a batch as a JSON object, its members in the order of the columns.
///
/// # Errors
/// When a value has no JSON form; `out` then ends with a part of the row.
pub fn row(batch: &RecordBatch, row: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(b'{');
    for (n, (field, column)) in batch.schema_ref().fields().iter().zip(batch.columns()).enumerate() {
        if n > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, field.name())?;
        out.push(b':');
        value(field, column.as_ref(), row, 0, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// A value as plain text for tables and CSV: what JSON would say, without quotes around a string. `None` is null.
///
/// # Errors
/// As [`row`].
pub fn text<'a>(field: &Field, array: &'a dyn Array, row: usize) -> Result<Option<Cow<'a, str>>, Error> {
    if array.is_null(row) {
        return Ok(None);
    }
    match array.data_type() {
        DataType::Utf8 => return Ok(Some(array.as_string::<i32>().value(row).into())),
        DataType::Utf8View => return Ok(Some(array.as_string_view().value(row).into())),
        _ => {}
    }
    let mut json = Vec::new();
    value(field, array, row, 0, &mut json)?;
    Ok(match json.as_slice() {
        b"null" => None,
        [b'"', ..] => Some(serde_json::from_slice::<String>(&json)?.into()),
        _ => Some(String::from_utf8_lossy(&json).into_owned().into()),
    })
}

/// The name of a type in answers: Iceberg's where it has one.
#[must_use]
pub fn type_name(field: &Field) -> String {
    match field.data_type() {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => "int".to_owned(),
        DataType::Int64 | DataType::UInt32 => "long".to_owned(),
        DataType::UInt64 => "decimal(20, 0)".to_owned(),
        DataType::Float16 | DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => {
            format!("decimal({p}, {s})")
        }
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "time".to_owned(),
        DataType::Timestamp(unit, zone) => {
            let nanos = if *unit == TimeUnit::Nanosecond { "_ns" } else { "" };
            format!("timestamp{}{nanos}", if zone.is_some() { "tz" } else { "" })
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_owned(),
        DataType::FixedSizeBinary(16) if is_uuid(field) => "uuid".to_owned(),
        DataType::FixedSizeBinary(n) => format!("fixed({n})"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".to_owned(),
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|f| format!("{}: {}", f.name(), type_name(f))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => format!("list<{}>", type_name(element)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => match fields.iter().as_slice() {
                [key, value] => format!("map<{}, {}>", type_name(key), type_name(value)),
                _ => "map".to_owned(),
            },
            _ => "map".to_owned(),
        },
        DataType::Dictionary(_, value) => type_name(&Field::new(field.name(), value.as_ref().clone(), true)),
        other => other.to_string().to_lowercase(),
    }
}

fn is_uuid(field: &Field) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.uuid")
}

fn string(text: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    Ok(serde_json::to_writer(out, text)?)
}

fn number(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn binary(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    base64_simd::STANDARD.encode_append(bytes, out);
    out.push(b'"');
}

fn float<T: Into<f64> + serde::Serialize + Copy>(value: T, out: &mut Vec<u8>) -> Result<(), Error> {
    let wide: f64 = value.into();
    if wide.is_nan() {
        string("NaN", out)
    } else if wide.is_infinite() {
        string(if wide > 0.0 { "Infinity" } else { "-Infinity" }, out)
    } else {
        // In its own width: the shortest text that reads back as the same float.
        Ok(serde_json::to_writer(out, &value)?)
    }
}

/// Appends one value.
fn value(field: &Field, array: &dyn Array, row: usize, depth: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::Depth);
    }
    if array.is_null(row) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match array.data_type() {
        DataType::Null => out.extend_from_slice(b"null"),
        DataType::Boolean => {
            out.extend_from_slice(if array.as_boolean().value(row) { b"true" } else { b"false" });
        }
        DataType::Int8 => number(array.as_primitive::<Int8Type>().value(row), out),
        DataType::Int16 => number(array.as_primitive::<Int16Type>().value(row), out),
        DataType::Int32 => number(array.as_primitive::<Int32Type>().value(row), out),
        DataType::Int64 => number(array.as_primitive::<Int64Type>().value(row), out),
        DataType::UInt8 => number(array.as_primitive::<UInt8Type>().value(row), out),
        DataType::UInt16 => number(array.as_primitive::<UInt16Type>().value(row), out),
        DataType::UInt32 => number(array.as_primitive::<UInt32Type>().value(row), out),
        DataType::UInt64 => number(array.as_primitive::<UInt64Type>().value(row), out),
        DataType::Float16 => float(f32::from(array.as_primitive::<Float16Type>().value(row)), out)?,
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row), out)?,
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row), out)?,
        DataType::Decimal128(p, s) => {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row);
            string(&Decimal128Type::format_decimal(unscaled, *p, *s), out)?;
        }
        DataType::Decimal256(p, s) => {
            let unscaled = array.as_primitive::<Decimal256Type>().value(row);
            string(&Decimal256Type::format_decimal(unscaled, *p, *s), out)?;
        }
        DataType::Date32 => string(&date(i64::from(array.as_primitive::<Date32Type>().value(row))), out)?,
        DataType::Date64 => {
            let millis = array.as_primitive::<Date64Type>().value(row);
            string(&date(millis.div_euclid(86_400_000)), out)?;
        }
        DataType::Time32(_) | DataType::Time64(_) => string(&time(array, row)?, out)?,
        DataType::Timestamp(unit, zone) => string(&timestamp(array, row, *unit, zone.is_some()), out)?,
        DataType::Utf8 => string(array.as_string::<i32>().value(row), out)?,
        DataType::LargeUtf8 => string(array.as_string::<i64>().value(row), out)?,
        DataType::Utf8View => string(array.as_string_view().value(row), out)?,
        DataType::Binary => binary(array.as_binary::<i32>().value(row), out),
        DataType::LargeBinary => binary(array.as_binary::<i64>().value(row), out),
        DataType::BinaryView => binary(array.as_binary_view().value(row), out),
        DataType::FixedSizeBinary(_) => {
            let bytes = array.as_fixed_size_binary().value(row);
            match <[u8; 16]>::try_from(bytes) {
                Ok(uuid) if is_uuid(field) => string(&uuid_text(u128::from_be_bytes(uuid)), out)?,
                _ => binary(bytes, out),
            }
        }
        DataType::Struct(fields) => {
            out.push(b'{');
            for (n, (field, column)) in fields.iter().zip(array.as_struct().columns()).enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                string(field.name(), out)?;
                out.push(b':');
                value(field, column.as_ref(), row, depth + 1, out)?;
            }
            out.push(b'}');
        }
        DataType::List(element) => list(element, array.as_list::<i32>().value(row).as_ref(), depth, out)?,
        DataType::LargeList(element) => list(element, array.as_list::<i64>().value(row).as_ref(), depth, out)?,
        DataType::ListView(element) => list(element, array.as_list_view::<i32>().value(row).as_ref(), depth, out)?,
        DataType::LargeListView(element) => list(element, array.as_list_view::<i64>().value(row).as_ref(), depth, out)?,
        DataType::FixedSizeList(element, _) => {
            list(element, array.as_fixed_size_list().value(row).as_ref(), depth, out)?;
        }
        DataType::Map(entries, _) => map(entries, &array.as_map().value(row), depth, out)?,
        DataType::Dictionary(_, values) => {
            let dictionary = array.as_any_dictionary();
            let key = key(dictionary.keys(), row).ok_or_else(|| Error::Malformed(array.data_type().clone()))?;
            let inner = Field::new(field.name(), values.as_ref().clone(), true).with_metadata(field.metadata().clone());
            value(&inner, dictionary.values().as_ref(), key, depth + 1, out)?;
        }
        // Intervals, durations, unions: SQL can make them, no table of ours holds them.
        _ => {
            let options = FormatOptions::default();
            string(&ArrayFormatter::try_new(array, &options)?.value(row).try_to_string()?, out)?;
        }
    }
    Ok(())
}

fn list(element: &Field, values: &dyn Array, depth: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(b'[');
    for n in 0..values.len() {
        if n > 0 {
            out.push(b',');
        }
        value(element, values, n, depth + 1, out)?;
    }
    out.push(b']');
    Ok(())
}

fn map(entries: &Field, values: &arrow::array::StructArray, depth: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let malformed = || Error::Malformed(entries.data_type().clone());
    let (DataType::Struct(fields), [keys, items]) = (entries.data_type(), values.columns()) else {
        return Err(malformed());
    };
    let [key_field, item_field] = fields.iter().as_slice() else { return Err(malformed()) };
    out.push(b'[');
    for n in 0..values.len() {
        out.extend_from_slice(if n > 0 { b",{\"key\":" } else { b"{\"key\":" });
        value(key_field, keys.as_ref(), n, depth + 1, out)?;
        out.extend_from_slice(b",\"value\":");
        value(item_field, items.as_ref(), n, depth + 1, out)?;
        out.push(b'}');
    }
    out.push(b']');
    Ok(())
}

/// The position in a dictionary that a key names.
fn key(keys: &dyn Array, row: usize) -> Option<usize> {
    match keys.data_type() {
        DataType::Int8 => usize::try_from(keys.as_primitive::<Int8Type>().value(row)).ok(),
        DataType::Int16 => usize::try_from(keys.as_primitive::<Int16Type>().value(row)).ok(),
        DataType::Int32 => usize::try_from(keys.as_primitive::<Int32Type>().value(row)).ok(),
        DataType::Int64 => usize::try_from(keys.as_primitive::<Int64Type>().value(row)).ok(),
        DataType::UInt8 => Some(keys.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Some(keys.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => usize::try_from(keys.as_primitive::<UInt32Type>().value(row)).ok(),
        DataType::UInt64 => usize::try_from(keys.as_primitive::<UInt64Type>().value(row)).ok(),
        _ => None,
    }
}

/// Days since the epoch as a date of the proleptic Gregorian calendar.
fn date(days: i64) -> String {
    // The calendar repeats itself every 400 years, so that years beyond a library's are those of another cycle.
    const CYCLE_DAYS: i64 = 146_097;
    const CYCLE_YEARS: i64 = 400;
    let (cycles, within) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
    let Some(date) = i32::try_from(within).ok().and_then(NaiveDate::from_epoch_days) else { return format!("{days}d") };
    let year = i64::from(date.year()) + cycles * CYCLE_YEARS;
    let year = if (0..=9999).contains(&year) { format!("{year:04}") } else { format!("{year:+07}") };
    format!("{year}-{:02}-{:02}", date.month(), date.day())
}

fn time(array: &dyn Array, row: usize) -> Result<String, Error> {
    let nanos = match array.data_type() {
        DataType::Time32(TimeUnit::Second) => {
            i64::from(array.as_primitive::<Time32SecondType>().value(row)).saturating_mul(1_000_000_000)
        }
        DataType::Time32(_) => {
            i64::from(array.as_primitive::<Time32MillisecondType>().value(row)).saturating_mul(1_000_000)
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            array.as_primitive::<Time64MicrosecondType>().value(row).saturating_mul(1000)
        }
        _ => array.as_primitive::<Time64NanosecondType>().value(row),
    };
    let part = |n: i64| u32::try_from(n).ok();
    let time = part(nanos.div_euclid(1_000_000_000))
        .zip(part(nanos.rem_euclid(1_000_000_000)))
        .and_then(|(seconds, nanos)| NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos))
        .ok_or_else(|| Error::Malformed(array.data_type().clone()))?;
    let digits = if matches!(array.data_type(), DataType::Time64(TimeUnit::Nanosecond)) { "%.9f" } else { "%.6f" };
    Ok(time.format(&format!("%H:%M:%S{digits}")).to_string())
}

/// An instant as text.
fn timestamp(array: &dyn Array, row: usize, unit: TimeUnit, zoned: bool) -> String {
    // The count of an instant, how many of it make a second, and the digits that a fraction of one is written with.
    let (count, per_second, digits) = match unit {
        TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().value(row), 1, 6),
        TimeUnit::Millisecond => (array.as_primitive::<TimestampMillisecondType>().value(row), 1_000, 6),
        TimeUnit::Microsecond => (array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000_000, 6),
        TimeUnit::Nanosecond => (array.as_primitive::<TimestampNanosecondType>().value(row), 1_000_000_000, 9),
    };
    const DAY_SECONDS: i64 = 86_400;
    let (seconds, fraction) = (count.div_euclid(per_second), count.rem_euclid(per_second));
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let fraction = fraction * (10_i64.pow(digits) / per_second);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let width = digits as usize;
    let zone = if zoned { "Z" } else { "" };
    format!("{}T{hour:02}:{minute:02}:{second:02}.{fraction:0width$}{zone}", date(days))
}

fn uuid_text(uuid: u128) -> String {
    let hex = format!("{uuid:032x}");
    let part = |range| hex.get(range).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
}

#[cfg(test)]
mod tests;
