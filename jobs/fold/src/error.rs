//! Why a fold did not do its work. Nothing is lost by any of these: what was staged stays staged.

use model::failure::Kind;
use model::ledger;
use staging::{object, store};
use table::catalog;
use table::fault::Fault;
use table::snapshot;

/// A fold's failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// The catalog did not answer as it should.
    #[error(transparent)]
    Catalog(Box<catalog::Error>),
    /// The snapshot could not be made.
    #[error(transparent)]
    Snapshot(Box<snapshot::Error>),
    /// Rows could not be written, or do not fit the table.
    #[error("{table}: {source}")]
    Table {
        /// The table.
        table: String,
        /// What is wrong. Boxed, as the other rare and large ones: a result is passed through many hands.
        #[source]
        source: Box<Fault>,
    },
    /// Rows and those of the table can't be compared.
    #[error("{table}: {source}")]
    Merge {
        /// The table.
        table: String,
        /// What is wrong.
        #[source]
        source: merge::Error,
    },
    /// A ledger or settlement can't be read, or would lose something.
    #[error("{what}: {source}")]
    Ledger {
        /// Which one.
        what: String,
        /// What is wrong.
        #[source]
        source: ledger::Error,
    },
    /// The state of table and store is not one to go on from by itself. A person decides.
    #[error("{message}")]
    Stopped {
        /// A stable, dotted name.
        code: &'static str,
        /// What was found, and what would happen.
        message: String,
        /// What to do.
        remedy: String,
    },
    /// The pipeline is paused, in the words of [`crate::pause::Pause::message`].
    #[error("{0}")]
    Paused(String),
    /// This machine's clock and the store's are too far apart.
    #[error("this machine's clock is {seconds} s off the store's: more than {max} s makes minutes in keys unreliable")]
    Clock {
        /// How far, in seconds, ahead of the store when positive.
        seconds: i64,
        /// What is allowed.
        max: i64,
    },
    /// Others kept changing the table.
    #[error("{table} was changed by others during each of {attempts} attempts")]
    Contended {
        /// The table.
        table: String,
        /// How many times it was tried.
        attempts: u32,
    },
    /// The catalog took changes to the table, and never said what became of them; looks found none of them.
    #[error("the last of {attempts} attempts to change {table} was not answered, and no look found it done")]
    Unanswered {
        /// The table.
        table: String,
        /// How many times it was tried.
        attempts: u32,
        /// What came instead of the last answer.
        source: Box<catalog::Error>,
    },
    /// A persisted document could not be written as JSON.
    #[error("a document could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<store::Error> for Error {
    fn from(e: store::Error) -> Self {
        Self::Store(Box::new(e))
    }
}

impl From<catalog::Error> for Error {
    fn from(e: catalog::Error) -> Self {
        Self::Catalog(Box::new(e))
    }
}

impl From<snapshot::Error> for Error {
    fn from(e: snapshot::Error) -> Self {
        Self::Snapshot(Box::new(e))
    }
}

impl Error {
    pub(crate) fn table(table: impl Into<String>, source: Fault) -> Self {
        Self::Table { table: table.into(), source: Box::new(source) }
    }

    pub(crate) fn object(key: impl Into<String>, source: object::Error) -> Self {
        Self::Object { key: key.into(), source: Box::new(source) }
    }

    /// What happens next.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Store(e) => e.kind(),
            Self::Object { source, .. } => source.kind(),
            Self::Catalog(e) => e.kind(),
            Self::Snapshot(e) => e.kind(),
            Self::Table { source, .. } => source.kind(),
            Self::Merge { source, .. } => source.kind(),
            Self::Ledger { source, .. } => source.kind(),
            Self::Stopped { .. } | Self::Clock { .. } => Kind::Misconfigured,
            Self::Paused(_) => Kind::Retry,
            Self::Contended { .. } => Kind::Conflict,
            Self::Unanswered { .. } => Kind::OutcomeUnknown,
            Self::Json(_) => Kind::Bug,
        }
    }

    /// A stable, dotted name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Store(_) => "fold.store",
            Self::Object { .. } => "fold.object",
            Self::Catalog(_) => "fold.catalog",
            Self::Snapshot(_) => "fold.snapshot",
            Self::Table { .. } => "fold.table",
            Self::Merge { .. } => "fold.merge",
            Self::Ledger { .. } => "fold.ledger",
            Self::Stopped { code, .. } => code,
            Self::Paused(_) => "fold.paused",
            Self::Clock { .. } => "fold.clock",
            Self::Contended { .. } => "fold.contended",
            Self::Unanswered { .. } => "fold.unanswered",
            Self::Json(_) => "fold.json",
        }
    }

    /// What a person can do about it, where that is not "run it again".
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Stopped { remedy, .. } => Some(remedy),
            Self::Clock { .. } => Some("set this machine's clock (NTP), then fold again"),
            Self::Paused(_) => {
                Some("`frazil unpause`, or `frazil recover` after a rollback, then the same command again")
            }
            Self::Store(e) if e.kind() == Kind::Misconfigured => {
                Some("let this account read and write the store that it names, then fold again")
            }
            Self::Catalog(e) if e.remedy().is_some() => e.remedy(),
            Self::Catalog(e) if e.kind() == Kind::Misconfigured => {
                Some("mend the catalog or the table as the message says, then fold again; nothing staged is lost")
            }
            Self::Object { source, .. } if source.kind() == Kind::Misconfigured => {
                Some("fold with the version of frazil that staged it, or a newer one")
            }
            Self::Table { source, .. } => match (source.as_ref(), source.kind()) {
                (Fault::Property { .. }, _) => Some("set the table property to what it may say, or unset it"),
                (Fault::Unsupported(_), _) => {
                    Some("rewrite the table without it, or fold with a version that reads it; nothing staged is lost")
                }
                (_, Kind::Misconfigured | Kind::Poison) => {
                    Some("make the pipeline's `[table]` and the table fit each other; nothing staged is lost")
                }
                _ => None,
            },
            Self::Snapshot(e) if e.kind() == Kind::Misconfigured => {
                Some("mend the table as the message says, then fold again; nothing staged is lost")
            }
            _ => None,
        }
    }
}
