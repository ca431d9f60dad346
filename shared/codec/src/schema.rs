//! Schemas as registries keep them: text, and what it is written in.

use std::fmt;

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A `.proto` file.
    Protobuf,
    /// An Avro schema.
    Avro,
    /// A JSON Schema.
    Json,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Protobuf => "protobuf",
            Self::Avro => "Avro",
            Self::Json => "JSON",
        })
    }
}

/// A schema with everything that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// What it describes.
    pub kind: Kind,
    /// Its text.
    pub text: String,
    /// What the text refers to, directly or through one another; what is referred to comes first, nothing comes twice.
    pub imports: Vec<Import>,
    /// Its number among the versions of its subject or name, where the registry says so.
    pub version: Option<u32>,
}

/// A schema that others refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// By which name: a path of protobuf, a full name of Avro, a URI of JSON Schema.
    pub name: String,
    /// Its text.
    pub text: String,
}
