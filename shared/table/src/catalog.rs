//! Where a table's current metadata is named, and the one swap that changes it.
//!
//! A commit is data first: requirements and updates, made by a pure plan from the metadata in a [`Loaded`]. A catalog
//! compares with exactly that metadata, tries once, and never re-applies a plan to metadata it was not made from: a
//! second try inside an adapter would turn its own lost success into a conflict, or append the same files twice.
//! [`metadata::stage`] is the part all adapters share; what differs between them is the swap of one pointer.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::spec::{FormatVersion, Schema, SortOrder, TableMetadata, TableMetadataRef, UnboundPartitionSpec};
use iceberg::{TableRequirement, TableUpdate};
use model::failure::Kind;
pub use pipeline::resolved::TableName;

use crate::storage;

pub mod metadata;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sql;
pub mod sqlite;

/// A table as a catalog gave it: what a plan is made from, and what its commit is compared with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The table's name.
    pub name: TableName,
    /// Its metadata.
    pub metadata: TableMetadataRef,
    /// The file the metadata was read from.
    pub metadata_location: String,
    /// The catalog's own version of the entry, where it has one (Glue's `VersionId`, S3 Tables' `versionToken`).
    pub version: Option<String>,
}

impl Loaded {
    /// A table whose catalog knows it by the metadata location alone.
    #[must_use]
    pub fn new(name: TableName, metadata: TableMetadata, metadata_location: String) -> Self {
        Self { name, metadata: Arc::new(metadata), metadata_location, version: None }
    }
}

/// What a new table is made from.
#[derive(Clone, Debug)]
pub struct TableCreation {
    /// Columns. Field ids are assigned anew, from 1; those given here only tie the partition spec and sort order to it.
    pub schema: Schema,
    /// How rows are partitioned.
    pub partition_spec: UnboundPartitionSpec,
    /// How rows are sorted within a file.
    pub sort_order: SortOrder,
    /// Table properties.
    pub properties: HashMap<String, String>,
    /// Format version, 2 unless set.
    pub format_version: FormatVersion,
    /// The table's folder; the catalog's default (`<warehouse>/<namespace>/<name>`) unless set.
    pub location: Option<String>,
}

impl TableCreation {
    /// A table of format version 2 at the catalog's default location.
    #[must_use]
    pub fn new(
        schema: Schema,
        partition_spec: impl Into<UnboundPartitionSpec>,
        sort_order: SortOrder,
        properties: HashMap<String, String>,
    ) -> Self {
        Self {
            schema,
            partition_spec: partition_spec.into(),
            sort_order,
            properties,
            format_version: FormatVersion::V2,
            location: None,
        }
    }

    /// The table's folder in a catalog that makes tables under `warehouse`, which ends without a slash.
    #[must_use]
    pub fn location_under(&self, warehouse: &str, table: &TableName) -> String {
        self.location.clone().unwrap_or_else(|| format!("{warehouse}/{}/{}", table.namespace, table.name))
    }
}

/// A catalog of Iceberg tables.
#[async_trait]
pub trait Catalog: std::fmt::Debug + Send + Sync {
    /// The table's current state, or nothing where no such table is.
    ///
    /// # Errors
    /// See [`Error::kind`]; a missing table is not an error.
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, Error>;

    /// Makes a table, and its namespace where that is missing.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the name is taken, whoever took it; otherwise see [`Error::kind`].
    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, Error>;

    /// Replaces the metadata `base` was loaded with by that metadata after `updates`, if the catalog still names it and
    /// it meets `requirements`. One attempt.
    ///
    /// # Errors
    /// `Conflict`: certainly not applied, somebody else's change stands. `OutcomeUnknown`: applied or not, only a look-up
    /// tells. Every other kind: certainly not applied.
    async fn commit(
        &self,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, Error>;

    /// Namespaces, sorted.
    ///
    /// # Errors
    /// See [`Error::kind`].
    async fn list_namespaces(&self) -> Result<Vec<String>, Error>;

    /// Tables of a namespace, sorted; empty where no such namespace is.
    ///
    /// # Errors
    /// See [`Error::kind`].
    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error>;
}

type Source = Box<dyn std::error::Error + Send + Sync>;

fn advice(remedy: Option<&str>) -> String {
    remedy.map_or_else(String::new, |remedy| format!("; {remedy}"))
}

/// Why a catalog did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is taken.
    #[error("a table {table} is already there")]
    AlreadyExists {
        /// Its name.
        table: TableName,
    },
    /// Somebody else's change came first.
    #[error("{table} changed since the plan was made: {detail}")]
    Conflict {
        /// The table.
        table: TableName,
        /// What differs.
        detail: String,
    },
    /// The swap was sent and no answer tells whether it was made.
    #[error("whether the commit to {table} was applied is unknown: {detail}")]
    OutcomeUnknown {
        /// The table.
        table: TableName,
        /// What happened instead of an answer.
        detail: String,
        /// The cause.
        source: Option<Source>,
    },
    /// Nothing was changed.
    #[error("{message}{}", advice(remedy.as_deref()))]
    Failed {
        /// What happens next.
        kind: Kind,
        /// What could not be done.
        message: String,
        /// What to do about it, where that is known.
        remedy: Option<String>,
        /// The cause.
        source: Option<Source>,
    },
}

impl Error {
    /// A failure that changed nothing.
    #[must_use]
    pub fn failed(kind: Kind, message: impl Into<String>) -> Self {
        Self::Failed { kind, message: message.into(), remedy: None, source: None }
    }

    /// A failure that changed nothing, with its cause.
    #[must_use]
    pub fn caused(kind: Kind, message: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Failed { kind, message: message.into(), remedy: None, source: Some(source.into()) }
    }

    /// A storage or format error on the way; its kind is the storage's.
    #[must_use]
    pub fn storage(message: impl Into<String>, source: iceberg::Error) -> Self {
        let kind = storage::kind_of(&source);
        let error = Self::caused(kind, message, source);
        match kind {
            Kind::Misconfigured => error.with_remedy(
                "see that the bucket or folder of its files is there, and let who runs this read and write it",
            ),
            _ => error,
        }
    }

    /// The same failure with what to do about it.
    #[must_use]
    pub fn with_remedy(self, text: impl Into<String>) -> Self {
        match self {
            Self::Failed { kind, message, source, .. } => {
                Self::Failed { kind, message, remedy: Some(text.into()), source }
            }
            other => other,
        }
    }

    /// What to do about it, where that is known. The error's text ends with it.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Failed { remedy, .. } => remedy.as_deref(),
            _ => None,
        }
    }

    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::AlreadyExists { .. } => Kind::Misconfigured,
            Self::Conflict { .. } => Kind::Conflict,
            Self::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
            Self::Failed { kind, .. } => *kind,
        }
    }
}

/// Refuses names for new tables that some engine or path would read as something else.
///
/// The SQL layout joins namespace levels with `.`; a name becomes a folder of the warehouse; locations are not escaped.
///
/// # Errors
/// `Misconfigured`, with the rule.
pub fn check_name(table: &TableName) -> Result<(), Error> {
    // 255 is the width of the SQL layout's columns, and of most file systems' names.
    let ok = |part: &str| {
        (1..=255).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
            && !part.starts_with('-')
    };
    for (part, what) in [(&table.namespace, "namespace"), (&table.name, "table name")] {
        if !ok(part) {
            let rule = "use 1 to 255 ASCII letters, digits, `_` and `-`, not starting with `-`";
            return Err(Error::failed(Kind::Misconfigured, format!("`{part}` can't be a {what}: {rule}")));
        }
    }
    Ok(())
}
