//! Rows looked for by their keys: row groups whose bloom filters hold none of them are left out.
//!
//! A filter is worth reading when it is likely to say no to every key. Each key that a group does not hold is taken for one
//! that it does at the filter's false positive rate `p`, so that `n` keys are all denied with a chance of `(1 - p)^n`, even
//! if none of them is there; beyond some hundreds of keys (some thousands with a roomy filter) that is next to never. So,
//! by row group: the filters are read when the chance is at least [`CHANCE_MIN`] and, times the bytes of the columns that
//! would not be read then, is more than the bytes of the filters that must be read for it. A batch of more than [`KEYS_MAX`]
//! keys asks no filter at all. `p` is worked out from a filter's size and its group's rows, before it is read.
//!
//! A filter says no only where the specification (`BloomFilter.md` of the Parquet format) lets it: the hash is that of the
//! value's plain encoding in the file's own physical type. Where that is not one certain sequence of bytes (a decimal of
//! variable length, times in another unit), and for null keys, a filter says nothing. A filter that is not whole, or that
//! denies its own column's least or greatest value, says nothing either. The price of a filter that says nothing is bytes;
//! that of a wrong no would be a duplicate.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::ArrayRef;
use bytes::Bytes;
use iceberg::spec::{PrimitiveLiteral, PrimitiveType, Schema};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::basic::{LogicalType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;
use xxhash_rust::xxh64::xxh64;

use super::figures::Counters;
use super::prune::same_unit;
use super::read::File;
use crate::fault::Fault;
use crate::schema::literal;
use crate::schema::parquet::leaf_ids;
use crate::schema::{Position, position};

/// More keys than this ask no filter: the roomiest filter that is smaller than a column of numbers lets about one in two
/// thousand absent keys pass.
pub const KEYS_MAX: usize = 16 * 1024;
/// The least chance of a no for which filters are read.
const CHANCE_MIN: f64 = 0.05;
/// The false positive rate that writers aim at; a filter that looks smaller than its rows ask for has fewer values.
const RATE_MAX: f64 = 0.01;
/// Blocks fill unevenly: about so many times more values pass than would with an even share in each (measured).
const UNEVEN: f64 = 2.0;
/// Filters are read and asked so many bytes at a time.
const ROUND_BYTES: u64 = 8 * 1024 * 1024;
/// A larger filter is not looked at. Iceberg's default is at most 1 MiB.
const FILTER_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// A header is 15 to 20 bytes long.
const HEADER_BYTES_MAX: u64 = 24;
/// Bytes of a block: eight words of 32 bits.
const BLOCK_BYTES: usize = 32;

/// Keys that rows are looked for by: only rows that have one of them are needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// The columns; a dotted path for a field of a struct.
    pub columns: Vec<String>,
    /// The values of each column, row by row, in the Arrow type of the table's column. Rows may repeat.
    pub values: Vec<ArrayRef>,
}

/// Keys whose columns have been found.
#[derive(Debug)]
pub(super) struct Wanted {
    count: usize,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    field_id: i32,
    data_type: PrimitiveType,
    values: Vec<Option<PrimitiveLiteral>>,
    /// The values as each kind of file asks for them, hashed once.
    probes: Mutex<BTreeMap<Encoding, Arc<[Probe]>>>,
}

/// How a file's column spells a value in plain encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Encoding {
    /// Four bytes, little endian.
    Int32,
    /// Eight bytes, little endian.
    Int64,
    /// So many bytes; numbers are big endian.
    Fixed(usize),
    /// The bytes themselves, without their length.
    Bytes,
}

/// What is asked of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Nothing: a null, which filters do not hold, or a value that is not of the type.
    Anything,
    /// Nothing: the file's type can't hold the value.
    Nothing,
    /// The hash of the value.
    Hash(u64),
}

impl Keys {
    /// Finds the columns in a schema. `None` when there is nothing to ask of filters.
    pub(super) fn bind(&self, schema: &Schema) -> Result<Option<Arc<Wanted>>, Fault> {
        let count = self.values.first().map_or(0, |array| array.len());
        if self.columns.len() != self.values.len() || self.values.iter().any(|array| array.len() != count) {
            return Err(Fault::Request("keys have one value in each of their columns".to_owned()));
        }
        if count == 0 || count > KEYS_MAX {
            return Ok(None);
        }
        let mut columns = Vec::new();
        for (name, array) in self.columns.iter().zip(&self.values) {
            let field_id =
                schema.field_id_by_name(name).ok_or_else(|| Fault::Request(format!("there is no column `{name}`")))?;
            let Position { data_type, .. } = position(schema, field_id)?;
            let values = (0..count).map(|row| literal::at(array, row, &data_type)).collect::<Result<_, _>>()?;
            columns.push(Column { field_id, data_type, values, probes: Mutex::new(BTreeMap::new()) });
        }
        Ok(Some(Arc::new(Wanted { count, columns })))
    }
}

impl Column {
    fn probes(&self, encoding: Encoding) -> Arc<[Probe]> {
        let mut known = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || self.values.iter().map(|value| probe(value.as_ref(), encoding)).collect();
        Arc::clone(known.entry(encoding).or_insert_with(made))
    }
}

/// How a file's column spells values of a table's column; `None` when that is not certain.
fn encoding(column: &ColumnDescriptor, data_type: &PrimitiveType) -> Option<Encoding> {
    let signed = match column.logical_type_ref() {
        Some(LogicalType::Integer { is_signed, .. }) => *is_signed,
        Some(LogicalType::Float16) => false,
        _ => true,
    };
    if !signed || !same_unit(column, data_type) {
        return None;
    }
    let length = || usize::try_from(column.type_length()).ok();
    Some(match (data_type, column.physical_type()) {
        (
            PrimitiveType::Int | PrimitiveType::Long | PrimitiveType::Date | PrimitiveType::Decimal { .. },
            Physical::INT32,
        ) => Encoding::Int32,
        (
            PrimitiveType::Long
            | PrimitiveType::Time
            | PrimitiveType::Timestamp
            | PrimitiveType::Timestamptz
            | PrimitiveType::TimestampNs
            | PrimitiveType::TimestamptzNs
            | PrimitiveType::Decimal { .. },
            Physical::INT64,
        ) => Encoding::Int64,
        (PrimitiveType::Decimal { .. }, Physical::FIXED_LEN_BYTE_ARRAY) => Encoding::Fixed(length()?),
        (PrimitiveType::Uuid, Physical::FIXED_LEN_BYTE_ARRAY) if length() == Some(16) => Encoding::Fixed(16),
        (PrimitiveType::Fixed(n), Physical::FIXED_LEN_BYTE_ARRAY) if length() == usize::try_from(*n).ok() => {
            Encoding::Fixed(length()?)
        }
        (PrimitiveType::String | PrimitiveType::Binary, Physical::BYTE_ARRAY) => Encoding::Bytes,
        // Booleans have no filters. Two floats may be one key and have two encodings; they may not be keys anyway.
        _ => return None,
    })
}

fn probe(value: Option<&PrimitiveLiteral>, encoding: Encoding) -> Probe {
    let hash = |bytes: &[u8]| Probe::Hash(xxh64(bytes, 0));
    let number = |value: i128| match encoding {
        Encoding::Int32 => i32::try_from(value).map_or(Probe::Nothing, |value| hash(&value.to_le_bytes())),
        Encoding::Int64 => i64::try_from(value).map_or(Probe::Nothing, |value| hash(&value.to_le_bytes())),
        Encoding::Fixed(length) => sign_cut(value, length).map_or(Probe::Nothing, |bytes| hash(&bytes)),
        Encoding::Bytes => Probe::Anything,
    };
    match (value, encoding) {
        (Some(PrimitiveLiteral::Int(value)), _) => number((*value).into()),
        (Some(PrimitiveLiteral::Long(value)), _) => number((*value).into()),
        (Some(PrimitiveLiteral::Int128(value)), _) => number(*value),
        (Some(PrimitiveLiteral::UInt128(value)), Encoding::Fixed(16)) => hash(&value.to_be_bytes()),
        (Some(PrimitiveLiteral::String(value)), Encoding::Bytes) => hash(value.as_bytes()),
        (Some(PrimitiveLiteral::Binary(value)), Encoding::Bytes) => hash(value),
        (Some(PrimitiveLiteral::Binary(value)), Encoding::Fixed(length)) if value.len() == length => hash(value),
        _ => Probe::Anything,
    }
}

/// A number's two's complement in so many bytes, big endian; `None` when it takes more.
fn sign_cut(value: i128, length: usize) -> Option<Vec<u8>> {
    let whole = value.to_be_bytes();
    let sign = if value < 0 { 0xff } else { 0 };
    let Some(cut) = whole.len().checked_sub(length) else {
        return Some([vec![sign; length - whole.len()], whole.to_vec()].concat());
    };
    let (front, kept) = whole.split_at(cut);
    let same_sign = kept.first().is_some_and(|first| (first & 0x80 != 0) == (value < 0));
    (same_sign && front.iter().all(|byte| *byte == sign)).then(|| kept.to_vec())
}

/// One filter that may be asked.
struct Place {
    /// Which of the wanted columns.
    column: usize,
    /// Where its header begins, and how long header and bits are together.
    bytes: Range<u64>,
}

/// A row group, and the filters to ask before it is read.
struct Group {
    at: usize,
    filters: Vec<Place>,
}

/// Of some row groups those that may hold a wanted key. `leaves` are the columns that would be read.
///
/// # Errors
/// When bytes that are there can't be read.
pub(super) async fn row_groups(
    file: &mut File,
    footer: &ParquetMetaData,
    wanted: &Wanted,
    candidates: Vec<usize>,
    leaves: &[usize],
    counters: &Counters,
) -> Result<Vec<usize>, ParquetError> {
    let ids = leaf_ids(footer.file_metadata().schema_descr());
    // (Place in the file, the wanted column, its probes) of columns that filters can be asked about.
    let mut asked: Vec<(usize, Arc<[Probe]>)> = Vec::new();
    for column in &wanted.columns {
        let Some(place) = ids.iter().position(|id| *id == Some(column.field_id)) else { continue };
        let Some(descriptor) = footer.file_metadata().schema_descr().columns().get(place) else { continue };
        if let Some(encoding) = encoding(descriptor, &column.data_type) {
            asked.push((place, column.probes(encoding)));
        }
    }
    let mut groups = Vec::with_capacity(candidates.len());
    let places = places(file, footer, &asked, &candidates).await?;
    for (at, mut filters) in candidates.into_iter().zip(places) {
        if let Some(group) = footer.row_groups().get(at)
            && !pays(group, &filters, wanted.count, leaves, file)
        {
            filters.clear();
        }
        groups.push(Group { at, filters });
    }
    let mut kept = Vec::with_capacity(groups.len());
    let mut rest = groups.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let round = rest.iter().position(|group| {
            let own: u64 = group.filters.iter().map(|filter| filter.bytes.end - filter.bytes.start).sum();
            let full = bytes > 0 && bytes + own > ROUND_BYTES;
            bytes += own;
            full
        });
        let (now, later) = rest.split_at(round.unwrap_or(rest.len()));
        rest = later;
        let ranges: Vec<Range<u64>> = now.iter().flat_map(|group| &group.filters).map(|f| f.bytes.clone()).collect();
        counters.asked(&ranges);
        let mut bodies = if ranges.is_empty() { Vec::new() } else { file.get_byte_ranges(ranges).await? }.into_iter();
        for group in now {
            let filters: Vec<(&Place, Bytes)> = group.filters.iter().zip(bodies.by_ref()).collect();
            let chunk = |place: &Place| footer.row_groups().get(group.at)?.columns().get(asked.get(place.column)?.0);
            let filters: Vec<(Filter, &[Probe])> = filters
                .into_iter()
                .filter_map(|(place, body)| {
                    let filter = Filter::read(&body)?;
                    filter.agrees_with(chunk(place)?).then_some(())?;
                    Some((filter, &*asked.get(place.column)?.1))
                })
                .collect();
            let held = |key: usize| filters.iter().all(|(filter, probes)| filter.may_hold(probes.get(key)));
            if filters.is_empty() || (0..wanted.count).any(held) {
                kept.push(group.at);
            } else {
                counters.filtered();
            }
        }
    }
    Ok(kept)
}

/// Where the filters of each row group are, where they are known and of a sensible size.
async fn places(
    file: &mut File,
    footer: &ParquetMetaData,
    asked: &[(usize, Arc<[Probe]>)],
    candidates: &[usize],
) -> Result<Vec<Vec<Place>>, ParquetError> {
    let mut found: Vec<Vec<Place>> = Vec::with_capacity(candidates.len());
    // Older writers say where a filter begins and not how long it is; its header does.
    let mut unmeasured: Vec<(usize, usize, Range<u64>)> = Vec::new();
    for (number, at) in candidates.iter().enumerate() {
        let mut places = Vec::new();
        for (column, (leaf, _)) in asked.iter().enumerate() {
            let chunk = footer.row_groups().get(*at).and_then(|group| group.columns().get(*leaf));
            let Some(chunk) = chunk else { continue };
            let Some(start) = chunk.bloom_filter_offset().and_then(|offset| u64::try_from(offset).ok()) else {
                continue;
            };
            match chunk.bloom_filter_length() {
                Some(length) => {
                    let end = u64::try_from(length).ok().and_then(|length| start.checked_add(length));
                    places.extend(end.map(|end| Place { column, bytes: start..end }));
                }
                None if start < file.bytes => {
                    unmeasured.push((number, column, start..file.bytes.min(start.saturating_add(HEADER_BYTES_MAX))));
                }
                None => {}
            }
        }
        found.push(places);
    }
    if !unmeasured.is_empty() {
        let ranges = unmeasured.iter().map(|(_, _, range)| range.clone()).collect();
        let headers = file.get_byte_ranges(ranges).await?;
        for ((number, column, range), header) in unmeasured.into_iter().zip(headers) {
            let length = header_of(&header).and_then(|(start, bits)| (start as u64).checked_add(bits));
            let end = length.and_then(|length| range.start.checked_add(length));
            if let Some((places, end)) = found.get_mut(number).zip(end) {
                places.push(Place { column, bytes: range.start..end });
            }
        }
    }
    let sensible = |bytes: &Range<u64>| bytes.end <= file.bytes && bytes.end - bytes.start <= FILTER_BYTES_MAX;
    found.iter_mut().for_each(|places| places.retain(|place| sensible(&place.bytes)));
    Ok(found)
}

/// Whether reading a group's filters is likely to save more than it costs.
fn pays(group: &RowGroupMetaData, filters: &[Place], keys: usize, leaves: &[usize], file: &File) -> bool {
    let rows = group.num_rows() as f64;
    let rate = |filter: &Place| {
        let bytes = (filter.bytes.end - filter.bytes.start) as f64;
        // Eight bits of 8 * bytes are set for a value: the chance that eight others are set is that of eight full bits.
        (1.0 - (-rows / bytes).exp()).powi(8).min(RATE_MAX) * UNEVEN
    };
    let Some(rate) = filters.iter().map(rate).reduce(f64::min) else { return false };
    let chance = (1.0 - rate).powf(keys as f64);
    let columns = leaves.iter().filter_map(|leaf| group.columns().get(*leaf));
    let saved: u64 = columns.map(|chunk| u64::try_from(chunk.compressed_size()).unwrap_or(0)).sum();
    let read = filters.iter().filter(|filter| !file.holds(&filter.bytes));
    let cost: u64 = read.map(|filter| filter.bytes.end - filter.bytes.start).sum();
    chance >= CHANCE_MIN && cost as f64 <= chance * saved as f64
}

/// A split block bloom filter, as it lies in a file.
struct Filter {
    bits: Bytes,
    blocks: u64,
}

/// The length of a filter's header and of its bits, from a header in Thrift's compact protocol: the bits' length, then
/// three unions (algorithm, hash, compression) that each have one member so far, an empty struct.
fn header_of(bytes: &[u8]) -> Option<(usize, u64)> {
    const I32_FIELD: u8 = 0x15;
    const UNIONS: [u8; 13] = [0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0];
    let (first, mut rest) = bytes.split_first()?;
    if *first != I32_FIELD {
        return None;
    }
    let mut zigzag = 0u64;
    for shift in (0..35).step_by(7) {
        let (byte, after) = rest.split_first()?;
        rest = after;
        zigzag |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let after = rest.strip_prefix(&UNIONS)?;
            // An odd one is negative.
            return zigzag.is_multiple_of(2).then_some((bytes.len() - after.len(), zigzag / 2));
        }
    }
    None
}

impl Filter {
    /// `None` unless it is whole and of the one kind that there is.
    fn read(body: &Bytes) -> Option<Self> {
        let (start, length) = header_of(body)?;
        let bits = body.slice(start..);
        let whole = bits.len() as u64 == length && length > 0 && bits.len().is_multiple_of(BLOCK_BYTES);
        whole.then(|| Self { blocks: length / BLOCK_BYTES as u64, bits })
    }

    /// Whether it holds what its column is known to hold: a filter that was overwritten, belongs to another column or was
    /// made of other bytes is found out by that, most of the time.
    fn agrees_with(&self, chunk: &ColumnChunkMetaData) -> bool {
        let Some(statistics) = chunk.statistics() else { return true };
        // The ends of byte strings may have been cut.
        let cut = matches!(statistics, Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_));
        let least = statistics.min_bytes_opt().filter(|_| !cut || statistics.min_is_exact());
        let greatest = statistics.max_bytes_opt().filter(|_| !cut || statistics.max_is_exact());
        [least, greatest].into_iter().flatten().all(|plain| self.may_hold(Some(&Probe::Hash(xxh64(plain, 0)))))
    }

    /// Whether a value may have been put in.
    fn may_hold(&self, probe: Option<&Probe>) -> bool {
        /// The specification's eight odd numbers, which choose a bit in each word of a block.
        const SALTS: [u32; 8] =
            [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
        let hash = match probe {
            Some(Probe::Hash(hash)) => *hash,
            Some(Probe::Nothing) => return false,
            Some(Probe::Anything) | None => return true,
        };
        // The upper half chooses the block, the lower the bits; below 2^32 blocks the product does not overflow.
        let block = (((hash >> 32) * self.blocks) >> 32) as usize * BLOCK_BYTES;
        let Some(block) = self.bits.get(block..block + BLOCK_BYTES) else { return true };
        let low = hash as u32;
        block.chunks_exact(4).zip(SALTS).all(|(word, salt)| {
            let word = word.try_into().map_or(u32::MAX, u32::from_le_bytes);
            word & (1 << (low.wrapping_mul(salt) >> 27)) != 0
        })
    }
}

#[cfg(test)]
mod tests;
