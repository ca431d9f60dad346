//! Most rows of a table have none of the keys that are looked for. To find that out by their encoded keys takes several times as long
//! as to decode them; a set of bits, two for each key, tells of all but a few.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use xxhash_rust::xxh3::xxh3_64;

/// Bits for each key: of rows with another one about two in a hundred pass.
const BITS_PER_KEY: usize = 16;
/// An odd number whose product with a value spreads over all bits (the golden ratio's fraction).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// What stands for a null.
const NULL: u64 = 0x5851_f42d_4c95_7f2d;

/// Tells rows that have none of some keys.
#[derive(Debug)]
pub(crate) struct Sieve {
    words: Vec<u64>,
    /// Reused from batch to batch.
    hashes: Vec<u64>,
}

impl Sieve {
    /// Of keys as columns; nothing where a column's type has no quick form.
    pub(crate) fn new(keys: &[ArrayRef]) -> Option<Self> {
        let mut hashes = Vec::new();
        hash(keys, &mut hashes)?;
        let words = (hashes.len() * BITS_PER_KEY / 64).next_power_of_two();
        let mut sieve = Self { words: vec![0; words], hashes: Vec::new() };
        for hash in &hashes {
            let (word, bits) = sieve.place(*hash);
            if let Some(word) = sieve.words.get_mut(word) {
                *word |= bits;
            }
        }
        Some(sieve)
    }

    /// Which word, and which bits of it.
    fn place(&self, hash: u64) -> (usize, u64) {
        let bits = (1 << (hash & 63)) | (1 << ((hash >> 6) & 63));
        // The number of words is a power of two.
        ((hash >> 12) as usize & (self.words.len() - 1), bits)
    }

    /// The places of rows that may have one of the keys, of columns of the same types.
    pub(crate) fn pass(&mut self, columns: &[ArrayRef], mut each: impl FnMut(usize)) {
        let mut hashes = std::mem::take(&mut self.hashes);
        if hash(columns, &mut hashes).is_none() {
            (0..columns.first().map_or(0, |column| column.len())).for_each(each);
            return;
        }
        for (row, hash) in hashes.iter().enumerate() {
            let (word, bits) = self.place(*hash);
            if self.words.get(word).is_some_and(|word| word & bits == bits) {
                each(row);
            }
        }
        self.hashes = hashes;
    }
}

fn hash(columns: &[ArrayRef], hashes: &mut Vec<u64>) -> Option<()> {
    hashes.clear();
    hashes.resize(columns.first()?.len(), 0);
    for column in columns {
        match column.data_type() {
            DataType::Int32 => numbers::<Int32Type>(column, hashes, i64::from),
            DataType::Int64 => numbers::<Int64Type>(column, hashes, |n| n),
            DataType::Date32 => numbers::<Date32Type>(column, hashes, i64::from),
            DataType::Time64(TimeUnit::Microsecond) => numbers::<Time64MicrosecondType>(column, hashes, |n| n),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                numbers::<TimestampMicrosecondType>(column, hashes, |n| n);
            }
            DataType::Utf8View => {
                let texts = column.as_string_view().iter();
                mix(hashes, texts.map(|text| text.map_or(NULL, |text| xxh3_64(text.as_bytes()))));
            }
            DataType::BinaryView => {
                let values = column.as_binary_view().iter();
                mix(hashes, values.map(|value| value.map_or(NULL, xxh3_64)));
            }
            _ => return None,
        }
    }
    Some(())
}

fn numbers<T: ArrowPrimitiveType>(column: &ArrayRef, hashes: &mut [u64], wide: impl Fn(T::Native) -> i64) {
    let numbers = column.as_primitive::<T>();
    match numbers.null_count() {
        0 => mix(hashes, numbers.values().iter().map(|number| wide(*number).cast_unsigned())),
        _ => mix(hashes, numbers.iter().map(|number| number.map_or(NULL, |number| wide(number).cast_unsigned()))),
    }
}

fn mix(hashes: &mut [u64], values: impl Iterator<Item = u64>) {
    for (hash, value) in hashes.iter_mut().zip(values) {
        let product = (hash.rotate_left(23) ^ value).wrapping_mul(SPREAD);
        // The product's low bits know the value's low bits only.
        *hash = product ^ (product >> 32);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Int64Array, StringViewArray};

    use super::*;

    fn passing(sieve: &mut Sieve, columns: &[ArrayRef]) -> Vec<usize> {
        let mut rows = Vec::new();
        sieve.pass(columns, |row| rows.push(row));
        rows
    }

    #[test]
    fn every_key_passes_and_hardly_anything_else() {
        let longs = |range: std::ops::Range<i64>| -> ArrayRef { Arc::new(Int64Array::from_iter_values(range)) };
        let texts = |range: std::ops::Range<i64>| -> ArrayRef {
            Arc::new(StringViewArray::from_iter_values(range.map(|n| format!("key {}", n % 1000))))
        };
        for columns in [|r| vec![r], |r: std::ops::Range<i64>| vec![r.clone(), r]] {
            let of = |range: std::ops::Range<i64>| -> Vec<ArrayRef> {
                let columns = columns(range);
                let mut all = vec![longs(columns[0].clone())];
                all.extend(columns.get(1).map(|range| texts(range.clone())));
                all
            };
            let mut sieve = Sieve::new(&of(0..100_000)).unwrap();
            assert_eq!(passing(&mut sieve, &of(0..100_000)).len(), 100_000);
            let others = passing(&mut sieve, &of(100_000..1_100_000)).len();
            assert!(others < 50_000, "{others} of a million");
            // Neither neighbours nor numbers far apart are taken for keys more often than others.
            let spread: ArrayRef = Arc::new(Int64Array::from_iter_values((1..100_000).map(|n| n << 20)));
            let mut first = of(0..99_999);
            first[0] = spread;
            let others = passing(&mut sieve, &first).len();
            assert!(others < 5_000, "{others} of a hundred thousand");
        }
    }

    #[test]
    fn nulls_are_values_and_other_types_have_no_sieve() {
        let column = |values: Vec<Option<i64>>| -> Vec<ArrayRef> { vec![Arc::new(Int64Array::from(values))] };
        let mut sieve = Sieve::new(&column(vec![None, Some(1)])).unwrap();
        assert_eq!(passing(&mut sieve, &column(vec![Some(1), None])), [0, 1]);
        let mut sieve = Sieve::new(&column(vec![Some(1)])).unwrap();
        assert_eq!(passing(&mut sieve, &column(vec![None])), [0_usize; 0]);
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
        assert!(Sieve::new(&[flags]).is_none());
        assert!(Sieve::new(&[]).is_none());
    }
}
