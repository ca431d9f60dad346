//! What can go wrong between rows and files.

use arrow::error::ArrowError;
use model::failure::Kind;
use parquet::errors::ParquetError;

use crate::storage;

/// A failure of transforms, schemas, data files or scans.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Reading, writing or opening a file failed.
    #[error("{action} {path}")]
    Storage {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: String,
        /// Why it failed.
        #[source]
        source: Box<iceberg::Error>,
    },
    /// Table metadata, a manifest list or a manifest is not what the specification says.
    #[error("{what}")]
    Specification {
        /// What was being done.
        what: String,
        /// Why it failed.
        #[source]
        source: Box<iceberg::Error>,
    },
    /// A data file can't be read as Parquet.
    #[error("{path} is not a readable Parquet file")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: ParquetError,
    },
    /// A data file or its metadata contradicts itself or the table.
    #[error("{path}: {what}")]
    Contradiction {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// Rows could not be encoded as Parquet.
    #[error("rows could not be encoded as Parquet")]
    Encode(#[from] ParquetError),
    /// An Arrow computation refused its input.
    #[error("an Arrow computation failed")]
    Arrow(#[from] ArrowError),
    /// Rows or columns do not fit the table.
    #[error("{0}")]
    Mismatch(String),
    /// A partition or sort field, a column list or a predicate asks for something that can't be.
    #[error("{0}")]
    Request(String),
    /// A table property has a value that means nothing.
    #[error("the table property `{key}` is `{value}`; expected {expected}")]
    Property {
        /// The property.
        key: String,
        /// What it says.
        value: String,
        /// What it may say.
        expected: &'static str,
    },
    /// Something the specification allows and this version does not do yet.
    #[error("{0}: not in this version yet")]
    Unsupported(String),
}

impl Fault {
    /// What happens next.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Storage { source, .. } => storage::kind_of(source),
            Self::Specification { .. } | Self::Unreadable { .. } | Self::Contradiction { .. } => Kind::Corrupt,
            Self::Mismatch(_) => Kind::Poison,
            Self::Request(_) | Self::Property { .. } | Self::Unsupported(_) => Kind::Misconfigured,
            Self::Encode(_) | Self::Arrow(_) => Kind::Bug,
        }
    }

    pub(crate) fn specification(what: impl Into<String>) -> impl FnOnce(iceberg::Error) -> Self {
        let what = what.into();
        move |source| Self::Specification { what, source: Box::new(source) }
    }

    pub(crate) fn storage(action: &'static str, path: &str) -> impl FnOnce(iceberg::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Storage { action, path, source: Box::new(source) }
    }
}
