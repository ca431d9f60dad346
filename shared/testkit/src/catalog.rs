//! Catalogs for tests: one in memory, one that fails on a script, files that fail on a script, and the contract every
//! [`table::catalog::Catalog`] keeps.

pub mod contract;
pub mod faulty;
pub mod files;
pub mod memory;

#[cfg(test)]
mod tests;
