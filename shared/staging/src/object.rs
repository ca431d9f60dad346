//! Staged objects: one Parquet file per invocation, with the rows of every table it fed and a footer that says what it
//! accounts for. It is written always, also without a row: coverage is then whole.
//!
//! The file is plain Parquet for any reader. Row groups are clustered by table, which the column `_table` repeats; columns
//! that two tables share have one type. Pages are LZ4 (raw), chunks carry statistics, and there is neither a page index
//! nor a bloom filter: a fold reads whole objects.
//!
//! Between the last page and Parquet's metadata, where readers look at nothing, stands a seal of 24 bytes:
//!
//! ```text
//! "frazil/1"                                                8 bytes
//! xxh3-64 (seed 0) of all bytes before the seal             8 bytes, little-endian
//! xxh3-64 (seed 0) of all bytes after it                    8 bytes, little-endian
//! ```
//!
//! Parquet itself would read a flipped bit as another value, or as another number of coverage. With the seal an object is
//! read as it was written or not at all.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use bytes::Bytes;
use model::failure::Kind;
use model::stored::Refused;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use crate::footer::{self, Footer, METADATA_KEY};
use crate::store::{self, Store};

mod encode;
mod memory;
mod runs;
mod seal;

use seal::Seal;

pub use encode::{TableRows, encode};

/// The end of every Parquet file: four bytes of length, four of magic.
const TAIL_BYTES: usize = 8;
/// Read first when only the footer is wanted: the metadata of all but strange objects lies within.
const FOOTER_GUESS_BYTES: u64 = 64 * 1024;
/// The largest metadata that is read. Coverage in which each of 10,000 records is an interval of its own takes about
/// 1 MB; this leaves room for columns and tables, and keeps a wrong length from taking the machine's memory.
const METADATA_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Rows of one batch when reading, unless asked otherwise: a full invocation in one batch, with room for explodes.
const BATCH_ROWS: usize = 65_536;

/// Why a staged object can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store did not give it.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// It is not a whole staged object: cut short, changed, or another file altogether. It goes to quarantine.
    #[error("the staged object is damaged: {why}")]
    Corrupt {
        /// What does not fit.
        why: String,
        /// The reader's own error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A newer frazil wrote it. Nothing is wrong with it: this installation must be upgraded.
    #[error(transparent)]
    Newer(Refused),
    /// Columns asked for that it does not have, or that have no such type.
    #[error("the staged object can't be read so: {why}")]
    Projection {
        /// What was asked.
        why: String,
    },
    /// Two tables of one invocation disagree about a column, or a batch has a reserved column.
    #[error("column `{column}` can't be staged: {why}")]
    Column {
        /// The column.
        column: String,
        /// What is wrong.
        why: String,
    },
    /// The Parquet writer refused what it was given.
    #[error("the rows can't be encoded: {0}")]
    Encode(#[from] ParquetError),
    /// The footer could not be written.
    #[error(transparent)]
    Footer(footer::Error),
}

impl Error {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Store(e) => e.kind(),
            Self::Corrupt { .. } => Kind::Corrupt,
            Self::Newer(_) | Self::Column { .. } => Kind::Misconfigured,
            Self::Projection { .. } | Self::Encode(_) | Self::Footer(_) => Kind::Bug,
        }
    }
}

fn corrupt(why: impl Into<String>) -> Error {
    Error::Corrupt { why: why.into(), source: None }
}

fn unreadable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let source = source.into();
    Error::Corrupt { why: source.to_string(), source: Some(source) }
}

/// A staged object in memory.
#[derive(Debug)]
pub struct Object {
    footer: Footer,
    metadata: ArrowReaderMetadata,
    bytes: Bytes,
    /// The seal, and where it stands.
    seal: (Seal, usize),
    intact: OnceLock<bool>,
}

/// The types in which rows are read.
#[derive(Clone, Debug, Default)]
pub enum Types {
    /// As staged: text as UTF-8, binary as binary.
    #[default]
    Staged,
    /// Text and binary as views, which share the bytes of the decoded pages instead of copying each value.
    Views,
    /// The types of this schema for the top-level columns it names, as staged for the others. A type must be one that the
    /// column's Parquet type can be read as (dictionaries of text, views, large offsets).
    As(SchemaRef),
}

/// What is wanted of the rows.
#[derive(Clone, Debug, Default)]
pub struct Projection {
    /// Top-level columns by name, given in the file's order; all when absent.
    pub columns: Option<Vec<String>>,
    /// Their types.
    pub types: Types,
    /// Rows of one batch; 0 for the default of 65,536.
    pub batch_rows: usize,
}

impl Object {
    /// Opens an object, reading its footer only.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is not a staged object, [`Error::Newer`] when a newer version wrote it.
    pub fn open(bytes: Bytes) -> Result<Self, Error> {
        let sealed = sealed_range(&bytes, bytes.len() as u64)?;
        let end = bytes.get(sealed.start..).ok_or_else(|| corrupt("it was cut short"))?;
        let (footer, metadata, seal) = parse(end, sealed.start)?;
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options()).map_err(unreadable)?;
        Ok(Self { footer, metadata, bytes, seal: (seal, sealed.start), intact: OnceLock::new() })
    }

    /// Reads a whole object from a store.
    ///
    /// # Errors
    /// As [`Object::open`], and when the store does not give it.
    pub async fn read(store: &dyn Store, key: &str) -> Result<Self, Error> {
        Self::open(store.get(key).await?)
    }

    /// Reads only the footer of an object of `size` bytes from a store: one ranged read of at most 64 KiB from its end,
    /// and a second one where the metadata is longer.
    ///
    /// # Errors
    /// As [`Object::open`], and when the store does not give it.
    pub async fn read_footer(store: &dyn Store, key: &str, size: u64) -> Result<Footer, Error> {
        let guess_start = size.saturating_sub(FOOTER_GUESS_BYTES);
        let tail = store.get_range(key, guess_start..size).await?;
        let sealed = sealed_range(&tail, size)?;
        let end = match (sealed.start as u64).checked_sub(guess_start) {
            Some(skip) => tail.get(usize::try_from(skip).unwrap_or(usize::MAX)..).map(|end| tail.slice_ref(end)),
            None => Some(store.get_range(key, sealed.start as u64..size).await?),
        };
        let end = end.filter(|end| end.len() == sealed.len()).ok_or_else(|| corrupt("it was cut short"))?;
        parse(&end, sealed.start).map(|(footer, ..)| footer)
    }

    /// What it says of itself.
    #[must_use]
    pub const fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The columns with their types as staged.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The rows of one table, in the order staged; none for a table that is not in it.
    ///
    /// The first call holds the whole object against its seal, so a value that was changed after writing is never read.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the seal does not hold, [`Error::Projection`] when a column or type can't be had.
    pub fn rows(&self, table: &str, projection: &Projection) -> Result<Rows, Error> {
        let (seal, start) = self.seal;
        let intact = *self.intact.get_or_init(|| self.bytes.get(..start).is_some_and(|body| seal.holds_before(body)));
        if !intact {
            return Err(corrupt("its bytes are not those that were written"));
        }
        let metadata = match self.wanted_schema(&projection.types)? {
            None => self.metadata.clone(),
            Some(schema) => {
                let options = options().with_schema(Arc::new(schema));
                ArrowReaderMetadata::try_new(Arc::clone(self.metadata.metadata()), options)
                    .map_err(|e| Error::Projection { why: e.to_string() })?
            }
        };
        let mask = match &projection.columns {
            None => ProjectionMask::all(),
            Some(names) => {
                let index = |name: &String| {
                    let fault = || Error::Projection { why: format!("it has no column `{name}`") };
                    self.schema().index_of(name).map_err(|_| fault())
                };
                let wanted: Vec<usize> = names.iter().map(index).collect::<Result<_, _>>()?;
                ProjectionMask::roots(metadata.parquet_schema(), wanted)
            }
        };
        let here = self.footer.table(table).and_then(|t| t.row_groups.map(|groups| (t.rows, groups)));
        let (rows, groups) = here.map_or((0, Vec::new()), |(rows, groups)| {
            (rows, (groups.first() as usize..=groups.last() as usize).collect())
        });
        let batch_rows = if projection.batch_rows == 0 { BATCH_ROWS } else { projection.batch_rows };
        // The reader makes room for a whole batch before it knows how many rows there are.
        let batch_rows = batch_rows.min(usize::try_from(rows).unwrap_or(usize::MAX)).max(1);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(Pages(self.bytes.clone()), metadata)
            .with_row_groups(groups)
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()
            .map_err(unreadable)?;
        Ok(Rows { reader, left: rows })
    }

    fn wanted_schema(&self, types: &Types) -> Result<Option<Schema>, Error> {
        let staged = self.schema();
        let fields: Vec<FieldRef> = match types {
            Types::Staged => return Ok(None),
            Types::Views => staged.fields().iter().map(with_views).collect(),
            Types::As(wanted) => {
                if let Some(field) = wanted.fields().iter().find(|f| staged.index_of(f.name()).is_err()) {
                    return Err(Error::Projection { why: format!("it has no column `{}`", field.name()) });
                }
                let named = |f: &FieldRef| wanted.field_with_name(f.name()).map(|w| w.data_type().clone());
                let retyped = |f: &FieldRef| {
                    named(f).map_or_else(|_| Arc::clone(f), |t| Arc::new(f.as_ref().clone().with_data_type(t)))
                };
                staged.fields().iter().map(retyped).collect()
            }
        };
        Ok(Some(Schema::new_with_metadata(fields, staged.metadata().clone())))
    }
}

/// The same field with text and binary as views, at every depth. Types nest no deeper than a pipeline's columns do.
fn with_views(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::List(element) => DataType::List(with_views(element)),
        DataType::Map(entries, sorted) => DataType::Map(with_views(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(with_views).collect()),
        _ => return Arc::clone(field),
    };
    let field: Field = field.as_ref().clone();
    Arc::new(field.with_data_type(data_type))
}

/// An object's bytes, of which pages are given as copies: views of text hold on to their page, and one that is not compressed
/// would hold on to the whole object.
struct Pages(Bytes);

impl Length for Pages {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl ChunkReader for Pages {
    type T = <Bytes as ChunkReader>::T;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(Bytes::copy_from_slice(&self.0.get_bytes(start, length)?))
    }
}

/// Batches of rows of one table.
pub struct Rows {
    reader: ParquetRecordBatchReader,
    left: u64,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Rows {
    /// The columns and types of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next() {
            Some(Ok(batch)) => {
                self.left = self.left.saturating_sub(batch.num_rows() as u64);
                Some(Ok(batch))
            }
            Some(Err(e)) => {
                self.left = 0;
                Some(Err(unreadable(e)))
            }
            None if self.left > 0 => {
                self.left = 0;
                Some(Err(corrupt("it has fewer rows than its footer says")))
            }
            None => None,
        }
    }
}

/// The embedded Arrow schema of a foreign writer is not followed: staged types are the Parquet file's own.
fn options() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

/// Where the seal and what follows it lie in an object of `size` bytes, whose last bytes are `tail`.
fn sealed_range(tail: &[u8], size: u64) -> Result<Range<usize>, Error> {
    let end = tail.last_chunk::<TAIL_BYTES>().ok_or_else(|| corrupt("it is shorter than any Parquet file"))?;
    let length = FooterTail::try_new(end).map_err(unreadable)?.metadata_length();
    if length > METADATA_BYTES_MAX {
        return Err(corrupt(format!("its metadata claims {length} bytes, more than any staged object has")));
    }
    let size = usize::try_from(size).map_err(unreadable)?;
    let start = size.checked_sub(seal::BYTES + length + TAIL_BYTES);
    Ok(start.ok_or_else(|| corrupt("its metadata claims more bytes than it has"))?..size)
}

/// Reads the end of an object from its seal on, which stands at byte `start`, and holds what it says against itself.
fn parse(end: &[u8], start: usize) -> Result<(Footer, ParquetMetaData, Seal), Error> {
    let (seal, after) = end.split_first_chunk().ok_or_else(|| corrupt("it was cut short"))?;
    let seal = Seal::read(seal).ok_or_else(|| corrupt("it is a Parquet file of somebody else"))?;
    if !seal.holds_after(after) {
        return Err(corrupt("its footer is not the one that was written"));
    }
    let metadata = after.get(..after.len().saturating_sub(TAIL_BYTES)).unwrap_or_default();
    let metadata = ParquetMetaDataReader::decode_metadata(metadata).map_err(unreadable)?;
    let pairs = metadata.file_metadata().key_value_metadata();
    let text = pairs
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == METADATA_KEY))
        .and_then(|pair| pair.value.as_deref())
        .ok_or_else(|| corrupt("it is a Parquet file of somebody else"))?;
    let footer = Footer::from_json(text).map_err(|e| match e {
        footer::Error::Refused(newer @ Refused::Newer { .. }) => Error::Newer(newer),
        other => unreadable(other),
    })?;
    for table in &footer.tables {
        let mut rows = 0;
        if let Some(groups) = table.row_groups {
            let all = metadata.row_groups();
            let groups = all.get(groups.first() as usize..=groups.last() as usize);
            let groups = groups.ok_or_else(|| corrupt("its footer names row groups that it has not"))?;
            rows = groups.iter().map(|g| u64::try_from(g.num_rows()).unwrap_or(0)).sum();
        }
        if rows != table.rows {
            return Err(corrupt("its footer and its row groups count different rows"));
        }
    }
    for chunk in metadata.row_groups().iter().flat_map(|g| g.columns()) {
        let first = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let end = first.checked_add(chunk.compressed_size());
        let inside = first >= 0
            && chunk.compressed_size() >= 0
            && end.and_then(|end| u64::try_from(end).ok()).is_some_and(|end| end <= start as u64);
        if !inside {
            return Err(corrupt("a column claims bytes outside the object"));
        }
    }
    Ok((footer, metadata, seal))
}

#[cfg(test)]
mod tests;
