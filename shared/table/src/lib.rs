//! Iceberg tables: data files with exact metrics, partition transforms and paths, snapshots, catalogs, and a plain reader.
//!
//! Entry points: [`data_file::PartitionedWriter`] turns rows into data files, [`snapshot::prepare`] data files into a
//! commit, and [`catalog::Catalog::commit`] makes it in one swap; [`scan::plan`] finds the files of a snapshot that may
//! hold matching rows and [`scan::Plan::execute`] reads them.
//!
//! Nothing here writes equality deletes, reads the environment or a clock, or names a file by chance that the caller did
//! not seed.

pub mod catalog;
pub mod data_file;
pub mod delete_file;
pub mod fault;
pub mod json;
pub mod metrics;
pub mod partition;
pub mod scan;
pub mod schema;
pub mod snapshot;
pub mod sort;
pub mod storage;
pub mod transform;

#[cfg(test)]
mod testing;
