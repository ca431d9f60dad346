//! How files are written, from a table's properties.

use std::collections::HashMap;
use std::str::FromStr;

use iceberg::spec::{PrimitiveType, Schema};
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{BloomFilterPosition, WriterProperties, WriterVersion};
use parquet::schema::types::SchemaDescriptor;

use crate::fault::Fault;
use crate::metrics::Modes;
use crate::schema::{parquet::leaf_ids, position};

const MIB: usize = 1024 * 1024;
/// Rows of a row group, whatever their size: more of them help no reader and the bloom filters grow with them.
const ROW_GROUP_ROWS: usize = 1024 * 1024;
const BLOOM_ENABLED: &str = "write.parquet.bloom-filter-enabled.column.";
const BLOOM_FPP: &str = "write.parquet.bloom-filter-fpp.column.";

/// The settings of a table's data files.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A file is closed once it has this many bytes.
    pub target_file_bytes: u64,
    /// A row group is closed once it has this many bytes.
    pub row_group_bytes: usize,
    /// A row group is closed once it has this many rows.
    pub row_group_rows: usize,
    /// Which figures the manifest keeps.
    pub metrics: Modes,
    pub(super) page_bytes: usize,
    page_rows: usize,
    dictionary_bytes: usize,
    compression: Compression,
    bloom_bytes_max: usize,
    blooms: Vec<(i32, f64)>,
}

impl Settings {
    /// From properties, Iceberg's names and defaults: files of 512 MiB, row groups of 128 MiB, zstd level 3.
    ///
    /// Key columns get bloom filters, but for `pinned` ones: their value is the same in all of a file, and its partition says
    /// so. A sorted key gets one all the same: each fold's file is sorted in itself and may reach over all keys.
    ///
    /// # Errors
    /// [`Fault::Property`], [`Fault::Request`].
    pub fn new(
        properties: &HashMap<String, String>,
        schema: &Schema,
        sorted: &[i32],
        pinned: &[i32],
        key_columns: &[String],
    ) -> Result<Self, Fault> {
        let bytes = |key, default| number(properties, key, default, "a number of bytes above 0");
        let settings = Self {
            target_file_bytes: bytes("write.target-file-size-bytes", 512 * MIB)? as u64,
            row_group_bytes: bytes("write.parquet.row-group-size-bytes", 128 * MIB)?,
            row_group_rows: ROW_GROUP_ROWS,
            metrics: Modes::new(properties, schema, sorted)?,
            page_bytes: bytes("write.parquet.page-size-bytes", MIB)?,
            page_rows: number(properties, "write.parquet.page-row-limit", 20_000, "a number of rows above 0")?,
            dictionary_bytes: bytes("write.parquet.dict-size-bytes", 2 * MIB)?,
            compression: compression(properties)?,
            bloom_bytes_max: bytes("write.parquet.bloom-filter-max-bytes", MIB)?,
            blooms: blooms(properties, schema, pinned, key_columns)?,
        };
        Ok(settings)
    }

    /// The writer properties of one file that will hold about `rows` rows; the fields `plain` get no dictionary.
    pub(super) fn writer_properties(
        &self,
        descriptor: &SchemaDescriptor,
        rows: usize,
        plain: &[i32],
    ) -> WriterProperties {
        let mut properties = WriterProperties::builder()
            // Version 1 pages: readers of Iceberg tables that decode in batches know no other.
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by(concat!("frazil ", env!("CARGO_PKG_VERSION")).to_owned())
            // Side by side before the footer: one request brings all filters of a file, or the footer's own does.
            .set_bloom_filter_position(BloomFilterPosition::End)
            .set_compression(self.compression)
            .set_max_row_group_row_count(Some(self.row_group_rows))
            .set_max_row_group_bytes(Some(self.row_group_bytes))
            .set_data_page_size_limit(self.page_bytes)
            .set_data_page_row_count_limit(self.page_rows)
            .set_dictionary_page_size_limit(self.dictionary_bytes);
        for (column, id) in descriptor.columns().iter().zip(leaf_ids(descriptor)) {
            if id.is_some_and(|id| plain.contains(&id)) {
                properties = properties.set_column_dictionary_enabled(column.path().clone(), false);
            }
            if let Some((_, fpp)) = self.blooms.iter().find(|(wanted, _)| Some(*wanted) == id) {
                // A filter is sized for all rows being distinct and folded to what was seen when its group closes.
                let distinct = self.bloom_values_max(*fpp).min(rows.clamp(1, self.row_group_rows) as u64);
                properties = properties
                    .set_column_bloom_filter_fpp(column.path().clone(), *fpp)
                    .set_column_bloom_filter_ndv(column.path().clone(), distinct);
            }
        }
        properties.build()
    }

    /// How many distinct values a filter of the largest size holds at a false positive rate: the formula of split block
    /// filters with eight bits set a value.
    fn bloom_values_max(&self, fpp: f64) -> u64 {
        // A filter's size is a power of two.
        let bits = 8.0 * (1u64 << self.bloom_bytes_max.ilog2()) as f64;
        let values = -bits * (1.0 - fpp.powf(1.0 / 8.0)).ln() / 8.0;
        (values as u64).max(1)
    }
}

fn number<T: FromStr + PartialOrd + From<u8>>(
    properties: &HashMap<String, String>,
    key: &str,
    default: T,
    expected: &'static str,
) -> Result<T, Fault> {
    let Some(value) = properties.get(key) else { return Ok(default) };
    value.trim().parse().ok().filter(|number| *number > T::from(0)).ok_or_else(|| Fault::Property {
        key: key.to_owned(),
        value: value.clone(),
        expected,
    })
}

fn compression(properties: &HashMap<String, String>) -> Result<Compression, Fault> {
    const CODEC: &str = "write.parquet.compression-codec";
    const LEVEL: &str = "write.parquet.compression-level";
    let codec = properties.get(CODEC).map_or("zstd", String::as_str);
    // `null` is how some writers spell a level that is not set.
    let level = properties.get(LEVEL).filter(|level| *level != "null");
    let refused = |expected| {
        let value = level.cloned().unwrap_or_default();
        move || Fault::Property { key: LEVEL.to_owned(), value, expected }
    };
    fn parsed<T: FromStr>(level: Option<&String>, default: T) -> Option<T> {
        level.map_or(Some(default), |level| level.trim().parse().ok())
    }
    match codec.to_ascii_lowercase().as_str() {
        "zstd" => {
            let zstd = parsed(level, 3).and_then(|level| ZstdLevel::try_new(level).ok());
            zstd.map(Compression::ZSTD).ok_or_else(refused("a zstd level of 1 to 22"))
        }
        "gzip" => {
            let gzip = parsed(level, 6).and_then(|level| GzipLevel::try_new(level).ok());
            gzip.map(Compression::GZIP).ok_or_else(refused("a gzip level of 0 to 9"))
        }
        "brotli" => {
            let brotli = parsed(level, 1).and_then(|level| BrotliLevel::try_new(level).ok());
            brotli.map(Compression::BROTLI).ok_or_else(refused("a brotli level of 0 to 11"))
        }
        "snappy" => Ok(Compression::SNAPPY),
        "lz4" | "lz4_raw" => Ok(Compression::LZ4_RAW),
        "uncompressed" | "none" => Ok(Compression::UNCOMPRESSED),
        _ => Err(Fault::Property {
            key: CODEC.to_owned(),
            value: codec.to_owned(),
            expected: "zstd, gzip, snappy, lz4, brotli or uncompressed",
        }),
    }
}

fn blooms(
    properties: &HashMap<String, String>,
    schema: &Schema,
    pinned: &[i32],
    key_columns: &[String],
) -> Result<Vec<(i32, f64)>, Fault> {
    let mut wanted: Vec<(i32, &str)> = Vec::new();
    for name in key_columns {
        let id = schema
            .field_id_by_name(name)
            .ok_or_else(|| Fault::Request(format!("there is no key column `{name}` in the table")))?;
        // Booleans are hashed by no writer.
        let hashed = position(schema, id)?.data_type != PrimitiveType::Boolean;
        if hashed && !pinned.contains(&id) {
            wanted.push((id, name));
        }
    }
    for (key, value) in properties {
        let Some(name) = key.strip_prefix(BLOOM_ENABLED) else { continue };
        let id = schema.field_id_by_name(name);
        match (value.trim().to_ascii_lowercase().as_str(), id) {
            ("true", Some(id)) => wanted.push((id, name)),
            // A property wins over a key column; one that names no column may belong to a column since dropped.
            ("false", Some(id)) => wanted.retain(|(other, _)| *other != id),
            ("true" | "false", None) => {}
            _ => {
                let (key, value) = (key.clone(), value.clone());
                return Err(Fault::Property { key, value, expected: "true or false" });
            }
        }
    }
    wanted.sort_unstable();
    wanted.dedup_by_key(|(id, _)| *id);
    wanted
        .into_iter()
        .map(|(id, name)| {
            let key = format!("{BLOOM_FPP}{name}");
            let fpp: f64 = match properties.get(&key) {
                None => 0.01,
                Some(value) => value
                    .trim()
                    .parse()
                    .ok()
                    .filter(|fpp| *fpp > 0.0 && *fpp < 1.0)
                    .ok_or_else(|| Fault::Property { key, value: value.clone(), expected: "a rate between 0 and 1" })?,
            };
            Ok((id, fpp))
        })
        .collect()
}
