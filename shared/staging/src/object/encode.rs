//! Rows to Parquet bytes: the last step of ingest's hot path.
//!
//! What makes it cheap, each measured with `cargo bench -p staging`:
//! - columns that are constant, or nearly, within an object (the table, the topic, the partition, the minute, the ordinal)
//!   are written as runs (`runs.rs`), at a cost per run instead of per row;
//! - offsets rise, so they are written as differences, without a dictionary;
//! - whether a column has a dictionary is decided by a look at a few hundred of its values: a dictionary of values that
//!   hardly repeat costs a hash table and saves nothing.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, cast::AsArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::seal::{self, Seal};
use super::{Error, memory, runs};
use crate::footer::{Footer, METADATA_KEY, RowGroups, Table};
use crate::record_columns::{self, INGESTED_AT, OFFSET, ORDINAL, PARTITION, TABLE, TIMESTAMP, TOPIC};

/// Some rows of one table, with the record columns.
#[derive(Clone, Debug)]
pub struct TableRows {
    /// The table's name, `namespace.name`.
    pub table: String,
    /// The rows. A table may come in several batches; their order is kept.
    pub batch: RecordBatch,
}

/// Columns that are constant in long runs.
const RUNS: [&str; 5] = [TABLE, TOPIC, PARTITION, INGESTED_AT, ORDINAL];

/// Makes one staged object. `footer.tables` is taken from what is written; everything else of the footer is stored
/// as it is given.
///
/// # Errors
/// [`Error::Column`] when two tables give one column different types or a batch has a column `_table`;
/// [`Error::Encode`] when Parquet has no form for a type.
pub fn encode(footer: &Footer, tables: &[TableRows]) -> Result<Bytes, Error> {
    let schema = shared_schema(tables)?;
    let properties = properties(footer, &schema, tables);
    let parquet = ArrowSchemaConverter::new().convert(&schema)?;
    let rows_all: usize = tables.iter().map(|t| t.batch.num_rows()).sum();
    // About what an object takes, so the buffer seldom grows.
    let out = Vec::with_capacity(16 * 1024 + rows_all.saturating_mul(64));
    let mut writer = SerializedFileWriter::new(out, parquet.root_schema_ptr(), Arc::new(properties))?;
    let factory = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(&schema));

    let mut written = Vec::new();
    for (name, batches) in by_table(tables) {
        let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
        let (mut row_groups, mut memory_bytes) = (None, None);
        if rows > 0 {
            let number = writer.flushed_row_groups().len();
            let mut columns = factory.create_column_writers(number)?.into_iter();
            let mut group = writer.next_row_group()?;
            let mut leaf = 0;
            for field in schema.fields() {
                let arrays = arrays(field, name, &batches);
                let as_runs = if RUNS.contains(&field.name().as_str()) { runs::of(&arrays) } else { None };
                for column in write_column(field, &arrays, as_runs.is_none(), &mut columns)? {
                    match &as_runs {
                        Some(found) => {
                            let (bytes, close) = found.chunk(parquet.column(leaf), rows)?;
                            group.append_column(&bytes, close)?;
                        }
                        None => column.close()?.append_to_row_group(&mut group)?,
                    }
                    leaf += 1;
                }
            }
            memory_bytes = Some(memory::bytes(group.close()?.as_ref()));
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            row_groups = RowGroups::new(number, number).ok();
        }
        let columns_without_values = if rows > 0 { without_values(footer, &batches) } else { Vec::new() };
        written.push(Table {
            name: name.to_owned(),
            rows: rows as u64,
            row_groups,
            memory_bytes,
            columns_without_values,
        });
    }

    let start = writer.bytes_written();
    writer.write_all(&[0; seal::BYTES]).map_err(ParquetError::from)?;
    let footer = Footer { tables: written, ..footer.clone() };
    let text = footer.to_json().map_err(Error::Footer)?;
    writer.append_key_value_metadata(KeyValue::new(METADATA_KEY.to_owned(), text));
    let mut bytes = writer.into_inner()?;
    if let Some((before, rest)) = bytes.split_at_mut_checked(start)
        && let Some((place, after)) = rest.split_first_chunk_mut::<{ seal::BYTES }>()
    {
        *place = Seal::of(before, after).bytes();
    }
    Ok(Bytes::from(bytes))
}

/// The places of a footer's columns that are null in every row.
fn without_values(footer: &Footer, batches: &[&RecordBatch]) -> Vec<u32> {
    let is_null = |batch: &&RecordBatch, name: &str| match batch.column_by_name(name) {
        Some(column) => column.logical_null_count() == batch.num_rows(),
        // What the record itself fills is staged under another name.
        None => false,
    };
    let columns = (0..).zip(&footer.columns);
    let empty = columns.filter(|(_, column)| batches.iter().all(|batch| is_null(batch, &column.name)));
    empty.map(|(place, _)| place).collect()
}

/// The batches of each table, in the order in which tables first appear.
fn by_table(tables: &[TableRows]) -> Vec<(&str, Vec<&RecordBatch>)> {
    let mut grouped: Vec<(&str, Vec<&RecordBatch>)> = Vec::new();
    for TableRows { table, batch } in tables {
        match grouped.iter_mut().find(|(name, _)| name == table) {
            Some((_, batches)) => batches.push(batch),
            None => grouped.push((table, vec![batch])),
        }
    }
    grouped
}

/// One schema for all tables: the column of the table, then every column in the order in which it first appears. A column
/// that a table lacks is null there. Without any table: the record columns.
fn shared_schema(tables: &[TableRows]) -> Result<SchemaRef, Error> {
    let mut fields: Vec<FieldRef> = vec![Arc::new(Field::new(TABLE, record_columns::dictionary_type(), false))];
    if tables.is_empty() {
        fields.extend(record_columns::fields());
    }
    let mut places: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for TableRows { batch, .. } in tables {
        for field in batch.schema_ref().fields() {
            let fault = |why: &str| Error::Column { column: field.name().clone(), why: why.to_owned() };
            if field.name() == TABLE {
                return Err(fault("the name is reserved"));
            }
            match places.get_mut(field.name().as_str()) {
                None => {
                    places.insert(field.name(), (fields.len(), 1));
                    fields.push(Arc::clone(field));
                }
                Some((place, seen)) => {
                    *seen += 1;
                    let Some(known) = fields.get_mut(*place) else { continue };
                    if known.data_type() != field.data_type() {
                        return Err(fault("two tables of this pipeline give it different types"));
                    }
                    if field.is_nullable() && !known.is_nullable() {
                        *known = Arc::clone(field);
                    }
                }
            }
        }
    }
    for (place, seen) in places.into_values() {
        if let Some(field) = fields.get_mut(place)
            && seen < tables.len()
            && !field.is_nullable()
        {
            *field = Arc::new(field.as_ref().clone().with_nullable(true));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// A column's values in each batch of a table.
fn arrays(field: &FieldRef, table: &str, batches: &[&RecordBatch]) -> Vec<ArrayRef> {
    let of = |batch: &&RecordBatch| -> ArrayRef {
        if field.name() == TABLE {
            let keys = Int32Array::from_value(0, batch.num_rows());
            let names = Arc::new(StringArray::from_iter_values([table]));
            return Arc::new(DictionaryArray::<Int32Type>::new(keys, names));
        }
        batch
            .column_by_name(field.name())
            .map_or_else(|| new_null_array(field.data_type(), batch.num_rows()), Arc::clone)
    };
    batches.iter().map(of).collect()
}

/// The writers of a field's leaves, written to when `write` says so.
fn write_column(
    field: &FieldRef,
    arrays: &[ArrayRef],
    write: bool,
    columns: &mut impl Iterator<Item = ArrowColumnWriter>,
) -> Result<Vec<ArrowColumnWriter>, Error> {
    if !write {
        return Ok(columns.next().into_iter().collect());
    }
    let mut mine: Vec<ArrowColumnWriter> = Vec::new();
    for array in arrays {
        for (place, leaf) in compute_leaves(field, array)?.iter().enumerate() {
            if mine.len() <= place {
                mine.extend(columns.next());
            }
            if let Some(column) = mine.get_mut(place) {
                column.write(leaf)?;
            }
        }
    }
    Ok(mine)
}

fn properties(footer: &Footer, schema: &Schema, tables: &[TableRows]) -> WriterProperties {
    let path = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("frazil {}", footer.writer))
        .set_compression(Compression::LZ4_RAW)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_dictionary_enabled(true)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(WRITE_BATCH_ROWS)
        .set_dictionary_page_size_limit(DICTIONARY_PAGE_BYTES)
        .set_data_page_size_limit(DATA_PAGE_BYTES);
    for rising in [OFFSET, TIMESTAMP] {
        builder = builder
            .set_column_dictionary_enabled(path(rising), false)
            .set_column_encoding(path(rising), Encoding::DELTA_BINARY_PACKED);
    }
    for field in schema.fields() {
        let name = field.name().as_str();
        if !RUNS.contains(&name) && name != OFFSET && name != TIMESTAMP {
            let column = tables.iter().filter_map(|t| t.batch.column_by_name(name)).max_by_key(|c| c.len());
            if column.is_some_and(hardly_repeats) {
                builder = builder.set_column_dictionary_enabled(path(name), false);
            }
        }
    }
    builder.build()
}

/// Rows that the writer hands to a column's encoder at once. Bounds its scratch space.
const WRITE_BATCH_ROWS: usize = 16 * 1024;
/// A larger dictionary is given up for plain values.
const DICTIONARY_PAGE_BYTES: usize = 256 * 1024;
/// A page of plain values is ended at this size.
const DATA_PAGE_BYTES: usize = 1024 * 1024;
/// Values looked at to choose an encoding.
const SAMPLE_VALUES: usize = 256;

/// Whether most of a few values, taken evenly from a column, are unlike each other. Nested columns are not looked at.
fn hardly_repeats(column: &ArrayRef) -> bool {
    let rows = column.len();
    let sample = rows.min(SAMPLE_VALUES);
    let Some(stride) = rows.checked_div(sample) else { return false };
    let at = (0..sample).map(|n| n * stride).filter(|row| column.is_valid(*row));
    fn distinct<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> usize {
        values.collect::<HashSet<T>>().len()
    }
    let distinct = match column.data_type() {
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            distinct(at.map(|row| values.value(row)))
        }
        DataType::Binary => {
            let values = column.as_binary::<i32>();
            distinct(at.map(|row| values.value(row)))
        }
        t if t.primitive_width().is_some() => {
            let data = column.to_data();
            let (width, from) = (t.primitive_width().unwrap_or(1), data.offset());
            let bytes = data.buffers().first().map_or(&[][..], |b| b.as_slice());
            distinct(at.filter_map(|row| bytes.get((from + row) * width..(from + row + 1) * width)))
        }
        _ => return false,
    };
    distinct * 4 > sample * 3
}
