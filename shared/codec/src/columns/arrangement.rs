//! How the batches of one version's records stand in the columns of several.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef};

use super::Column;
use crate::{Error, arrow_types};

/// For each column what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    fields: Vec<FieldRef>,
    /// Places among the version's own columns; none where it has no such column.
    from: Vec<Option<usize>>,
}

impl Arrangement {
    pub(super) fn new<'c>(columns: impl Iterator<Item = (&'c Column, Option<usize>)>) -> Self {
        let field = |column: &Column| Arc::new(arrow_types::field(&column.name, &column.data_type, column.required));
        let (fields, from) = columns.map(|(column, from)| (field(column), from)).unzip();
        Self { fields, from }
    }

    /// The columns that come from payloads, in order.
    #[must_use]
    pub fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// A batch in these columns: null where the version has no such field, and wider where others are.
    ///
    /// # Errors
    /// [`Error::Batch`] when Arrow refuses, which would be a defect here.
    pub fn of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, Error> {
        let arrays = self.fields.iter().zip(&self.from).map(|(field, from)| {
            match from.and_then(|from| batch.columns().get(from)) {
                Some(array) => arranged(array, field.data_type()),
                None => Ok(new_null_array(field.data_type(), batch.num_rows())),
            }
        });
        arrays.collect()
    }
}

// Types nest as deep as columns do, which is bounded where they are planned.
fn arranged(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Error> {
    Ok(match (array.data_type(), to) {
        (from, to) if from == to => Arc::clone(array),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let there = array.as_struct();
            let member = |field: &FieldRef| match there.column_by_name(field.name()) {
                Some(member) => arranged(member, field.data_type()),
                None => Ok(new_null_array(field.data_type(), there.len())),
            };
            let members = fields.iter().map(member).collect::<Result<_, _>>()?;
            let nulls = there.nulls().cloned();
            Arc::new(StructArray::try_new_with_length(fields.clone(), members, nulls, there.len())?)
        }
        (DataType::List(_), DataType::List(field)) => {
            let list = array.as_list::<i32>();
            let values = arranged(list.values(), field.data_type())?;
            Arc::new(ListArray::try_new(Arc::clone(field), list.offsets().clone(), values, list.nulls().cloned())?)
        }
        (DataType::Map(..), DataType::Map(field, sorted)) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = arranged(&entries, field.data_type())?.as_struct().clone();
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *sorted)?)
        }
        // A number that is wider there.
        (_, to) => cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })?,
    })
}
