use std::path::PathBuf;

use model::failure::Kind;

use crate::columns::Columns;
use crate::{Class, Rejected};

/// What goes wrong before or after payloads are read: schemas, columns, batches. A payload's own faults are
/// [`crate::Rejected`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A schema file could not be read.
    #[error("the schema {path} can't be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A schema is not what its name promises: a syntax error, an import that isn't there, an edition.
    #[error("the schema {path} is not usable: {message}")]
    Schema {
        /// The file, or the name given to text in memory.
        path: PathBuf,
        /// What is wrong, with line and column where the compiler knows them.
        message: String,
    },
    /// The schema has no message of this name.
    #[error("{}", unknown_message(.path, .name, .nearest.as_deref(), .available))]
    UnknownMessage {
        /// The file.
        path: PathBuf,
        /// The name that was asked for.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
        /// The names there are, the file's own first.
        available: Vec<String>,
    },
    /// A format that does not come in this framing.
    #[error("this framing can't be read: {reason}")]
    Framing {
        /// Why not.
        reason: &'static str,
    },
    /// A schema that a registry keeps: it is looked up first.
    #[error("the schema `{name}` is kept in a registry, and this command reads schemas from files")]
    Registered {
        /// Its name there.
        name: String,
    },
    /// Columns that were planned for another message or another version of it.
    #[error("these columns can't be filled from the message {message}: {reason}")]
    Columns {
        /// The message's full name.
        message: String,
        /// The first column that doesn't fit, and why.
        reason: String,
    },
    /// A column's values are hashed, and no salt was given.
    #[error("the values of the column `{column}` are hashed, and there is no salt")]
    NoSalt {
        /// The column.
        column: String,
    },
    /// Arrow refused buffers that the decoder had built.
    #[error("a batch can't be built: {0}")]
    Batch(#[from] arrow::error::ArrowError),
}

impl Error {
    /// Columns that a schema can't fill, by the first of them.
    pub(crate) fn columns(schema: &str, columns: &Columns, faults: Vec<(usize, String)>) -> Self {
        let (index, reason) = faults.into_iter().next().unwrap_or_default();
        let name = columns.columns.get(index).map_or("", |column| &column.name);
        Self::Columns { message: schema.to_owned(), reason: format!("column `{name}`: {reason}") }
    }

    /// What it says of records that were written with a schema which does not fill the columns.
    ///
    /// # Errors
    /// The error itself, where it is about anything else.
    pub fn unlike(self) -> Result<Rejected, Self> {
        match self {
            Self::Columns { reason, .. } => {
                let message = format!("its schema can't be read as the pipeline's: {reason}");
                Ok(Rejected { class: Class::IncompatibleSchema, path: String::new(), message })
            }
            other => Err(other),
        }
    }

    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Read { .. }
            | Self::Schema { .. }
            | Self::UnknownMessage { .. }
            | Self::Framing { .. }
            | Self::Registered { .. }
            | Self::Columns { .. }
            | Self::NoSalt { .. } => Kind::Misconfigured,
            Self::Batch(_) => Kind::Bug,
        }
    }
}

/// Enough names to recognise the right one; a large descriptor set has thousands.
const NAMES_SHOWN_MAX: usize = 20;

fn unknown_message(path: &std::path::Path, name: &str, nearest: Option<&str>, available: &[String]) -> String {
    use std::fmt::Write as _;
    let mut text = format!("the schema {} has no message `{name}`", path.display());
    if let Some(nearest) = nearest {
        let _infallible = write!(text, "; did you mean `{nearest}`?");
    }
    let shown: Vec<&str> = available.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect();
    if shown.is_empty() {
        text.push_str("; it has no messages at all");
    } else {
        let _infallible = write!(text, "; it has {}", shown.join(", "));
        if available.len() > shown.len() {
            let _infallible = write!(text, " and {} more", available.len() - shown.len());
        }
    }
    text
}
