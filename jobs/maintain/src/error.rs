//! Why maintenance did not do its work. What it removed before was not needed any more.

use model::failure::Kind;
use staging::{object, store};

/// A maintenance run's failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table's state is not one to rest a deletion on, or could not be read.
    #[error(transparent)]
    Table(Box<fold::Error>),
    /// The store did not answer as it should.
    #[error(transparent)]
    Store(Box<store::Error>),
    /// A staged object can't be read by this version.
    #[error("{key}: {source}")]
    Object {
        /// The object.
        key: String,
        /// What is wrong.
        #[source]
        source: Box<object::Error>,
    },
    /// The note of the run could not be written as JSON.
    #[error("a document could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<fold::Error> for Error {
    fn from(e: fold::Error) -> Self {
        Self::Table(Box::new(e))
    }
}

impl From<store::Error> for Error {
    fn from(e: store::Error) -> Self {
        Self::Store(Box::new(e))
    }
}

impl Error {
    /// What happens next.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Table(e) => e.kind(),
            Self::Store(e) => e.kind(),
            Self::Object { source, .. } => source.kind(),
            Self::Json(_) => Kind::Bug,
        }
    }

    /// A stable, dotted name.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Table(e) => e.code(),
            Self::Store(_) => "maintain.store",
            Self::Object { .. } => "maintain.object",
            Self::Json(_) => "maintain.json",
        }
    }

    /// What a person can do about it, where that is not "run it again".
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Table(e) => e.remedy(),
            Self::Store(e) if e.kind() == Kind::Misconfigured => {
                Some("let this account list, read and delete in the store that it names, then maintain again")
            }
            Self::Object { source, .. } if source.kind() == Kind::Misconfigured => {
                Some("maintain with the version of frazil that staged it, or a newer one")
            }
            _ => None,
        }
    }
}
