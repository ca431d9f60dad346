//! Payload bytes to Arrow columns.
//!
//! Entry points: [`protobuf::schema`] loads a message descriptor, [`avro::schema`] an Avro schema, [`json::schema`] a JSON
//! Schema; [`columns::plan_records`]
//! decides a table's columns from what either says of itself ([`source`]) and from the pipeline's `[value]` and `[table]`
//! blocks; a [`payload::Filter`] tells which payloads are taken, and a [`payload::Decoder`] turns them into record batches of
//! these columns, one row a payload or one for each element of a repeated field. [`framing::Splitter`] takes off what
//! surrounds a payload, and [`written::Written`] is the schema that it names. [`texts::Texts`] makes columns of keys and headers; [`decimal`] reads decimals of
//! Kafka Connect and Debezium. A record that does not fit leaves no trace and comes
//! back as a [`Rejected`]; personal data leaves a hash or its end.
//!
//! This crate never talks to a service, never reads a clock, and never panics on what a payload or a schema holds.

pub mod arrow_types;
pub mod avro;
pub mod columns;
pub mod decimal;
mod error;
mod expectation;
mod file;
pub mod framing;
pub mod json;
mod naming;
pub mod payload;
mod pii;
pub mod protobuf;
mod rejection;
pub mod routing;
mod rows;
pub mod schema;
pub mod source;
#[cfg(test)]
mod testing;
pub mod texts;
mod varint;
pub mod written;

use columns::Columns;
use model::secret::Secret;
use pii::Hasher;

pub use error::Error;
pub use rejection::{Class, Rejected};

/// What hashes values under a salt, which may be missing only where none is hashed.
fn hasher(columns: &Columns, salt: Option<&Secret>) -> Result<Hasher, Error> {
    match (salt, columns.hashed()) {
        (Some(salt), _) => Ok(Hasher::new(salt)),
        (None, None) => Ok(Hasher::new(&Secret::new([]))),
        (None, Some(column)) => Err(Error::NoSalt { column: column.name.clone() }),
    }
}
