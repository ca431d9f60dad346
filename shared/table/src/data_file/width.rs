//! How much text rows hold. Parquet's writer looks at sizes between the batches that it is given, and never within one.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// Text and binary of some rows, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) all: usize,
    /// Of the column, or part of a nested one, that has the most.
    pub(super) widest: usize,
}

impl Width {
    /// Of a column's values. What has a fixed width counts nothing.
    pub(super) fn of(column: &dyn Array) -> Self {
        // The low quarter of a view is its length.
        let text = |views: &[u128]| Self::leaf(views.iter().map(|view| *view as u32 as usize).sum());
        match column.data_type() {
            DataType::Utf8View => text(column.as_string_view().views()),
            DataType::BinaryView => text(column.as_binary_view().views()),
            DataType::Struct(_) => Self::sum(column.as_struct().columns().iter().map(|c| Self::of(c.as_ref()))),
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                Self::of(within(list.values().as_ref(), list.value_offsets()).as_ref())
            }
            DataType::Map(..) => {
                let map = column.as_map();
                Self::of(within(map.entries(), map.offsets()).as_ref())
            }
            _ => Self::default(),
        }
    }

    const fn leaf(bytes: usize) -> Self {
        Self { all: bytes, widest: bytes }
    }

    fn sum(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self::default(), |sum, part| Self { all: sum.all + part.all, widest: sum.widest.max(part.widest) })
    }

    fn of_rows(batch: &RecordBatch) -> Self {
        Self::sum(batch.columns().iter().map(|column| Self::of(column.as_ref())))
    }
}

/// The elements that offsets span.
fn within(elements: &dyn Array, offsets: &[i32]) -> arrow::array::ArrayRef {
    let at = |offset: Option<&i32>| offset.and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0);
    let (first, last) = (at(offsets.first()), at(offsets.last()));
    elements.slice(first, last.saturating_sub(first))
}

/// Text of all columns that is encoded at a time, in pages' sizes.
const PAGES: usize = 8;

/// A batch in pieces, in order: no column's text in one is more than a page, unless a single row's is.
pub(super) fn pieces(batch: &RecordBatch, page_bytes: usize) -> Vec<RecordBatch> {
    let mut pieces = Vec::new();
    // The rows at the end come first.
    let mut left = vec![batch.clone()];
    while let Some(rows) = left.pop() {
        let Width { all, widest } = Width::of_rows(&rows);
        let half = rows.num_rows() / 2;
        if half == 0 || (widest <= page_bytes && all <= page_bytes.saturating_mul(PAGES)) {
            pieces.push(rows);
        } else {
            left.push(rows.slice(half, rows.num_rows() - half));
            left.push(rows.slice(0, half));
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, ListBuilder, StringViewArray, StringViewBuilder, StructArray};
    use arrow::datatypes::Field;

    use super::*;

    fn text(widths: &[usize]) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(widths.iter().map(|width| "x".repeat(*width))))
    }

    #[test]
    fn text_counts_at_every_depth_and_only_of_the_rows_that_are_shown() {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for widths in [vec![1, 20], vec![], vec![300]] {
            widths.iter().for_each(|width| lists.values().append_value("x".repeat(*width)));
            lists.append(true);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let field = |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        let texts = text(&[5, 40, 7]);
        let both = StructArray::from(vec![(field("l", &lists), lists), (field("t", &texts), texts)]);
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("both", Arc::new(both) as ArrayRef), ("id", ids)]).unwrap();
        assert_eq!(Width::of_rows(&batch), Width { all: 373, widest: 321 });
        assert_eq!(Width::of_rows(&batch.slice(1, 2)), Width { all: 347, widest: 300 });
        assert_eq!(Width::of_rows(&batch.slice(1, 1)), Width { all: 40, widest: 40 });
    }

    #[test]
    fn a_page_of_text_is_a_piece_and_a_row_is_never_cut() {
        let cut = |widths: &[usize]| -> Vec<usize> {
            let batch = RecordBatch::try_from_iter([("t", text(widths))]).unwrap();
            let pieces = pieces(&batch, 100);
            let together = arrow::compute::concat_batches(&batch.schema(), &pieces).unwrap();
            assert_eq!(together, batch);
            pieces.iter().map(RecordBatch::num_rows).collect()
        };
        assert_eq!(cut(&[10; 8]), [8]);
        assert_eq!(cut(&[30; 8]), [2, 2, 2, 2]);
        assert_eq!(
            cut(&[1, 1, 1, 1, 1, 500, 1, 1]),
            [4, 1, 1, 2],
            "one wide value does not make the others' pieces small"
        );
        assert_eq!(cut(&[500]), [1]);
        assert_eq!(cut(&[]), [0]);
        let many = RecordBatch::try_from_iter((0..20).map(|n| (format!("t{n}"), text(&[90])))).unwrap();
        let twice = arrow::compute::concat_batches(&many.schema(), [&many, &many]).unwrap();
        assert_eq!(pieces(&twice, 200).len(), 2, "many columns are bounded together");
    }
}
