//! Logical types to Arrow types. Staged objects and table files are written with these and read back years later, so a
//! mapping never changes; a new need is a new type.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use pipeline::types::Type;

/// The Arrow type of a column type.
///
/// `timestamptz` is microseconds in `UTC`, `timestamp` microseconds without zone, `time` microseconds of the day,
/// `uuid` 16 fixed bytes. A list's field is `element`; a map's entries are `key_value` with `key` and `value`.
#[must_use]
pub fn data_type(logical: &Type) -> DataType {
    match logical {
        Type::Boolean => DataType::Boolean,
        Type::Int => DataType::Int32,
        Type::Long => DataType::Int64,
        Type::Float => DataType::Float32,
        Type::Double => DataType::Float64,
        // The scale is at most 38 and so never lost.
        Type::Decimal(precision, scale) => DataType::Decimal128(*precision, i8::try_from(*scale).unwrap_or(i8::MAX)),
        Type::Date => DataType::Date32,
        Type::Time => DataType::Time64(TimeUnit::Microsecond),
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
        Type::String => DataType::Utf8,
        Type::Uuid => DataType::FixedSizeBinary(16),
        // Longer than Arrow can say is longer than any row may be.
        Type::Fixed(length) => DataType::FixedSizeBinary(i32::try_from(*length).unwrap_or(i32::MAX)),
        Type::Binary => DataType::Binary,
        Type::Struct(fields) => DataType::Struct(
            fields.iter().map(|member| field(&member.name, &member.data_type, member.required)).collect::<Fields>(),
        ),
        Type::List { element, required } => DataType::List(Arc::new(field("element", element, *required))),
        Type::Map { key, value, required } => {
            let entries = Fields::from(vec![field("key", key, true), field("value", value, *required)]);
            DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false)
        }
    }
}

/// The Arrow field of a named column: nullable unless `required`.
#[must_use]
pub fn field(name: &str, logical: &Type, required: bool) -> Field {
    Field::new(name, data_type(logical), !required)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_map_as_written_files_need_them() {
        let check = |text: &str, expected: DataType| assert_eq!(data_type(&text.parse().unwrap()), expected, "{text}");
        check("boolean", DataType::Boolean);
        check("int", DataType::Int32);
        check("long", DataType::Int64);
        check("float", DataType::Float32);
        check("double", DataType::Float64);
        check("decimal(20, 0)", DataType::Decimal128(20, 0));
        check("decimal(38, 38)", DataType::Decimal128(38, 38));
        check("date", DataType::Date32);
        check("time", DataType::Time64(TimeUnit::Microsecond));
        check("timestamp", DataType::Timestamp(TimeUnit::Microsecond, None));
        check("timestamptz", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
        check("string", DataType::Utf8);
        check("uuid", DataType::FixedSizeBinary(16));
        check("fixed(7)", DataType::FixedSizeBinary(7));
        check("binary", DataType::Binary);
        let element = Arc::new(Field::new("element", DataType::Int64, true));
        check("list<long>", DataType::List(element));
        let entries = Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Struct(Fields::from(vec![Field::new("a", DataType::Int32, false)])), true),
        ]);
        let entries = Arc::new(Field::new("key_value", DataType::Struct(entries), false));
        check("map<string, struct<a: int not null>>", DataType::Map(entries, false));
    }
}
