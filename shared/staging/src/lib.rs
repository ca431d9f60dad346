//! What stands between Kafka and the tables: staged objects, dead letters, and the store they are kept in.
//!
//! Entry points: [`object::encode`] makes one staged object of an invocation's rows, [`store::Store`] keeps it,
//! [`list::two_passes`] finds what is there, [`object::Object::open`] reads it back, and [`dead_letter::encode`] keeps
//! what could not become a row.
//!
//! The forms written here are contracts, readable for ever: the footer of a staged object (`frazil.stored.footer`), the
//! lines of a dead-letter object (`frazil.stored.dead_letter`), the spelling of every key ([`key`]) and the byte layout
//! under an object's hash ([`hash`]).
//!
//! This crate never names AWS, Iceberg or Kafka's client, never reads the machine's clock, and never decodes a payload.

pub mod dead_letter;
pub mod footer;
pub mod hash;
pub mod key;
pub mod list;
pub mod local;
pub mod object;
pub mod record_columns;
pub mod store;
