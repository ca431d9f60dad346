//! Tests that no single crate can hold: about the workspace as a whole, about contracts between crates, and about
//! several crates running together. One binary, one module per subject.

mod arrows;
mod docs;

use std::path::{Path, PathBuf};

/// The workspace's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}
