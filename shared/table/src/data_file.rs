//! Writing data files: rows in, finished files with their manifest figures out.
//!
//! [`Target`] is what all files of one run share. [`FileWriter`] writes the rows of one partition; [`PartitionedWriter`]
//! takes rows of any partition, groups and sorts them within a bound of memory, and is what a fold uses.
//!
//! Nothing here makes a file part of a table: that is a commit's work, and a file that no commit names is an orphan.

mod partitioned;
mod repetition;
mod settings;
mod width;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef as ArrowSchemaRef;
use iceberg::io::FileIO;
use iceberg::spec::{
    PartitionSpec, PartitionSpecRef, SchemaRef, SortOrder, SortOrderRef, Struct, TableMetadata, Transform,
};
use model::id::Ids;
use parquet::schema::types::SchemaDescriptor;

use crate::fault::Fault;
use crate::partition;
use crate::schema::{Strings, arrow_schema, parquet::descriptor};

pub use partitioned::PartitionedWriter;
pub use settings::Settings;
pub use writer::FileWriter;

/// What the files of one run have in common: a table's schema, spec, order, settings and place.
pub struct Target {
    pub(crate) schema: SchemaRef,
    pub(crate) arrow: ArrowSchemaRef,
    pub(crate) parquet: SchemaDescriptor,
    pub(crate) spec: PartitionSpecRef,
    pub(crate) order: SortOrderRef,
    pub(crate) settings: Settings,
    pub(crate) folder: String,
    pub(crate) file_io: FileIO,
    pub(crate) names: Arc<dyn Ids>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("folder", &self.folder).field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Target {
    /// Files of a table as its metadata says: current schema, default spec and order, properties, and the data folder
    /// (`write.data.path`, else `data` under the table's location). `key_columns` get bloom filters beside those
    /// that properties name, unless the partition says their value.
    ///
    /// # Errors
    /// [`Fault::Property`] for a property that means nothing, [`Fault::Request`] for a key column that is not there.
    pub fn new(
        metadata: &TableMetadata,
        key_columns: &[String],
        file_io: FileIO,
        names: Arc<dyn Ids>,
    ) -> Result<Self, Fault> {
        Self::with_parts(
            Arc::clone(metadata.current_schema()),
            Arc::clone(metadata.default_partition_spec()),
            Arc::clone(metadata.default_sort_order()),
            metadata.properties(),
            metadata.location(),
            key_columns,
            file_io,
            names,
        )
    }

    /// As [`Target::new`], with another schema than the metadata's current one: that of an evolution which the same
    /// commit will make.
    ///
    /// # Errors
    /// As [`Target::new`].
    #[expect(clippy::too_many_arguments, reason = "the parts of table metadata, each of its own type")]
    pub fn with_parts(
        schema: SchemaRef,
        spec: PartitionSpecRef,
        order: SortOrderRef,
        properties: &HashMap<String, String>,
        location: &str,
        key_columns: &[String],
        file_io: FileIO,
        names: Arc<dyn Ids>,
    ) -> Result<Self, Fault> {
        let sorted: Vec<i32> = order.fields.iter().map(|field| field.source_id).collect();
        let identity = spec.fields().iter().filter(|field| field.transform == Transform::Identity);
        let pinned: Vec<i32> = identity.map(|field| field.source_id).collect();
        let settings = Settings::new(properties, &schema, &sorted, &pinned, key_columns)?;
        let folder = match properties.get("write.data.path") {
            Some(path) => path.trim_end_matches('/').to_owned(),
            None => format!("{}/data", location.trim_end_matches('/')),
        };
        let arrow = arrow_schema(&schema, Strings::Views)?;
        let parquet = descriptor(&schema)?;
        Ok(Self { schema, arrow, parquet, spec, order, settings, folder, file_io, names })
    }

    /// The same with row groups of at most so many bytes, whatever the table's properties allow: one in the making is held in
    /// memory as a whole, and once more while it is put behind those before it.
    #[must_use]
    pub fn with_row_group_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.row_group_bytes = self.settings.row_group_bytes.min(bytes.max(1));
        self
    }

    /// The Arrow schema in which rows are taken: the table's columns in order, text and binary as views.
    #[must_use]
    pub const fn arrow_schema(&self) -> &ArrowSchemaRef {
        &self.arrow
    }

    /// The table schema that files are written with.
    #[must_use]
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The partition spec that files are written with.
    #[must_use]
    pub fn spec(&self) -> &PartitionSpec {
        &self.spec
    }

    /// The sort order that files are written with.
    #[must_use]
    pub fn order(&self) -> &SortOrder {
        &self.order
    }

    /// A new file's full path: the data folder, the partition's folders, a random name.
    fn new_path(&self, tuple: &Struct) -> Result<String, Fault> {
        let name = self.names.uuid_text();
        self.path_in(&self.spec, tuple, &format!("{name}.parquet"))
    }

    /// The same of a delete file, which may be of a partition under an earlier spec.
    pub(crate) fn new_delete_path(&self, spec: &PartitionSpec, tuple: &Struct) -> Result<String, Fault> {
        let name = self.names.uuid_text();
        self.path_in(spec, tuple, &format!("{name}-deletes.parquet"))
    }

    fn path_in(&self, spec: &PartitionSpec, tuple: &Struct, name: &str) -> Result<String, Fault> {
        let partition = partition::path(spec, &self.schema, tuple)?;
        let between = if partition.is_empty() { "" } else { "/" };
        Ok(format!("{}{between}{partition}/{name}", self.folder))
    }
}

#[cfg(test)]
mod tests;
