//! Which columns repeat their values. A dictionary pays for a column that does; for one of nearly distinct values it
//! costs twice, once when it is made and once as indices that say nothing.

use std::collections::HashSet;

use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::row::{RowConverter, SortField};
use iceberg::spec::Schema;

use super::width::Width;
use crate::fault::Fault;
use crate::schema::{array_at, positions};

/// A file of fewer rows is small either way.
const FILE_ROWS_MIN: usize = 1024;
const SAMPLE_ROWS_MIN: usize = 256;
const SAMPLE_ROWS_MAX: usize = 4096;
/// Values that take more than this on average have no dictionary.
const WIDE_BYTES: usize = 1024;

/// Field ids of columns in which a value comes less than twice on average over a file of `rows` rows, judged by a sample
/// of its first rows. Fields inside lists and maps are left out.
///
/// Of n values drawn evenly from N distinct ones about n²/2N repeat another; n grows with the square root of the rows, so
/// that a column of N = rows/2 shows about four repetitions.
///
/// # Errors
/// [`Fault::Mismatch`] when the batch is not of the schema.
pub(super) fn hardly_repeated(schema: &Schema, first: &RecordBatch, rows: usize) -> Result<Vec<i32>, Fault> {
    let held = first.num_rows();
    let rows = rows.max(held);
    if rows < FILE_ROWS_MIN || held < SAMPLE_ROWS_MIN {
        return Ok(Vec::new());
    }
    let wanted = rows.isqrt().saturating_mul(2).clamp(SAMPLE_ROWS_MIN, SAMPLE_ROWS_MAX);
    let stride = (held / wanted).max(1);
    let sample: UInt32Array = (0..u32::try_from(held).unwrap_or(u32::MAX)).step_by(stride).take(wanted).collect();
    let mut ids = Vec::new();
    for (id, position) in positions(schema) {
        let array = array_at(first, &position.path)?;
        if Width::of(array.as_ref()).widest / array.len().max(1) > WIDE_BYTES {
            // Few of them fill a dictionary, and comparing them would take as much memory as they do.
            ids.push(id);
            continue;
        }
        let values = take(&array, &sample, None)?;
        let present = values.len() - values.null_count();
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let encoded = converter.convert_columns(&[values])?;
        let distinct: HashSet<&[u8]> = encoded.iter().map(|row| row.data()).collect();
        // Null is one value more, and takes no place in a dictionary.
        let repeated = (present + usize::from(present < encoded.num_rows())).saturating_sub(distinct.len());
        // Of the file's rows as many are null as of the sample's.
        if present >= SAMPLE_ROWS_MIN / 4 && repeated.saturating_mul(rows) < present * encoded.num_rows() {
            ids.push(id);
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use super::*;
    use crate::schema::{Strings, arrow_schema};
    use crate::testing::schema;

    /// Numbers without a pattern.
    fn mixed(n: u64) -> u64 {
        let n = (n ^ (n >> 30)).wrapping_add(1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }

    #[test]
    fn columns_of_distinct_values_are_told_from_those_that_repeat() {
        let schema =
            schema(&[("offset", "long"), ("team", "string"), ("name", "string"), ("half", "long"), ("void", "long")]);
        let rows = 16_384_u64;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values((0..rows).map(|n| n as i64))),
            Arc::new(StringViewArray::from_iter_values((0..rows).map(|n| format!("team {}", mixed(n) % 40)))),
            Arc::new(StringViewArray::from_iter_values((0..rows).map(|n| format!("a name of its own: {n}")))),
            // Half of the rows are null, the others distinct.
            Arc::new(Int64Array::from_iter((0..rows).map(|n| mixed(n).is_multiple_of(2).then_some(n as i64)))),
            Arc::new(Int64Array::new_null(rows as usize)),
        ];
        let arrow = arrow_schema(&schema, Strings::Views).unwrap();
        let batch = RecordBatch::try_new(arrow, columns).unwrap();
        assert_eq!(hardly_repeated(&schema, &batch, rows as usize).unwrap(), [1, 3, 4]);
        assert_eq!(hardly_repeated(&schema, &batch.slice(0, 1000), 1000).unwrap(), [0; 0], "too small to matter");
        assert_eq!(hardly_repeated(&schema, &batch.slice(0, 1), 1 << 20).unwrap(), [0; 0], "too little to judge by");
    }

    #[test]
    fn values_that_come_a_few_times_each_keep_their_dictionary() {
        let schema = schema(&[("id", "long")]);
        for (each, expected) in [(8, vec![]), (1, vec![1])] {
            let values = (0..16_384_u64).map(|n| if each == 1 { n } else { mixed(n) % (16_384 / each) } as i64);
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
            let arrow = arrow_schema(&schema, Strings::Views).unwrap();
            let batch = RecordBatch::try_new(arrow, vec![column]).unwrap();
            assert_eq!(hardly_repeated(&schema, &batch, 16_384).unwrap(), expected, "each value {each} times");
        }
    }
}
