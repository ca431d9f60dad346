//! What every binary does before its first piece of work: read its settings, start its log, learn its deadline, and end
//! with the exit code that its failure asks for.
//!
//! Entry points: [`settings::Settings`] over [`settings::environment`], [`log::init`], [`deadline::Deadline`], [`memory::limit`],
//! [`exit::code`].
//!
//! This is the only crate that reads the environment and the machine's limits; libraries receive values. It does no other
//! I/O and knows nothing of events, tables or stores.

pub mod deadline;
pub mod exit;
pub mod log;
pub mod memory;
pub mod settings;
