//! Tests that no single crate can hold: about the workspace as a whole, about contracts between crates, and about
//! several crates running together. One binary, one module per subject.

mod arrows;
