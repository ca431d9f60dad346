//! How every command speaks: one envelope, one set of exit codes, one way out, one way of showing progress.

pub(crate) mod consent;
pub mod envelope;
pub mod exit;
pub mod failure;
pub mod output;
pub mod progress;
