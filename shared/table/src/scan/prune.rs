//! Whether anything behind a range of values can match: one question, asked of manifests, files and row groups alike.
//! The answer may be a needless yes, never a wrong no.

use std::cmp::Ordering;

use iceberg::spec::{
    DataFile, Datum, FieldSummary, ManifestFile, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Transform,
};
use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::predicate::{Bound, Comparison, Test};
use crate::schema::literal;
use crate::transform;

/// What is known of a column in some set of rows.
#[derive(Clone, Debug)]
pub(super) struct Range {
    /// No value is below, as far as is known.
    pub(super) lower: Option<PrimitiveLiteral>,
    /// No value is above, as far as is known.
    pub(super) upper: Option<PrimitiveLiteral>,
    /// Whether there can be nulls.
    pub(super) nulls: bool,
    /// Whether there can be anything but nulls.
    pub(super) values: bool,
    /// Whether there can be NaN, which lie outside all bounds.
    pub(super) nans: bool,
}

impl Range {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self { lower: None, upper: None, nulls: true, values: true, nans: true };

    fn of_value(value: Option<&PrimitiveLiteral>) -> Self {
        let nans = value.is_some_and(PrimitiveLiteral::is_nan);
        let bound = value.filter(|value| !value.is_nan()).cloned();
        Self { lower: bound.clone(), upper: bound, nulls: value.is_none(), values: value.is_some(), nans }
    }

    /// Whether a row of the set can pass.
    fn may_pass(&self, test: &Test) -> bool {
        match test {
            Test::IsNull => self.nulls,
            Test::IsNotNull => self.values,
            Test::Compare(comparison, literal) => self.values && self.may_compare(*comparison, literal),
            Test::Within(ranges) => self.may_lie_within(&ranges.all, &|end| Some(end.clone())),
        }
    }

    /// Whether a value of the set can lie in one of the ranges, whose ends are first made comparable with the set's bounds
    /// by something that keeps their order. What can't be made so is never a reason to say no.
    fn may_lie_within(
        &self,
        ranges: &[(PrimitiveLiteral, PrimitiveLiteral)],
        end: &dyn Fn(&PrimitiveLiteral) -> Option<PrimitiveLiteral>,
    ) -> bool {
        let (Some((first, _)), Some((_, last))) = (ranges.first(), ranges.last()) else { return false };
        if !self.values {
            return false;
        }
        if self.nans || end(first).is_none() || end(last).is_none() {
            return true;
        }
        let order = |at: &PrimitiveLiteral, bound: &PrimitiveLiteral| end(at).and_then(|at| compare(&at, bound));
        let below = |range: &(PrimitiveLiteral, PrimitiveLiteral)| {
            self.lower.as_ref().is_some_and(|lower| order(&range.1, lower) == Some(Ordering::Less))
        };
        // The first range that does not end below all values: either it begins at or below the last of them, or none does.
        ranges.get(ranges.partition_point(below)).is_some_and(|(start, _)| {
            self.upper.as_ref().is_none_or(|upper| order(start, upper) != Some(Ordering::Greater))
        })
    }

    fn may_compare(&self, comparison: Comparison, literal: &PrimitiveLiteral) -> bool {
        // Engines differ on where NaN stand: whatever touches one is read.
        if self.nans || literal.is_nan() {
            return true;
        }
        let above = |bound: &Option<PrimitiveLiteral>| {
            bound.as_ref().and_then(|bound| compare(bound, literal)).map_or((true, true), |order| {
                // (some value may be at or above the literal, strictly above)
                (order.is_ge(), order.is_gt())
            })
        };
        let below = |bound: &Option<PrimitiveLiteral>| {
            bound
                .as_ref()
                .and_then(|bound| compare(bound, literal))
                .map_or((true, true), |order| (order.is_le(), order.is_lt()))
        };
        match comparison {
            Comparison::Equal => below(&self.lower).0 && above(&self.upper).0,
            Comparison::Less => below(&self.lower).1,
            Comparison::LessOrEqual => below(&self.lower).0,
            Comparison::Greater => above(&self.upper).1,
            Comparison::GreaterOrEqual => above(&self.upper).0,
            // Bounds may be wider than the values, so equal bounds prove nothing once they may have been cut; only a
            // set whose one value is known exactly could be left out, and that is asked of partitions below.
            Comparison::NotEqual => true,
        }
    }
}

/// The order of two values of one column, whose type may have been promoted between them.
fn compare(a: &PrimitiveLiteral, b: &PrimitiveLiteral) -> Option<Ordering> {
    match (a, b) {
        (PrimitiveLiteral::Int(a), PrimitiveLiteral::Long(b)) => Some(i64::from(*a).cmp(b)),
        (PrimitiveLiteral::Long(a), PrimitiveLiteral::Int(b)) => Some(a.cmp(&i64::from(*b))),
        (PrimitiveLiteral::Float(a), PrimitiveLiteral::Float(b)) => floats(a.0.into(), b.0.into()),
        (PrimitiveLiteral::Float(a), PrimitiveLiteral::Double(b)) => floats(a.0.into(), b.0),
        (PrimitiveLiteral::Double(a), PrimitiveLiteral::Float(b)) => floats(a.0, b.0.into()),
        (PrimitiveLiteral::Double(a), PrimitiveLiteral::Double(b)) => floats(a.0, b.0),
        _ if std::mem::discriminant(a) == std::mem::discriminant(b) => a.partial_cmp(b),
        _ => None,
    }
}

/// To some engines the two zeros are one, to others not: their order is left open.
fn floats(a: f64, b: f64) -> Option<Ordering> {
    if a == 0.0 && b == 0.0 { None } else { a.partial_cmp(&b) }
}

impl Bound {
    /// Whether a row can match, given what is known of each column.
    pub(super) fn may_match(&self, range: &dyn Fn(i32, &PrimitiveType) -> Range) -> bool {
        match self {
            Self::All => true,
            Self::Test { field_id, data_type, test } => range(*field_id, data_type).may_pass(test),
            Self::And(all) => all.iter().all(|bound| bound.may_match(range)),
            Self::Or(any) => any.iter().any(|bound| bound.may_match(range)),
        }
    }

    /// As [`Bound::may_match`], for partition values: `range` knows partition fields by their place in the spec.
    fn may_match_partition(&self, spec: &PartitionSpec, range: &dyn Fn(usize) -> Range) -> bool {
        match self {
            Self::All => true,
            Self::Test { field_id, data_type, test } => {
                let fields = spec.fields().iter().enumerate().filter(|(_, field)| field.source_id == *field_id);
                fields.into_iter().all(|(place, field)| may_pass(field.transform, data_type, test, &range(place)))
            }
            Self::And(all) => all.iter().all(|bound| bound.may_match_partition(spec, range)),
            Self::Or(any) => any.iter().any(|bound| bound.may_match_partition(spec, range)),
        }
    }
}

/// Whether rows whose transformed values lie in a range can pass a test of the source column.
fn may_pass(transform: Transform, source: &PrimitiveType, test: &Test, range: &Range) -> bool {
    if let Test::Within(ranges) = test {
        return match transform {
            Transform::Identity => range.may_pass(test),
            Transform::Year | Transform::Month | Transform::Day | Transform::Hour => {
                range.may_lie_within(&ranges.all, &|end| transform::value(transform, source, Some(end)).ok().flatten())
            }
            Transform::Bucket(number) => match ranges.buckets(number, source) {
                Some(buckets) => range.may_lie_within(&buckets, &|end| Some(end.clone())),
                None => range.values,
            },
            _ => true,
        };
    }
    let Test::Compare(comparison, literal) = test else {
        // All transforms but void give null for null only.
        return matches!(transform, Transform::Void | Transform::Unknown) || range.may_pass(test);
    };
    match transform {
        Transform::Void | Transform::Unknown => return true,
        Transform::Identity => {
            let only = range.lower.is_some() && range.lower == range.upper && !range.nans;
            if *comparison == Comparison::NotEqual && only {
                // A partition value is exact, never cut.
                let order = range.lower.as_ref().and_then(|value| compare(value, literal));
                return range.values && order != Some(Ordering::Equal);
            }
            return range.may_pass(test);
        }
        _ if *comparison == Comparison::NotEqual => return range.values,
        Transform::Bucket(_) if *comparison != Comparison::Equal => return range.values,
        Transform::Truncate(width) if near_the_end(width, range) => return range.values,
        _ => {}
    }
    let Ok(Some(projected)) = transform::value(transform, source, Some(literal)) else { return range.values };
    if matches!(transform, Transform::Truncate(_)) && compare(&projected, literal) == Some(Ordering::Greater) {
        // The literal's own truncation has wrapped around.
        return range.values;
    }
    // A coarser value keeps the order but not strictness: below the literal may be in the literal's own unit.
    let widened = match comparison {
        Comparison::Less => Comparison::LessOrEqual,
        Comparison::Greater => Comparison::GreaterOrEqual,
        same => *same,
    };
    range.may_pass(&Test::Compare(widened, projected))
}

/// Truncation of numbers within one width of the smallest wraps around to within one width of the largest; there it
/// keeps no order.
fn near_the_end(width: u32, range: &Range) -> bool {
    let near = |bound: &Option<PrimitiveLiteral>| match bound {
        Some(PrimitiveLiteral::Int(v)) => i64::from(*v) > i64::from(i32::MAX) - i64::from(width),
        Some(PrimitiveLiteral::Long(v)) => *v > i64::MAX - i64::from(width),
        _ => false,
    };
    near(&range.upper) || near(&range.lower)
}

/// Whether a manifest can hold a matching file.
pub(super) fn manifest(bound: &Bound, spec: &PartitionSpec, schema: &Schema, manifest: &ManifestFile) -> bool {
    let Some(summaries) = &manifest.partitions else { return true };
    let Ok(fields) = spec.partition_type(schema) else { return true };
    bound.may_match_partition(spec, &|place| {
        let field = fields.fields().get(place).and_then(|field| field.field_type.as_primitive_type());
        match (summaries.get(place), field) {
            (Some(summary), Some(data_type)) => summary_range(summary, data_type),
            _ => Range::UNKNOWN,
        }
    })
}

fn summary_range(summary: &FieldSummary, data_type: &PrimitiveType) -> Range {
    let bound = |bytes: Option<&[u8]>| Datum::try_from_bytes(bytes?, data_type.clone()).ok().map(Into::into);
    let floating = matches!(data_type, PrimitiveType::Float | PrimitiveType::Double);
    Range {
        lower: bound(summary.lower_bound.as_ref().map(|bytes| bytes.as_slice())),
        upper: bound(summary.upper_bound.as_ref().map(|bytes| bytes.as_slice())),
        nulls: summary.contains_null,
        values: true,
        nans: floating && summary.contains_nan != Some(false),
    }
}

/// Whether a file's partition can hold a matching row.
pub(super) fn partition(bound: &Bound, spec: &PartitionSpec, file: &DataFile) -> bool {
    bound.may_match_partition(spec, &|place| match file.partition().fields().get(place) {
        Some(value) => match value.as_ref().map(|value| value.as_primitive_literal()) {
            None => Range::of_value(None),
            Some(Some(value)) => Range::of_value(Some(&value)),
            Some(None) => Range::UNKNOWN,
        },
        None => Range::UNKNOWN,
    })
}

/// Whether a file can hold a matching row, by the figures its manifest gives.
pub(super) fn metrics(bound: &Bound, file: &DataFile) -> bool {
    bound.may_match(&|id, data_type| {
        let floating = matches!(data_type, PrimitiveType::Float | PrimitiveType::Double);
        let (values, nulls) = (file.value_counts().get(&id), file.null_value_counts().get(&id));
        let literal = |bound: Option<&Datum>| bound.map(|bound| bound.literal().clone());
        Range {
            lower: literal(file.lower_bounds().get(&id)),
            upper: literal(file.upper_bounds().get(&id)),
            nulls: nulls != Some(&0),
            values: values.is_none() || nulls.is_none() || values > nulls,
            nans: floating && file.nan_value_counts().get(&id) != Some(&0),
        }
    })
}

/// What a Parquet column chunk's statistics say, in the table's terms.
pub(super) fn chunk_range(chunk: &ColumnChunkMetaData, rows: u64, data_type: &PrimitiveType) -> Range {
    let Some(statistics) = chunk.statistics().filter(|_| same_unit(chunk.column_descr(), data_type)) else {
        return Range::UNKNOWN;
    };
    let nulls = statistics.null_count_opt();
    // Statistics count no NaN, so a column that can hold one may.
    let floating = matches!(data_type, PrimitiveType::Float | PrimitiveType::Double);
    // The old min and max fields order byte strings by signed bytes in some writers.
    let bytes = matches!(statistics, Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_));
    let unusable = matches!(statistics, Statistics::Int96(_)) || (bytes && statistics.is_min_max_deprecated());
    let bound = |raw: Option<&[u8]>| {
        raw.filter(|_| !unusable).and_then(|raw| physical_value(statistics.physical_type(), raw, data_type))
    };
    Range {
        lower: bound(statistics.min_bytes_opt()),
        upper: bound(statistics.max_bytes_opt()),
        nulls: nulls != Some(0),
        values: nulls.is_none_or(|nulls| nulls < rows),
        nans: floating,
    }
}

/// Whether numbers of a chunk count what the table's column counts: files from elsewhere may hold milliseconds.
pub(super) fn same_unit(column: &ColumnDescriptor, data_type: &PrimitiveType) -> bool {
    let unit = match column.logical_type_ref() {
        Some(LogicalType::Timestamp { unit, .. } | LogicalType::Time { unit, .. }) => Some(*unit),
        _ => None,
    };
    match data_type {
        PrimitiveType::Time | PrimitiveType::Timestamp | PrimitiveType::Timestamptz => unit == Some(TimeUnit::MICROS),
        PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => unit == Some(TimeUnit::NANOS),
        PrimitiveType::Decimal { scale, .. } => i64::from(column.type_scale()) == i64::from(*scale),
        _ => true,
    }
}

/// A value of a column chunk as one of the table column's type; `None` when the two do not go together.
fn physical_value(physical: Physical, raw: &[u8], data_type: &PrimitiveType) -> Option<PrimitiveLiteral> {
    match (physical, data_type) {
        (Physical::BOOLEAN, PrimitiveType::Boolean) => raw.first().map(|byte| PrimitiveLiteral::Boolean(*byte != 0)),
        (Physical::INT32, _) => {
            let v = i32::from_le_bytes(raw.try_into().ok()?);
            match data_type {
                PrimitiveType::Int | PrimitiveType::Date => Some(PrimitiveLiteral::Int(v)),
                PrimitiveType::Long => Some(PrimitiveLiteral::Long(v.into())),
                PrimitiveType::Decimal { .. } => Some(PrimitiveLiteral::Int128(v.into())),
                _ => None,
            }
        }
        (Physical::INT64, _) => {
            let v = i64::from_le_bytes(raw.try_into().ok()?);
            match data_type {
                PrimitiveType::Decimal { .. } => Some(PrimitiveLiteral::Int128(v.into())),
                PrimitiveType::Long
                | PrimitiveType::Time
                | PrimitiveType::Timestamp
                | PrimitiveType::Timestamptz
                | PrimitiveType::TimestampNs
                | PrimitiveType::TimestamptzNs => Some(PrimitiveLiteral::Long(v)),
                _ => None,
            }
        }
        (Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY, PrimitiveType::Decimal { .. }) => {
            let value = Datum::try_from_bytes(raw, data_type.clone()).ok()?;
            literal::datum(data_type, value.literal()).ok().map(Into::into)
        }
        (Physical::BYTE_ARRAY, PrimitiveType::String) => {
            std::str::from_utf8(raw).ok().map(|text| PrimitiveLiteral::String(text.to_owned()))
        }
        (Physical::BYTE_ARRAY, PrimitiveType::Binary) | (Physical::FIXED_LEN_BYTE_ARRAY, PrimitiveType::Fixed(_)) => {
            Some(PrimitiveLiteral::Binary(raw.to_vec()))
        }
        (Physical::FIXED_LEN_BYTE_ARRAY, PrimitiveType::Uuid) => {
            raw.try_into().ok().map(|bytes| PrimitiveLiteral::UInt128(u128::from_be_bytes(bytes)))
        }
        _ => None,
    }
}
