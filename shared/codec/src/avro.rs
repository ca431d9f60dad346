//! Apache Avro: binary records of a writer's schema, read as a reader's.

mod canonical;
mod compile;
mod decoder;
mod default;
mod describe;
mod filter;
mod json;
mod one_text;
mod parse;
mod place;
mod program;
mod resolve;
mod run;
pub mod schema;
mod single;
mod times;
mod unite;
mod view;
mod wire;

#[cfg(test)]
mod tests;

pub use canonical::fingerprint;
pub use decoder::Decoder;
pub use filter::Filter;
pub use one_text::OneText;
pub use schema::Schema;
