//! Catalogs for tests: one in memory, one that fails on a script, files that fail on a script, a wire that fails on one, and the
//! contract every [`table::catalog::Catalog`] keeps.

pub mod contract;
pub mod faulty;
pub mod files;
pub mod memory;
pub mod wire;

#[cfg(test)]
mod tests;
