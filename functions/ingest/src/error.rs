use model::coverage::Fault;
use model::failure::Kind;
use pipeline::resolved::Format;

use crate::event;

/// Why an invocation failed. Nothing of its event may be acknowledged then, whatever was stored: a redelivery finds what
/// is there, and the fold drops what has settled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The event can't be used.
    #[error(transparent)]
    Event(#[from] event::Error),
    /// Nothing says which cluster the event comes from.
    #[error("the event has no `eventSourceArn`, and pipeline {pipeline} names no source: set `name` under [source]")]
    NoSource {
        /// The pipeline's name.
        pipeline: String,
    },
    /// Records of topics that the pipeline does not name.
    #[error(
        "the event holds records of {}, which pipeline {pipeline} does not take (it takes {}): nothing of the event is stored",
        list(.topics),
        list(.known)
    )]
    ForeignTopics {
        /// The topics of the event that are not the pipeline's.
        topics: Vec<String>,
        /// The pipeline's name.
        pipeline: String,
        /// Its topics.
        known: Vec<String>,
    },
    /// The `[value]` or the `[table]` block does not fit the message.
    #[error("the columns can't be made: {}", .faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Columns {
        /// Every fault.
        faults: Vec<codec::columns::Fault>,
    },
    /// The schema can't be read, or the columns could not be filled.
    #[error(transparent)]
    Decode(#[from] codec::Error),
    /// The staged object could not be made.
    #[error(transparent)]
    Object(#[from] staging::object::Error),
    /// The dead letters could not be written down.
    #[error(transparent)]
    DeadLetters(#[from] staging::dead_letter::Error),
    /// The coverage of the event contradicts itself.
    #[error("the event's coverage contradicts itself: {0}")]
    Coverage(#[from] Fault),
    /// The columns of a batch don't fit together.
    #[error("the rows can't be put together: {0}")]
    Rows(#[from] arrow::error::ArrowError),
    /// An object is not known to be durable.
    #[error("`{key}` is not known to be stored after {attempts} attempts")]
    NotStored {
        /// The object's key.
        key: String,
        /// How often it was tried; 0 when the deadline had passed before.
        attempts: u32,
        /// Whether an answer was lost on the way, so that it may be stored all the same.
        unknown: bool,
        /// What the last attempt ended with.
        source: Option<staging::store::Error>,
    },
    /// Every write was answered minutes after its key's minute.
    #[error("the objects were written under {minutes} minutes, and each time the store's answer came minutes later")]
    Late {
        /// How many minutes were tried.
        minutes: u32,
    },
    /// The salt of hashed values can't be had.
    #[error("the values of the column `{column}` are hashed, and {why}")]
    Salt {
        /// The column.
        column: String,
        /// What is wrong with the salt, which is not repeated.
        why: String,
    },
    /// A registry's failure, which says nothing of a schema.
    #[error(transparent)]
    Registries(#[from] registry::Error),
    /// The registries took longer than the invocation has.
    #[error("the schemas that the event's records name did not come within the {waited_ms} ms that were left")]
    NoAnswer {
        /// How long was waited.
        waited_ms: u64,
    },
    /// A registry of the environment can't be used.
    #[error("the registry `{name}` can't be used: {why}")]
    Registry {
        /// The registry's name.
        name: String,
        /// What is wrong, without any secret.
        why: String,
    },
    /// There is no registry, and one is needed.
    #[error("no registry is known, and {needs}")]
    NoRegistry {
        /// What for.
        needs: String,
    },
    /// The mapping hands over something else than the pipeline reads.
    #[error("the mapping hands records over as JSON (`record_format = \"JSON\"`), and the pipeline reads {format}")]
    HandedOver {
        /// What it reads.
        format: Format,
    },
    /// The registered schema that columns are planned from can't be used.
    #[error("columns can't be planned from the newest version of `{name}`: {why}")]
    Schema {
        /// The schema's name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// Records name schemas, and nobody has looked them up.
    #[error("the event's records name schemas that were not looked up: {reference}")]
    Unasked {
        /// One of them.
        reference: String,
    },
    /// The store can't be opened.
    #[error("the store can't be opened: {0}")]
    Store(#[source] staging::store::Error),
    /// The pipeline file or the environment file can't be used.
    #[error(transparent)]
    Pipeline(#[from] pipeline::Error),
}

impl Error {
    /// What happens next.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Event(e) => e.kind(),
            Self::NoSource { .. }
            | Self::ForeignTopics { .. }
            | Self::Columns { .. }
            | Self::Salt { .. }
            | Self::Registry { .. }
            | Self::NoRegistry { .. }
            | Self::HandedOver { .. }
            | Self::Schema { .. } => Kind::Misconfigured,
            Self::Registries(e) => e.kind(),
            Self::NoAnswer { .. } => Kind::Retry,
            Self::Decode(e) => e.kind(),
            Self::Object(e) => e.kind(),
            Self::DeadLetters(e) => e.kind(),
            Self::Coverage(_) | Self::Rows(_) | Self::Unasked { .. } => Kind::Bug,
            // "Nothing was done" is only true when no answer was lost before.
            Self::NotStored { unknown: true, source: Some(e), .. } if e.kind() == Kind::Retry => Kind::OutcomeUnknown,
            Self::NotStored { source: Some(e), .. } | Self::Store(e) => e.kind(),
            Self::NotStored { unknown: true, source: None, .. } => Kind::OutcomeUnknown,
            Self::NotStored { unknown: false, source: None, .. } | Self::Late { .. } => Kind::Retry,
            Self::Pipeline(e) => e.kind(),
        }
    }
}

/// Names for a message: a few of them.
fn list(names: &[String]) -> String {
    const SHOWN_MAX: usize = 5;
    let mut text = names.iter().take(SHOWN_MAX).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} more", names.len() - SHOWN_MAX));
    }
    text
}
