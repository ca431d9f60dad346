//! Columns that are made of fields of records' keys: planned by the key's schema and read by its versions as values are, and known to the
//! tables by their types and sources.

use std::collections::BTreeMap;

use pipeline::resolved::{From, Pipeline, Table};
use pipeline::types::Type;

use super::{Columns, Fault, KEY, Tables, VALUE, plan_tables};
use crate::source::Described;

/// The columns that keys fill, and the pipeline with their types, from which the columns of its tables are planned. `of_key` is
/// [`Pipeline::of_key`]. The tables' columns are told what these are made of by [`Tables::tell_keys`].
///
/// # Errors
/// Every fault of the columns that keys fill.
pub fn plan_keys<S: Described + ?Sized>(
    source: &S,
    pipeline: &Pipeline,
    of_key: &Pipeline,
) -> Result<(Tables, Pipeline), Vec<Fault>> {
    let keys = plan_tables(source, of_key)?;
    let columns = &keys.columns.columns;
    let types: BTreeMap<&str, &Type> = columns.iter().map(|column| (column.name.as_str(), &column.data_type)).collect();
    let mut typed = pipeline.clone();
    let tell = |table: &mut Table| {
        for column in table.columns.iter_mut().filter(|column| matches!(column.from, From::KeyField(_))) {
            column.data_type = types.get(column.name.as_str()).map(|data_type| (*data_type).clone());
        }
    };
    tell(&mut typed.table);
    typed.tables.values_mut().for_each(tell);
    Ok((keys, typed))
}

impl Tables {
    /// The columns that keys fill, as the versions of the key's schema that were met have them: with their sources, by what the key's
    /// format finds fields by, and their types. One that only another version of the key has comes behind the others.
    pub fn tell_keys(&mut self, keys: &Columns) {
        for columns in std::iter::once(&mut self.columns).chain(self.differing.values_mut()) {
            for key in &keys.columns {
                let told = columns.columns.iter_mut().find(|column| column.name == key.name);
                match told {
                    Some(column) => {
                        column.source = source_of_key(&key.source);
                        column.data_type = key.data_type.clone();
                        column.required &= key.required;
                    }
                    None => columns.columns.push(super::Column {
                        source: source_of_key(&key.source),
                        source_name: format!("{KEY}.{}", key.source_name),
                        ..key.clone()
                    }),
                }
            }
        }
    }
}

/// The former sources of columns that keys fill, as tables know them: of those that the key's own columns have.
#[must_use]
pub fn former_of_keys(former: &BTreeMap<String, Vec<String>>) -> BTreeMap<String, Vec<String>> {
    let told = |(source, former): (&String, &Vec<String>)| {
        (source_of_key(source), former.iter().map(|source| source_of_key(source)).collect())
    };
    former.iter().map(told).collect()
}

/// The source of a column that keys fill, which is `value:` and a path where keys stand in the place of values.
fn source_of_key(source: &str) -> String {
    format!("{KEY}.{}", source.strip_prefix(VALUE).unwrap_or(source))
}
