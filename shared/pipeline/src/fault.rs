//! Faults in the two files, each with its place, and the crate's errors.

use std::fmt;
use std::io;
use std::path::PathBuf;

use model::failure::Kind;
use serde::Serialize;

/// The codes of faults: dotted and stable, for programs; the message is for people.
pub mod code {
    /// The text is not TOML, or not UTF-8.
    pub const SYNTAX: &str = "config.syntax";
    /// A key that no version knows.
    pub const UNKNOWN_KEY: &str = "config.unknown_key";
    /// A key or value of the grammar that this version does not carry out.
    pub const NOT_YET: &str = "config.not_yet";
    /// A value of the wrong type.
    pub const WRONG_TYPE: &str = "config.wrong_type";
    /// A key that must be there and is not.
    pub const MISSING: &str = "config.missing";
    /// A value of the right type that is not allowed.
    pub const INVALID: &str = "config.invalid";
    /// Something that is there twice.
    pub const DUPLICATE: &str = "config.duplicate";
    /// A name that the specification or frazil keeps for itself.
    pub const RESERVED: &str = "config.reserved";
    /// `${…}` names no variable of the environment.
    pub const UNKNOWN_VARIABLE: &str = "config.unknown_variable";
    /// A column that the declared columns do not have.
    pub const UNKNOWN_COLUMN: &str = "config.unknown_column";
    /// The schema file is not there.
    pub const SCHEMA_MISSING: &str = "config.schema_missing";
    /// A schema is not usable, or has no such message.
    pub const SCHEMA: &str = "config.schema";
    /// What the file says of records and columns does not go with their schema.
    pub const MISFIT: &str = "config.misfit";
    /// What is left out is nothing that a schema has, which is a warning: a version to come may have it.
    pub const UNMATCHED: &str = "config.unmatched";
    /// What the file says of a table that others made and that has its own, which is a warning.
    pub const JOINED: &str = "config.joined";
    /// Another pipeline reads the topic.
    pub const TOPIC_TAKEN: &str = "config.topic_taken";
    /// Values are hashed, and the environment names no salt.
    pub const NO_SALT: &str = "config.no_salt";
    /// Records name schemas, and the environment has no registry.
    pub const NO_REGISTRY: &str = "config.no_registry";
    /// A line of Kafka's client settings that can't be used.
    pub const CLIENT: &str = "config.client";
    /// A file cannot be read.
    pub const UNREADABLE: &str = "config.unreadable";
    /// No environment has the name asked for.
    pub const UNKNOWN_ENVIRONMENT: &str = "config.unknown_environment";
    /// No pipeline has the name asked for, or there is none at all.
    pub const UNKNOWN_PIPELINE: &str = "config.unknown_pipeline";
    /// No pipeline was named and there are several.
    pub const SEVERAL_PIPELINES: &str = "config.several_pipelines";
    /// The resolved pipeline cannot be written as JSON.
    pub const CANONICAL: &str = "config.canonical";
}

/// One thing wrong in one file. Displayed as `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file, as the caller named it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, counted in characters.
    pub column: usize,
    /// One of [`code`].
    pub code: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
    /// The nearest name that would have been known.
    pub nearest: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file.display(), self.line, self.column, self.message)
    }
}

/// A fault before its byte position is turned into line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) at: usize,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) nearest: Option<String>,
}

/// Gives each its line and column, sorted by position: one pass over the text, however many there are.
pub(crate) fn locate(text: &str, file: &std::path::Path, mut found: Vec<Found>) -> Vec<Fault> {
    found.sort_by_key(|f| f.at);
    found.dedup();
    let (mut line, mut column) = (1, 1);
    let mut chars = text.char_indices().peekable();
    found
        .into_iter()
        .map(|Found { at, code, message, nearest }| {
            while let Some((_, c)) = chars.next_if(|(here, _)| *here < at) {
                (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
            }
            Fault { file: file.to_owned(), line, column, code, message, nearest }
        })
        .collect()
}

/// Why there is no pipeline to work with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Every fault of one file, sorted by position; never empty.
    #[error("{}", lines(.0))]
    Faults(Vec<Fault>),
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The environment asked for is not in the file.
    #[error("there is no environment `{name}` in {}{}; it has: {}", file.display(), meant(nearest.as_deref()), list(known))]
    UnknownEnvironment { name: String, file: PathBuf, known: Vec<String>, nearest: Option<String> },
    /// The pipeline asked for is in none of the folders.
    #[error("there is no pipeline `{name}`{}; there are: {}", meant(nearest.as_deref()), list(known))]
    UnknownPipeline { name: String, known: Vec<String>, nearest: Option<String> },
    /// None was named, and there is none.
    #[error("there is no pipeline file; looked for *.toml in {}", list(&folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>()))]
    NoPipeline { folders: Vec<PathBuf> },
    /// None was named, and there are several.
    #[error("which pipeline? There are: {}", list(known))]
    SeveralPipelines { known: Vec<String> },
    /// The resolved pipeline cannot be written as JSON.
    #[error("the resolved pipeline cannot be written as JSON: {0}")]
    Canonical(#[from] serde_json::Error),
}

impl Error {
    /// A person must change a file, except where our own value could not be written.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Faults(_)
            | Self::Unreadable { .. }
            | Self::UnknownEnvironment { .. }
            | Self::UnknownPipeline { .. }
            | Self::NoPipeline { .. }
            | Self::SeveralPipelines { .. } => Kind::Misconfigured,
            Self::Canonical(_) => Kind::Bug,
        }
    }

    /// A dotted, stable code; of several faults, the first one's.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Faults(faults) => faults.first().map_or(code::INVALID, |f| f.code),
            Self::Unreadable { .. } => code::UNREADABLE,
            Self::UnknownEnvironment { .. } => code::UNKNOWN_ENVIRONMENT,
            Self::UnknownPipeline { .. } | Self::NoPipeline { .. } => code::UNKNOWN_PIPELINE,
            Self::SeveralPipelines { .. } => code::SEVERAL_PIPELINES,
            Self::Canonical(_) => code::CANONICAL,
        }
    }

    /// The faults, where that is what went wrong.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        match self {
            Self::Faults(faults) => faults,
            _ => &[],
        }
    }
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |n| format!(" (did you mean `{n}`?)"))
}
