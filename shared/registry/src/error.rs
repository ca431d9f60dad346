use model::failure::Kind;

use crate::Wanted;

/// Why there is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The registry knows no such schema: a fault of the records that name it.
    #[error("{wanted} is not known to {registries}")]
    NotFound {
        /// Every registry that was asked.
        registries: String,
        /// What was asked for.
        wanted: Wanted,
    },
    /// The registry can't be reached, or says that it can't answer now.
    #[error("the registry `{registry}` could not be asked for {wanted}: {message}")]
    Outage {
        /// The registry.
        registry: String,
        /// What was asked for.
        wanted: Wanted,
        /// What happened.
        message: String,
    },
    /// No answer came in time.
    #[error("the registry `{registry}` did not answer within {waited_ms} ms when asked for {wanted}")]
    TimedOut {
        /// The registry.
        registry: String,
        /// What was asked for.
        wanted: Wanted,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The registry doesn't let us in, or we don't trust it: credentials, rights, certificates.
    #[error("the registry `{registry}` could not be asked for {wanted}: {message}")]
    Denied {
        /// The registry.
        registry: String,
        /// What was asked for.
        wanted: Wanted,
        /// What it said, and what to change.
        message: String,
    },
    /// It answered, and not as a registry does.
    #[error("what the registry `{registry}` answered for {wanted} can't be used: {message}")]
    Garbage {
        /// The registry.
        registry: String,
        /// What was asked for.
        wanted: Wanted,
        /// What is wrong with it.
        message: String,
    },
    /// It does not take a schema.
    #[error("the registry `{registry}` does not take the schema as `{name}`: {message}")]
    Refused {
        /// The registry.
        registry: String,
        /// Under which name it was to go in.
        name: String,
        /// Why.
        message: String,
    },
}

impl Error {
    /// What happens next. Only [`Error::NotFound`] says something of the records.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } => Kind::Poison,
            Self::Outage { .. } | Self::TimedOut { .. } => Kind::Retry,
            Self::Denied { .. } | Self::Refused { .. } => Kind::Misconfigured,
            Self::Garbage { .. } => Kind::Corrupt,
        }
    }
}
