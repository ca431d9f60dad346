//! Partition specs: their fields' names, the paths of their partitions, and the grouping of rows by partition.

mod grouping;

use std::fmt::Write as _;

use iceberg::spec::{
    Literal, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, SchemaRef, Struct, Transform, Type,
    UnboundPartitionField,
};
use pipeline::resolved;
use url::form_urlencoded::byte_serialize;

use crate::fault::Fault;
use crate::transform::hash_bytes;
use crate::transform::{self, civil};

pub use grouping::Partitioner;

/// The transform of a pipeline file as Iceberg's.
#[must_use]
pub const fn transform(transform: resolved::Transform) -> Transform {
    match transform {
        resolved::Transform::Identity => Transform::Identity,
        resolved::Transform::Bucket(n) => Transform::Bucket(n),
        resolved::Transform::Truncate(width) => Transform::Truncate(width),
        resolved::Transform::Year => Transform::Year,
        resolved::Transform::Month => Transform::Month,
        resolved::Transform::Day => Transform::Day,
        resolved::Transform::Hour => Transform::Hour,
        resolved::Transform::Void => Transform::Void,
    }
}

/// The partition spec (id 0, fields from 1000) of a pipeline's partition fields.
///
/// # Errors
/// [`Fault::Request`] for a column that is not there or that the transform does not take, [`Fault::Specification`] when
/// two fields would have one name or say the same thing twice, [`Fault::Unsupported`] for a value that manifests of this
/// version can't record (a whole uuid or nanosecond time).
pub fn spec(schema: &SchemaRef, fields: &[resolved::PartitionField]) -> Result<PartitionSpec, Fault> {
    let mut spec = PartitionSpec::builder(SchemaRef::clone(schema)).with_spec_id(0);
    for field in fields {
        let transform = transform(field.transform);
        let id = schema
            .field_id_by_name(&field.column)
            .ok_or_else(|| Fault::Request(format!("there is no column `{}` to partition by", field.column)))?;
        let source = crate::schema::position(schema, id)?.data_type;
        let result = transform::result_type(transform, &source)?;
        if !recordable(&result) {
            return Err(Fault::Unsupported(format!(
                "{transform} of `{}`, a {source}, as a partition field",
                field.column
            )));
        }
        let unbound = UnboundPartitionField::builder()
            .source_id(id)
            .name(pipeline::partition::name(field))
            .transform(transform)
            .build();
        spec = spec.add_unbound_field(unbound).map_err(Fault::specification("the partition spec is refused"))?;
    }
    spec.build().map_err(Fault::specification("the partition spec is refused"))
}

/// Whether the manifest writer and reader in use can record a partition value of a type. Buckets of any type can always be.
const fn recordable(result: &PrimitiveType) -> bool {
    !matches!(result, PrimitiveType::Uuid | PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs)
}

/// Refuses a spec of a table that rows can't be written under.
///
/// # Errors
/// [`Fault::Request`] for a column that is not there or not primitive, or a transform that is not known or does not take it;
/// [`Fault::Unsupported`] for a value that manifests of this version can't record.
pub fn writable(spec: &PartitionSpec, schema: &Schema) -> Result<(), Fault> {
    for field in spec.fields() {
        let source = crate::schema::position(schema, field.source_id)?.data_type;
        if !recordable(&transform::result_type(field.transform, &source)?) {
            let transform = field.transform;
            return Err(Fault::Unsupported(format!(
                "{transform} of a {source} as the partition field `{}`",
                field.name
            )));
        }
    }
    Ok(())
}

/// The folder of a partition below the data folder, `name=value/name=value`, empty for an unpartitioned table. Names and
/// values are form-encoded as Java's `URLEncoder` does it, so that a path never has a separator, a space or anything
/// else a store might read in its own way.
///
/// A value of `..` or `.` stays as it is and is harmless on local files, too: a segment always begins with the field's
/// name and `=`, and only a whole segment `..` leads upward.
///
/// The tuple holds raw values; nothing encoded is ever stored as a value.
///
/// # Errors
/// [`Fault::Request`] when the tuple is not one of this spec and schema.
pub fn path(spec: &PartitionSpec, schema: &Schema, tuple: &Struct) -> Result<String, Fault> {
    let unfit = || Fault::Request("a partition tuple does not fit its spec".to_owned());
    if tuple.fields().len() != spec.fields().len() {
        return Err(unfit());
    }
    let mut path = String::new();
    for (field, value) in spec.fields().iter().zip(tuple.iter()) {
        let Some(Type::Primitive(source)) = schema.field_by_id(field.source_id).map(|source| &*source.field_type)
        else {
            return Err(unfit());
        };
        let value = match value {
            None => None,
            Some(Literal::Primitive(value)) => Some(value),
            Some(_) => return Err(unfit()),
        };
        if !path.is_empty() {
            path.push('/');
        }
        let value = text(field.transform, source, value).ok_or_else(unfit)?;
        path.push_str(&segment(&field.name, &value));
    }
    Ok(path)
}

/// The longest segment: a local file system takes 255 bytes as one name, a key of an object store 1,024 in all.
const SEGMENT_BYTES_MAX: usize = 200;

/// One `name=value`. A long one is cut, with a hash of the whole in place of its end: what a partition holds is said by
/// its tuple, and a path that no store can take would hold up every other row.
fn segment(name: &str, value: &str) -> String {
    let mut segment: String = byte_serialize(name.as_bytes()).collect();
    segment.push('=');
    segment.extend(byte_serialize(value.as_bytes()));
    if segment.len() > SEGMENT_BYTES_MAX {
        let hash = hash_bytes(segment.as_bytes()).cast_unsigned();
        // The encoded text is ASCII; an escape is kept whole or left out.
        let mut end = SEGMENT_BYTES_MAX - 9;
        if let Some(escape) = segment.get(end - 2..end).and_then(|tail| tail.find('%')) {
            end = end - 2 + escape;
        }
        segment.truncate(end);
        segment.push_str(&format!("~{hash:08x}"));
    }
    segment
}

/// A partition value as people read it: `2026-11-29-14` for an hour, `null` for null.
fn text(transform: Transform, source: &PrimitiveType, value: Option<&PrimitiveLiteral>) -> Option<String> {
    let Some(value) = value else { return Some("null".to_owned()) };
    Some(match (transform, value) {
        (Transform::Void, _) => "null".to_owned(),
        (Transform::Year, PrimitiveLiteral::Int(years)) => format!("{:04}", i64::from(*years) + 1970),
        (Transform::Month, PrimitiveLiteral::Int(months)) => {
            let months = i64::from(*months);
            format!("{:04}-{:02}", months.div_euclid(12) + 1970, months.rem_euclid(12) + 1)
        }
        (Transform::Day, PrimitiveLiteral::Int(days)) => date(i64::from(*days)),
        (Transform::Hour, PrimitiveLiteral::Int(hours)) => {
            let hours = i64::from(*hours);
            format!("{}-{:02}", date(hours.div_euclid(24)), hours.rem_euclid(24))
        }
        (Transform::Bucket(_), PrimitiveLiteral::Int(bucket)) => bucket.to_string(),
        (Transform::Identity | Transform::Truncate(_), _) => plain(source, value)?,
        _ => return None,
    })
}

fn plain(source: &PrimitiveType, value: &PrimitiveLiteral) -> Option<String> {
    Some(match (source, value) {
        (PrimitiveType::Boolean, PrimitiveLiteral::Boolean(v)) => v.to_string(),
        (PrimitiveType::Int, PrimitiveLiteral::Int(v)) => v.to_string(),
        (PrimitiveType::Long, PrimitiveLiteral::Long(v)) => v.to_string(),
        (PrimitiveType::Long, PrimitiveLiteral::Int(v)) => v.to_string(),
        (PrimitiveType::Float, PrimitiveLiteral::Float(v)) => format!("{:?}", v.0),
        (PrimitiveType::Double, PrimitiveLiteral::Double(v)) => format!("{:?}", v.0),
        (PrimitiveType::Decimal { scale, .. }, PrimitiveLiteral::Int128(v)) => decimal(*v, *scale as usize),
        (PrimitiveType::Date, PrimitiveLiteral::Int(days)) => date(i64::from(*days)),
        (PrimitiveType::Time, PrimitiveLiteral::Long(micros)) => clock(micros.checked_mul(1000)?),
        (PrimitiveType::Timestamp, PrimitiveLiteral::Long(micros)) => timestamp(i128::from(*micros) * 1000),
        (PrimitiveType::TimestampNs, PrimitiveLiteral::Long(nanos)) => timestamp(i128::from(*nanos)),
        (PrimitiveType::Timestamptz, PrimitiveLiteral::Long(micros)) => {
            format!("{}Z", timestamp(i128::from(*micros) * 1000))
        }
        (PrimitiveType::TimestamptzNs, PrimitiveLiteral::Long(nanos)) => format!("{}Z", timestamp(i128::from(*nanos))),
        (PrimitiveType::String, PrimitiveLiteral::String(v)) => v.clone(),
        (PrimitiveType::Uuid, PrimitiveLiteral::UInt128(v)) => uuid::Uuid::from_u128(*v).to_string(),
        (PrimitiveType::Fixed(_) | PrimitiveType::Binary, PrimitiveLiteral::Binary(v)) => {
            base64_simd::STANDARD.encode_to_string(v)
        }
        _ => return None,
    })
}

fn date(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

fn timestamp(nanos: i128) -> String {
    let narrow = |n: i128| i64::try_from(n).unwrap_or(0);
    let (days, rest) = (narrow(nanos.div_euclid(NANOS_PER_DAY)), narrow(nanos.rem_euclid(NANOS_PER_DAY)));
    format!("{}T{}", date(days), clock(rest))
}

/// A time of day as Java's `LocalTime` prints it: seconds only when not zero, fractions in threes.
fn clock(nanos: i64) -> String {
    let seconds = nanos.div_euclid(1_000_000_000);
    let fraction = nanos.rem_euclid(1_000_000_000);
    let mut text = format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    let mut add = |arguments: std::fmt::Arguments<'_>| text.write_fmt(arguments).unwrap_or(());
    if seconds % 60 != 0 || fraction != 0 {
        add(format_args!(":{:02}", seconds % 60));
    }
    match fraction {
        0 => {}
        f if f % 1_000_000 == 0 => add(format_args!(".{:03}", f / 1_000_000)),
        f if f % 1_000 == 0 => add(format_args!(".{:06}", f / 1_000)),
        f => add(format_args!(".{f:09}")),
    }
    text
}

fn decimal(unscaled: i128, scale: usize) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

#[cfg(test)]
mod tests;
