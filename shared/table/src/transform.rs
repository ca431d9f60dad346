//! Partition and sort transforms over Arrow columns and over single values, as the Iceberg specification defines them:
//! exact before 1970 (whole units, rounded down) and equal to other engines' bucket numbers.
//!
//! [`column`] and [`value`] agree for every input; null stays null.

mod bucket;
mod calendar;
mod truncate;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, Int32Array, PrimitiveArray, new_null_array};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use iceberg::spec::{PrimitiveLiteral, PrimitiveType, Transform, Type};

use crate::fault::Fault;

pub use bucket::{hash_bytes, hash_decimal, hash_long};
pub(crate) use calendar::civil;

/// The type of a transform's result: the source's own for identity, truncate and void, `date` for day, else `int`.
///
/// # Errors
/// [`Fault::Request`] when the transform does not take the source type.
pub fn result_type(transform: Transform, source: &PrimitiveType) -> Result<PrimitiveType, Fault> {
    let refused = || Fault::Request(format!("{transform} can't be applied to {source}"));
    match transform {
        Transform::Unknown => return Err(refused()),
        Transform::Bucket(0) | Transform::Truncate(0) => {
            return Err(Fault::Request(format!("{transform} needs a number above 0")));
        }
        Transform::Bucket(n) | Transform::Truncate(n) if i32::try_from(n).is_err() => {
            return Err(Fault::Request(format!("{transform} needs a number below 2^31")));
        }
        _ => {}
    }
    match transform.result_type(&Type::Primitive(source.clone())) {
        Ok(Type::Primitive(result)) => Ok(result),
        Ok(_) | Err(_) => Err(refused()),
    }
}

/// Applies a transform to a column. The result has as many rows; its Arrow type is that of [`result_type`]
/// (identity, truncate and void keep the input's own Arrow type).
///
/// # Errors
/// [`Fault::Request`] when the transform does not take the column's type, [`Fault::Mismatch`] when a result does not
/// fit an int (hours beyond the year 246,000).
pub fn column(transform: Transform, array: &ArrayRef) -> Result<ArrayRef, Fault> {
    if let (Some(dictionary), true) = (array.as_any_dictionary_opt(), transform != Transform::Identity) {
        // Each distinct value is transformed once.
        let values = column(transform, dictionary.values())?;
        return Ok(arrow::compute::take(&values, dictionary.keys(), None)?);
    }
    match transform {
        Transform::Identity => Ok(Arc::clone(array)),
        Transform::Void => Ok(new_null_array(array.data_type(), array.len())),
        Transform::Bucket(n) => Ok(Arc::new(bucket::column(n, array)?)),
        Transform::Truncate(width) => truncate::column(width, array),
        Transform::Year | Transform::Month | Transform::Hour => Ok(Arc::new(calendar_column(transform, array)?)),
        Transform::Day => {
            let days = calendar_column(transform, array)?;
            let (_, values, nulls) = days.into_parts();
            Ok(Arc::new(Date32Array::new(values, nulls)))
        }
        Transform::Unknown => Err(refused(transform, array.data_type())),
    }
}

/// Applies a transform to one value of a source type. `None` is null, both ways.
///
/// # Errors
/// As [`column`]; also [`Fault::Request`] when the value is not of the source type.
pub fn value(
    transform: Transform,
    source: &PrimitiveType,
    value: Option<&PrimitiveLiteral>,
) -> Result<Option<PrimitiveLiteral>, Fault> {
    result_type(transform, source)?;
    let Some(value) = value else { return Ok(None) };
    if !source.compatible(value) {
        return Err(Fault::Request(format!("{value:?} is not a {source}")));
    }
    Ok(match transform {
        Transform::Identity => Some(value.clone()),
        Transform::Void => None,
        Transform::Bucket(n) => Some(PrimitiveLiteral::Int(bucket::of(bucket::hash(source, value)?, n))),
        Transform::Truncate(width) => Some(truncate::value(width, value)?),
        _ => {
            let instant = match (source, value) {
                (PrimitiveType::Date, PrimitiveLiteral::Int(days)) => Instant::Days(*days),
                (PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs, PrimitiveLiteral::Long(n)) => {
                    Instant::Micros(n.div_euclid(1000))
                }
                (_, PrimitiveLiteral::Long(micros)) => Instant::Micros(*micros),
                _ => return Err(Fault::Request(format!("{transform} can't be applied to {source}"))),
            };
            Some(PrimitiveLiteral::Int(unit(transform, instant)?))
        }
    })
}

#[derive(Clone, Copy)]
enum Instant {
    Days(i32),
    Micros(i64),
}

/// Whole units from 1970, rounded down.
fn unit(transform: Transform, instant: Instant) -> Result<i32, Fault> {
    let whole = match (transform, instant) {
        (Transform::Hour, Instant::Micros(micros)) => micros.div_euclid(calendar::MICROS_PER_HOUR),
        (Transform::Day, Instant::Days(days)) => i64::from(days),
        (Transform::Day, Instant::Micros(micros)) => micros.div_euclid(calendar::MICROS_PER_DAY),
        (Transform::Month | Transform::Year, _) => {
            let days = match instant {
                Instant::Days(days) => i64::from(days),
                Instant::Micros(micros) => micros.div_euclid(calendar::MICROS_PER_DAY),
            };
            let (year, month, _) = civil(days);
            if transform == Transform::Year { year - 1970 } else { (year - 1970) * 12 + i64::from(month) - 1 }
        }
        _ => return Err(Fault::Request(format!("{transform} can't be applied to a date"))),
    };
    i32::try_from(whole).map_err(|_| Fault::Mismatch(format!("a time is too far from 1970 for {transform}")))
}

fn calendar_column(transform: Transform, array: &ArrayRef) -> Result<Int32Array, Fault> {
    match array.data_type() {
        DataType::Date32 if transform == Transform::Day => {
            let (_, values, nulls) = array.as_primitive::<Date32Type>().clone().into_parts();
            Ok(Int32Array::new(values, nulls))
        }
        DataType::Date32 => units(array.as_primitive::<Date32Type>(), |days| unit(transform, Instant::Days(days))),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let times = array.as_primitive::<TimestampMicrosecondType>();
            // One closure per transform: the compiler then divides by a constant.
            match transform {
                Transform::Hour => units(times, |micros| unit(Transform::Hour, Instant::Micros(micros))),
                Transform::Day => units(times, |micros| unit(Transform::Day, Instant::Micros(micros))),
                _ => units(times, |micros| unit(transform, Instant::Micros(micros))),
            }
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => units(array.as_primitive::<TimestampNanosecondType>(), |n| {
            unit(transform, Instant::Micros(n.div_euclid(1000)))
        }),
        other => Err(refused(transform, other)),
    }
}

fn units<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    unit: impl Fn(T::Native) -> Result<i32, Fault>,
) -> Result<Int32Array, Fault> {
    array.try_unary(unit)
}

fn refused(transform: Transform, data_type: &DataType) -> Fault {
    Fault::Request(format!("{transform} can't be applied to {data_type}"))
}

#[cfg(test)]
mod tests;
