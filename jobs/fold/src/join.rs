//! Tables that others made and go on writing to (`exists = "join"`). Columns, layout and properties are the table's own: where the
//! pipeline file says otherwise it is told so, and the table's wins. A table that rows can't be written to as its own says is
//! refused before anything is.
//!
//! Nothing of such a table changes but by rows, columns that are new in the message, and the ledger beside them: no type is widened,
//! no column relaxed, no snapshot expired, no file of others compacted.

use std::borrow::Cow;

use iceberg::spec::{
    FormatVersion, NullOrder, PartitionSpec, Schema, SortDirection, SortOrder, TableMetadata, Transform,
};
use pipeline::resolved::{Exists, SortField, Table, TableName, Upsert, Write};
use table::data_file::Settings;
use table::fault::Fault;
use table::schema::{Strings, arrow_schema};
use table::sort::Sorter;
use table::{partition, snapshot};

use crate::error::Error;

/// The property that says which format data files have.
const FORMAT: &str = "write.format.default";
/// The property that says how Iceberg's engines have rows go when they merge; copy-on-write where it is absent.
const MERGE_MODE: &str = "write.merge.mode";

/// The property that says how long snapshots are kept.
const SNAPSHOT_AGE: &str = "history.expire.max-snapshot-age-ms";

/// Something that the pipeline file says, and the table says otherwise: the table's own wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The file's setting: `partition_by`, `sort_by`, `write`, or a table property's name.
    pub setting: String,
    /// What the table has; nothing where it has no such property.
    pub table: Option<String>,
    /// What the file says.
    pub file: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { setting, table, file } = self;
        let table = table.as_deref().map_or("nothing", |table| if table.is_empty() { "nothing" } else { table });
        write!(f, "{setting} is {file} in the pipeline file and {table} in the table: the table's own wins")
    }
}

/// Whether the pipeline file says that others made the table.
pub(crate) const fn is_joined(table: &Table) -> bool {
    matches!(table.exists, Exists::Join)
}

/// In what the pipeline file and a joined table differ beside columns.
#[must_use]
pub fn differences(table: &Table, metadata: &TableMetadata) -> Vec<Difference> {
    let schema = metadata.current_schema();
    let mut found = Vec::new();
    let mut differs = |setting: &str, table: Option<String>, file: String| {
        if table.as_ref() != Some(&file) {
            found.push(Difference { setting: setting.to_owned(), table, file });
        }
    };
    if !table.partition_by.is_empty() {
        let file: Vec<String> = table.partition_by.iter().map(pipeline::partition::text).collect();
        differs("partition_by", Some(spec_text(metadata.default_partition_spec(), schema)), file.join(", "));
    }
    if !table.sort_by.is_empty() {
        let file: Vec<String> = table.sort_by.iter().map(sort_text).collect();
        differs("sort_by", Some(order_text(metadata.default_sort_order(), schema)), file.join(", "));
    }
    if let (Some(upsert), Some(there)) = (&table.upsert, merge_mode(metadata)) {
        differs("write", Some(write_text(there).to_owned()), write_text(upsert.write).to_owned());
    }
    // How long history is kept follows from the retention of what is staged where the file does not say it.
    for (name, wanted) in table.properties.iter().filter(|(name, _)| *name != SNAPSHOT_AGE) {
        differs(name, metadata.properties().get(name).cloned(), wanted.clone());
    }
    found
}

/// A pipeline's table with how old rows go in mode `upsert`: in a joined one as its own property says, where it has it.
pub(crate) fn as_it_is_written<'t>(table: &'t Table, metadata: &TableMetadata) -> Cow<'t, Table> {
    match (is_joined(table), &table.upsert, merge_mode(metadata)) {
        (true, Some(upsert), Some(write)) if upsert.write != write => {
            Cow::Owned(Table { upsert: Some(Upsert { write, ..upsert.clone() }), ..table.clone() })
        }
        _ => Cow::Borrowed(table),
    }
}

fn merge_mode(metadata: &TableMetadata) -> Option<Write> {
    match metadata.properties().get(MERGE_MODE)?.to_ascii_lowercase().as_str() {
        "merge-on-read" => Some(Write::MergeOnRead),
        "copy-on-write" => Some(Write::CopyOnWrite),
        _ => None,
    }
}

const fn write_text(write: Write) -> &'static str {
    match write {
        Write::Auto => "auto",
        Write::MergeOnRead => "merge-on-read",
        Write::CopyOnWrite => "copy-on-write",
    }
}

fn stopped(code: &'static str, message: String, remedy: &str) -> Error {
    Error::Stopped { code, message, remedy: format!("{remedy}; nothing was written, and nothing staged is lost") }
}

/// Refuses a table whose own format, layout or properties are not written here.
///
/// # Errors
/// [`Error::Stopped`] that names what it is; [`Error::Table`] for a property that means nothing.
pub(crate) fn admissible(name: &TableName, metadata: &TableMetadata) -> Result<(), Error> {
    let refused = |what: &str, remedy: &str| {
        Err(stopped("fold.join_unsupported", format!("{name} can't be joined: {what}"), remedy))
    };
    match metadata.format_version() {
        FormatVersion::V1 => {
            let remedy = "upgrade the table (`ALTER TABLE … SET TBLPROPERTIES ('format-version' = '2')` in Spark), then fold again";
            return refused("it has format version 1, which is not written", remedy);
        }
        FormatVersion::V2 => {}
        FormatVersion::V3 => {
            let what =
                "it has format version 3, whose row lineage and deletion vectors are not written by this version";
            return refused(what, "join a table of format version 2");
        }
    }
    if let Err(error) = snapshot::writable(metadata) {
        return refused(&error.to_string(), "join another table");
    }
    if let Some(format) = metadata.properties().get(FORMAT).filter(|format| !format.eq_ignore_ascii_case("parquet")) {
        let what = format!("its data files are to be `{format}` (`{FORMAT}`), and only Parquet is written");
        return refused(&what, "set that property to `parquet`, which leaves the files that are there as they are");
    }
    let (schema, spec, order) =
        (metadata.current_schema(), metadata.default_partition_spec(), metadata.default_sort_order());
    if let Err(fault) = partition::writable(spec, schema) {
        let what = format!("it is partitioned by {}, which is not written here: {fault}", spec_text(spec, schema));
        return refused(&what, "give the table another partition spec, or join another table");
    }
    if let Err(fault) = Sorter::new(order, schema) {
        let what = format!("it is sorted by {}, which is not written here: {fault}", order_text(order, schema));
        return refused(&what, "give the table another sort order (`ALTER TABLE … WRITE ORDERED BY`)");
    }
    if let Err(fault) = arrow_schema(schema, Strings::Views) {
        let what = format!("it has a column of a type that is not written here: {fault}");
        return refused(&what, "drop that column, or join another table");
    }
    let fault = |fault: Fault| Error::table(name.to_string(), fault);
    Settings::new(metadata.properties(), schema, &[], &[], &[]).map_err(fault)?;
    Ok(())
}

/// There is no such table, and nobody but its owner makes it.
pub(crate) fn missing(table: &TableName) -> Error {
    stopped(
        "fold.table_missing",
        format!("there is no table {table}, and the pipeline says `exists = \"join\"`"),
        "make the table with the engine that owns it, mend its name, or say `exists = \"create\"`",
    )
}

/// A partition spec as pipeline files write it.
#[must_use]
pub fn spec_text(spec: &PartitionSpec, schema: &Schema) -> String {
    let fields = spec.fields().iter().map(|field| {
        let column = schema.name_by_field_id(field.source_id).unwrap_or("?");
        match field.transform {
            Transform::Identity => column.to_owned(),
            Transform::Bucket(n) => format!("bucket({n}, {column})"),
            Transform::Truncate(n) => format!("truncate({n}, {column})"),
            other => format!("{other}({column})"),
        }
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// A sort order as pipeline files write it.
#[must_use]
pub fn order_text(order: &SortOrder, schema: &Schema) -> String {
    let fields = order.fields.iter().map(|field| {
        let column = schema.name_by_field_id(field.source_id).unwrap_or("?");
        let column = match field.transform {
            Transform::Identity => column.to_owned(),
            other => format!("{other}({column})"),
        };
        ordered(&column, field.direction == SortDirection::Descending, field.null_order == NullOrder::First)
    });
    fields.collect::<Vec<_>>().join(", ")
}

fn sort_text(field: &SortField) -> String {
    ordered(&field.column, field.descending, field.nulls_first)
}

fn ordered(column: &str, is_descending: bool, is_nulls_first: bool) -> String {
    let direction = if is_descending { "desc" } else { "asc" };
    let nulls = if is_nulls_first { "first" } else { "last" };
    format!("{column} {direction} nulls {nulls}")
}
