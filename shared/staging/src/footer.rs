//! What a staged object says of itself: contract `frazil.stored.footer/1`.
//!
//! It is one JSON document under the key `frazil` of the Parquet file's own key-value metadata, the only key there.
//! Members a reader does not know are passed over; a newer version is refused.

use model::clock::{Minute, Timestamp};
use model::coverage::Coverage;
use model::id::PipelineId;
use model::stored::{Contract, Refused, Tag};
use model::verdict::{Origin, Precedence};
use serde::{Deserialize, Serialize};

use crate::key::ObjectHash;

/// The key in the Parquet file's metadata.
pub const METADATA_KEY: &str = "frazil";

/// The footer of one staged object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footer {
    /// `frazil.stored.footer/<version>`.
    pub schema: Tag,
    /// The pipeline it belongs to.
    pub pipeline_id: PipelineId,
    /// sha256, hexadecimal, of the resolved pipeline file it was made under.
    pub pipeline_file_hash: String,
    /// That file's apply sequence number; 0 when embedded.
    pub apply_sequence: u64,
    /// The version of the type mapping.
    pub mapping_version: u32,
    /// The minute of the write, as in the key, and the value of `_ingested_at`.
    pub minute: Minute,
    /// The hash in the object's key: with the minute it says where the object belongs, so that a copy of it under another
    /// key is known for one. Absent where the writer did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<ObjectHash>,
    /// How its records came.
    #[serde(default)]
    pub origin: Origin,
    /// The version of frazil that wrote it.
    pub writer: String,
    /// What it accounts for.
    pub coverage: Coverage,
    /// The least and the greatest event time of its rows, where the pipeline names an event time and there is a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time_bounds: Option<EventTimeBounds>,
    /// The registry's schemas that its records were decoded with; none for bare payloads.
    #[serde(default)]
    pub schemas: Vec<SchemaVersion>,
    /// The tables with rows in it, in order of their row groups. Filled in by [`crate::object::encode`].
    #[serde(default)]
    pub tables: Vec<Table>,
    /// The columns that rows were mapped to, without the record columns.
    pub columns: Vec<Column>,
}

/// The least and the greatest event time, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTimeBounds {
    /// The least.
    pub first: Timestamp,
    /// The greatest.
    pub last: Timestamp,
}

/// A schema of a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaVersion {
    /// The id on the wire, as text.
    pub id: String,
    /// Its version number in the registry.
    pub version: u64,
}

/// One table's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The table's name, `namespace.name`.
    pub name: String,
    /// How many rows.
    pub rows: u64,
    /// Where they are; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_groups: Option<RowGroups>,
    /// Bytes that the rows take in memory, read as [`crate::object::Types::Views`] with all their columns; absent where the
    /// writer did not say. Filled in by [`crate::object::encode`]; see there what is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Which of the footer's columns, by their places, have no value in any of its rows: these are columns for another table's sake,
    /// or another version's. Filled in by [`crate::object::encode`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns_without_values: Vec<u32>,
}

/// A closed range of row groups. Serialised `[first, last]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct RowGroups {
    first: u32,
    last: u32,
}

/// A range of row groups whose last lies before its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[{0}, {1}] is not a range of row groups")]
pub struct NotARange(u32, u32);

impl RowGroups {
    /// The row groups from `first` to `last`, both included.
    ///
    /// # Errors
    /// When `last < first`.
    pub const fn new(first: u32, last: u32) -> Result<Self, NotARange> {
        if last < first { Err(NotARange(first, last)) } else { Ok(Self { first, last }) }
    }

    /// The first.
    #[must_use]
    pub const fn first(self) -> u32 {
        self.first
    }

    /// The last.
    #[must_use]
    pub const fn last(self) -> u32 {
        self.last
    }
}

impl TryFrom<(u32, u32)> for RowGroups {
    type Error = NotARange;
    fn try_from((first, last): (u32, u32)) -> Result<Self, NotARange> {
        Self::new(first, last)
    }
}

impl From<RowGroups> for (u32, u32) {
    fn from(r: RowGroups) -> Self {
        (r.first, r.last)
    }
}

/// One column of the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The column's name.
    pub name: String,
    /// The path in the source that stays the same when a field is renamed: protobuf field numbers (`7.1`), Avro or JSON
    /// names, or a place of the record (`@offset`, `@key`, `@header.NAME`). Behind what is hashed or cut stands `|hash` or
    /// `|last4`. Of several columns of one source each has `#` and its name behind it: a table tells its columns apart by
    /// their sources.
    pub source: String,
    /// The same path in names, as a person reads it.
    pub source_name: String,
    /// What the source was in earlier versions of the schema, where a field was renamed and is found by its name: a table that
    /// knows the column by one of these knows this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<String>,
    /// The type, in Iceberg's own text.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Whether null is refused.
    pub required: bool,
}

impl Contract for Footer {
    const NAME: &'static str = "frazil.stored.footer";
    const VERSION: u32 = 1;
}

/// Why a text is not a footer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON of the right shape.
    #[error("the footer is not readable: {0}")]
    Shape(#[from] serde_json::Error),
    /// Another version or another document.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl Footer {
    /// Reads a footer from its JSON.
    ///
    /// # Errors
    /// When it is not one, or was written by a newer version.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Tagged {
            schema: Tag,
        }
        // The tag first: a newer version may have another shape, and then the advice is to upgrade.
        serde_json::from_str::<Tagged>(text)?.schema.check::<Self>()?;
        Ok(serde_json::from_str(text)?)
    }

    /// Its JSON.
    ///
    /// # Errors
    /// Never for a footer made from valid parts: its maps have text keys and its numbers are whole.
    pub fn to_json(&self) -> Result<String, Error> {
        Ok(serde_json::to_string(self)?)
    }

    /// Which of two objects decides about a coordinate that both cover.
    #[must_use]
    pub fn precedence(&self) -> Precedence {
        Precedence {
            apply_sequence: self.apply_sequence,
            registry_version: self.schemas.iter().map(|s| s.version).max().unwrap_or(0),
        }
    }

    /// The entry of a table.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.name == name)
    }
}
