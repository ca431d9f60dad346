//! Iceberg tables: snapshots, catalogs, and files on the local disk.
//!
//! Entry points: [`snapshot::prepare`] turns data files into a commit, and [`catalog::Catalog::commit`] makes it in one
//! swap.
//!
//! Nothing here writes equality deletes, reads the environment or a clock, or names a file by chance that the caller did
//! not seed.

pub mod catalog;
pub mod snapshot;
pub mod storage;
