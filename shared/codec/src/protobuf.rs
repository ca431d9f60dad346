//! Protocol Buffers, proto2 and proto3.

mod bundled;
mod compile;
mod decoder;
mod describe;
mod filter;
mod json;
mod mapping;
mod one_text;
mod program;
pub mod registered;
mod run;
pub mod schema;
mod single;
mod unknown;
mod way;
mod wire;

#[cfg(test)]
mod tests;

use compile::compile;
pub use decoder::Decoder;
pub(crate) use describe::misfits;
pub use filter::Filter;
pub use one_text::OneText;
