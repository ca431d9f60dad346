//! Columns that are made of fields of records' keys: planned by the key's schema, and known to the tables by their types.

use std::collections::BTreeMap;

use pipeline::resolved::{From, Pipeline, Table};
use pipeline::types::Type;

use super::{Columns, Fault, plan_records};
use crate::source::Described;

/// The columns that keys fill, and the pipeline with their types, from which the columns of its tables are planned. `of_key` is
/// [`Pipeline::of_key`].
///
/// # Errors
/// Every fault of the columns that keys fill.
pub fn plan_keys<S: Described + ?Sized>(
    source: &S,
    pipeline: &Pipeline,
    of_key: &Pipeline,
) -> Result<(Columns, Pipeline), Vec<Fault>> {
    let columns = plan_records(source, &of_key.value, &of_key.table)?;
    let types: BTreeMap<&str, &Type> =
        columns.columns.iter().map(|column| (column.name.as_str(), &column.data_type)).collect();
    let mut typed = pipeline.clone();
    let tell = |table: &mut Table| {
        for column in table.columns.iter_mut().filter(|column| matches!(column.from, From::KeyField(_))) {
            column.data_type = types.get(column.name.as_str()).map(|data_type| (*data_type).clone());
        }
    };
    tell(&mut typed.table);
    typed.tables.values_mut().for_each(tell);
    Ok((columns, typed))
}
