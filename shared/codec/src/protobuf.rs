//! Protocol Buffers, proto2 and proto3.

mod arrays;
mod bundled;
mod compile;
mod decoder;
mod filter;
mod json;
mod level;
pub(crate) mod mapping;
mod one_text;
mod program;
pub mod registered;
mod run;
pub mod schema;
mod stop;
mod text;
mod unknown;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use compile::compile;
pub use decoder::Decoder;
pub use filter::Filter;
pub use one_text::OneText;
