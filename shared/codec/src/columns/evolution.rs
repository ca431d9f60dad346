//! The columns of a schema that has got more fields than a pipeline began with.

use std::collections::HashMap;

use pipeline::resolved::Pipeline;

use super::{Column, Columns, Tables, former_sources, plan_tables};
use crate::payload::{Reader, Schema};
use crate::{Class, Rejected};

/// What records of one more version of the schema are read as, and the columns of the pipeline's tables then. The columns that there
/// are keep their order, whatever they are called now; new ones come behind them. Nothing where the version brings nothing new.
///
/// # Errors
/// `incompatible_schema` where the fields of both can't be columns: a name that is taken, a type that has to be declared. Its
/// records can't be rows then, and the others' go on as before.
pub fn united(
    pipeline: &Pipeline,
    reader: &Reader,
    tables: &Tables,
    version: &Schema,
) -> Result<Option<(Reader, Tables)>, Rejected> {
    let Some(united) = reader.united(version) else { return Ok(None) };
    let mut planned = plan_tables(&united, pipeline).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        incompatible(format!("its schema has fields that can't be columns: {}", faults.join("; ")))
    })?;
    // What can't be read itself brings nothing.
    if let Some(reason) = united.unlike(version, &planned.columns) {
        return Err(incompatible(format!("its schema can't be read as the pipeline's: {reason}")));
    }
    let former = former_sources(&united, &planned.columns);
    let places: HashMap<&str, usize> =
        tables.columns.columns.iter().map(|column| column.source.as_str()).zip(0..).collect();
    let place = |column: &Column| {
        let earlier = former.get(&column.source).into_iter().flatten().map(String::as_str);
        std::iter::once(column.source.as_str()).chain(earlier).find_map(|source| places.get(source).copied())
    };
    let sort = |columns: &mut Columns| columns.columns.sort_by_key(|column| place(column).unwrap_or(usize::MAX));
    sort(&mut planned.columns);
    planned.differing.values_mut().for_each(sort);
    Ok(Some((united, planned)))
}

fn incompatible(message: String) -> Rejected {
    Rejected { class: Class::IncompatibleSchema, path: String::new(), message }
}
