//! One table schema in its four spellings: frazil's column types, Iceberg's schema, Arrow's and Parquet's; and the fitting
//! of rows that arrive in another Arrow spelling.
//!
//! Field ids are what holds a column together through renames: every Arrow field and Parquet column made here carries
//! its id (`PARQUET:field_id` in Arrow's field metadata).

pub mod align;
pub mod literal;
pub(crate) mod parquet;

use std::collections::HashMap;
use std::sync::Arc;

use ::parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, SchemaRef as ArrowSchemaRef, TimeUnit};
use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, PrimitiveType, Schema, StructType, Type};
use pipeline::types::Type as ColumnType;

use crate::fault::Fault;

/// One column of a table to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: ColumnType,
    /// Whether null is refused.
    pub required: bool,
    /// Its comment.
    pub doc: Option<String>,
}

/// The Iceberg schema (id 0) of new columns, with fresh field ids: a struct's own fields are numbered before anything
/// nested in them, from 1.
///
/// # Errors
/// [`Fault::Specification`] when two columns have one full name (`a.b` beside `a` with a field `b`).
pub fn iceberg_schema(columns: &[Column]) -> Result<Schema, Fault> {
    let mut last = 0;
    let mut next = || {
        last += 1;
        last
    };
    let first: Vec<i32> = columns.iter().map(|_| next()).collect();
    let fields: Vec<NestedFieldRef> = columns
        .iter()
        .zip(first)
        .map(|(column, id)| {
            let field = NestedField::new(id, &column.name, iceberg_type(&column.data_type, &mut next), column.required);
            Arc::new(match &column.doc {
                Some(doc) => field.with_doc(doc),
                None => field,
            })
        })
        .collect();
    Schema::builder().with_fields(fields).build().map_err(Fault::specification("the columns make no schema"))
}

/// A type as pipeline files write it.
// Schemas are bounded in depth where they are read.
#[must_use]
pub fn written(data_type: &Type) -> String {
    match data_type {
        Type::Primitive(PrimitiveType::Decimal { precision, scale }) => format!("decimal({precision}, {scale})"),
        Type::Primitive(primitive) => primitive.to_string(),
        Type::Struct(fields) => {
            let fields = fields.fields().iter().map(|field| format!("{}: {}", field.name, written(&field.field_type)));
            format!("struct<{}>", fields.collect::<Vec<_>>().join(", "))
        }
        Type::List(list) => format!("list<{}>", written(&list.element_field.field_type)),
        Type::Map(map) => {
            format!("map<{}, {}>", written(&map.key_field.field_type), written(&map.value_field.field_type))
        }
    }
}

/// A column's type in Iceberg, its fields numbered by `next`: a struct's own before anything nested in them.
// Types nest at most as deep as `pipeline::types` reads them, which bounds this recursion.
pub fn iceberg_type(data_type: &ColumnType, next: &mut dyn FnMut() -> i32) -> Type {
    Type::Primitive(match data_type {
        ColumnType::Boolean => PrimitiveType::Boolean,
        ColumnType::Int => PrimitiveType::Int,
        ColumnType::Long => PrimitiveType::Long,
        ColumnType::Float => PrimitiveType::Float,
        ColumnType::Double => PrimitiveType::Double,
        ColumnType::Decimal(precision, scale) => {
            PrimitiveType::Decimal { precision: u32::from(*precision), scale: u32::from(*scale) }
        }
        ColumnType::Date => PrimitiveType::Date,
        ColumnType::Time => PrimitiveType::Time,
        ColumnType::Timestamp => PrimitiveType::Timestamp,
        ColumnType::Timestamptz => PrimitiveType::Timestamptz,
        ColumnType::String => PrimitiveType::String,
        ColumnType::Uuid => PrimitiveType::Uuid,
        ColumnType::Fixed(n) => PrimitiveType::Fixed(u64::from(*n)),
        ColumnType::Binary => PrimitiveType::Binary,
        ColumnType::Struct(fields) => {
            let first: Vec<i32> = fields.iter().map(|_| next()).collect();
            let fields = fields.iter().zip(first).map(|(field, id)| {
                Arc::new(NestedField::new(id, &field.name, iceberg_type(&field.data_type, next), field.required))
            });
            return Type::Struct(StructType::new(fields.collect()));
        }
        ColumnType::List { element, required } => {
            let id = next();
            let element = NestedField::list_element(id, iceberg_type(element, next), *required);
            return Type::List(ListType::new(Arc::new(element)));
        }
        ColumnType::Map { key, value, required } => {
            let (key_id, value_id) = (next(), next());
            let key = NestedField::map_key_element(key_id, iceberg_type(key, next));
            let value = NestedField::map_value_element(value_id, iceberg_type(value, next), *required);
            return Type::Map(MapType::new(Arc::new(key), Arc::new(value)));
        }
    })
}

/// Whether Iceberg lets a column of one type become another: the specification's "Schema Evolution".
#[must_use]
pub fn widens(from: &PrimitiveType, to: &PrimitiveType) -> bool {
    match (from, to) {
        (PrimitiveType::Int, PrimitiveType::Long) | (PrimitiveType::Float, PrimitiveType::Double) => true,
        (PrimitiveType::Decimal { precision: from, scale }, PrimitiveType::Decimal { precision: to, scale: other }) => {
            scale == other && from < to
        }
        _ => false,
    }
}

/// How text and binary are held in Arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strings {
    /// `Utf8` and `Binary`: what a scan gives.
    Plain,
    /// `Utf8View` and `BinaryView`, outside lists and maps: rows move between batches without their bytes being copied.
    Views,
}

/// The Arrow schema of a table schema, field ids in the metadata of every field.
///
/// `timestamptz` has the zone `UTC`, uuid is `FixedSizeBinary(16)`, a map's entries are `key_value`.
///
/// # Errors
/// [`Fault::Unsupported`] for what Arrow can't hold (a fixed longer than 2^31 bytes).
pub fn arrow_schema(schema: &Schema, strings: Strings) -> Result<ArrowSchemaRef, Fault> {
    Ok(Arc::new(arrow::datatypes::Schema::new(arrow_fields(schema.as_struct(), strings)?)))
}

fn arrow_fields(fields: &StructType, strings: Strings) -> Result<Fields, Fault> {
    fields.fields().iter().map(|field| arrow_field(field, strings)).collect()
}

fn arrow_field(field: &NestedField, strings: Strings) -> Result<FieldRef, Fault> {
    let data_type = arrow_type(&field.field_type, strings)?;
    let metadata = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), field.id.to_string())]);
    Ok(Arc::new(Field::new(&field.name, data_type, !field.required).with_metadata(metadata)))
}

fn arrow_type(data_type: &Type, strings: Strings) -> Result<DataType, Fault> {
    Ok(match data_type {
        Type::Primitive(primitive) => return primitive_type(primitive, strings),
        Type::Struct(fields) => DataType::Struct(arrow_fields(fields, strings)?),
        Type::List(list) => DataType::List(arrow_field(&list.element_field, Strings::Plain)?),
        Type::Map(map) => {
            let key = arrow_field(&map.key_field, Strings::Plain)?;
            let value = arrow_field(&map.value_field, Strings::Plain)?;
            let entries = DataType::Struct(Fields::from(vec![key, value]));
            DataType::Map(Arc::new(Field::new("key_value", entries, false)), false)
        }
    })
}

/// The Arrow type of a primitive.
///
/// # Errors
/// As [`arrow_schema`].
pub fn primitive_type(primitive: &PrimitiveType, strings: Strings) -> Result<DataType, Fault> {
    let unsupported = || Fault::Unsupported(format!("a column of type {primitive}"));
    Ok(match primitive {
        PrimitiveType::Boolean => DataType::Boolean,
        PrimitiveType::Int => DataType::Int32,
        PrimitiveType::Long => DataType::Int64,
        PrimitiveType::Float => DataType::Float32,
        PrimitiveType::Double => DataType::Float64,
        PrimitiveType::Decimal { precision, scale } => {
            let precision = u8::try_from(*precision).ok().filter(|p| (1..=38).contains(p)).ok_or_else(unsupported)?;
            let scale = u8::try_from(*scale).ok().filter(|s| *s <= precision).ok_or_else(unsupported)?;
            DataType::Decimal128(precision, scale.cast_signed())
        }
        PrimitiveType::Date => DataType::Date32,
        PrimitiveType::Time => DataType::Time64(TimeUnit::Microsecond),
        PrimitiveType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        PrimitiveType::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        PrimitiveType::TimestampNs => DataType::Timestamp(TimeUnit::Nanosecond, None),
        PrimitiveType::TimestamptzNs => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        PrimitiveType::String if strings == Strings::Views => DataType::Utf8View,
        PrimitiveType::String => DataType::Utf8,
        PrimitiveType::Uuid => DataType::FixedSizeBinary(16),
        PrimitiveType::Fixed(n) => DataType::FixedSizeBinary(i32::try_from(*n).map_err(|_| unsupported())?),
        PrimitiveType::Binary if strings == Strings::Views => DataType::BinaryView,
        PrimitiveType::Binary => DataType::Binary,
    })
}

/// The field id in an Arrow field's metadata.
#[must_use]
pub fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// Where a primitive outside lists and maps lies in a batch of the table's schema: a column, then fields of structs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) path: Vec<usize>,
    pub(crate) data_type: PrimitiveType,
}

/// The position of every primitive field outside lists and maps, in schema order.
pub(crate) fn positions(schema: &Schema) -> Vec<(i32, Position)> {
    fn walk(fields: &StructType, path: &mut Vec<usize>, found: &mut Vec<(i32, Position)>) {
        for (at, field) in fields.fields().iter().enumerate() {
            path.push(at);
            match &*field.field_type {
                Type::Primitive(data_type) => {
                    found.push((field.id, Position { path: path.clone(), data_type: data_type.clone() }));
                }
                Type::Struct(inner) => walk(inner, path, found),
                Type::List(_) | Type::Map(_) => {}
            }
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(schema.as_struct(), &mut Vec::new(), &mut found);
    found
}

/// The position of one field.
pub(crate) fn position(schema: &Schema, id: i32) -> Result<Position, Fault> {
    let found = positions(schema).into_iter().find(|(other, _)| *other == id);
    found.map(|(_, position)| position).ok_or_else(|| {
        let name = schema.name_by_field_id(id).map_or_else(|| format!("field {id}"), |name| format!("`{name}`"));
        Fault::Request(format!("{name} is not a primitive column outside lists and maps"))
    })
}

/// The array at a position; a row is null in it where the field or a struct around it is null.
pub(crate) fn array_at(batch: &RecordBatch, path: &[usize]) -> Result<ArrayRef, Fault> {
    let missing = || Fault::Mismatch("a batch has fewer columns than its table's schema".to_owned());
    let (first, rest) = path.split_first().ok_or_else(missing)?;
    let mut array = Arc::clone(batch.columns().get(*first).ok_or_else(missing)?);
    for at in rest {
        let outer = array.as_struct_opt().ok_or_else(missing)?;
        let inner = Arc::clone(outer.columns().get(*at).ok_or_else(missing)?);
        array = match outer.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => inner,
            Some(nulls) => {
                let nulls = NullBuffer::union(Some(nulls), inner.nulls());
                make_array(inner.to_data().into_builder().nulls(nulls).build()?)
            }
        };
    }
    Ok(array)
}

#[cfg(test)]
mod tests;
