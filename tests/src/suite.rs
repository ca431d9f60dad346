//! Tests that no single crate can hold: about the workspace as a whole, about contracts between crates, and about
//! several crates running together. One binary, one module per subject.

// All of this is test code, helper functions too: `cfg(test)` tells the lints so.
#[cfg(test)]
mod arrows;
#[cfg(test)]
mod contracts;
#[cfg(test)]
mod docs;

use std::path::Path;

/// The workspace's folder.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
