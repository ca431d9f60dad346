//! Single values: out of an Arrow array, and back into one.

use std::iter::repeat_n;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int32Array, Int64Array, PrimitiveArray, StringArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, new_null_array,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use iceberg::spec::{Datum, PrimitiveLiteral, PrimitiveType};

use crate::fault::Fault;

/// The value of one row, `None` when it is null.
///
/// # Errors
/// [`Fault::Mismatch`] when the array does not hold the Iceberg type or has no such row.
pub fn at(array: &dyn Array, row: usize, data_type: &PrimitiveType) -> Result<Option<PrimitiveLiteral>, Fault> {
    let mismatch = || Fault::Mismatch(format!("{} does not hold a {data_type}", array.data_type()));
    if row >= array.len() {
        return Err(Fault::Mismatch("a row lies outside its batch".to_owned()));
    }
    if array.is_null(row) {
        return Ok(None);
    }
    fn number<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Option<T::Native> {
        array.as_primitive_opt::<T>().map(|array| array.value(row))
    }
    let binary = |bytes: &[u8]| PrimitiveLiteral::Binary(bytes.to_vec());
    let found = match (data_type, array.data_type()) {
        (PrimitiveType::Boolean, DataType::Boolean) => {
            array.as_boolean_opt().map(|array| PrimitiveLiteral::Boolean(array.value(row)))
        }
        (PrimitiveType::Int, _) => number::<Int32Type>(array, row).map(PrimitiveLiteral::Int),
        (PrimitiveType::Date, _) => number::<Date32Type>(array, row).map(PrimitiveLiteral::Int),
        (PrimitiveType::Long, _) => number::<Int64Type>(array, row).map(PrimitiveLiteral::Long),
        (PrimitiveType::Time, _) => number::<Time64MicrosecondType>(array, row).map(PrimitiveLiteral::Long),
        (PrimitiveType::Timestamp | PrimitiveType::Timestamptz, _) => {
            number::<TimestampMicrosecondType>(array, row).map(PrimitiveLiteral::Long)
        }
        (PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs, _) => {
            number::<TimestampNanosecondType>(array, row).map(PrimitiveLiteral::Long)
        }
        (PrimitiveType::Float, _) => number::<Float32Type>(array, row).map(|v| PrimitiveLiteral::Float(v.into())),
        (PrimitiveType::Double, _) => number::<Float64Type>(array, row).map(|v| PrimitiveLiteral::Double(v.into())),
        (PrimitiveType::Decimal { .. }, _) => number::<Decimal128Type>(array, row).map(PrimitiveLiteral::Int128),
        (PrimitiveType::String, DataType::Utf8) => {
            array.as_string_opt::<i32>().map(|array| PrimitiveLiteral::String(array.value(row).to_owned()))
        }
        (PrimitiveType::String, DataType::Utf8View) => {
            array.as_string_view_opt().map(|array| PrimitiveLiteral::String(array.value(row).to_owned()))
        }
        (PrimitiveType::Binary, DataType::Binary) => array.as_binary_opt::<i32>().map(|array| binary(array.value(row))),
        (PrimitiveType::Binary, DataType::BinaryView) => {
            array.as_binary_view_opt().map(|array| binary(array.value(row)))
        }
        (PrimitiveType::Fixed(_), DataType::FixedSizeBinary(_)) => {
            array.as_fixed_size_binary_opt().map(|array| binary(array.value(row)))
        }
        (PrimitiveType::Uuid, DataType::FixedSizeBinary(16)) => array
            .as_fixed_size_binary_opt()
            .and_then(|array| array.value(row).try_into().ok())
            .map(|bytes| PrimitiveLiteral::UInt128(u128::from_be_bytes(bytes))),
        _ => None,
    };
    found.map(Some).ok_or_else(mismatch)
}

/// An array of one value (or of nulls) over `rows` rows.
///
/// # Errors
/// [`Fault::Mismatch`] when the Arrow type can't hold the value.
pub fn repeat(value: Option<&PrimitiveLiteral>, data_type: &DataType, rows: usize) -> Result<ArrayRef, Fault> {
    fn times<T: ArrowPrimitiveType>(value: T::Native, rows: usize, data_type: &DataType) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_value(value, rows).with_data_type(data_type.clone()))
    }
    let Some(value) = value else { return Ok(new_null_array(data_type, rows)) };
    Ok(match (value, data_type) {
        (PrimitiveLiteral::Boolean(v), DataType::Boolean) => Arc::new(BooleanArray::from(vec![*v; rows])),
        (PrimitiveLiteral::Int(v), DataType::Int32) => Arc::new(Int32Array::from_value(*v, rows)),
        (PrimitiveLiteral::Int(v), DataType::Int64) => Arc::new(Int64Array::from_value(i64::from(*v), rows)),
        (PrimitiveLiteral::Int(v), DataType::Date32) => Arc::new(Date32Array::from_value(*v, rows)),
        (PrimitiveLiteral::Long(v), DataType::Int64) => Arc::new(Int64Array::from_value(*v, rows)),
        (PrimitiveLiteral::Long(v), DataType::Time64(TimeUnit::Microsecond)) => {
            Arc::new(Time64MicrosecondArray::from_value(*v, rows))
        }
        (PrimitiveLiteral::Long(v), DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            Arc::new(TimestampMicrosecondArray::from_value(*v, rows).with_data_type(data_type.clone()))
        }
        (PrimitiveLiteral::Long(v), DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
            Arc::new(TimestampNanosecondArray::from_value(*v, rows).with_data_type(data_type.clone()))
        }
        (PrimitiveLiteral::Float(v), DataType::Float32) => Arc::new(Float32Array::from_value(v.0, rows)),
        (PrimitiveLiteral::Float(v), DataType::Float64) => Arc::new(Float64Array::from_value(f64::from(v.0), rows)),
        (PrimitiveLiteral::Double(v), DataType::Float64) => Arc::new(Float64Array::from_value(v.0, rows)),
        (PrimitiveLiteral::Int128(v), DataType::Decimal128(_, _)) => times::<Decimal128Type>(*v, rows, data_type),
        (PrimitiveLiteral::String(v), DataType::Utf8) => Arc::new(StringArray::from_iter_values(repeat_n(v, rows))),
        (PrimitiveLiteral::String(v), DataType::Utf8View) => {
            Arc::new(StringViewArray::from_iter_values(repeat_n(v, rows)))
        }
        (PrimitiveLiteral::Binary(v), DataType::Binary) => Arc::new(BinaryArray::from_iter_values(repeat_n(v, rows))),
        (PrimitiveLiteral::Binary(v), DataType::BinaryView) => {
            Arc::new(BinaryViewArray::from_iter_values(repeat_n(v, rows)))
        }
        (PrimitiveLiteral::Binary(v), DataType::FixedSizeBinary(n)) if usize::try_from(*n).ok() == Some(v.len()) => {
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(repeat_n(Some(v), rows), *n)?)
        }
        (PrimitiveLiteral::UInt128(v), DataType::FixedSizeBinary(16)) => {
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(repeat_n(Some(v.to_be_bytes()), rows), 16)?)
        }
        _ => return Err(Fault::Mismatch(format!("{data_type} can't hold {value:?}"))),
    })
}

/// A typed value, by way of Iceberg's single-value serialisation.
///
/// # Errors
/// [`Fault::Mismatch`] when the value is not of the type.
pub fn datum(data_type: &PrimitiveType, value: &PrimitiveLiteral) -> Result<Datum, Fault> {
    let bytes: Vec<u8> = match value {
        PrimitiveLiteral::Boolean(v) => vec![u8::from(*v)],
        PrimitiveLiteral::Int(v) => v.to_le_bytes().into(),
        PrimitiveLiteral::Long(v) => v.to_le_bytes().into(),
        PrimitiveLiteral::Float(v) => v.to_le_bytes().into(),
        PrimitiveLiteral::Double(v) => v.to_le_bytes().into(),
        PrimitiveLiteral::String(v) => v.as_bytes().into(),
        PrimitiveLiteral::Binary(v) => v.clone(),
        PrimitiveLiteral::Int128(v) => v.to_be_bytes().into(),
        PrimitiveLiteral::UInt128(v) => v.to_be_bytes().into(),
        PrimitiveLiteral::AboveMax | PrimitiveLiteral::BelowMin => Vec::new(),
    };
    let mismatch = || Fault::Mismatch(format!("{value:?} is not a {data_type}"));
    if !data_type.compatible(value) {
        return Err(mismatch());
    }
    Datum::try_from_bytes(&bytes, data_type.clone()).map_err(|_| mismatch())
}
