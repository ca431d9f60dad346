use std::fmt;

use async_trait::async_trait;
use codec::framing::Reference;
use codec::schema::Registered;

use crate::{Error, Registrar};

/// What a registry is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wanted {
    /// The schema that a record names. It never becomes another one.
    Named(Reference),
    /// The newest version of a name: of a schema in Glue, of a subject with Confluent, of a file in a folder.
    Latest(String),
    /// A version of a name, by its number. It never becomes another one.
    Version(String, u32),
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(reference) => reference.fmt(f),
            Self::Latest(name) => write!(f, "the newest version of `{name}`"),
            Self::Version(name, number) => write!(f, "version {number} of `{name}`"),
        }
    }
}

impl From<Reference> for Wanted {
    fn from(reference: Reference) -> Self {
        Self::Named(reference)
    }
}

/// A place where schemas are kept.
#[async_trait]
pub trait Source: fmt::Debug + Send + Sync {
    /// What the environment calls it.
    fn name(&self) -> &str;

    /// Whether it is a place for schemas of this kind of name. Where not, it isn't asked.
    fn keeps(&self, wanted: &Wanted) -> bool;

    /// Asks for a schema, once: whoever calls decides about further tries. What the schema refers to comes with it.
    ///
    /// # Errors
    /// [`Error`]; [`Error::NotFound`] only where the registry itself says so.
    async fn schema(&self, wanted: &Wanted) -> Result<Registered, Error>;

    /// The numbers of the versions that there are of a name, in any order. A later version has a higher number.
    ///
    /// # Errors
    /// As [`Source::schema`] of the name's newest version.
    async fn versions(&self, name: &str) -> Result<Vec<u32>, Error>;

    /// Where schemas are put into it, where they can be.
    fn registrar(&self) -> Option<&dyn Registrar> {
        None
    }
}
