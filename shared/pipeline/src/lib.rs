//! The pipeline file and the environment file: what a person writes, checked strictly, and the resolved values that the
//! rest of frazil works from.
//!
//! Entry points: `file::load` (both files → [`resolved::Pipeline`], or every fault at once) and the plain value types
//! in [`types`] and [`resolved`]. Nothing here reads the environment or talks to a service; the only I/O is reading the
//! files that the caller names.

pub mod resolved;
pub mod types;
