//! Position delete files: which rows of a data file are gone. Columns and their ids as the specification has them
//! ("Position Delete Files"); each file is about one data file, and says so in its manifest entry.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, NestedField, PartitionSpec, PrimitiveType,
    Schema, SchemaRef, Struct, Type,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::data_file::Target;
use crate::fault::Fault;
use crate::schema::parquet::{descriptor, options};
use crate::schema::{Strings, arrow_schema};

/// The field id of `file_path`.
pub const FILE_PATH_ID: i32 = 2_147_483_546;
/// The field id of `pos`.
pub const POSITION_ID: i32 = 2_147_483_545;

/// Rows are put together so many at a time.
const CHUNK_ROWS: usize = 64 * 1024;

/// The columns of a position delete file.
///
/// # Errors
/// None that can come: the fields are constant.
pub(crate) fn schema() -> Result<SchemaRef, Fault> {
    let fields = [
        NestedField::required(FILE_PATH_ID, "file_path", Type::Primitive(PrimitiveType::String)),
        NestedField::required(POSITION_ID, "pos", Type::Primitive(PrimitiveType::Long)),
    ];
    let built = Schema::builder().with_fields(fields.map(Arc::new)).build();
    Ok(Arc::new(built.map_err(Fault::specification("the columns of position deletes make no schema"))?))
}

/// A data file whose rows are deleted, as the snapshot has it.
#[derive(Clone, Debug)]
pub struct Of<'a> {
    /// Its path.
    pub path: &'a str,
    /// The spec it was written under.
    pub spec: &'a PartitionSpec,
    /// Its partition.
    pub partition: &'a Struct,
}

/// Writes positions of deleted rows, ascending and each once, as a file of the same partition.
///
/// # Errors
/// [`Fault::Mismatch`] where there are none, or they are not ascending; [`Fault::Storage`] when the file can't be written.
pub async fn write(target: &Target, of: Of<'_>, positions: &[i64]) -> Result<DataFile, Fault> {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else {
        return Err(Fault::Mismatch(format!("no rows of {} to delete", of.path)));
    };
    if *first < 0 || !positions.is_sorted_by(|a, b| a < b) {
        return Err(Fault::Mismatch(format!("the rows of {} to delete are not in order", of.path)));
    }
    let schema = schema()?;
    let arrow = arrow_schema(&schema, Strings::Plain)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let options = options(descriptor(&schema)?).with_properties(properties);
    let mut encoder = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&arrow), options)?;
    for chunk in positions.chunks(CHUNK_ROWS) {
        let paths = StringArray::from_iter_values(std::iter::repeat_n(of.path, chunk.len()));
        let columns = vec![Arc::new(paths) as _, Arc::new(Int64Array::from(chunk.to_vec())) as _];
        encoder.write(&RecordBatch::try_new(Arc::clone(&arrow), columns)?)?;
    }
    let bytes = Bytes::from(encoder.into_inner()?);
    let path = target.new_delete_path(of.spec, of.partition)?;
    let size = bytes.len() as u64;
    let output = target.file_io.new_output(&path).map_err(Fault::storage("writing", &path))?;
    output.write(bytes).await.map_err(Fault::storage("writing", &path))?;
    let rows = positions.len() as u64;
    let both = |value: u64| HashMap::from([(FILE_PATH_ID, value), (POSITION_ID, value)]);
    let bounds =
        |position: i64| HashMap::from([(FILE_PATH_ID, Datum::string(of.path)), (POSITION_ID, Datum::long(position))]);
    DataFileBuilder::default()
        .content(DataContentType::PositionDeletes)
        .file_path(path)
        .file_format(DataFileFormat::Parquet)
        .partition(of.partition.clone())
        .partition_spec_id(of.spec.spec_id())
        .record_count(rows)
        .file_size_in_bytes(size)
        .value_counts(both(rows))
        .null_value_counts(both(0))
        // Whole, never cut: equal bounds tell readers that it is about one file.
        .lower_bounds(bounds(*first))
        .upper_bounds(bounds(*last))
        .referenced_data_file(Some(of.path.to_owned()))
        .build()
        .map_err(|fault| Fault::Mismatch(format!("a delete file lacks a field: {fault}")))
}
