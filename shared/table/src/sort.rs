//! Sort orders: from the pipeline file to Iceberg, and from Iceberg to the order of rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Date32Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow::row::{RowConverter, SortField as RowField};
use iceberg::spec::{NullOrder, Schema, SortDirection, SortField, SortOrder, Transform};
use pipeline::resolved;

use crate::fault::Fault;
use crate::schema::{array_at, position};
use crate::transform;

/// The Iceberg sort order (id 1, or 0 when there are no fields) of a pipeline's sort fields.
///
/// # Errors
/// [`Fault::Request`] for a column that is not there or not primitive.
pub fn order(schema: &Schema, fields: &[resolved::SortField]) -> Result<SortOrder, Fault> {
    if fields.is_empty() {
        return Ok(SortOrder::unsorted_order());
    }
    let mut order = SortOrder::builder();
    for field in fields {
        let id = schema
            .field_id_by_name(&field.column)
            .ok_or_else(|| Fault::Request(format!("there is no column `{}` to sort by", field.column)))?;
        position(schema, id)?;
        order.with_sort_field(
            SortField::builder()
                .source_id(id)
                .transform(Transform::Identity)
                .direction(if field.descending { SortDirection::Descending } else { SortDirection::Ascending })
                .null_order(if field.nulls_first { NullOrder::First } else { NullOrder::Last })
                .build(),
        );
    }
    order.build(schema).map_err(Fault::specification("the sort order does not fit the schema"))
}

/// Puts rows into a table's sort order.
#[derive(Debug)]
pub struct Sorter {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    path: Vec<usize>,
    transform: Transform,
    options: SortOptions,
}

impl Sorter {
    /// For a table's order and schema.
    ///
    /// # Errors
    /// [`Fault::Request`] when a sort field has no primitive column outside lists and maps, or a transform that is not
    /// known here.
    pub fn new(order: &SortOrder, schema: &Schema) -> Result<Self, Fault> {
        let keys = order.fields.iter().map(|field| {
            let position = position(schema, field.source_id)?;
            transform::result_type(field.transform, &position.data_type)?;
            Ok(Key {
                path: position.path,
                transform: field.transform,
                options: SortOptions {
                    descending: field.direction == SortDirection::Descending,
                    nulls_first: field.null_order == NullOrder::First,
                },
            })
        });
        Ok(Self { keys: keys.collect::<Result<_, Fault>>()? })
    }

    /// Whether rows stay as they are.
    #[must_use]
    pub fn is_unsorted(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key columns of a batch of the table's schema, one per sort field.
    ///
    /// # Errors
    /// As the transforms.
    pub fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, Fault> {
        self.keys.iter().map(|key| transform::column(key.transform, &array_at(batch, &key.path)?)).collect()
    }

    /// The order of rows with these keys, `None` when they are in order already. Rows with equal keys keep theirs.
    ///
    /// # Errors
    /// [`Fault::Arrow`] when the keys have no order.
    pub fn permutation(&self, keys: &[ArrayRef]) -> Result<Option<Vec<u32>>, Fault> {
        if let ([key], [array]) = (self.keys.as_slice(), keys)
            && let Some(numbers) = numbers(array, key.options)
        {
            return Ok(by_number(&numbers));
        }
        let fields = self
            .keys
            .iter()
            .zip(keys)
            .map(|(key, array)| RowField::new_with_options(array.data_type().clone(), key.options))
            .collect();
        let rows = RowConverter::new(fields)?.convert_columns(keys)?;
        let row = |at: u32| rows.row(at as usize);
        let mut order: Vec<u32> = (0..count(rows.num_rows())?).collect();
        if order.is_sorted_by(|a, b| row(*a) <= row(*b)) {
            return Ok(None);
        }
        order.sort_by(|a, b| row(*a).cmp(&row(*b)));
        Ok(Some(order))
    }
}

fn count(rows: usize) -> Result<u32, Fault> {
    u32::try_from(rows).map_err(|_| Fault::Mismatch("more than 2^32 rows are sorted at once".to_owned()))
}

/// The order of one integer-like key as unsigned numbers that ascend: sorting those is several times faster than
/// comparing encoded rows. With nulls there are 65 bits; such a key takes the general way unless it has none.
fn numbers(array: &ArrayRef, options: SortOptions) -> Option<Vec<u64>> {
    fn flip<T: ArrowPrimitiveType>(array: &ArrayRef, options: SortOptions) -> Vec<u64>
    where
        T::Native: Into<i64>,
    {
        let array: &PrimitiveArray<T> = array.as_primitive();
        let mask = if options.descending { u64::MAX } else { 0 };
        array.values().iter().map(|v| ((*v).into().cast_unsigned() ^ (1 << 63)) ^ mask).collect()
    }
    if array.null_count() > 0 {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int32 => flip::<Int32Type>(array, options),
        DataType::Date32 => flip::<Date32Type>(array, options),
        DataType::Int64 => flip::<Int64Type>(array, options),
        DataType::Time64(TimeUnit::Microsecond) => flip::<Time64MicrosecondType>(array, options),
        DataType::Timestamp(TimeUnit::Microsecond, _) => flip::<TimestampMicrosecondType>(array, options),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => flip::<TimestampNanosecondType>(array, options),
        _ => return None,
    })
}

fn by_number(numbers: &[u64]) -> Option<Vec<u32>> {
    if numbers.is_sorted() || u32::try_from(numbers.len()).is_err() {
        return None;
    }
    // The position makes every pair distinct: an unstable sort of them is a stable one of the keys.
    let mut pairs: Vec<(u64, u32)> = numbers.iter().copied().zip(0..).collect();
    pairs.sort_unstable();
    Some(pairs.into_iter().map(|(_, at)| at).collect())
}

/// A batch in a table's sort order.
///
/// # Errors
/// As [`Sorter::permutation`].
pub fn sorted(sorter: &Sorter, batch: &RecordBatch) -> Result<RecordBatch, Fault> {
    let Some(order) = sorter.permutation(&sorter.keys(batch)?)? else { return Ok(batch.clone()) };
    let order: ArrayRef = Arc::new(arrow::array::UInt32Array::from(order));
    Ok(arrow::compute::take_record_batch(batch, &order)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, Strings, arrow_schema, iceberg_schema};
    use arrow::array::{Float64Array, Int64Array, StringArray};
    use pipeline::types::Type;

    fn batch(columns: &[(&str, Type, ArrayRef)]) -> (Schema, RecordBatch) {
        let named: Vec<Column> = columns
            .iter()
            .map(|(name, data_type, _)| Column {
                name: (*name).to_owned(),
                data_type: data_type.clone(),
                required: false,
                doc: None,
            })
            .collect();
        let schema = iceberg_schema(&named).unwrap();
        let arrays = columns.iter().map(|(_, _, array)| Arc::clone(array)).collect();
        let batch = RecordBatch::try_new(arrow_schema(&schema, Strings::Plain).unwrap(), arrays).unwrap();
        (schema, batch)
    }

    #[test]
    fn rows_follow_direction_null_order_and_arrival() {
        let n: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), None, Some(-1), Some(2), Some(i64::MIN)]));
        let s: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("x"), None, Some("a"), Some("b")]));
        let f: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 0.0, -0.0, f64::INFINITY, -1.0]));
        let at: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2, 3, 4]));
        let (schema, batch) =
            batch(&[("n", Type::Long, n), ("s", Type::String, s), ("f", Type::Double, f), ("at", Type::Long, at)]);
        let check = |fields: &[(&str, bool, bool)], expected: &[i64]| {
            let fields: Vec<_> = fields
                .iter()
                .map(|(column, descending, nulls_first)| resolved::SortField {
                    column: (*column).to_owned(),
                    descending: *descending,
                    nulls_first: *nulls_first,
                })
                .collect();
            let sorter = Sorter::new(&order(&schema, &fields).unwrap(), &schema).unwrap();
            let sorted = sorted(&sorter, &batch).unwrap();
            let got: Vec<i64> = sorted["at"].as_primitive::<Int64Type>().values().to_vec();
            assert_eq!(got, expected, "{fields:?}");
        };
        check(&[], &[0, 1, 2, 3, 4]);
        check(&[("n", false, true)], &[1, 4, 2, 0, 3]);
        check(&[("n", false, false)], &[4, 2, 0, 3, 1]);
        check(&[("n", true, false)], &[0, 3, 2, 4, 1]);
        check(&[("n", true, true)], &[1, 0, 3, 2, 4]);
        check(&[("s", false, false), ("n", true, false)], &[3, 0, 4, 1, 2]);
        check(&[("f", false, false)], &[4, 2, 1, 3, 0]);
        check(&[("at", true, false)], &[4, 3, 2, 1, 0]);
    }

    #[test]
    fn only_columns_of_the_table_sort_it() {
        let n: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let (schema, _) = batch(&[("n", Type::Long, n)]);
        let field = resolved::SortField { column: "m".to_owned(), descending: false, nulls_first: false };
        assert!(order(&schema, &[field]).unwrap_err().to_string().contains("`m`"));
    }
}
