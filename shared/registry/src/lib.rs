//! Schema registries: the schema that a record names, or the newest of a name.
//!
//! Entry point: [`Registries`], several [`Source`]s tried in order, with one bounded cache over them and one look-up under
//! way per schema. A source is a folder of files ([`files::Folder`]), a registry that speaks Confluent's HTTP interface
//! (`confluent::Confluent`, feature `confluent`), or AWS's Glue Schema Registry, which lives in the crate `aws`.
//!
//! Whoever sends records asks a source's [`Registrar`] what they name their schema by, or puts the schema there first.
//!
//! [`Error`] tells "no such schema", a fault of the records that name it, from everything that is no word about the schema:
//! an outage, a time-out, a refusal, an answer that makes no sense. Those fail what asked, and nothing is lost by it.
//! Nothing here says a secret.

#[cfg(feature = "confluent")]
pub mod confluent;
mod error;
pub mod files;
mod registrar;
mod registries;
mod source;

// What a source is asked for and answers, for those who write one.
pub use codec::framing::Reference;
pub use codec::schema::{Import, Kind, Registered};

pub use error::Error;
pub use registrar::{Naming, Registrar};
pub use registries::{Answer, Limits, Registries};
pub use source::{Source, Wanted};

/// The most bytes of a schema's text that are taken. Glue takes 170,000 characters; nobody's schema comes near this.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
