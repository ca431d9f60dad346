//! A column chunk written from its runs.
//!
//! A column without nulls that holds few values in long runs is a dictionary page and one page of run-length encoded
//! indices, whatever the number of rows: `<bit width> (<varint rows << 1> <index>)*`, the index in as many whole bytes as
//! its width needs (Parquet's "Encodings", RLE/bit-packing hybrid and dictionary encoding). The general writer would hash
//! every row's value to find that out.

use arrow::array::{Array, ArrayRef, cast::AsArray};
use arrow::datatypes::{DataType, Int32Type, TimeUnit, TimestampMicrosecondType};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// More runs than this are left to the general writer. Finding a run's value is a search among the values before it.
const RUNS_MAX: usize = 512;

/// A column's values in the order of first appearance, and its runs as (index of the value, rows).
#[derive(Debug, PartialEq)]
pub(super) struct Runs {
    values: Values,
    runs: Vec<(usize, usize)>,
}

#[derive(Debug, PartialEq)]
enum Values {
    Int(Vec<i32>),
    Long(Vec<i64>),
    Text(Vec<String>),
}

/// Collects runs of one value after another.
struct Collector<T> {
    values: Vec<T>,
    runs: Vec<(usize, usize)>,
}

impl<T: PartialEq + Clone> Collector<T> {
    fn new() -> Self {
        Self { values: Vec::new(), runs: Vec::new() }
    }

    /// Adds a run; `None` when there are too many.
    fn add(&mut self, value: &T, rows: usize) -> Option<()> {
        let index = self.values.iter().position(|v| v == value).unwrap_or_else(|| {
            self.values.push(value.clone());
            self.values.len() - 1
        });
        let full = self.runs.len() >= RUNS_MAX;
        match self.runs.last_mut() {
            Some((last, before)) if *last == index => *before += rows,
            _ if full => return None,
            _ => self.runs.push((index, rows)),
        }
        Some(())
    }

    /// Adds every run of a slice.
    fn slice(&mut self, slice: &[T]) -> Option<()> {
        slice.chunk_by(|a, b| a == b).try_for_each(|run| self.add(run.first()?, run.len()))
    }

    fn done(self, values: impl Fn(Vec<T>) -> Values) -> Option<Runs> {
        Some(Runs { values: values(self.values), runs: self.runs })
    }
}

/// The runs of a column given in pieces of one type, when they are few and nothing is null.
pub(super) fn of(arrays: &[ArrayRef]) -> Option<Runs> {
    if arrays.iter().any(|a| a.null_count() > 0) {
        return None;
    }
    let text = |key: &DataType, value: &DataType| *key == DataType::Int32 && *value == DataType::Utf8;
    match arrays.first()?.data_type() {
        DataType::Int32 => {
            let mut all = Collector::new();
            for array in arrays {
                all.slice(array.as_primitive_opt::<Int32Type>()?.values())?;
            }
            all.done(Values::Int)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let mut all = Collector::new();
            for array in arrays {
                all.slice(array.as_primitive_opt::<TimestampMicrosecondType>()?.values())?;
            }
            all.done(Values::Long)
        }
        DataType::Dictionary(key, value) if text(key, value) => {
            let mut all = Collector::new();
            for array in arrays {
                let array = array.as_dictionary_opt::<Int32Type>()?;
                let names = array.values().as_string_opt::<i32>()?;
                if names.null_count() > 0 {
                    return None;
                }
                for run in array.keys().values().chunk_by(|a, b| a == b) {
                    let name = usize::try_from(*run.first()?).ok().filter(|key| *key < names.len())?;
                    all.add(&names.value(name).to_owned(), run.len())?;
                }
            }
            all.done(Values::Text)
        }
        _ => None,
    }
}

impl Runs {
    /// The column's chunk, and what the row group has to know of it.
    pub(super) fn chunk(&self, column: ColumnDescPtr, rows: usize) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let (dictionary, distinct) = self.values.plain();
        let indices = self.indices(distinct);
        let (dictionary_bytes, indices_bytes) = (dictionary.len(), indices.len());
        let rows32 = u32::try_from(rows).map_err(|_| ParquetError::General("too many rows".to_owned()))?;

        let mut sink = TrackedWrite::new(Vec::with_capacity(256 + dictionary_bytes + indices_bytes));
        let mut pages = SerializedPageWriter::new(&mut sink);
        let dictionary = Page::DictionaryPage {
            buf: Bytes::from(dictionary),
            num_values: u32::try_from(distinct).unwrap_or(u32::MAX),
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let first = pages.write_page(CompressedPage::new(dictionary, dictionary_bytes))?;
        let data = Page::DataPage {
            buf: Bytes::from(indices),
            num_values: rows32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let second = pages.write_page(CompressedPage::new(data, indices_bytes))?;
        let bytes = Bytes::from(sink.into_inner()?);

        // Nothing is compressed: these pages are a few bytes.
        let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Compression::UNCOMPRESSED)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_num_values(i64::from(rows32))
            .set_total_compressed_size(size)
            .set_total_uncompressed_size(size)
            .set_dictionary_page_offset(i64::try_from(first.offset).ok())
            .set_data_page_offset(i64::try_from(second.offset).unwrap_or(i64::MAX))
            .set_statistics(self.values.statistics())
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }

    fn indices(&self, distinct: usize) -> Vec<u8> {
        // The width of the largest index: none at all for a single value.
        let bits = usize::BITS - distinct.saturating_sub(1).leading_zeros();
        let bytes = bits.div_ceil(8) as usize;
        let mut out = vec![u8::try_from(bits).unwrap_or(u8::MAX)];
        for (index, rows) in &self.runs {
            let mut header = (*rows as u64) << 1;
            while header >= 0x80 {
                out.push((header & 0x7f) as u8 | 0x80);
                header >>= 7;
            }
            out.push(header as u8);
            out.extend(index.to_le_bytes().iter().take(bytes));
        }
        out
    }
}

impl Values {
    /// Plain encoding, and how many values.
    fn plain(&self) -> (Vec<u8>, usize) {
        match self {
            Self::Int(values) => (values.iter().flat_map(|v| v.to_le_bytes()).collect(), values.len()),
            Self::Long(values) => (values.iter().flat_map(|v| v.to_le_bytes()).collect(), values.len()),
            Self::Text(values) => {
                let mut out = Vec::new();
                for value in values {
                    out.extend(u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
                    out.extend(value.as_bytes());
                }
                (out, values.len())
            }
        }
    }

    fn statistics(&self) -> Statistics {
        let nulls = Some(0);
        match self {
            Self::Int(v) => Statistics::int32(v.iter().min().copied(), v.iter().max().copied(), None, nulls, false),
            Self::Long(v) => Statistics::int64(v.iter().min().copied(), v.iter().max().copied(), None, nulls, false),
            Self::Text(v) => {
                let bytes = |s: &String| ByteArray::from(s.as_bytes().to_vec());
                Statistics::byte_array(v.iter().min().map(bytes), v.iter().max().map(bytes), None, nulls, false)
            }
        }
    }
}
