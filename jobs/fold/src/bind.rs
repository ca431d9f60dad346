//! Which table column a staged column goes to. Columns are bound by their source path to field ids, once, and the binding
//! is kept in the table: after a rename, on either side, the column stays the same column.

use std::collections::{BTreeMap, HashMap};

use iceberg::spec::Schema;
use model::id::PipelineId;
use pipeline::path;
use pipeline::resolved::{ColumnCase, MARK_COLUMNS, Pipeline, RECORD_COLUMNS, Table, TableName};
use pipeline::types::Type;
use staging::footer::{self, Footer};
use table::schema::Column;

use crate::error::Error;

/// The table property that holds a pipeline's binding.
pub(crate) fn property(pipeline: &PipelineId) -> String {
    format!("frazil.columns.{pipeline}")
}

/// The table property that says which version of the type mapping made the table: frazil made it.
pub const MAPPING_VERSION: &str = "frazil.mapping-version";

/// What a table's properties say of a pipeline's columns: their sources, and the ids of the fields that they go to. A
/// record column's source is its name. Nothing before the pipeline's first commit.
///
/// # Errors
/// [`Error::Stopped`] when the property can't be read.
pub fn bound(
    properties: &HashMap<String, String>,
    pipeline: &PipelineId,
) -> Result<Option<BTreeMap<String, i32>>, Error> {
    let name = property(pipeline);
    properties.get(&name).map(|text| Binding::from_property(&name, text).map(|binding| binding.of)).transpose()
}

/// What stands before a source that no row has come from yet, and that a column is known to have been: see [`Binding::was`].
const FORMER: &str = "former:";

/// Source paths and the field ids of their columns. A record column's source is its name. Beside them stand, with [`FORMER`] before
/// them, the sources that columns were in earlier versions of their schemas: rows of such a version may come yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Binding {
    of: BTreeMap<String, i32>,
    /// Whether nothing was folded by it.
    is_fresh: bool,
}

impl Binding {
    /// The binding of a table that the pipeline never folded into, by name: of the record columns, and of those of these columns
    /// that it has. Others are bound as they come ([`crate::evolve`]).
    pub(crate) fn fresh(schema: &Schema, columns: &[footer::Column]) -> Self {
        let top = |name: &str| schema.as_struct().fields().iter().find(|f| f.name == name).map(|f| f.id);
        let records = RECORD_COLUMNS.iter().map(|(name, ..)| (*name, *name));
        let named = columns.iter().map(|column| (column.source.as_str(), column.name.as_str()));
        let bound = records.chain(named).filter_map(|(source, name)| Some((source.to_owned(), top(name)?)));
        let mut binding = Self { of: bound.collect(), is_fresh: true };
        for column in columns {
            if let Some(id) = binding.id(&column.source) {
                binding.was(column, columns, id);
            }
        }
        binding
    }

    pub(crate) const fn of(bound: BTreeMap<String, i32>) -> Self {
        Self { of: bound, is_fresh: false }
    }

    pub(crate) fn from_property(name: &str, text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map(Self::of).map_err(|e| Error::Stopped {
            code: "fold.columns",
            message: format!("the table property `{name}` is not readable: {e}"),
            remedy: "set the property back to what an earlier metadata file holds".to_owned(),
        })
    }

    pub(crate) fn to_property(&self) -> Result<String, Error> {
        Ok(serde_json::to_string(&self.of)?)
    }

    /// The field id of a staged column, by its name in the object.
    pub(crate) fn field_id(&self, footer: &Footer, column: &str) -> Option<i32> {
        let source = footer.columns.iter().find(|c| c.name == column).map_or(column, |c| c.source.as_str());
        self.of.get(source).copied()
    }

    /// The field id of a source.
    pub(crate) fn id(&self, source: &str) -> Option<i32> {
        self.of.get(source).copied()
    }

    /// Whether some source of the pipeline's goes to a field.
    pub(crate) fn fills(&self, id: i32) -> bool {
        self.of.values().any(|bound| *bound == id)
    }

    /// The field id of a source that no row has come from, and that a column was in an earlier version of its schema.
    pub(crate) fn former(&self, source: &str) -> Option<i32> {
        self.of.get(&format!("{FORMER}{source}")).copied()
    }

    /// The field id that rows of a source went to in an earlier fold.
    pub(crate) fn settled(&self, source: &str) -> Option<i32> {
        if self.is_fresh { None } else { self.id(source) }
    }

    /// Whether a source that goes to a field differs from this one in case only, or so that the columns of both are spelled alike.
    pub(crate) fn respells(&self, id: i32, source: &str, case: ColumnCase) -> bool {
        let (lower, spelled) = (source.to_lowercase(), case.spell(source));
        let is_it = |known: &str| known.to_lowercase() == lower || case.spell(known) == spelled;
        self.of.iter().any(|(known, bound)| *bound == id && is_it(known))
    }

    /// From now on a source goes to a field. What went there before still does.
    pub(crate) fn bind(&mut self, source: &str, id: i32) {
        self.of.remove(&format!("{FORMER}{source}"));
        self.of.insert(source.to_owned(), id);
    }

    /// A column that goes to a field was other sources: an object of an earlier version of its schema may come after this one, and
    /// does not say so. Not where several columns that are staged with it were the same.
    pub(crate) fn was(&mut self, column: &footer::Column, beside: &[footer::Column], id: i32) {
        for source in &column.former {
            let is_one = beside.iter().filter(|other| other.former.contains(source)).count() < 2;
            if is_one && !self.of.contains_key(source) {
                self.of.entry(format!("{FORMER}{source}")).or_insert(id);
            }
        }
    }
}

/// Whether a pipeline's file excludes a staged column.
pub(crate) fn is_left_out(table: &Table, column: &footer::Column) -> bool {
    let path = |text: &str| {
        // A header's name is as it is, in a source.
        let part = ["@key.", "@header."].into_iter().find(|part| text.starts_with(part)).unwrap_or_default();
        let rest = text.strip_prefix(part).unwrap_or_default();
        (part, path::parse(rest).unwrap_or_else(|_| vec![rest.to_owned()]))
    };
    !table.exclude.is_empty() && table.exclude.iter().any(|text| path(text) == path(&column.source_name))
}

pub(crate) fn dropped(table: &TableName, column: &footer::Column) -> Error {
    Error::Stopped {
        code: "fold.column_dropped",
        message: format!(
            "column `{}` (from `{}`) is staged, and {table} has dropped the column that it went to",
            column.name, column.source_name
        ),
        remedy: format!(
            "if its values are not wanted any more, say `exclude = [\"{}\"]` under [table], and fold again; else fold into a new \
             table",
            column.source_name
        ),
    }
}

/// A staged column that no value of could be in the table's column. Values that do not fit are their rows' fault.
pub(crate) fn unfit(table: &TableName, key: &str, fault: &dyn std::error::Error) -> Error {
    Error::Stopped {
        code: "fold.column_unfit",
        message: format!("`{key}` does not fit {table}: {fault}"),
        remedy: "give the column the type that the table has, for what is staged from now on; what is staged already goes in \
                 without the column's values once its field is under `exclude`; nothing is lost until then"
            .to_owned(),
    }
}

/// A staged column's type.
pub(crate) fn data_type(column: &footer::Column) -> Result<Type, Error> {
    column.data_type.parse().map_err(|e| Error::Stopped {
        code: "fold.column_type",
        message: format!("column `{}` is staged with a type this version does not know: {e}", column.name),
        remedy: "upgrade this installation".to_owned(),
    })
}

/// The columns of a table to be made for a pipeline, from what the newest staged object says of its rows.
pub(crate) fn columns(pipeline: &Pipeline, footer: &Footer) -> Result<Vec<Column>, Error> {
    let mut columns = Vec::new();
    for column in &footer.columns {
        columns.push((column.name.clone(), data_type(column)?, column.required));
    }
    Ok(table_columns(&pipeline.table, columns))
}

/// The columns that a pipeline's table is made with: those of its rows (name, type, whether it is required), each with the words
/// that the pipeline file has for it, and behind them those of the records and of soft deletes.
pub fn table_columns(table: &Table, rows: impl IntoIterator<Item = (String, Type, bool)>) -> Vec<Column> {
    let described = rows.into_iter().map(|(name, data_type, required)| {
        let doc = table.columns.iter().find(|c| c.name == name).and_then(|c| c.doc.clone());
        Column { name, data_type, required, doc }
    });
    let records = RECORD_COLUMNS.map(|(name, data_type, required)| Column {
        name: name.to_owned(),
        data_type,
        required,
        doc: None,
    });
    let mark =
        |(name, data_type): (&str, Type)| Column { name: name.to_owned(), data_type, required: false, doc: None };
    let marks = MARK_COLUMNS.map(mark).into_iter().filter(|_| table.marks_deletes());
    described.chain(records.into_iter().filter(|_| table.record_columns)).chain(marks).collect()
}
