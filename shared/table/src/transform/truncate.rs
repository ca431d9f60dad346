//! `truncate[W]`: numbers down to a multiple of W, text to its first W code points, binary to its first W bytes.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, GenericByteBuilder, PrimitiveArray, StringViewBuilder,
};
use arrow::datatypes::{
    BinaryType, ByteArrayType, DataType, Decimal128Type, Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type, Utf8Type,
};
use iceberg::spec::{PrimitiveLiteral, Transform};

use crate::fault::Fault;

/// The first `width` code points.
pub(super) fn text(width: u32, text: &str) -> &str {
    // A code point is at least a byte: short texts need no count.
    if text.len() <= width as usize {
        return text;
    }
    match text.char_indices().nth(width as usize) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

fn bytes(width: u32, bytes: &[u8]) -> &[u8] {
    bytes.get(..width as usize).unwrap_or(bytes)
}

// Within W of the smallest value the multiple below does not exist; it wraps around, as it does in Java.
const fn int(width: u32, value: i32) -> i32 {
    let rest = (value as i64).rem_euclid(if width == 0 { 1 } else { width as i64 });
    value.wrapping_sub(rest as i32)
}

const fn long(width: u32, value: i64) -> i64 {
    value.wrapping_sub(value.rem_euclid(if width == 0 { 1 } else { width as i64 }))
}

const fn decimal(width: u32, value: i128) -> i128 {
    value.wrapping_sub(value.rem_euclid(if width == 0 { 1 } else { width as i128 }))
}

/// One truncated value.
pub(super) fn value(width: u32, value: &PrimitiveLiteral) -> Result<PrimitiveLiteral, Fault> {
    Ok(match value {
        PrimitiveLiteral::Int(value) => PrimitiveLiteral::Int(int(width, *value)),
        PrimitiveLiteral::Long(value) => PrimitiveLiteral::Long(long(width, *value)),
        PrimitiveLiteral::Int128(value) => PrimitiveLiteral::Int128(decimal(width, *value)),
        PrimitiveLiteral::String(value) => PrimitiveLiteral::String(text(width, value).to_owned()),
        PrimitiveLiteral::Binary(value) => PrimitiveLiteral::Binary(bytes(width, value).to_owned()),
        other => return Err(Fault::Request(format!("truncate can't be applied to {other:?}"))),
    })
}

/// A truncated column, of the same Arrow type.
pub(super) fn column(width: u32, array: &ArrayRef) -> Result<ArrayRef, Fault> {
    Ok(match array.data_type() {
        DataType::Int32 => Arc::new(array.as_primitive::<Int32Type>().unary::<_, Int32Type>(|v| int(width, v))),
        DataType::Int64 => Arc::new(array.as_primitive::<Int64Type>().unary::<_, Int64Type>(|v| long(width, v))),
        DataType::Decimal128(_, _) => {
            let cut: PrimitiveArray<Decimal128Type> =
                array.as_primitive::<Decimal128Type>().unary(|v| decimal(width, v));
            Arc::new(cut.with_data_type(array.data_type().clone()))
        }
        DataType::Utf8 => offsets::<Utf8Type>(array, |v| text(width, v)),
        DataType::LargeUtf8 => offsets::<LargeUtf8Type>(array, |v| text(width, v)),
        DataType::Binary => offsets::<BinaryType>(array, |v| bytes(width, v)),
        DataType::LargeBinary => offsets::<LargeBinaryType>(array, |v| bytes(width, v)),
        DataType::Utf8View => {
            let mut cut = StringViewBuilder::with_capacity(array.len());
            for value in array.as_string_view() {
                cut.append_option(value.map(|value| text(width, value)));
            }
            Arc::new(cut.finish())
        }
        DataType::BinaryView => {
            let mut cut = BinaryViewBuilder::with_capacity(array.len());
            for value in array.as_binary_view() {
                cut.append_option(value.map(|value| bytes(width, value)));
            }
            Arc::new(cut.finish())
        }
        other => return Err(super::refused(Transform::Truncate(width), other)),
    })
}

fn offsets<T: ByteArrayType>(array: &ArrayRef, cut: impl Fn(&T::Native) -> &T::Native) -> ArrayRef {
    let array = array.as_bytes::<T>();
    let mut builder = GenericByteBuilder::<T>::with_capacity(array.len(), 0);
    for value in array {
        builder.append_option(value.map(&cut));
    }
    Arc::new(builder.finish())
}
