//! The commands. Each reads its arguments, works, and leaves one answer.

#[cfg(feature = "kafka")]
pub(crate) mod backfill;
pub(crate) mod check;
pub(crate) mod cost;
pub(crate) mod decode;
pub(crate) mod demo;
pub(crate) mod fold;
pub(crate) mod ingest;
pub(crate) mod init;
pub(crate) mod maintain;
pub(crate) mod pause;
pub(crate) mod plan;
#[cfg(feature = "kafka")]
pub(crate) mod produce;
pub(crate) mod query;
pub(crate) mod rewind;
#[cfg(feature = "kafka")]
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod size;
#[cfg(feature = "kafka")]
pub(crate) mod tail;
pub(crate) mod test;
