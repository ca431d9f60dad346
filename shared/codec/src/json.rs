//! JSON objects, read as a JSON Schema or the declared columns have them.

mod declared;
mod decoder;
mod describe;
mod document;
mod filter;
mod hints;
mod number;
mod one_text;
mod parse;
mod place;
mod program;
mod references;
mod run;
pub mod schema;
mod single;
mod store;
mod times;
mod unite;
mod wire;

#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use document::Json;
pub use filter::Filter;
pub use one_text::OneText;
pub use schema::Schema;
pub use times::TimeText;
