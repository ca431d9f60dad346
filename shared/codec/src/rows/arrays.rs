//! From the closed rows of a level to Arrow arrays, without copying values.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;

use super::cells::{Output, Source};
use super::level::Level;

/// Takes a column's array. Every column of a level is taken once; [`finish`] then makes the level ready for more.
pub(crate) fn take(output: &Output, data_type: &DataType, level: &mut Level) -> Result<ArrayRef, ArrowError> {
    let rows = level.rows();
    let nulls = output.valid.map(|bit| NullBuffer::new(bits(level, bit)));
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    Ok(match (&output.source, data_type) {
        (Source::Word4(slot), DataType::Int32) => {
            Arc::new(Int32Array::try_new(words(&mut level.words4, *slot, rows), nulls)?)
        }
        (Source::Word4(slot), DataType::Date32) => {
            Arc::new(Date32Array::try_new(words(&mut level.words4, *slot, rows), nulls)?)
        }
        (Source::Word4(slot), DataType::Float32) => {
            let bits: ScalarBuffer<i32> = words(&mut level.words4, *slot, rows);
            Arc::new(Float32Array::try_new(ScalarBuffer::new(bits.into_inner(), 0, rows), nulls)?)
        }
        (Source::Word8(slot), DataType::Int64) => {
            Arc::new(Int64Array::try_new(words(&mut level.words8, *slot, rows), nulls)?)
        }
        (Source::Word8(slot), DataType::Float64) => {
            let bits: ScalarBuffer<i64> = words(&mut level.words8, *slot, rows);
            Arc::new(Float64Array::try_new(ScalarBuffer::new(bits.into_inner(), 0, rows), nulls)?)
        }
        (Source::Word8(slot), DataType::Time64(TimeUnit::Microsecond)) => {
            Arc::new(Time64MicrosecondArray::try_new(words(&mut level.words8, *slot, rows), nulls)?)
        }
        (Source::Word8(slot), DataType::Timestamp(_, zone)) => {
            let array = TimestampMicrosecondArray::try_new(words(&mut level.words8, *slot, rows), nulls)?;
            Arc::new(array.with_timezone_opt(zone.clone()))
        }
        (Source::Word16(slot), DataType::Decimal128(precision, scale)) => {
            let array = Decimal128Array::try_new(words(&mut level.words16, *slot, rows), nulls)?;
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        (Source::Bit(slot), DataType::Boolean) => {
            let values = bits(level, *slot);
            Arc::new(BooleanArray::new(values, nulls))
        }
        (Source::Text(slot), DataType::Utf8) => {
            let (offsets, values) = text(level, *slot)?;
            Arc::new(StringArray::try_new(offsets, values, nulls)?)
        }
        (Source::Text(slot), DataType::Binary) => {
            let (offsets, values) = text(level, *slot)?;
            Arc::new(BinaryArray::try_new(offsets, values, nulls)?)
        }
        (Source::Text(slot), DataType::FixedSizeBinary(length)) => {
            let (offsets, values) = text(level, *slot)?;
            let values = padded(&offsets, values, *length);
            Arc::new(FixedSizeBinaryArray::try_new(*length, values, nulls)?)
        }
        (Source::Struct(members), DataType::Struct(fields)) => {
            let members = members.iter().zip(fields).map(|(member, field)| take(member, field.data_type(), level));
            let members = members.collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), members, nulls, rows)?)
        }
        (Source::List(slot, element), DataType::List(field)) => {
            let list = level.lists.get_mut(*slot).ok_or_else(|| misplaced(data_type))?;
            let offsets = OffsetBuffer::new(list.take_offsets().into());
            let values = take(element, field.data_type(), &mut list.elements)?;
            Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls)?)
        }
        (Source::Map(slot, entry), DataType::Map(field, sorted)) => {
            let (DataType::Struct(parts), (key, value)) = (field.data_type(), entry.as_ref()) else {
                return Err(misplaced(data_type));
            };
            let [key_field, value_field] = parts.as_ref() else { return Err(misplaced(data_type)) };
            let list = level.lists.get_mut(*slot).ok_or_else(|| misplaced(data_type))?;
            let offsets = OffsetBuffer::new(list.take_offsets().into());
            let count = list.elements.rows();
            let keys = take(key, key_field.data_type(), &mut list.elements)?;
            let values = take(value, value_field.data_type(), &mut list.elements)?;
            let entries = StructArray::try_new_with_length(parts.clone(), vec![keys, values], None, count)?;
            Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *sorted)?)
        }
        _ => return Err(misplaced(data_type)),
    })
}

/// Makes a level whose columns have all been taken ready for more rows.
pub(crate) fn finish(level: &mut Level) {
    level.clear_bits();
    level.reset();
    for list in &mut level.lists {
        finish(&mut list.elements);
    }
}

fn words<T: arrow::datatypes::ArrowNativeType>(columns: &mut [Vec<T>], slot: usize, rows: usize) -> ScalarBuffer<T> {
    let mut column = columns.get_mut(slot).map(std::mem::take).unwrap_or_default();
    column.truncate(rows);
    column.into()
}

fn bits(level: &Level, slot: usize) -> BooleanBuffer {
    BooleanBuffer::new(Buffer::from_vec(level.bits(slot)), 0, level.rows())
}

fn text(level: &mut Level, slot: usize) -> Result<(OffsetBuffer<i32>, Buffer), ArrowError> {
    let text = level.texts.get_mut(slot).ok_or_else(|| ArrowError::InvalidArgumentError("no such text".to_owned()))?;
    let (offsets, values) = text.take();
    Ok((OffsetBuffer::new(offsets.into()), Buffer::from_vec(values)))
}

/// Values of one length, zeros where a row has none.
fn padded(offsets: &OffsetBuffer<i32>, values: Buffer, length: i32) -> Buffer {
    let length = usize::try_from(length).unwrap_or(0);
    let rows = offsets.len().saturating_sub(1);
    if values.len() == rows * length {
        return values;
    }
    let mut padded = Vec::with_capacity(rows * length);
    for (row, ends) in offsets.windows(2).enumerate() {
        let value = if let [from, to] = ends { values.get(*from as usize..*to as usize) } else { None };
        padded.extend_from_slice(value.unwrap_or_default());
        padded.resize((row + 1) * length, 0);
    }
    Buffer::from_vec(padded)
}

fn misplaced(data_type: &DataType) -> ArrowError {
    ArrowError::InvalidArgumentError(format!("a column was compiled for another type than {data_type}"))
}
