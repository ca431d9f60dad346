//! The Parquet schema of a table schema, as Iceberg's appendix A lays it down: every column carries its field id, lists
//! and maps have three levels, a uuid says so, and a decimal takes the smallest physical type that holds it.

use std::sync::Arc;

use iceberg::spec::{NestedField, PrimitiveType, Schema, StructType, Type};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescriptor, Type as ParquetType, TypePtr};

use crate::fault::Fault;

/// The Parquet schema of a table.
///
/// # Errors
/// [`Fault::Encode`] when Parquet can't hold a column.
pub(crate) fn descriptor(schema: &Schema) -> Result<SchemaDescriptor, Fault> {
    let fields = fields(schema.as_struct())?;
    let root = ParquetType::group_type_builder("table").with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// The field id of each leaf column, in order.
pub(crate) fn leaf_ids(descriptor: &SchemaDescriptor) -> Vec<Option<i32>> {
    let id = |leaf: &TypePtr| {
        let info = leaf.get_basic_info();
        info.has_id().then(|| info.id())
    };
    descriptor.columns().iter().map(|column| id(&column.self_type_ptr())).collect()
}

/// Options of a writer whose file has exactly this schema and nothing of Arrow's beside it: a reader of Iceberg tables
/// goes by the columns' own types.
pub(crate) fn options(descriptor: SchemaDescriptor) -> ArrowWriterOptions {
    ArrowWriterOptions::new().with_parquet_schema(descriptor).with_skip_arrow_metadata(true)
}

fn fields(fields: &StructType) -> Result<Vec<TypePtr>, ParquetError> {
    fields.fields().iter().map(|field| self::field(field, &field.name)).collect()
}

fn field(field: &NestedField, name: &str) -> Result<TypePtr, ParquetError> {
    let repetition = if field.required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    let group = |fields, logical| {
        ParquetType::group_type_builder(name)
            .with_repetition(repetition)
            .with_id(Some(field.id))
            .with_logical_type(logical)
            .with_fields(fields)
            .build()
            .map(Arc::new)
    };
    let repeated = |name, fields| {
        ParquetType::group_type_builder(name)
            .with_repetition(Repetition::REPEATED)
            .with_fields(fields)
            .build()
            .map(Arc::new)
    };
    match &*field.field_type {
        Type::Struct(inner) => group(fields(inner)?, None),
        Type::List(list) => {
            let element = self::field(&list.element_field, "element")?;
            group(vec![repeated("list", vec![element])?], Some(LogicalType::List))
        }
        Type::Map(map) => {
            let entry = vec![self::field(&map.key_field, "key")?, self::field(&map.value_field, "value")?];
            group(vec![repeated("key_value", entry)?], Some(LogicalType::Map))
        }
        Type::Primitive(primitive) => {
            let (physical, length, logical) = physical(primitive)?;
            let mut builder = ParquetType::primitive_type_builder(name, physical)
                .with_repetition(repetition)
                .with_id(Some(field.id))
                .with_logical_type(logical);
            if let Some(length) = length {
                builder = builder.with_length(length);
            }
            if let PrimitiveType::Decimal { precision, scale } = primitive {
                builder = builder.with_precision(number(*precision)?).with_scale(number(*scale)?);
            }
            builder.build().map(Arc::new)
        }
    }
}

fn number(n: impl TryInto<i32>) -> Result<i32, ParquetError> {
    n.try_into().map_err(|_| ParquetError::General("a length, precision or scale is above 2^31".to_owned()))
}

fn physical(primitive: &PrimitiveType) -> Result<(Physical, Option<i32>, Option<LogicalType>), ParquetError> {
    let timestamp = |unit, utc| {
        let logical = LogicalType::Timestamp { is_adjusted_to_u_t_c: utc, unit };
        (Physical::INT64, None, Some(logical))
    };
    Ok(match primitive {
        PrimitiveType::Boolean => (Physical::BOOLEAN, None, None),
        PrimitiveType::Int => (Physical::INT32, None, None),
        PrimitiveType::Long => (Physical::INT64, None, None),
        PrimitiveType::Float => (Physical::FLOAT, None, None),
        PrimitiveType::Double => (Physical::DOUBLE, None, None),
        PrimitiveType::Date => (Physical::INT32, None, Some(LogicalType::Date)),
        PrimitiveType::Time => {
            let logical = LogicalType::Time { is_adjusted_to_u_t_c: false, unit: TimeUnit::MICROS };
            (Physical::INT64, None, Some(logical))
        }
        PrimitiveType::Timestamp => timestamp(TimeUnit::MICROS, false),
        PrimitiveType::Timestamptz => timestamp(TimeUnit::MICROS, true),
        PrimitiveType::TimestampNs => timestamp(TimeUnit::NANOS, false),
        PrimitiveType::TimestamptzNs => timestamp(TimeUnit::NANOS, true),
        PrimitiveType::String => (Physical::BYTE_ARRAY, None, Some(LogicalType::String)),
        PrimitiveType::Binary => (Physical::BYTE_ARRAY, None, None),
        PrimitiveType::Uuid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(16), Some(LogicalType::Uuid)),
        PrimitiveType::Fixed(n) => (Physical::FIXED_LEN_BYTE_ARRAY, Some(number(*n)?), None),
        PrimitiveType::Decimal { precision, scale } => {
            let logical = LogicalType::Decimal { precision: number(*precision)?, scale: number(*scale)? };
            match precision {
                0..=9 => (Physical::INT32, None, Some(logical)),
                10..=18 => (Physical::INT64, None, Some(logical)),
                _ => (Physical::FIXED_LEN_BYTE_ARRAY, Some(decimal_bytes(*precision)?), Some(logical)),
            }
        }
    })
}

/// The fewest bytes whose two's complement holds every number of so many digits.
fn decimal_bytes(precision: u32) -> Result<i32, ParquetError> {
    let largest = 10i128
        .checked_pow(precision)
        .ok_or_else(|| ParquetError::General(format!("a decimal has at most 38 digits, not {precision}")))?;
    let bits = 128 - (largest - 1).leading_zeros();
    number(bits / 8 + 1)
}
