//! What a JSON Schema says of a single value beyond its type: formats, encodings, and the names that Kafka Connect and Debezium
//! have for types.

use pipeline::types::Type;

use super::schema::{Of, Single, Unit};

/// The keywords that say it.
pub(super) struct Hints<'d> {
    /// Connect's name of the type.
    pub(super) name: Option<&'d str>,
    /// Connect's type.
    pub(super) connect: Option<&'d str>,
    pub(super) format: Option<&'d str>,
    pub(super) encoding: Option<&'d str>,
    /// Of a decimal.
    pub(super) scale: Option<&'d str>,
    pub(super) precision: Option<&'d str>,
}

pub(super) fn text(hints: &Hints<'_>) -> Single {
    if let Some(decimal) = decimal(hints) {
        return decimal;
    }
    let default = match (hints.name, hints.format, hints.connect) {
        (Some("io.debezium.time.ZonedTimestamp"), ..) => Type::Timestamptz,
        (_, Some("date"), _) => Type::Date,
        (_, Some("time"), _) => Type::Time,
        (_, Some("date-time"), _) => Type::Timestamptz,
        (_, Some("uuid"), _) => Type::Uuid,
        (_, Some("byte" | "base64"), _) | (_, _, Some("bytes")) => Type::Binary,
        _ if hints.encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64")) => Type::Binary,
        _ => Type::String,
    };
    Single::new(Of::Text, default)
}

pub(super) fn integer(hints: &Hints<'_>) -> Single {
    let counts = hints.name.and_then(|name| {
        Some(match name {
            "org.apache.kafka.connect.data.Date" | "io.debezium.time.Date" => (Type::Date, Unit::Days),
            "org.apache.kafka.connect.data.Time" | "io.debezium.time.Time" => (Type::Time, Unit::Millis),
            "org.apache.kafka.connect.data.Timestamp" => (Type::Timestamptz, Unit::Millis),
            "io.debezium.time.Timestamp" => (Type::Timestamp, Unit::Millis),
            "io.debezium.time.MicroTime" => (Type::Time, Unit::Micros),
            "io.debezium.time.NanoTime" => (Type::Time, Unit::Nanos),
            "io.debezium.time.MicroTimestamp" => (Type::Timestamp, Unit::Micros),
            "io.debezium.time.NanoTimestamp" => (Type::Timestamp, Unit::Nanos),
            _ => return None,
        })
    });
    if let Some((default, unit)) = counts {
        return Single { unit: Some(unit), ..Single::new(Of::Integer, default) };
    }
    let is_short = matches!(hints.connect, Some("int8" | "int16" | "int32")) || hints.format == Some("int32");
    Single::new(Of::Integer, if is_short { Type::Int } else { Type::Long })
}

pub(super) fn number(hints: &Hints<'_>) -> Single {
    if let Some(decimal) = decimal(hints) {
        return decimal;
    }
    let is_short = hints.connect == Some("float32") || hints.format == Some("float");
    Single::new(Of::Number, if is_short { Type::Float } else { Type::Double })
}

/// Connect's decimal: a number, or the bytes of its unscaled value in base64.
fn decimal(hints: &Hints<'_>) -> Option<Single> {
    if hints.name != Some("org.apache.kafka.connect.data.Decimal") {
        return None;
    }
    let scale: u8 = hints.scale?.parse().ok().filter(|scale| *scale <= 38)?;
    let precision = hints.precision.and_then(|precision| precision.parse().ok());
    let precision = precision.filter(|precision| (scale.max(1)..=38).contains(precision)).unwrap_or(38);
    Some(Single::new(Of::Decimal { scale }, Type::Decimal(precision, scale)))
}
