//! The pipeline file and the environment file: what a person writes, checked strictly, and the resolved values that the
//! rest of frazil works from.
//!
//! Entry points: [`environment::load`] says where things run, [`discovery::find`] which file is meant, [`file::load`]
//! turns that file into a [`resolved::Pipeline`], or into every fault at once ([`file::examine`]: into both, as far as it
//! goes), and [`hash::of`] names its content. The plain value types are in [`types`] and [`resolved`]; [`schema`] describes
//! both files to editors.
//!
//! Nothing here reads the process environment or talks to a service; the only I/O is reading the files that the caller
//! names, and looking whether a named schema is there. What a later version will accept is refused by name, never
//! taken for a misspelling: `grammar` lists it.

pub mod discovery;
mod document;
pub mod environment;
pub mod expectation;
pub mod fault;
pub mod file;
pub mod glob;
mod grammar;
pub mod hash;
mod name;
mod nearest;
pub mod partition;
pub mod path;
pub mod quantity;
mod reader;
pub mod resolved;
pub mod route;
pub mod schema;
pub mod sort;
pub mod types;

pub use environment::Environment;
pub use fault::{Error, Fault};
