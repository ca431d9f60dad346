//! `bucket[N]`: the 32-bit Murmur3 hash (x86 variant, seed 0) of a value, without its sign bit, modulo N.
//!
//! What is hashed (specification, appendix B): ints, dates, times and timestamps as an 8-byte little-endian long,
//! nanoseconds floored to microseconds first; decimals as the fewest big-endian two's-complement bytes; text, binary,
//! fixed and uuid as their bytes.

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, Date32Type, Decimal128Type,
    Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type, StringViewType, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType, Utf8Type,
};
use iceberg::spec::{PrimitiveLiteral, PrimitiveType, Transform};

use crate::fault::Fault;

/// The hash of an int or long (and of what is stored as one).
#[must_use]
pub const fn hash_long(value: i64) -> i32 {
    const fn block(hash: u32, word: u32) -> u32 {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    }
    let bits = value.cast_unsigned();
    let mut hash = block(block(0, bits as u32), (bits >> 32) as u32) ^ 8;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)).cast_signed()
}

/// The hash of bytes: text as UTF-8, binary, fixed, uuid in network order.
#[must_use]
pub fn hash_bytes(mut bytes: &[u8]) -> i32 {
    // Reading from a slice in memory can't fail.
    murmur3::murmur3_32(&mut bytes, 0).unwrap_or(0).cast_signed()
}

/// The hash of a decimal's unscaled value.
#[must_use]
pub fn hash_decimal(unscaled: i128) -> i32 {
    let bytes = unscaled.to_be_bytes();
    hash_bytes(bytes.get(16 - shortest(unscaled)..).unwrap_or(&bytes))
}

/// How many bytes of two's complement a value needs, at least one.
fn shortest(value: i128) -> usize {
    let magnitude = if value < 0 { !value } else { value };
    let bits = 128 - magnitude.leading_zeros() as usize;
    bits / 8 + 1
}

/// The bucket of a hash.
pub(super) const fn of(hash: i32, buckets: u32) -> i32 {
    // Both are below 2^31; `result_type` has refused 0 and anything larger.
    ((hash.cast_unsigned() & 0x7fff_ffff) % if buckets == 0 { 1 } else { buckets }).cast_signed()
}

/// The hash of one value.
pub(super) fn hash(source: &PrimitiveType, value: &PrimitiveLiteral) -> Result<i32, Fault> {
    Ok(match (source, value) {
        (PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs, PrimitiveLiteral::Long(nanos)) => {
            hash_long(nanos.div_euclid(1000))
        }
        (_, PrimitiveLiteral::Int(value)) => hash_long(i64::from(*value)),
        (_, PrimitiveLiteral::Long(value)) => hash_long(*value),
        (_, PrimitiveLiteral::Int128(value)) => hash_decimal(*value),
        (_, PrimitiveLiteral::UInt128(value)) => hash_bytes(&value.to_be_bytes()),
        (_, PrimitiveLiteral::String(value)) => hash_bytes(value.as_bytes()),
        (_, PrimitiveLiteral::Binary(value)) => hash_bytes(value),
        _ => return Err(Fault::Request(format!("bucket can't be applied to {source}"))),
    })
}

/// The buckets of a column.
pub(super) fn column(buckets: u32, array: &ArrayRef) -> Result<Int32Array, Fault> {
    let of = |hash: i32| of(hash, buckets);
    Ok(match array.data_type() {
        DataType::Int32 => longs::<Int32Type>(array, |v| of(hash_long(i64::from(v)))),
        DataType::Date32 => longs::<Date32Type>(array, |v| of(hash_long(i64::from(v)))),
        DataType::Int64 => longs::<Int64Type>(array, |v| of(hash_long(v))),
        DataType::Time64(TimeUnit::Microsecond) => longs::<Time64MicrosecondType>(array, |v| of(hash_long(v))),
        DataType::Timestamp(TimeUnit::Microsecond, _) => longs::<TimestampMicrosecondType>(array, |v| of(hash_long(v))),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            longs::<TimestampNanosecondType>(array, |v| of(hash_long(v.div_euclid(1000))))
        }
        DataType::Decimal128(_, _) => longs::<Decimal128Type>(array, |v| of(hash_decimal(v))),
        DataType::Utf8 => bytes::<Utf8Type>(array, of),
        DataType::LargeUtf8 => bytes::<LargeUtf8Type>(array, of),
        DataType::Binary => bytes::<BinaryType>(array, of),
        DataType::LargeBinary => bytes::<LargeBinaryType>(array, of),
        DataType::Utf8View => views::<StringViewType>(array, of),
        DataType::BinaryView => views::<BinaryViewType>(array, of),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            collect(array.len(), array.nulls(), |row| of(hash_bytes(array.value(row))))
        }
        other => return Err(super::refused(Transform::Bucket(buckets), other)),
    })
}

fn longs<T: ArrowPrimitiveType>(array: &ArrayRef, bucket: impl Fn(T::Native) -> i32) -> Int32Array {
    let array: &PrimitiveArray<T> = array.as_primitive();
    array.unary(bucket)
}

fn bytes<T: ByteArrayType>(array: &ArrayRef, of: impl Fn(i32) -> i32) -> Int32Array {
    let array = array.as_bytes::<T>();
    collect(array.len(), array.nulls(), |row| of(hash_bytes(array.value(row).as_ref())))
}

fn views<T: ByteViewType>(array: &ArrayRef, of: impl Fn(i32) -> i32) -> Int32Array {
    let array = array.as_byte_view::<T>();
    collect(array.len(), array.nulls(), |row| of(hash_bytes(array.value(row).as_ref())))
}

fn collect(rows: usize, nulls: Option<&NullBuffer>, bucket: impl Fn(usize) -> i32) -> Int32Array {
    let valid = |row| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let values: Vec<i32> = (0..rows).map(|row| if valid(row) { bucket(row) } else { 0 }).collect();
    Int32Array::new(values.into(), nulls.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_long_hashes_as_its_eight_little_endian_bytes(value: i64) {
            prop_assert_eq!(hash_long(value), hash_bytes(&value.to_le_bytes()));
        }

        #[test]
        fn a_decimal_keeps_the_fewest_bytes_that_give_it_back(value: i128) {
            let n = shortest(value);
            let back = |n: usize| -> i128 {
                let shift = 128 - 8 * n as u32;
                (value << shift) >> shift
            };
            prop_assert_eq!(back(n), value);
            prop_assert!(n == 1 || back(n - 1) != value);
        }
    }

    #[test]
    fn the_ends_of_each_byte_count_are_right() {
        for (value, n) in [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i128::MAX, 16), (i128::MIN, 16)] {
            assert_eq!(shortest(value), n, "{value}");
        }
    }
}
