//! The rows of one partition, in order, as one or several files.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use iceberg::io::FileWrite;
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat, Struct};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::ParquetMetaData;

use super::Target;
use super::repetition::hardly_repeated;
use super::width;
use crate::fault::Fault;
use crate::metrics::Collector;
use crate::schema::parquet::{leaf_ids, options};

/// Writes rows that all belong to one partition and are in the table's order already, and begins a new file when one has
/// reached the target size.
///
/// Memory is one row group in the making, encoded, and the row groups of a file so far until they fill a part.
pub struct FileWriter {
    target: Arc<Target>,
    partition: Struct,
    rows_expected: usize,
    open: Option<OpenFile>,
    finished: Vec<DataFile>,
}

struct OpenFile {
    path: String,
    encoder: ArrowWriter<Vec<u8>>,
    collector: Collector,
    groups_flushed: usize,
    rows: u64,
    bytes: u64,
    /// Opened at the first bytes that are sent before the file is whole: a small file is one request.
    out: Option<Box<dyn FileWrite>>,
}

/// Encoded bytes are sent on once there are so many: stores take parts of at least 5 MiB.
const PART_BYTES: usize = 8 * 1024 * 1024;

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter")
            .field("partition", &self.partition)
            .field("open", &self.open.as_ref().map(|open| &open.path))
            .field("finished", &self.finished.len())
            .finish_non_exhaustive()
    }
}

impl FileWriter {
    /// A writer for one partition. `rows_expected` sizes bloom filters and may be a guess from above.
    #[must_use]
    pub fn new(target: Arc<Target>, partition: Struct, rows_expected: usize) -> Self {
        Self { target, partition, rows_expected, open: None, finished: Vec::new() }
    }

    /// Adds rows, in [`Target::arrow_schema`]. Cheapest in batches of some thousands of rows.
    ///
    /// # Errors
    /// [`Fault::Storage`] when bytes can't be written, [`Fault::Mismatch`] when the rows are not of the schema.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<(), Fault> {
        // The sizes of pages, row groups and files are looked at after each piece, and only then.
        for piece in width::pieces(batch, self.target.settings.page_bytes) {
            self.write_piece(&piece).await?;
        }
        Ok(())
    }

    async fn write_piece(&mut self, batch: &RecordBatch) -> Result<(), Fault> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => OpenFile::new(&self.target, &self.partition, self.rows_expected, batch)?,
        };
        open.collector.update(batch)?;
        open.encoder.write(batch)?;
        open.rows += batch.num_rows() as u64;
        if open.encoder.flushed_row_groups().len() > open.groups_flushed {
            open.groups_flushed = open.encoder.flushed_row_groups().len();
            open.send(&self.target, PART_BYTES).await?;
        }
        let size = open.encoder.bytes_written() + open.encoder.in_progress_size();
        if size as u64 >= self.target.settings.target_file_bytes {
            self.finished.push(open.close(&self.target, &self.partition).await?);
        } else {
            self.open = Some(open);
        }
        Ok(())
    }

    /// Closes the last file and returns all of them.
    ///
    /// # Errors
    /// As [`FileWriter::write`].
    pub async fn finish(mut self) -> Result<Vec<DataFile>, Fault> {
        if let Some(open) = self.open.take() {
            self.finished.push(open.close(&self.target, &self.partition).await?);
        }
        Ok(self.finished)
    }
}

impl OpenFile {
    fn new(target: &Target, partition: &Struct, rows_expected: usize, first: &RecordBatch) -> Result<Self, Fault> {
        let plain = hardly_repeated(&target.schema, first, rows_expected)?;
        let properties = target.settings.writer_properties(&target.parquet, rows_expected, &plain);
        let options = options(target.parquet.clone()).with_properties(properties);
        Ok(Self {
            path: target.new_path(partition)?,
            encoder: ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&target.arrow), options)?,
            collector: Collector::new(&target.schema, &target.settings.metrics),
            groups_flushed: 0,
            rows: 0,
            bytes: 0,
            out: None,
        })
    }

    /// Sends what is encoded so far, when it is at least `least` bytes.
    async fn send(&mut self, target: &Target, least: usize) -> Result<(), Fault> {
        self.encoder.sync().map_err(parquet::errors::ParquetError::from)?;
        // The encoder counts its bytes itself and never looks back at them.
        let encoded = self.encoder.inner_mut();
        if encoded.len() < least {
            return Ok(());
        }
        let bytes = Bytes::from(mem::take(encoded));
        self.append(target, bytes).await
    }

    async fn append(&mut self, target: &Target, bytes: Bytes) -> Result<(), Fault> {
        let failed = || Fault::storage("writing", &self.path);
        let out = match &mut self.out {
            Some(out) => out,
            none => {
                let output = target.file_io.new_output(&self.path).map_err(failed())?;
                none.insert(output.writer().await.map_err(failed())?)
            }
        };
        self.bytes += bytes.len() as u64;
        out.write(bytes).await.map_err(failed())
    }

    async fn close(mut self, target: &Target, partition: &Struct) -> Result<DataFile, Fault> {
        let footer = self.encoder.finish()?;
        let rest = Bytes::from(mem::take(self.encoder.inner_mut()));
        if self.out.is_some() {
            self.append(target, rest).await?;
            if let Some(out) = &mut self.out {
                out.close().await.map_err(Fault::storage("closing", &self.path))?;
            }
        } else {
            self.bytes = rest.len() as u64;
            let output = target.file_io.new_output(&self.path).map_err(Fault::storage("writing", &self.path))?;
            output.write(rest).await.map_err(Fault::storage("writing", &self.path))?;
        }
        let metrics = self.collector.finish()?;
        let mut file = DataFileBuilder::default();
        file.content(DataContentType::Data)
            .file_path(self.path)
            .file_format(DataFileFormat::Parquet)
            .partition(partition.clone())
            .partition_spec_id(target.spec.spec_id())
            .record_count(self.rows)
            .file_size_in_bytes(self.bytes)
            .column_sizes(column_sizes(target, &footer))
            .value_counts(metrics.value_counts)
            .null_value_counts(metrics.null_value_counts)
            .nan_value_counts(metrics.nan_value_counts)
            .lower_bounds(metrics.lower_bounds)
            .upper_bounds(metrics.upper_bounds)
            .split_offsets(Some(split_offsets(&footer)));
        if let Ok(order) = i32::try_from(target.order.order_id) {
            file.sort_order_id(order);
        }
        file.build().map_err(|fault| Fault::Mismatch(format!("a data file lacks a field: {fault}")))
    }
}

/// Bytes on disk by field id, over all row groups.
fn column_sizes(target: &Target, footer: &ParquetMetaData) -> HashMap<i32, u64> {
    let ids = leaf_ids(&target.parquet);
    let mut sizes = HashMap::new();
    for group in footer.row_groups() {
        for (column, id) in group.columns().iter().zip(&ids) {
            if let Some(id) = id {
                *sizes.entry(*id).or_default() += u64::try_from(column.compressed_size()).unwrap_or(0);
            }
        }
    }
    sizes
}

/// Where row groups begin, ascending.
fn split_offsets(footer: &ParquetMetaData) -> Vec<i64> {
    let start = |group: &parquet::file::metadata::RowGroupMetaData| {
        let first = group.columns().first()?;
        let data = first.data_page_offset();
        Some(first.dictionary_page_offset().map_or(data, |dictionary| dictionary.min(data)))
    };
    footer.row_groups().iter().filter_map(start).collect()
}
