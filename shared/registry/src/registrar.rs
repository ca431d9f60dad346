use async_trait::async_trait;
use codec::framing::Reference;
use codec::schema::Registered;
use uuid::Uuid;

use crate::{Error, Source};

/// What records name a schema by, as their framing has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// A number: Confluent's framing.
    Number,
    /// A UUID: Glue's. Glue makes one of its own; a registry that makes none takes this one.
    Version(Uuid),
    /// The fingerprint of an Avro schema: single-object encoding. It follows from the schema.
    Fingerprint(u64),
}

impl Naming {
    /// Some name of this kind, to ask who keeps such.
    #[must_use]
    pub const fn sample(self) -> Reference {
        match self {
            Self::Number => Reference::ConfluentId(0),
            Self::Version(id) => Reference::GlueVersion(id),
            Self::Fingerprint(crc) => Reference::AvroFingerprint(crc),
        }
    }
}

/// A registry that schemas can be put into.
#[async_trait]
pub trait Registrar: Source {
    /// What records name this very schema by, where it is among the versions of a name; none where it is not.
    ///
    /// # Errors
    /// [`Error`], but for [`Error::NotFound`].
    async fn find(&self, name: &str, schema: &Registered, naming: Naming) -> Result<Option<Reference>, Error>;

    /// Puts a schema in as the newest version of a name, unless it is there, and says what records name it by. What it refers to
    /// goes in before it, each under its own name.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Refused`] where the registry does not want it.
    async fn register(&self, name: &str, schema: &Registered, naming: Naming) -> Result<Reference, Error>;
}
