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

/// Whether a message's full name is that of a well-known wrapper of one value.
#[must_use]
pub fn is_wrapper(full_name: &str) -> bool {
    matches!(
        full_name,
        "google.protobuf.DoubleValue"
            | "google.protobuf.FloatValue"
            | "google.protobuf.Int64Value"
            | "google.protobuf.UInt64Value"
            | "google.protobuf.Int32Value"
            | "google.protobuf.UInt32Value"
            | "google.protobuf.BoolValue"
            | "google.protobuf.StringValue"
            | "google.protobuf.BytesValue"
    )
}
