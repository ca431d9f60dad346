//! What rows take in memory once they are read, told from what their writer knows of the pages.

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

/// A view of text or binary: its length and where its bytes are.
const VIEW_BYTES: u64 = 16;

/// Bytes of Arrow arrays that the rows of a row group take, read as [`super::Types::Views`]: fixed widths, a view a value,
/// offsets of lists, nulls, and behind views the decoded pages, which they share: a dictionary counts once. From above,
/// by what a null or an empty list does not take.
pub(super) fn bytes(group: &RowGroupMetaData) -> u64 {
    group.columns().iter().map(column).fold(0, u64::saturating_add)
}

fn column(chunk: &ColumnChunkMetaData) -> u64 {
    let leaf = chunk.column_descr();
    let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
    let values = unsigned(chunk.num_values());
    let decimal = matches!(leaf.logical_type_ref(), Some(LogicalType::Decimal { .. }))
        || leaf.converted_type() == ConvertedType::DECIMAL;
    // In bits: a Boolean is one.
    let (width, pages) = match leaf.physical_type() {
        // A decimal is one of 128 bits, however few it has in Parquet.
        _ if decimal => (128, 0),
        Type::BOOLEAN => (1, 0),
        Type::INT32 | Type::FLOAT => (32, 0),
        Type::INT64 | Type::DOUBLE | Type::INT96 => (64, 0),
        Type::FIXED_LEN_BYTE_ARRAY => (8 * unsigned(leaf.type_length().into()), 0),
        Type::BYTE_ARRAY => (8 * VIEW_BYTES, unsigned(chunk.uncompressed_size())),
    };
    let nulls = unsigned(leaf.max_def_level().into());
    let offsets = 32 * unsigned(leaf.max_rep_level().into());
    values.saturating_mul(width + nulls + offsets).div_ceil(8).saturating_add(pages)
}
