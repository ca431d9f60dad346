//! What rows are looked for by: the columns that rows of a key are known by, and where their values lie.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{max, min};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use iceberg::spec::{Datum, TableMetadata};
use pipeline::resolved::Table;
use staging::dead_letter::Class;
use table::data_file::Target;
use table::fault::Fault;
use table::scan::Predicate;
use table::schema::field_id;

use crate::bind::Binding;
use crate::dead::{Reason, Reasons};
use crate::intake::Intake;

/// A column of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its place in the target's schema.
    pub(crate) place: usize,
    pub(crate) field_id: i32,
}

/// The table's column for one of the pipeline's, as rows are bound; nothing where it has none any more.
pub(crate) fn column(target: &Target, binding: &Binding, intake: &Intake, name: &str) -> Option<Column> {
    let field = id(binding, intake, name)?;
    let place = target.arrow_schema().fields().iter().position(|other| field_id(other) == Some(field))?;
    Some(Column { place, field_id: field })
}

/// The field id of the table's column that a staged column goes to: by its source, as rows are bound, so that a rename in
/// the table leaves it the same column.
fn id(binding: &Binding, intake: &Intake, column: &str) -> Option<i32> {
    let footers = intake.objects.iter().map(|found| &found.footer);
    let of = |footer| binding.field_id(footer, column);
    let id = footers.filter(|footer| footer.columns.iter().any(|c| c.name == column)).find_map(of);
    id.or_else(|| intake.objects.first().and_then(|found| of(&found.footer)))
}

/// The key columns as the table calls them now. One that is gone is left out: whoever compares rows by it says so.
pub(crate) fn names(table: &Table, metadata: &TableMetadata, binding: &Binding, intake: &Intake) -> Vec<String> {
    let name = |column: &String| metadata.current_schema().name_by_field_id(id(binding, intake, column)?);
    table.primary_key.iter().filter_map(name).map(str::to_owned).collect()
}

/// A column's name in the table.
///
/// # Errors
/// [`Fault::Request`] where it is gone.
pub(crate) fn name(metadata: &TableMetadata, field_id: i32) -> Result<String, Fault> {
    let name = metadata.current_schema().name_by_field_id(field_id).map(str::to_owned);
    name.ok_or_else(|| Fault::Request(format!("the table has no column of field id {field_id}")))
}

/// A type as wide as a column's values, told from what staged objects say of it. Only how wide they are matters; what is not
/// known is taken for text, which is the widest.
pub(crate) fn width(intake: &Intake, name: &str) -> DataType {
    let mut columns = intake.objects.iter().flat_map(|found| &found.footer.columns);
    match columns.find(|column| column.name == name).map(|column| column.data_type.as_str()) {
        Some("boolean" | "int" | "date") => DataType::Int32,
        Some("long" | "time" | "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns") => DataType::Int64,
        _ => DataType::Utf8View,
    }
}

/// Why a row is dead whose key has a null.
pub(crate) fn null_key(table: &Table) -> Arc<Reason> {
    let path = table.primary_key.join(", ");
    Arc::new(Reason { class: Class::NullKey, path, message: "a column of its key is null".to_owned() })
}

/// That reason for each row of a batch that it is for.
pub(crate) fn without_key(key: &[Column], batch: &RecordBatch, reason: &Arc<Reason>) -> Reasons {
    let columns: Vec<&ArrayRef> = key.iter().filter_map(|column| batch.columns().get(column.place)).collect();
    if columns.iter().all(|column| column.null_count() == 0) {
        return Reasons::new();
    }
    let is_null = |row: usize| columns.iter().any(|column| column.is_null(row));
    (0..batch.num_rows()).map(|row| is_null(row).then(|| Arc::clone(reason))).collect()
}

/// Rows whose column has one of some values, for types whose order is plain: of at most `points_max` one by one, of more between
/// the least and the greatest.
pub(crate) fn among(name: &str, values: &ArrayRef, points_max: usize) -> Option<Predicate> {
    let points = match values.data_type() {
        DataType::Int32 => {
            let values = values.as_primitive::<Int32Type>();
            distinct(values.iter().flatten(), points_max, || min(values).zip(max(values)), Datum::int)?
        }
        DataType::Int64 => {
            let values = values.as_primitive::<Int64Type>();
            distinct(values.iter().flatten(), points_max, || min(values).zip(max(values)), Datum::long)?
        }
        DataType::Utf8View if values.len() <= points_max => {
            let values = values.as_string_view();
            distinct(values.iter().flatten(), points_max, || None, Datum::string)?
        }
        _ => return None,
    };
    let points = Predicate::Within { column: name.to_owned(), ranges: points };
    Some(match values.null_count() {
        0 => points,
        _ => Predicate::Or(vec![Predicate::IsNull(name.to_owned()), points]),
    })
}

/// Distinct values in order, or the span of all where there are too many.
fn distinct<T: Ord + Copy>(
    values: impl Iterator<Item = T>,
    points_max: usize,
    span: impl Fn() -> Option<(T, T)>,
    datum: impl Fn(T) -> Datum,
) -> Option<Vec<(Datum, Datum)>> {
    let mut points: Vec<T> = values.collect();
    if points.len() > points_max {
        let (first, last) = span()?;
        return Some(vec![(datum(first), datum(last))]);
    }
    points.sort_unstable();
    points.dedup();
    Some(points.into_iter().map(|point| (datum(point), datum(point))).collect())
}
